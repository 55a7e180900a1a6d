"""A warm process that forks: importing torch takes seconds, so it is done once for hundreds of faulted commands.

It reads one request per line (JSON) and answers each with one line, from a process that has no thread but its first and
has never computed anything. Ended by the end of its input.

    {"arguments": ["train", "--resume", "run"], "fault": {...}, "step": {...}, "watch": {...}, "strace": [...]}

All but the arguments may be left out or null: a `layer.Fault`, `steps.BadSteps`, signals, and options of strace; a file
for standard input (`input`), standard streams that are `closed`, the working folder (`cwd`), bytes of memory
(`memory`), and seconds until it is killed (`patience`).
"""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.warming import be_fork

PATIENCE = 120.0  # seconds after which a command that does not end is killed


def serve() -> None:
    """Answers requests until there are no more."""
    warm_up()
    with tempfile.TemporaryDirectory(prefix="calque-faults-") as folder:
        answers = os.fdopen(os.dup(1), "w")
        print(json.dumps({"ready": os.getpid()}), file=answers, flush=True)
        for line in sys.stdin:
            print(json.dumps(answer(json.loads(line), Path(folder))), file=answers, flush=True)


def warm_up() -> None:
    """Imports all that `calque train` needs, and computes nothing: a process that has may not be forked."""
    import sacrebleu  # noqa: F401
    import torch
    import torch._dynamo  # imported by torch when a model is built without memory

    import calque.commands.loading
    import calque.commands.main
    import calque.commands.progress
    import calque.commands.streaming
    import calque.experiment.running
    import tests.faults.layer  # noqa: F401

    torch.set_num_threads(1)
    calque.experiment.running.draw_curves = lambda _folder: True  # drawing takes longer than training here


def answer(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Runs one command in a fork; how it ended, what it said, and which calls the layer saw."""
    paths = {name: folder / name for name in ("out", "err", "log", "trace")}
    for path in paths.values():
        path.unlink(missing_ok=True)
    gate, opener = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(opener)
        be_fork(lambda: _work(request, gate, paths["log"]), out=paths["out"], err=paths["err"])
    os.close(gate)
    tracer = _trace(child, request["strace"], paths["trace"]) if request.get("strace") else None
    os.write(opener, b"x")
    os.close(opener)
    started = time.monotonic()
    status = _wait(child, request.get("watch"), patience=request.get("patience", PATIENCE))
    if tracer is not None:
        tracer.wait(timeout=60)
    texts = {name: path.read_text(errors="replace") if path.exists() else "" for name, path in paths.items()}
    return {"code": os.waitstatus_to_exitcode(status), "seconds": time.monotonic() - started, "pid": child, **texts}


def _work(request: dict[str, Any], gate: int, log: Path) -> int:
    """What the fork does."""
    os.setpgid(0, 0)
    os.dup2(os.open(request.get("input") or os.devnull, os.O_RDONLY), 0)
    _allow_tracing()
    os.read(gate, 1)
    if request.get("largest"):
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["largest"], resource.RLIM_INFINITY))
    if request.get("memory"):
        resource.setrlimit(resource.RLIMIT_AS, (request["memory"], request["memory"]))
    if request.get("cwd"):
        os.chdir(request["cwd"])
    for number in request.get("closed", ()):
        os.close(number)
        setattr(sys, ("stdin", "stdout", "stderr")[number], None)  # as Python does
    return _run(request, log)


def _run(request: dict[str, Any], log: Path) -> int:
    """The command, as the interpreter would have run it: the exit code, or death by Ctrl-C."""
    from calque.commands.main import run
    from tests.faults import layer, steps

    if request.get("fault"):
        layer.install(layer.Fault(**request["fault"]), log=log)
    if request.get("step"):
        steps.install(steps.BadSteps(**request["step"]))
    sys.argv = ["calque", *request["arguments"]]
    try:
        run()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    return 0


def _allow_tracing() -> None:
    import ctypes

    ctypes.CDLL(None).prctl(0x59616D61, -1, 0, 0, 0)  # PR_SET_PTRACER, anybody


def _trace(child: int, options: list[str], output: Path) -> "subprocess.Popen[bytes]":
    """strace, attached before the child begins."""
    command = ["strace", "-f", "-y", "-o", str(output), *options, "-p", str(child)]
    tracer = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    status = Path(f"/proc/{child}/status")
    while tracer.poll() is None and "TracerPid:\t0\n" in status.read_text():
        time.sleep(0.002)
    return tracer


def _wait(child: int, watch: dict[str, Any] | None, *, patience: float) -> int:
    """The status of the child, which gets a signal some time after a file has a given number of lines."""
    deadline = time.monotonic() + patience
    due = None
    while True:
        ended_child, status = os.waitpid(child, os.WNOHANG)
        if ended_child:
            return status
        now = time.monotonic()
        if watch is not None and due is None and _lines(watch["file"]) >= watch["lines"]:
            due = now + watch["delay"]
        if due is not None and now >= due and watch is not None:
            for number in watch["numbers"]:
                os.kill(child, number)
                time.sleep(watch.get("pause", 0))
            watch = due = None
        if now > deadline:
            os.kill(child, signal.SIGKILL)
            deadline = now + patience
        time.sleep(0.002)


def _lines(file: str) -> int:
    try:
        return Path(file).read_bytes().count(b"\n")
    except OSError:
        return 0


if __name__ == "__main__":
    serve()
