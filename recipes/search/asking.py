"""What the scripts that measure a model on a corpus are asked: MODEL CORPUS OUT [--limit N] [--threads N]."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch

import calque
from calque.engine import Translator
from calque.errors import CalqueError


class Asked(NamedTuple):
    """What a script works with."""

    translator: Translator
    corpus: Path
    out: Path  # a folder that is there
    limit: int | None  # only the first so many sentences
    beams: tuple[int, ...]  # empty where the script has no such option


def asked(description: str | None, *, beams: Sequence[int] = ()) -> Asked:
    """What the command line says, the model loaded; with `beams`, --beams can choose others."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="a run or model folder")
    parser.add_argument("corpus", type=Path, help="a folder with train, val and test_2016_flickr, .en.gz and .de.gz")
    parser.add_argument("out", type=Path, help="a folder for results")
    if beams:
        parser.add_argument("--beams", type=int, nargs="+", default=beams, help="how many hypotheses are kept")
    parser.add_argument("--limit", type=int, help="only the first so many sentences")
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    if not given.corpus.is_dir():
        parser.error(f"{given.corpus}: no such folder")
    torch.set_num_threads(given.threads)
    try:
        translator = calque.load(given.model, device="cpu")
        given.out.mkdir(parents=True, exist_ok=True)
    except (CalqueError, OSError) as error:
        parser.error(str(error))
    return Asked(translator, given.corpus, given.out, given.limit, tuple(given.beams) if beams else ())
