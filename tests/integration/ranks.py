"""Several processes that train one model, started as torchrun starts them; the file is also what each of them runs.

    python -m tests.integration.ranks VALUES.json RUN [FAULT]
    python -m tests.integration.ranks --own VALUES.json RUN
    python -m tests.integration.ranks --resume RUN
    python -m tests.integration.ranks --agree
    python -m tests.integration.ranks --serve

FAULT: `memory:RANK:STEP` lets that rank run out of memory in that step, once; `kill:RANK:STEP` kills it there;
`stop:RANK:STEP` sends it a SIGTERM; `nan:RANK:STEP` makes its loss no number; `threads` aborts an interpreter that
ends, as threads of the connection do where they are slow to let go. `certain` is no fault: hard attention takes the
likeliest place and the sampled output layer the likeliest words where they would draw, so that ranks, which draw
apart, can be compared with one. RUN may hold {rank}, for ranks that see different folders. With --serve it forks ranks,
since importing torch takes longer than what they do.
"""

import atexit
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.warming import ROOT, WarmProcess, be_fork, root_environment

PATIENCE = 60  # seconds in which ranks that hang compute nothing, after which they are ended; a busy machine is no hang
LONGEST = 600  # seconds of computing, after which ranks that never end are ended
PORTS = range(20_000, 32_000)  # below those that systems give to connections, so that none takes one before the ranks


class Ended(NamedTuple):
    """How the ranks of a run ended."""

    codes: list[int]
    said: list[str]  # on standard error
    printed: list[str]


Start = Callable[..., Ended]
"""`start(count, *arguments)` runs so many ranks to their end; none of them is left behind."""


def cold_ranks(count: int, *arguments: object) -> Ended:
    """Ranks that end as interpreters do."""
    port = _free_port()
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.integration.ranks", *map(str, arguments)],
            cwd=ROOT,
            env={**root_environment(), **_place(rank, count, port)},
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
    watch = Patience([process.pid for process in processes])
    try:
        told = [_communicate(process, watch) for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    printed, said = map(list, zip(*told, strict=True))
    return Ended([process.returncode for process in processes], said, printed)


def _communicate(process: subprocess.Popen[str], watch: "Patience") -> tuple[str, str]:
    while True:
        try:
            return process.communicate(timeout=0.5)
        except subprocess.TimeoutExpired:
            if watch.is_over():
                raise


class Patience:
    """Waits for processes as long as they compute, however little of a busy machine they get."""

    def __init__(self, processes: Sequence[int]) -> None:
        self.processes = processes
        self._computed, self._since = 0.0, time.monotonic()

    def is_over(self) -> bool:
        computed = sum(map(_seconds_computed, self.processes))
        if computed >= self._computed + 0.1:
            self._computed, self._since = computed, time.monotonic()
        return computed > LONGEST or time.monotonic() > self._since + PATIENCE


def _seconds_computed(process: int) -> float:
    """The CPU time of a process; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class WarmRanks(WarmProcess):
    """Ranks in forks of one process that has everything imported."""

    def __init__(self) -> None:
        super().__init__("-m", "tests.integration.ranks", "--serve", env=root_environment())

    def __call__(self, count: int, *arguments: object) -> Ended:
        return Ended(*self.ask([count, *map(str, arguments)]))


def train_ranks(
    start: Start, count: int, values: dict[str, Any], run: Path, *, fault: str = "", own: bool = False
) -> Ended:
    """Begins a run with `count` ranks; `own` is one of the task that tests bring."""
    path = run.with_name(f"{run.name}.json")
    path.write_text(json.dumps(values), encoding="utf-8")
    return start(count, *(["--own"] if own else []), path, run, *([fault] if fault else []))


def resume_ranks(start: Start, count: int, run: Path) -> Ended:
    """Goes on with a run, with so many ranks."""
    return start(count, "--resume", run)


def agree_ranks(start: Start, count: int) -> list[dict[str, Any]]:
    """What each of so many ranks heard from the others; see `_agree`."""
    ended = start(count, "--agree")
    assert ended.codes == [0] * count, ended.said
    return [json.loads(text) for text in ended.printed]


def _free_port() -> int:
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        with socket.socket() as free, suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port
    raise OSError("no port is free")


def _place(rank: int, count: int, port: int) -> dict[str, str]:
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "MASTER_PORT": port, "OMP_NUM_THREADS": 1}
    return {"MASTER_ADDR": "127.0.0.1", **{name: str(number) for name, number in numbers.items()}}


def _serve() -> None:
    """Answers requests, one a line, until there are no more; this process computes nothing, so it may be forked."""
    import sacrebleu  # noqa: F401
    import torch
    import torch._dynamo  # imported by torch when a model is built without memory
    import torch.distributed.fsdp

    import calque.experiment  # noqa: F401

    torch.set_num_threads(1)
    answers = os.fdopen(os.dup(1), "w")
    with tempfile.TemporaryDirectory(prefix="calque-ranks-") as folder:
        for line in sys.stdin:
            count, *arguments = json.loads(line)
            print(json.dumps(_forked(count, arguments, Path(folder))), file=answers, flush=True)


def _forked(count: int, arguments: list[str], folder: Path) -> Ended:
    for path in folder.iterdir():
        path.unlink()
    port = _free_port()
    children = [_fork(_place(rank, count, port), arguments, folder / str(rank)) for rank in range(count)]
    codes: dict[int, int] = {}
    watch = Patience(children)
    while len(codes) < count:
        is_over = watch.is_over()
        for child in children:
            if child not in codes and (found := os.waitpid(child, os.WNOHANG))[0]:
                codes[child] = os.waitstatus_to_exitcode(found[1])
            elif child not in codes and is_over:
                os.kill(child, signal.SIGKILL)
        time.sleep(0.005)
    said, printed = (
        [(folder / f"{rank}.{name}").read_text(errors="replace") for rank in range(count)] for name in ("err", "out")
    )
    return Ended([codes[child] for child in children], said, printed)


def _fork(place: dict[str, str], arguments: list[str], output: Path) -> int:
    child = os.fork()
    if child == 0:
        os.environ.update(place)
        be_fork(lambda: _main(arguments), out=Path(f"{output}.out"), err=Path(f"{output}.err"))
    return child


def _agree() -> dict[str, Any]:
    """Everything that ranks tell each other; rank r brings r + 1, and the first one a text and numbers."""
    import torch

    from calque.models.model import Model, ModelConfig, Sizes
    from calque.training import distributed as module
    from calque.training.learner import gather_carry
    from calque.training.settings import TrainingConfig
    from calque.training.update import Gradient, MemorySplits, Updater
    from tests.conftest import FAMILIES

    with module.joined_ranks() as ranks:
        own = ranks.rank + 1.0
        config = ModelConfig.model_validate(
            {**FAMILIES["luong"], "decoder": {**FAMILIES["luong"]["decoder"], "attention": {"choice": "hard"}}}
        )
        model = Model(config, sizes=Sizes(8, 8, joint=True))
        splits = MemorySplits(Path("nowhere"))
        updater = Updater(model, task=_Nothing(), config=TrainingConfig(), seed=1, ranks=ranks, splits=splits)
        unused, used = updater.trained[:2]
        used.grad = torch.full_like(used, own)
        unused.grad = torch.ones_like(unused) if ranks.leads else None
        loss = torch.tensor(own)
        rewards = torch.tensor([-own, 2.0])
        updater._reduce(Gradient(loss, rewards, None))
        module.BUCKET = 16  # bytes
        sums = [torch.full((5,), own), torch.full((1, 1), own + 0.5), torch.full((2,), 2 * own, dtype=torch.float64)]
        places = {id(tensor): place for place, tensor in enumerate(sums)}
        buckets = [[places[id(tensor)] for tensor in bucket] for bucket in module._buckets(sums)]
        ranks.all_reduce(sums)
        (carry,) = gather_carry((torch.tensor([[own, 0.5], [10 * own, 0.5]]),), ranks=ranks)
        return {
            "any": [ranks.any(False), ranks.any(own == 2)],
            "text": ranks.broadcast_text("Ёжик 她" if ranks.leads else "ignored"),
            "numbers": ranks.broadcast([0.1, 7.0] if ranks.leads else [3.0, 3.0]),
            "leader": ranks.on_leader(lambda: "the first rank's" if ranks.leads else "another's"),
            "sums": [tensor.tolist() for tensor in sums],
            "buckets": buckets,
            "carry": carry.tolist(),
            "gradients": {
                "unused by one": float(unused.grad.max()),
                "used": float(used.grad.max()),
                "loss": float(loss),
                "rewards": rewards.tolist(),
            },
        }


class _Nothing:
    """A task of which nothing is computed."""

    parts = ("loss",)
    divisible = True


def _inject(fault: str) -> None:
    if fault == "threads":
        atexit.register(os.abort)
        return
    if fault == "certain":
        from calque.layers import attention, sampled

        attention.draw = lambda shares: shares.argmax(dim=-1)
        sampled.draw = lambda shares, count: shares.argsort(descending=True, stable=True)[:count]
        return
    kind, rank, step = fault.split(":")
    if rank != os.environ["RANK"]:
        return
    import torch

    from calque.tasks.translation import Translation

    compute: Any = Translation.loss
    at, done = int(step), []

    def faulty(self: Any, *arguments: Any, step: int, **named: Any) -> Any:
        loss = compute(self, *arguments, step=step, **named)
        if step == at and not done:
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

    Translation.loss = faulty  # type: ignore[method-assign]


def _main(arguments: Sequence[str]) -> int:
    from calque import experiment
    from calque.commands import main as command

    for module in (experiment.running, experiment.own_task):
        module.draw_curves = lambda _folder: True  # drawing takes longer than training here
    if arguments[0] == "--agree":
        print(json.dumps(_agree()))
        return 0
    own = None
    if arguments[0] == "--own":
        from tests.unit.experiment.frames_task import frames_task

        own, arguments = frames_task(dropout=0.0), arguments[1:]
    run = arguments[1].format(rank=os.environ["RANK"])
    if len(arguments) > 2:
        _inject(arguments[2])
    if arguments[0] == "--resume":
        command.run(lambda: experiment.resume(run, quiet=True))
    else:
        values = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
        command.run(lambda: experiment.train(values, run=run, task=own, quiet=True))
    return 0


if __name__ == "__main__":
    sys.exit(_serve() if sys.argv[1:] == ["--serve"] else _main(sys.argv[1:]))
