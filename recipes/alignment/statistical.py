"""The error rates of word alignment by IBM Models 1 and 2 and the HMM, on the pairs that attention is measured on.

python -m recipes.alignment.statistical OUT [--keep statistical.json] [--write README.md]

The models learn from the training pairs and the test pairs of the phrasebook together, as aligners do: they are given
text to align and no alignments. `calque align` with the same model finds the same links. If eflomal is installed (`pip
install eflomal` needs a C compiler), its links are measured too: a Bayesian IBM 1, HMM and fertility model (Östling and
Tiedemann 2016), with its default settings.
"""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from calque.data.corpora import FilesConfig
from calque.evaluation.alignment import alignment_error_rate
from calque.inspection.attention_maps import MEAN
from calque.statistics.symmetrisation import Symmetrisation, symmetrise
from calque.statistics.text_pairs import TextPairs, read_text_pairs
from calque.statistics.word_alignment import AlignmentSettings, Link, align_words
from recipes.alignment.align import TESTED, read_links
from recipes.alignment.report import rates_of, runs_of
from recipes.alignment.run import ENTRIES, write_book
from recipes.runner.files import read_json, read_lines, write_lines
from recipes.runner.pages import publish, report_parser, table

BOOKS = {"de-en": "book", "zh-en": "book-zh"}
MODELS: dict[str, tuple[str, AlignmentSettings]] = {
    "ibm1": ("IBM 1", AlignmentSettings("ibm1")),
    "ibm2": ("IBM 2, diagonal", AlignmentSettings("ibm2")),
    "ibm2-bayes": ("IBM 2, diagonal, variational Bayes", AlignmentSettings("ibm2", dirichlet=0.01)),
    "hmm": ("HMM", AlignmentSettings("hmm")),
}
"""The name of each model in the table, and its settings."""
EFLOMAL = "eflomal"
ATTENTION = Path(__file__).with_name("results.json")  # written by recipes.alignment.report
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
        results[name] = {
            model: error_rates(directions(pairs, settings, count=len(gold)), gold)
            for model, (_, settings) in MODELS.items()
        }
        if find_spec(EFLOMAL) is not None:
            results[name][EFLOMAL] = error_rates(eflomal_directions(pairs, count=len(gold)), gold)
    return results


Directions = list[tuple[set[Link], set[Link]]]
"""The forward and the backward links of each pair."""


def directions(pairs: TextPairs, settings: AlignmentSettings, *, count: int) -> Directions:
    """The links of the first `count` pairs in each direction, found by models trained on all pairs."""
    forward = align_words(pairs.source, pairs.target, settings=settings)
    backward = align_words(pairs.target, pairs.source, settings=settings)
    return [
        (set(forward.links(pair)), {(source, target) for target, source in backward.links(pair)})
        for pair in range(count)
    ]


def eflomal_directions(pairs: TextPairs, *, count: int) -> Directions:
    """The links that eflomal finds for the first `count` pairs in each direction, given all pairs."""
    sides = ((pairs.source, pairs.source_words), (pairs.target, pairs.target_words))
    texts = [[" ".join(words[id] for id in column.row(n)) for n in range(len(pairs))] for column, words in sides]
    with TemporaryDirectory() as folder:
        paths = [str(Path(folder) / name) for name in ("forward", "backward")]
        import_module(EFLOMAL).Aligner().align(*texts, links_filename_fwd=paths[0], links_filename_rev=paths[1])
        forward, backward = (read_lines(Path(path)) for path in paths)
    return [(set(read_links(forward[pair])), set(read_links(backward[pair]))) for pair in range(count)]


def error_rates(links: Directions, gold: list[list[Link]]) -> dict[str, float]:
    """The error rate of each symmetrisation, given the true alignments."""
    return {
        method: alignment_error_rate([sorted(symmetrise(*pair, method=method)) for pair in links], gold)
        for method in METHODS
    }


def page(results: dict[str, Any], *, attention: dict[str, Any] | None = None) -> str:
    """The table, one row per language pair and model, with the error rate of every symmetrisation in per cent.

    `attention` has the results of recipes.alignment.report, by default those kept next to this file; they are for
    German and English, and in the forward direction.
    """
    names = {model: name for model, (name, _) in MODELS.items()}
    rows = [
        [languages, names.get(model, model), *(f"{100 * rates[method]:.1f}" for method in METHODS)]
        for languages, models in results.items()
        for model, rates in models.items()
    ]
    attended = attention_rows(read_json(ATTENTION) if attention is None else attention)
    rows += [["de-en", name, rate, *[""] * (len(METHODS) - 1)] for name, rate in attended]
    rows.sort(key=lambda row: row[0])  # stable
    return table(["languages", "model", *METHODS], rows)


def attention_rows(results: dict[str, Any]) -> list[tuple[str, str]]:
    """The name and error rate of the attention of each neural system, as it is and guided, given their results."""
    return [
        (
            f"attention of {entry.system}{', guided by true alignments' if kind == 'guided' else ''}",
            rates_of(runs, MEAN),
        )
        for entry in ENTRIES
        for kind in ("own", "guided")
        if (runs := runs_of(results, f"{entry.system}-{kind}-"))
    ]


def _read(book: Path, source: str, target: str) -> TextPairs:
    """The first test pairs of a phrasebook, followed by its training pairs."""
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
