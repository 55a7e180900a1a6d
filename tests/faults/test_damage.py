"""Damaged checkpoints and model folders: named, skipped, the one before used, never silently from scratch (P5)."""

import os
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from calque.engine import load
from calque.errors import FolderError
from calque.training.checkpoints import newest_checkpoint
from tests.conftest import Answer
from tests.faults.conftest import Scenes, Tally
from tests.faults.runs import Warm, differences, families, killing

pytestmark = pytest.mark.slow

EXAMPLES = 70

more = pytest.mark.parametrize("times", [1, pytest.param(5, marks=pytest.mark.full)])


class Damage:
    """A file whose bytes are put back afterwards."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.content = file.read_bytes()

    def flip(self, bit: int) -> None:
        changed = bytearray(self.content)
        changed[bit // 8] ^= 1 << bit % 8
        self.file.write_bytes(changed)

    def mend(self) -> None:
        self.file.write_bytes(self.content)


def flip(damage: Damage, data: st.DataObject) -> None:
    damage.flip(data.draw(st.integers(0, 8 * len(damage.content) - 1)))


def truncate(damage: Damage, data: st.DataObject) -> None:
    os.truncate(damage.file, data.draw(st.integers(0, len(damage.content) - 1)))


def remove(damage: Damage, _data: st.DataObject) -> None:
    damage.file.unlink()


Harm = Callable[[Damage, st.DataObject], None]


def harm_files(folder: Path, *, ways: Sequence[Harm], examples: int, seed: int, look: Callable[[Damage], None]) -> int:
    """Harms files of a folder, one at a time, lets `look` see what is made of each, and gives how many there were."""
    tried = 0

    @seeded(seed)
    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(data=st.data())
    def harm(data: st.DataObject) -> None:
        nonlocal tried
        damage = Damage(data.draw(st.sampled_from(files(folder))))
        data.draw(st.sampled_from(ways))(damage, data)
        tried += 1
        try:
            look(damage)
        finally:
            damage.mend()

    harm()
    assert tried >= examples
    return tried


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def assert_step_before_is_used(run: Path, *, named: str) -> None:
    newest = newest_checkpoint(run / "checkpoints")
    assert newest is not None
    assert newest.step == 4
    assert any("step-6" in message and named in message for message in newest.skipped), newest.skipped


@families
@more
@pytest.mark.parametrize("way", [flip, truncate])
def test_every_changed_file_of_a_checkpoint_is_detected(
    family: str, times: int, way: Harm, scene: Scenes, tmp_path: Path, tally: Tally, seed: int
) -> None:
    run = scene(family).copy_whole(tmp_path / "run")
    tried = harm_files(
        run / "checkpoints" / "step-6",
        ways=[way],
        examples=times * EXAMPLES,
        seed=seed,
        look=lambda damage: assert_step_before_is_used(run, named=damage.file.name),
    )
    tally(f"{way.__name__} a file, checkpoint", family, tried=tried, wrong=[])


@families
def test_every_missing_and_swapped_file_of_a_checkpoint_is_detected(
    family: str, scene: Scenes, tmp_path: Path, tally: Tally
) -> None:
    """Swapped with the same file of the checkpoint before, or with another file of its own."""
    run = scene(family).copy_whole(tmp_path / "run")
    newest = run / "checkpoints" / "step-6"
    tried = 0
    for file in files(newest):
        damage = Damage(file)
        file.unlink()
        assert_step_before_is_used(run, named=file.name)
        damage.mend()
        damaged_contents = {
            path.read_bytes() for path in (run / "checkpoints" / "step-4" / file.name, *files(newest)) if path != file
        } - {damage.content}
        assert damaged_contents
        for content in damaged_contents:
            file.write_bytes(content)
            assert_step_before_is_used(run, named="step-6")
            damage.mend()
        tried += 1 + len(damaged_contents)
    tally("missing or swapped file, checkpoint", family, tried=tried, wrong=[])


@families
@more
def test_a_damaged_model_folder_is_never_loaded(
    family: str, times: int, scene: Scenes, tmp_path: Path, tally: Tally, seed: int
) -> None:
    model = tmp_path / "model"
    shutil.copytree(scene(family).whole / "model", model)
    load(model)

    def look(damage: Damage) -> None:
        with pytest.raises(FolderError, match=damage.file.name):
            load(model)

    tried = harm_files(model, ways=[flip, flip, truncate, remove], examples=times * EXAMPLES, seed=seed, look=look)
    tally("flipped, truncated or missing, model folder", family, tried=tried, wrong=[])


@families
def test_a_resume_names_the_damaged_one_and_goes_on_from_the_one_before(
    family: str, warm: Warm, scene: Scenes, tmp_path: Path, seed: int
) -> None:
    """And ends with the bytes of a run that was never damaged."""
    run = scene(family).copy_whole(tmp_path / "run")
    generator = random.Random(f"{seed}/damage/{family}")
    damage = Damage(generator.choice(files(run / "checkpoints" / "step-6")))
    damage.flip(generator.randrange(8 * len(damage.content)))
    ended = warm("train", "--resume", run)
    assert ended.code == 0, ended.err
    assert "step-6" in ended.err
    assert damage.file.name in ended.err
    assert "resuming from step 4" in ended.err
    assert differences(run, scene(family).whole) == []


@families
def test_a_run_whose_checkpoints_are_all_damaged_is_not_begun_again(
    family: str, warm: Warm, scene: Scenes, tmp_path: Path, tally: Tally
) -> None:
    run = scene(family).copy_whole(tmp_path / "run")
    for folder in (run / "checkpoints").iterdir():
        (folder / "weights.safetensors").unlink()
    metrics = (run / "metrics.jsonl").read_bytes()
    ended = warm("train", "--resume", run)
    assert ended.code == 2
    assert all(name in ended.err for name in ("every checkpoint is damaged", "step-4", "step-6", "weights.safetensors"))
    assert (run / "metrics.jsonl").read_bytes() == metrics
    tally("all checkpoints damaged or gone", family, tried=1, wrong=[])


@families
@pytest.mark.parametrize("lost", ["checkpoints", "checkpoints/*"])
def test_a_run_whose_checkpoints_are_gone_is_not_begun_again(
    family: str, lost: str, warm: Warm, scene: Scenes, tmp_path: Path, tally: Tally
) -> None:
    run = scene(family).copy_whole(tmp_path / "run")
    for folder in run.glob(lost):
        shutil.rmtree(folder)
    metrics = (run / "metrics.jsonl").read_bytes()
    ended = warm("train", "--resume", run)
    assert ended.code == 2
    assert "there is no checkpoint, but the run had reached step 6 and saved step 4" in ended.err
    assert (run / "metrics.jsonl").read_bytes() == metrics
    tally("all checkpoints damaged or gone", family, tried=1, wrong=[])


@families
def test_a_checkpoint_that_is_gone_is_named_and_the_one_before_used(
    family: str, warm: Warm, scene: Scenes, tmp_path: Path
) -> None:
    original = scene(family)
    run = original.copy(tmp_path / "run")
    pruning = original.calls.index("rename checkpoints/step-2") + 1
    assert warm("train", "--resume", run, fault=killing(run, at=pruning)).was_killed
    for step in (4, 6):
        shutil.rmtree(run / "checkpoints" / f"step-{step}")
    ended = warm("train", "--resume", run)
    assert ended.code == 0
    assert "step-4 is missing: the run had reached step 6" in ended.err
    assert "resuming from step 2" in ended.err
    assert differences(run, original.whole) == []


def test_a_damaged_model_folder_is_named_by_the_commands_that_read_it(
    command: Callable[..., Answer], scene: Scenes, tmp_path: Path
) -> None:
    run = scene("transformer").copy_whole(tmp_path / "run")
    Damage(run / "model" / "weights.safetensors").flip(8 * 3000)
    answer = command("translate", run, stdin=b"a b c\n")
    assert answer.code == 2
    assert "weights.safetensors: changed since it was written" in answer.err
    assert answer.out == ""
