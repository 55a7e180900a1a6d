"""The error rates of word alignment by IBM Model 1 and the HMM, on the pairs that attention is measured on.

python -m recipes.alignment.statistical OUT [--keep statistical.json] [--write README.md]

The models learn from the training pairs and the test pairs of the phrasebook together, as aligners do: they are given
text to align and no alignments. `calque align` with its default settings finds the same links.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from calque.data.corpora import FilesConfig
from calque.evaluation.alignment import alignment_error_rate
from calque.statistics.symmetrisation import Symmetrisation, symmetrise
from calque.statistics.text_pairs import TextPairs, read_text_pairs
from calque.statistics.word_alignment import AlignmentSettings, Link, ModelName, align_words
from recipes.alignment.align import TESTED, read_links
from recipes.alignment.run import write_book
from recipes.runner.files import read_lines, write_lines
from recipes.runner.pages import publish, report_parser, table

BOOKS = {"de-en": "book", "zh-en": "book-zh"}
MODELS: dict[ModelName, str] = {"ibm1": "IBM 1", "hmm": "HMM"}
METHODS: tuple[Symmetrisation, ...] = (
    "forward",
    "backward",
    "intersection",
    "union",
    "grow-diag",
    "grow-diag-final-and",
)


def collect(out: Path) -> dict[str, Any]:
    """The error rates by languages, model and symmetrisation; the corpora are written first if they do not exist."""
    results: dict[str, Any] = {}
    for name, folder in BOOKS.items():
        source, target = name.split("-")
        book = out / folder
        write_book(book, languages=(source, target))
        pairs = _read(book, source, target)
        gold = [read_links(line) for line in read_lines(book / "test.align")[:TESTED]]
        results[name] = {model: error_rates(pairs, gold, model=model) for model in MODELS}
    return results


def error_rates(pairs: TextPairs, gold: list[list[Link]], *, model: ModelName) -> dict[str, float]:
    """The error rate of each symmetrisation on the first pairs, whose true alignments are given."""
    settings = AlignmentSettings(model)
    forward = align_words(pairs.source, pairs.target, settings=settings)
    backward = align_words(pairs.target, pairs.source, settings=settings)
    directions = [
        (set(forward.links(pair)), {(source, target) for target, source in backward.links(pair)})
        for pair in range(len(gold))
    ]
    return {
        method: alignment_error_rate([sorted(symmetrise(*links, method=method)) for links in directions], gold)
        for method in METHODS
    }


def page(results: dict[str, Any]) -> str:
    """A row for each pair of languages and each model, with the error rate of every symmetrisation in per cent."""
    rows = [
        [name, MODELS[model], *(f"{100 * results[name][model][method]:.1f}" for method in METHODS)]
        for name in results
        for model in MODELS
    ]
    return table(["languages", "model", *METHODS], rows)


def _read(book: Path, source: str, target: str) -> TextPairs:
    """The first test pairs of a phrasebook, and after them its training pairs."""
    with TemporaryDirectory() as folder:
        files = {language: Path(folder) / language for language in (source, target)}
        for language, path in files.items():
            test, train = (read_lines(book / f"{part}.{language}") for part in ("test", "train"))
            write_lines(path, [*test[:TESTED], *train])
        return read_text_pairs(FilesConfig(source=files[source], target=files[target]))


def main() -> None:
    """Prints the table, saves the results, and writes the table into a page."""
    options = report_parser(__doc__).parse_args()
    if not options.path.is_file():
        options.path.mkdir(parents=True, exist_ok=True)
    publish(options, collect=collect, page=page, name="statistical")


if __name__ == "__main__":
    main()
