"""A stand-in for Calque: the same commands, with a known number of CPU seconds for every step and line."""

import subprocess
from pathlib import Path

MAIN = """
import json, sys, time
from pathlib import Path

STEP, LINE, MARK, BROKEN = {step}, {line}, {mark!r}, {broken!r}
words = sys.argv[1:]
settings = dict(word.split("=", 1) for word in words if "=" in word and not word.startswith("-"))
options = {{word: words[place + 1] for place, word in enumerate(words) if word.startswith("--")}}


def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


if words[0] == BROKEN:
    sys.exit("it is broken")
burn(0.1)  # the start-up
if words[:2] == ["data", "prepare"]:
    Path(options["--out"]).mkdir()
elif words[0] == "data":
    folder = Path(options["--out"])
    folder.mkdir()
    for part in ("train", "valid", "test"):
        for side in ("--from", "--to"):
            text = "".join(f"{{part}} {{number}}\\n" for number in range(300))
            (folder / f"{{part}}.{{options[side]}}").write_text(text)
elif words[0] == "train":
    run, store = Path(options["--run"]), Path(settings.get("data.store", "store"))
    run.mkdir()
    if not store.exists():
        store.mkdir()
        (store / "ids").write_bytes(bytes(1000))
        burn(0.3)  # the preparation
    steps, batch = int(settings["training.steps"]), int(settings.get("training.batch.tokens", 4096))
    burn(STEP * steps)
    lines = [{{"kind": "train", "tokens": batch * steps, "padding": 0.25}}, {{"kind": "valid", "loss": 1.0}}]
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\\n" for line in lines))
elif words[0] == "translate":
    assert (Path(words[1]) / "metrics.jsonl").exists(), "no model"
    output = Path(options["--output"])
    assert not output.exists()
    lines = Path(options["--input"]).read_text().splitlines()
    burn(LINE * len(lines) * int(options["--beam"]))
    translated = [line.upper() + (MARK if line.endswith("7") else "") for line in lines]
    if options.get("--format") == "jsonl":
        translated = [json.dumps({{"candidates": [{{"pieces": text.split()}}]}}) for text in translated]
    output.write_text("".join(text + "\\n" for text in translated))
"""


def write_stand_in(
    root: Path, *, step: float = 0.0, line: float = 0.0, mark: str = "", broken: str = "", git: bool = False
) -> Path:
    """A tree that takes so many CPU seconds per step and per line; `mark` is appended to lines that end in 7.

    `broken` is a command that fails.
    """
    package = root / "src" / "calque"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(MAIN.format(step=step, line=line, mark=mark, broken=broken))
    if git:
        commit(root)
    return root


def commit(root: Path) -> None:
    """Commits everything in a folder, which becomes a repository."""
    author = ("-c", "user.name=nobody", "-c", "user.email=nobody@example.org", "-c", "commit.gpgsign=false")
    for command in (("init", "-q"), ("add", "-A"), (*author, "commit", "-q", "-m", "a commit")):
        subprocess.run(["git", "-C", str(root), *command], check=True)
