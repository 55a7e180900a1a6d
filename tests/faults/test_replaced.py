"""kill -9 at every call of a save that replaces a checkpoint, also where folders cannot be exchanged in one step."""

import subprocess
import sys
from pathlib import Path

from tests.conftest import environment
from tests.warming import ROOT

# In forks of one process; a kill is not a power cut, so nothing is synced.
KILL_EVERYWHERE = """
import os, sys
os.fsync = lambda _: None
from pathlib import Path
import torch
import calque.engine  # what the layer patches: imported once, not in every fork
from calque.folders import writing
from calque.training.checkpoints import Snapshot, newest_checkpoint, prune_checkpoints, save_checkpoint
from tests.faults.layer import Fault, install

torch.set_num_threads(1)

def save(root, step, number):
    tensors = {"weights": {"a": torch.full((50,), float(number))}, "random": {"cpu": torch.ones(3)}}
    save_checkpoint(root, Snapshot(tensors, {"n": number}), step=step, scheduled=True, parent=None)

def killed_save(root, step, k):
    child = os.fork()
    if child == 0:
        install(Fault("kill", str(root), at=k), log=Path(os.devnull))
        save(root, step, 2)
        prune_checkpoints(root, keep=1)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])

def kill_everywhere(root, step):
    save(root, 1, 1)
    k, seen, litter = 1, set(), 0
    while killed_save(root, step, k):
        litter += any("-" in name.removeprefix("step-") for name in os.listdir(root))
        found = newest_checkpoint(root)
        number = found.snapshot.values["n"]
        assert not found.skipped, found.skipped
        assert found.step == (step if number == 2 else 1)
        assert found.snapshot.tensors["weights"]["a"].tolist() == [float(number)] * 50
        seen.add(number)
        k += 1
        if found.step == 2:
            writing.remove_folder(found.path)
        save(root, 1, 1)
        assert sorted(os.listdir(root)) == ["step-1"], os.listdir(root)
    assert seen == {1, 2}, seen
    print(k - 1, litter)

kill_everywhere(Path(sys.argv[1], "new"), 2)
kill_everywhere(Path(sys.argv[1], "exchanged"), 1)
writing._renameat2_exchange = lambda *_: False
kill_everywhere(Path(sys.argv[1], "moved"), 1)
"""


def test_a_kill_at_any_moment_of_a_save_leaves_the_old_or_the_new(tmp_path: Path) -> None:
    """A new one with pruning, one exchanged, and one moved aside (and put back)."""
    command = [sys.executable, "-c", KILL_EVERYWHERE, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 3
    for line in done.stdout.splitlines():
        kills, with_litter = map(int, line.split())
        assert kills > 20
        assert with_litter > 10
