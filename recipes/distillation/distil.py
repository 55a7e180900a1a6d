"""The steps between a teacher's n-best lists and a corpus for a student; recipes/run.py calls them.

    python recipes/distillation/distil.py cut FOLDER --source train.en.gz --target train.de.gz --parts 4 --part 0
    python recipes/distillation/distil.py pick FOLDER … --part 0 --pick bleu
    python recipes/distillation/distil.py join FOLDER …

cut writes FOLDER/part-N.SOURCE; a teacher makes part-N.tsv of it (`calque translate --format tsv --nbest 5`); pick
writes one translation a line to part-N.TARGET; join puts all parts together: FOLDER/train.SOURCE and train.TARGET.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, get_args

from sacrebleu.metrics.bleu import BLEU

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from judge import read_lines

Pick = Literal["bleu", "score"]


def part_of(count: int, *, parts: int, number: int) -> slice:
    """The lines of one part; parts are as equal as can be, in order.

    >>> [part_of(10, parts=3, number=number) for number in range(3)]
    [slice(0, 3, None), slice(3, 6, None), slice(6, 10, None)]
    """
    return slice(count * number // parts, count * (number + 1) // parts)


def read_nbest(lines: Iterable[str]) -> dict[int, list[str]]:
    """The translations of each line, from 1, the best first, of lines `number, score, text` with tabs between."""
    found: dict[int, list[str]] = defaultdict(list)
    for line in lines:
        number, _, text = line.split("\t", maxsplit=2)
        found[int(number)].append(text)
    return found


def pick(candidates: Sequence[str], reference: str, *, by: Pick, metric: BLEU) -> str:
    """The best by the model, or the one most like the reference; the earlier one among equals."""
    if by == "score" or len(candidates) == 1:
        return candidates[0]
    return max(candidates, key=lambda text: metric.sentence_score(text, [reference]).score)


def _write(path: Path, lines: Iterable[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    temporary.replace(path)


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("cut", "pick", "join"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--pick", choices=get_args(Pick), default="bleu")
    parser.add_argument("--languages", nargs=2, default=("en", "de"), metavar=("SOURCE", "TARGET"))
    given = parser.parse_args()
    source, target = given.languages
    if given.what == "join":
        for language in (target, source):
            parts = [given.folder / f"part-{number}.{language}" for number in range(given.parts)]
            _write(given.folder / f"train.{language}", (line for part in parts for line in read_lines(part)))
        return
    sources, references = read_lines(given.source), read_lines(given.target)
    lines = part_of(len(sources), parts=given.parts, number=given.part)
    if given.what == "cut":
        _write(given.folder / f"part-{given.part}.{source}", sources[lines])
        return
    found = read_nbest(read_lines(given.folder / f"part-{given.part}.tsv"))
    metric = BLEU(effective_order=True, force=True)
    chosen = (
        pick(found.get(number, [""]), reference, by=given.pick, metric=metric)
        for number, reference in enumerate(references[lines], start=1)
    )
    _write(given.folder / f"part-{given.part}.{target}", chosen)


if __name__ == "__main__":
    _main()
