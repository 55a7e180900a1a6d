"""Random streams: each purpose of a run has its own, a function of the run's seed."""

import hashlib


def stream_seed(seed: int, purpose: str) -> int:
    """A seed of 63 bits for one purpose of a run: streams of different purposes are unrelated."""
    digest = hashlib.sha256(f"{seed}/{purpose}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1
