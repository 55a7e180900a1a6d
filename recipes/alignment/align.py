"""Aligns the test pairs of a phrasebook by a model's attention, and scores the alignments.

python -m recipes.alignment.align RUN BOOK [--device cuda]
"""

from collections.abc import Sequence
from pathlib import Path

from calque import Translator
from calque.engine import Request, load_translator
from calque.evaluation.alignment import Link, align, alignment_error_rate
from calque.inspection.translation import inspect_translation
from recipes.alignment.run import LANGUAGES, RESULT
from recipes.runner.arguments import parser_of
from recipes.runner.files import read_lines, write_json

TESTED = 300


def read_links(line: str) -> list[Link]:
    """The links of a line in Pharaoh format."""
    pairs = (link.split("-") for link in line.split())
    return [(int(source), int(target)) for source, target in pairs]


def alignments(translator: Translator, sources: Sequence[str], targets: Sequence[str]) -> dict[str, list[list[Link]]]:
    """The alignments of all pairs by the attention of each layer, and by the mean attention that the model outputs."""
    by_layer: dict[str, list[list[Link]]] = {}
    for source, target in zip(sources, targets, strict=True):
        view = inspect_translation(translator, Request(source), target=target, saliency=False)
        for item in view.maps:
            if item.kind == "source":
                weights = item.weights.mean(dim=0)
                links = align(weights, source_words=view.source_words, target_words=view.target_words)
                by_layer.setdefault(item.name, []).append(links)
    return by_layer


def main() -> None:
    """Aligns the test pairs and writes the error rates of a run."""
    parser = parser_of(__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("book", type=Path)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    translator = load_translator(options.run, device=options.device)
    source, target, gold = (read_lines(options.book / f"test.{end}")[:TESTED] for end in (*LANGUAGES, "align"))
    references = [read_links(line) for line in gold]
    rates = {
        name: alignment_error_rate(links, references) for name, links in alignments(translator, source, target).items()
    }
    exact = sum(a == b for a, b in zip(translator.translate(source), target, strict=True)) / len(target)
    write_json(options.run / RESULT, {"rates": rates, "exact": exact, "pairs": len(target)})


if __name__ == "__main__":
    main()
