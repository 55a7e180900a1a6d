"""Several ranks train as one would: the same batches, the same losses, whatever happens to one of them."""

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from safetensors.torch import load_file

from calque.config import override
from calque.experiment import Run, resume, train
from calque.training.checkpoints import scheduled_steps
from calque.training.journal import read_journal
from calque.training.lock import run_lock
from tests.conftest import Values, made_once, toy_corpus, toy_values
from tests.integration.ranks import Ended, WarmRanks, agree_ranks, cold_ranks, resume_ranks, train_ranks

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("unplotted")]

STILL = ("model.encoder.dropout=0.0", "model.decoder.dropout=0.0")
SETTINGS = ("training.log_every=1", "training.accumulate=1", "training.average=0", "training.validate_every=10")
EXACT = (*SETTINGS, *STILL, "training.precision=float64")
FEW = (*EXACT, "training.steps=14")
RARE = ("model.output.kind=adaptive", "model.output.cutoffs=[6, 8]", "training.label_smoothing=0")
TWICE = ("training.objective.method.kind=r-drop",)
DRAWN = ("model.output.kind=sampled", "model.output.samples=5", "training.label_smoothing=0")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Few pairs and small batches: the last ones of an epoch have fewer rows than there are ranks."""
    return toy_corpus(tmp_path_factory.mktemp("corpus"), pairs=61)


def small(corpus: dict[str, Path], family: str, *settings: str) -> Values:
    values = toy_values(corpus, family, *settings)
    for side in values["model"].values():
        side.pop("attention_dropout", None)
        side.pop("activation_dropout", None)
    return override(values, ["training.batch.tokens=60"])


def losses(run: Path) -> list[float]:
    return [line["loss"] for line in read_journal(run / "metrics.jsonl") if "loss" in line]


def assert_same_losses(run: Path, other: Run, *, within: float = 1e-9) -> None:
    assert losses(run) == pytest.approx(losses(other.folder), abs=within)


@pytest.fixture(scope="module")
def warm() -> Iterator[WarmRanks]:
    with WarmRanks() as ranks:
        yield ranks


@pytest.fixture(scope="module")
def alone(corpus: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    """`alone(family, *settings)`: what one process makes of them."""
    return made_once(lambda *asked: small(corpus, *asked), folder=lambda: tmp_path_factory.mktemp("alone"))


@pytest.mark.parametrize(
    ("family", "count"),
    [
        ("luong", 2),
        ("transformer", 2),
        ("convolutional", 2),
        ("luong", 4),
        ("transformer", 4),
        ("convolutional", 4),
    ],
)
def test_losses_do_not_depend_on_the_number_of_ranks(
    family: str, count: int, corpus: dict[str, Path], alone: Callable[..., Run], tmp_path: Path, warm: WarmRanks
) -> None:
    """In float64, over 50 steps and several epochs, to 1e-9."""
    settings = (*EXACT, "training.steps=50")
    ended = train_ranks(warm, count, small(corpus, family, *settings), tmp_path / "run")
    assert ended.codes == [0] * count, ended.said
    assert_same_losses(tmp_path / "run", alone(family, *settings))
    assert len(losses(tmp_path / "run")) == 50 + 5
    assert json.loads((tmp_path / "run" / "run.json").read_bytes())["ranks"] == count


def test_what_draws_are_compared_with_is_a_mean_over_the_words_of_all_ranks(
    corpus: dict[str, Path], tmp_path: Path, warm: WarmRanks
) -> None:
    """Hard attention: ranks have different numbers of words, and the last batches leave one of them nothing."""
    hard = ("model.decoder.attention.choice=hard", "model.decoder.attention.soft_share=0")
    values = small(corpus, "luong", *EXACT, *hard, "training.accumulate=2", "training.steps=14")
    found = []
    for count in (1, 2):
        run = tmp_path / str(count)
        ended = train_ranks(warm, count, values, run, fault="certain")
        assert ended.codes == [0] * count, ended.said
        weights = load_file(run / "checkpoints" / "step-14" / "weights.safetensors")
        found.append([*losses(run), float(weights["baseline.value"])])
    assert found[0][-1] < -0.5
    assert found[1] == pytest.approx(found[0], abs=1e-9)


@pytest.mark.parametrize("family", ["luong", "transformer"])
@pytest.mark.parametrize("output", [RARE, DRAWN], ids=["adaptive", "sampled"])
def test_losses_of_another_output_layer_do_not_depend_on_the_number_of_ranks(
    output: tuple[str, ...], family: str, corpus: dict[str, Path], tmp_path: Path, warm: WarmRanks
) -> None:
    """A batch of a few words has none of some cluster, on one of the ranks or on all of them."""
    values = override(small(corpus, family, *FEW, *output), ["training.batch.tokens=16"])
    found = []
    for count in (1, 2):
        ended = train_ranks(warm, count, values, tmp_path / str(count), fault="certain")
        assert ended.codes == [0] * count, ended.said
        found.append(losses(tmp_path / str(count)))
    assert found[1] == pytest.approx(found[0], abs=1e-9)


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("family", ["luong", "convolutional", "transformer"])
def test_in_float32_losses_agree(
    family: str, count: int, corpus: dict[str, Path], alone: Callable[..., Run], tmp_path: Path, warm: WarmRanks
) -> None:
    settings = (*SETTINGS, *STILL, "training.steps=20")
    ended = train_ranks(warm, count, small(corpus, family, *settings), tmp_path / "run")
    assert ended.codes == [0] * count, ended.said
    assert_same_losses(tmp_path / "run", alone(family, *settings), within=1e-5)
    assert len(losses(tmp_path / "run")) == 20 + 2
    assert json.loads((tmp_path / "run" / "run.json").read_bytes())["ranks"] == count


@pytest.mark.parametrize(
    ("family", "output"),
    [("transformer", ()), ("luong", ()), ("luong", RARE), ("convolutional", ()), ("luong", TWICE)],
    ids=["transformer", "luong", "luong adaptive", "convolutional", "luong r-drop"],
)
def test_shards_of_the_weights_train_as_whole_ones_do(
    family: str,
    output: tuple[str, ...],
    corpus: dict[str, Path],
    alone: Callable[..., Run],
    tmp_path: Path,
    warm: WarmRanks,
) -> None:
    """FSDP2; its checkpoint is whole, so that ranks that share it, or one process, can go on with it."""
    settings = (*FEW, *output)
    values = small(corpus, family, *settings, "training.sharded=true", "training.checkpoint_every=7")
    ended = train_ranks(warm, 2, values, tmp_path / "run", fault="stop:1:9")
    assert ended.codes == [75, 75], ended.said
    shutil.copytree(tmp_path / "run", tmp_path / "one")
    assert resume_ranks(warm, 2, tmp_path / "run").codes == [0, 0]
    assert_same_losses(tmp_path / "run", alone(family, *settings))
    assert_same_losses(resume(tmp_path / "one", quiet=True).folder, alone(family, *settings))


def test_memory_that_runs_out_on_one_rank_halves_the_batch_on_all(
    corpus: dict[str, Path], alone: Callable[..., Run], tmp_path: Path, warm: WarmRanks
) -> None:
    """P8: nobody hangs, and without dropout nothing else shows."""
    ended = train_ranks(warm, 2, small(corpus, "luong", *FEW), tmp_path / "run", fault="memory:1:5")
    assert ended.codes == [0, 0], ended.said
    assert read_journal(tmp_path / "run" / "history.jsonl") == [{"step": 5, "parts": 2}]
    assert_same_losses(tmp_path / "run", alone("luong", *FEW))


@pytest.mark.parametrize("family", ["luong", "transformer"])
def test_memory_that_runs_out_on_one_rank_of_a_sharded_run_ends_all_with_the_last_checkpoint_intact(
    family: str, corpus: dict[str, Path], alone: Callable[..., Run], tmp_path: Path, warm: WarmRanks
) -> None:
    """Parts of the weights are on their way then: that rank says so, the others end too, and the run goes on."""
    values = small(corpus, family, *FEW, "training.sharded=true", "training.checkpoint_every=4")
    ended = train_ranks(warm, 2, values, tmp_path / "run", fault="memory:1:6")
    assert ended.codes == [1, 1], ended.said
    assert "out of memory in step 6; the last checkpoint is intact" in ended.said[1]
    assert "Traceback" not in "".join(ended.said)
    assert resume_ranks(warm, 2, tmp_path / "run").codes == [0, 0]
    assert_same_losses(tmp_path / "run", alone(family, *FEW))


def test_a_stop_asked_of_one_rank_stops_all_and_another_number_of_them_goes_on(
    corpus: dict[str, Path], alone: Callable[..., Run], tmp_path: Path, warm: WarmRanks
) -> None:
    """P4, and the batches after it are those that would have come."""
    ended = train_ranks(warm, 2, small(corpus, "luong", *FEW), tmp_path / "run", fault="stop:1:6")
    assert ended.codes == [75, 75], ended.said
    assert resume_ranks(warm, 4, tmp_path / "run").codes == [0] * 4
    assert_same_losses(tmp_path / "run", alone("luong", *FEW))


def test_sharded_weights_become_a_model_if_the_run_stops_before_its_first_validation(
    corpus: dict[str, Path], tmp_path: Path, warm: WarmRanks
) -> None:
    settings = (*FEW, "training.sharded=true", "training.validate_every=50")
    ended = train_ranks(warm, 2, small(corpus, "luong", *settings), tmp_path / "run", fault="stop:1:2")
    assert ended.codes == [75, 75], ended.said
    assert (tmp_path / "run" / "log.txt").read_text(encoding="utf-8").count("never validated") == 1
    (saved,) = (tmp_path / "run" / "checkpoints").iterdir()
    weights, kept = (load_file(folder / "weights.safetensors") for folder in (saved, tmp_path / "run" / "model"))
    assert all(kept[name].equal(value) for name, value in weights.items())


def test_a_rank_that_is_killed_does_not_leave_the_others_hanging_and_the_run_goes_on_exactly(
    corpus: dict[str, Path], tmp_path: Path, warm: WarmRanks
) -> None:
    """P1, with dropout: the random stream is a function of seed, step and rank."""
    values = small(corpus, "transformer", *SETTINGS)
    assert train_ranks(warm, 2, values, tmp_path / "whole").codes == [0, 0]
    ended = train_ranks(cold_ranks, 2, values, tmp_path / "killed", fault="kill:1:9")
    assert ended.codes[1] == -9
    assert ended.codes[0] not in (0, 75)
    assert resume_ranks(warm, 2, tmp_path / "killed").codes == [0, 0]
    assert _digests(tmp_path / "killed") == _digests(tmp_path / "whole")
    assert losses(tmp_path / "whole") != losses(train(values, run=tmp_path / "one", quiet=True).folder)


def test_ranks_agree(warm: WarmRanks) -> None:
    """On what any of them found, on what the first one says or does, and on sums, which travel in buckets of one kind.

    In an update, what one of them did not use has no gradient there; rewards of hard attention are added up.
    """
    first, second = agree_ranks(warm, 2)
    assert first == second
    assert first["any"] == [False, True]
    assert first["text"] == "Ёжик 她"
    assert first["numbers"] == [0.1, 7.0]
    assert first["leader"] == "the first rank's"
    assert first["sums"] == [[3.0] * 5, [[4.0]], [6.0, 6.0]]
    assert first["buckets"] == [[0], [1], [2]]
    assert first["carry"] == [[1.0, 0.5], [2.0, 0.5], [10.0, 0.5], [20.0, 0.5]]  # rows as a batch has them
    assert first["gradients"] == {"unused by one": 1.0, "used": 3.0, "loss": 3.0, "rewards": [-3.0, 4.0]}


def test_early_stopping_is_agreed_on(corpus: dict[str, Path], tmp_path: Path, warm: WarmRanks) -> None:
    """Only the leading rank validates; with a rate this small nothing gets better."""
    settings = ("training.patience=2", "training.validate_every=2", "training.metric=exact_match")
    stuck = ("training.optimiser.learning_rate=1e-12", "training.schedule.warmup=0", "training.steps=100")
    values = small(corpus, "luong", *SETTINGS, *settings, *stuck)
    assert train_ranks(warm, 2, values, tmp_path / "run").codes == [0, 0]
    steps = [line["step"] for line in read_journal(tmp_path / "run" / "metrics.jsonl") if line["kind"] == "valid"]
    assert 4 <= steps[-1] < 100


def test_a_mistake_is_told_once(corpus: dict[str, Path], tmp_path: Path) -> None:
    """By the leading rank, be it made by that one alone or by all; all end with the same code."""
    values = small(corpus, "luong", *SETTINGS, "training.steps=2")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "something").touch()
    for ended, said in (
        (train_ranks(cold_ranks, 2, values, tmp_path / "run", fault="threads"), "every run needs an empty folder"),
        (resume_ranks(cold_ranks, 2, tmp_path / "nothing"), "no such folder"),
        (_resume_locked(tmp_path / "held"), "is locked"),
    ):
        assert ended.codes == [2, 2], ended.said
        assert said in ended.said[0]
        assert "calque" not in ended.said[1]


def _resume_locked(run: Path) -> Ended:
    run.mkdir()
    (run / "config.toml").touch()
    with run_lock(run):
        return resume_ranks(cold_ranks, 2, run)


def test_a_run_that_cannot_go_on_is_told_once(corpus: dict[str, Path], tmp_path: Path, warm: WarmRanks) -> None:
    """A loss that is no number on one rank is none on all."""
    values = small(corpus, "luong", *SETTINGS, "training.skips=1")
    ended = train_ranks(warm, 2, values, tmp_path / "run", fault="nan:1:3")
    assert ended.codes == [1, 1], ended.said
    assert ended.said[0].count("not finite in 1 steps in a row") == 1
    assert "calque" not in ended.said[1]


def test_ranks_that_see_different_folders_are_refused(
    alone: Callable[..., Run], tmp_path: Path, warm: WarmRanks
) -> None:
    """As on machines that do not share a disk: a checkpoint is missing, or a setting was changed."""
    run = alone("luong", *EXACT, "training.steps=14", "training.keep=4").folder
    for number, (change, said) in enumerate(
        (
            (_lose_newest, "different checkpoints to resume from (rank 0: step 14, rank 1: step 12)"),
            (_change_steps, "different settings or data"),
        )
    ):
        for rank in (0, 1):
            shutil.copytree(run, tmp_path / f"{number}-{rank}")
        change(tmp_path / f"{number}-1")
        ended = resume_ranks(warm, 2, tmp_path / f"{number}-{{rank}}")
        assert ended.codes == [2, 2], ended.said
        assert said in ended.said[0]
        assert "on a shared disk" in ended.said[0]
        assert "calque" not in ended.said[1]


def _lose_newest(run: Path) -> None:
    shutil.rmtree(run / "checkpoints" / "step-14")


def _change_steps(run: Path) -> None:
    path = run / "config.toml"
    path.write_text(path.read_text(encoding="utf-8").replace("clip = 1.0", "clip = 2.0"), encoding="utf-8")


def test_torchrun_starts_the_command(corpus: dict[str, Path], tmp_path: Path) -> None:
    """As the documentation says; `--` lets --run through to calque."""
    settings = ("training.steps=4", "training.device=cpu", "training.threads=1", "text.kind=words", "text.joint=true")
    found = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"),
            *("-m", "calque", "--", "train", "--system", "tiny", "--scale", "0.25", "--run", tmp_path / "run"),
            *("--source", corpus["source"], "--target", corpus["target"], *settings),
        ],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines() == [str(tmp_path / "run")]
    assert found.stderr.count("done: 4 steps") == 1


def _digests(run: Path) -> list[str]:
    last = run / "checkpoints" / f"step-{scheduled_steps(run / 'checkpoints')[-1]}"
    files = [run / "metrics.jsonl", last / "weights.safetensors", last / "optimiser.safetensors"]
    return [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
