"""Start-up time of commands: medians of interleaved rounds, relative to an empty Python program.

python -m benchmarks.startup [--rounds 9]
"""

import argparse
import statistics
import subprocess
import sys
import time

STARTS = {
    "python -c pass": ["-c", "pass"],
    "import calque": ["-c", "import calque"],
    "calque --help": ["-m", "calque", "--help"],
    "import torch": ["-c", "import torch"],
    "import calque.engine": ["-c", "import calque.engine"],
}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=9)
    rounds = arguments.parse_args().rounds
    times: dict[str, list[float]] = {name: [] for name in STARTS}
    for _ in range(rounds):
        for name, command in STARTS.items():
            started = time.perf_counter()
            subprocess.run([sys.executable, *command], check=True, capture_output=True)
            times[name].append(time.perf_counter() - started)
    base = statistics.median(times["python -c pass"])
    for name, seconds in times.items():
        print(f"{name:26} {statistics.median(seconds):6.3f} s   {statistics.median(seconds) - base:+.3f} s")


if __name__ == "__main__":
    main()
