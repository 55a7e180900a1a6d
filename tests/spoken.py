"""Small experiments of speech recognition on tones."""

from pathlib import Path
from typing import Any

from recipes.digits.tones import RATE, write_tones

Values = dict[str, Any]

QUIET = {"frequency_masks": 0, "time_masks": 0}


def recognition_values(folder: Path, *, head: str = "ctc", recordings: int = 60, **training: Any) -> Values:
    """A small recogniser of tones without augmentation or dropout, its corpora written into the folder."""
    train = write_tones(folder / "train", recordings=recordings, seed=0)
    valid = write_tones(folder / "valid", recordings=12, seed=1)
    model: Values = {
        "head": head,
        "features": 16,
        "dropout": 0.0,
        "augmentation": QUIET,
        "subsampling": {"layers": 1, "channels": 3, "dropout": 0.0},
        "encoder": {"kind": "recurrent", "layers": 1, "width": 16, "embedding": 12, "dropout": 0.0},
    }
    if head != "ctc":
        decoder = {"kind": "luong", "layers": 1, "width": 12, "embedding": 8, "dropout": 0.0, "bridge": "zero"}
        model["decoder"] = decoder
    return {
        "task": {"kind": "recognition", "rate": RATE},
        "data": {
            "train": [{"kind": "audio", "path": str(train)}],
            "valid": [{"kind": "audio", "path": str(valid)}],
        },
        "text": {"kind": "words"},
        "model": model,
        "training": {
            "steps": 12,
            "validate_every": 4,
            "checkpoint_every": 4,
            "log_every": 2,
            "threads": 1,
            "device": "cpu",
            "batch": {"tokens": 600, "workers": 0},
            "optimiser": {"learning_rate": 0.01},
            "schedule": {"warmup": 2},
            **training,
        },
    }
