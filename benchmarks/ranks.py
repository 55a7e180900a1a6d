"""How many bytes an update sends between ranks, measured on loopback, beside what a ring should send.

    python benchmarks/ranks.py [--parameters 5000000] [--updates 20]

Bytes are those that the kernel counts on the loopback interface while so many gradients are added up; Linux only.
"""

import argparse
import multiprocessing
import os
import socket
from pathlib import Path

import torch

from calque.training.distributed import joined_ranks


def loopback_bytes() -> int:
    """What the loopback interface has received so far."""
    lines = Path("/proc/net/dev").read_text(encoding="ascii").splitlines()
    return next(int(line.split(":")[1].split()[0]) for line in lines if line.strip().startswith("lo:"))


def work(rank: int, count: int, port: int, parameters: int, updates: int, told: "multiprocessing.Queue[int]") -> None:
    """One rank: gradients of a few sizes, as a model has them."""
    places = {"RANK": rank, "WORLD_SIZE": count, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in places.items()})
    torch.set_num_threads(1)
    with joined_ranks() as ranks:
        gradients = [torch.ones(parameters // 4), *[torch.ones(parameters // 400) for _ in range(300)]]
        ranks.add_up(gradients)
        ranks.wait()
        before = loopback_bytes()
        for _ in range(updates):
            ranks.any(False)
            ranks.add_up(gradients)
        ranks.wait()
        if ranks.leads:
            told.put((loopback_bytes() - before) // updates)


def measure(count: int, *, parameters: int, updates: int) -> int:
    """Bytes that all ranks together send in one update."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    told: multiprocessing.Queue[int] = context.Queue()
    processes = [
        context.Process(target=work, args=(rank, count, port, parameters, updates, told)) for rank in range(count)
    ]
    for process in processes:
        process.start()
    found = told.get(timeout=300)
    for process in processes:
        process.join()
    return found


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parameters", type=int, default=5_000_000)
    parser.add_argument("--updates", type=int, default=20)
    given = parser.parse_args()
    sent = 4 * (given.parameters // 4 + 300 * (given.parameters // 400))
    print("ranks  bytes a rank and update  a ring's 2 (R-1)/R x 4 P  ratio")
    for count in (2, 4):
        found = measure(count, parameters=given.parameters, updates=given.updates) / count
        expected = 2 * (count - 1) / count * sent
        print(f"{count:5}  {found:23,.0f}  {expected:24,.0f}  {found / expected:5.2f}")


if __name__ == "__main__":
    _main()
