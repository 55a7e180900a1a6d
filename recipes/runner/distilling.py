"""Turns a teacher's n-best lists into a corpus for a student, in steps that `recipes.run` and distillation/run call.

    python -m recipes.runner.distilling split FOLDER --source train.en.gz --target train.de.gz --parts 4 --part 0
    python -m recipes.runner.distilling select FOLDER … --part 0 --by bleu
    python -m recipes.runner.distilling join FOLDER …

split writes FOLDER/part-N.SOURCE; a teacher translates it to part-N.tsv (`calque translate --format tsv --nbest 5`);
select writes one translation per line to part-N.TARGET; join concatenates all parts: FOLDER/train.SOURCE and
train.TARGET.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, get_args

from sacrebleu.metrics.bleu import BLEU

from recipes.runner.arguments import parser_of
from recipes.runner.files import read_lines, write_lines

Criterion = Literal["bleu", "score"]


def part_of(count: int, *, parts: int, number: int) -> slice:
    """The range of lines in one part; parts are consecutive and of almost equal size.

    >>> [part_of(10, parts=3, number=number) for number in range(3)]
    [slice(0, 3, None), slice(3, 6, None), slice(6, 10, None)]
    """
    return slice(count * number // parts, count * (number + 1) // parts)


def read_nbest(lines: Iterable[str]) -> dict[int, list[str]]:
    """Maps the number of each source line, from 1, to its translations, best first.

    Lines have three tab-separated fields: number, score and text.
    """
    translations: dict[int, list[str]] = defaultdict(list)
    for line in lines:
        number, _, text = line.split("\t", maxsplit=2)
        translations[int(number)].append(text)
    return translations


def select(candidates: Sequence[str], reference: str, *, by: Criterion, metric: BLEU) -> str:
    """The model's best translation, or the candidate most similar to the reference; ties go to the earlier one."""
    if by == "score" or len(candidates) == 1:
        return candidates[0]
    return max(candidates, key=lambda text: metric.sentence_score(text, [reference]).score)


def _main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("step", choices=("split", "select", "join"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--parts", type=int, default=1)
    parser.add_argument("--part", type=int, default=0)
    parser.add_argument("--by", choices=get_args(Criterion), default="bleu")
    parser.add_argument("--languages", nargs=2, default=("en", "de"), metavar=("SOURCE", "TARGET"))
    options = parser.parse_args()
    source, target = options.languages
    if options.step == "join":
        for language in (target, source):
            parts = [options.folder / f"part-{number}.{language}" for number in range(options.parts)]
            write_lines(options.folder / f"train.{language}", (line for part in parts for line in read_lines(part)))
        return
    sources, references = read_lines(options.source), read_lines(options.target)
    lines = part_of(len(sources), parts=options.parts, number=options.part)
    if options.step == "split":
        write_lines(options.folder / f"part-{options.part}.{source}", sources[lines])
        return
    translations = read_nbest(read_lines(options.folder / f"part-{options.part}.tsv"))
    metric = BLEU(effective_order=True, force=True)
    selected = (
        select(translations.get(number, [""]), reference, by=options.by, metric=metric)
        for number, reference in enumerate(references[lines], start=1)
    )
    write_lines(options.folder / f"part-{options.part}.{target}", selected)


if __name__ == "__main__":
    _main()
