"""Saves the scores of `calque evaluate` as JSON.

    python -m recipes.runner.evaluating RUN/result.json RUN --source test.en --reference test.de

The arguments after the file are those of `calque evaluate`.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from recipes.runner.files import write_json
from recipes.runner.scheduler import Stage


def evaluation(result: Path, run: Path, *arguments: str, name: str = "scoring") -> Stage:
    """The stage of a job that evaluates a run and writes `result`."""
    command = [sys.executable, "-m", "recipes.runner.evaluating", str(result), str(run), *arguments]
    return Stage(name, lambda: command, result)


def main(arguments: Sequence[str]) -> int:
    result, *given = arguments
    command = [sys.executable, "-m", "calque", "evaluate", *given, "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    if done.returncode == 0:
        write_json(Path(result), json.loads(done.stdout))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
