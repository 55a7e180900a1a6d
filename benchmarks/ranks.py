"""Compares the bytes that an update sends between ranks, measured on loopback, with those of a ring all-reduce.

    python -m benchmarks.ranks [--parameters 5000000] [--updates 20]

Bytes are those that the kernel counts on the loopback interface while gradients are reduced; Linux only.
"""

import argparse
import multiprocessing
import os
import socket
from pathlib import Path

import torch

from calque.training.distributed import joined_ranks


def loopback_bytes() -> int:
    """Bytes received by the loopback interface so far."""
    lines = Path("/proc/net/dev").read_text(encoding="ascii").splitlines()
    return next(int(line.split(":")[1].split()[0]) for line in lines if line.strip().startswith("lo:"))


def work(
    rank: int, count: int, port: int, parameters: int, updates: int, results: "multiprocessing.Queue[int]"
) -> None:
    """The work of one rank: all-reduces gradients as large as those of a model."""
    variables = {"RANK": rank, "WORLD_SIZE": count, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in variables.items()})
    torch.set_num_threads(1)
    with joined_ranks() as ranks:
        gradients = [torch.ones(parameters // 4), *[torch.ones(parameters // 400) for _ in range(300)]]
        ranks.all_reduce(gradients)
        ranks.barrier()
        before = loopback_bytes()
        for _ in range(updates):
            ranks.any(False)
            ranks.all_reduce(gradients)
        ranks.barrier()
        if ranks.leads:
            results.put((loopback_bytes() - before) // updates)


def measure(count: int, *, parameters: int, updates: int) -> int:
    """Bytes that all ranks together send in one update."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[int] = context.Queue()
    processes = [
        context.Process(target=work, args=(rank, count, port, parameters, updates, results)) for rank in range(count)
    ]
    for process in processes:
        process.start()
    sent = results.get(timeout=300)
    for process in processes:
        process.join()
    return sent


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parameters", type=int, default=5_000_000)
    parser.add_argument("--updates", type=int, default=20)
    options = parser.parse_args()
    size = 4 * (options.parameters // 4 + 300 * (options.parameters // 400))
    print("ranks  bytes per rank, update  a ring's 2 (R-1)/R x 4 P  ratio")
    for count in (2, 4):
        sent = measure(count, parameters=options.parameters, updates=options.updates) / count
        expected = 2 * (count - 1) / count * size
        print(f"{count:5}  {sent:23,.0f}  {expected:24,.0f}  {sent / expected:5.2f}")


if __name__ == "__main__":
    _main()
