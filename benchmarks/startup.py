"""How long commands take to start: medians of interleaved rounds, as differences from an empty Python.

python benchmarks/startup.py [--rounds 9]
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
            began = time.perf_counter()
            subprocess.run([sys.executable, *command], check=True, capture_output=True)
            times[name].append(time.perf_counter() - began)
    base = statistics.median(times["python -c pass"])
    for name, found in times.items():
        print(f"{name:26} {statistics.median(found):6.3f} s   {statistics.median(found) - base:+.3f} s")


if __name__ == "__main__":
    main()
