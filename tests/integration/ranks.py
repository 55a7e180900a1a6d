"""Several processes that train one model, started as torchrun starts them; the file is also what each of them runs.

    python ranks.py VALUES.json RUN|--resume RUN [FAULT]

RUN may hold {rank}, for ranks that see different folders.

FAULT: `memory:RANK:STEP` lets that rank run out of memory in that step, once; `kill:RANK:STEP` kills it there;
`stop:RANK:STEP` sends it a SIGTERM; `nan:RANK:STEP` makes its loss no number. `certain` is no fault: hard attention
takes the likeliest place where it would draw, so that ranks, which draw apart, can be compared with one.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

PATIENCE = 150  # seconds, after which ranks that hang are ended


class Ended(NamedTuple):
    """How the ranks of a run ended."""

    codes: list[int]
    said: list[str]  # on standard error


def run_ranks(count: int, *arguments: object) -> Ended:
    """Runs so many ranks to their end; none of them is left behind."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    processes = [
        subprocess.Popen(
            [sys.executable, __file__, *map(str, arguments)],
            env={
                **os.environ,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(count),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "OMP_NUM_THREADS": "1",
            },
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        for rank in range(count)
    ]
    try:
        said = [process.communicate(timeout=PATIENCE)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return Ended([process.returncode for process in processes], said)


def train_ranks(count: int, values: dict[str, Any], run: Path, *, fault: str = "") -> Ended:
    """Begins a run with so many ranks."""
    path = run.with_name(f"{run.name}.json")
    path.write_text(json.dumps(values), encoding="utf-8")
    return run_ranks(count, path, run, *([fault] if fault else []))


def resume_ranks(count: int, run: Path) -> Ended:
    """Goes on with a run, with so many ranks."""
    return run_ranks(count, "--resume", run)


def _inject(fault: str) -> None:
    if fault == "certain":
        from calque.layers import attention

        attention.draw = lambda shares: shares.argmax(dim=-1)
        return
    kind, rank, step = fault.split(":")
    if rank != os.environ["RANK"]:
        return
    import torch

    from calque.training.learner import Learner

    compute, done = Learner._loss, []

    def faulty(self: Any, batch: Any, at: int) -> Any:
        loss = compute(self, batch, at)
        if at == int(step) and not done:
            done.append(at)
            match kind:
                case "memory":
                    raise torch.OutOfMemoryError("CUDA out of memory: injected")
                case "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                case "stop":
                    os.kill(os.getpid(), signal.SIGTERM)
                case "nan":
                    return loss._replace(objective=loss.objective * float("nan"))
        return loss

    Learner._loss = faulty  # type: ignore[method-assign]


def _main(arguments: Sequence[str]) -> None:
    from calque import experiment
    from calque.commands.main import told

    experiment.running.draw_curves = lambda _folder: True  # drawing takes longer than training here
    run = arguments[1].format(rank=os.environ["RANK"])
    if len(arguments) > 2:
        _inject(arguments[2])
    if arguments[0] == "--resume":
        told(lambda: experiment.resume(run, quiet=True))
    else:
        values = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
        told(lambda: experiment.train(values, run=run, quiet=True))


if __name__ == "__main__":
    _main(sys.argv[1:])
