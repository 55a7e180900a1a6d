"""The error rates of word alignment by IBM Model 1 and the HMM, on the pairs that attention is measured on.

python -m recipes.alignment.statistical OUT [--keep statistical.json] [--write README.md]

The models learn from the training pairs and the test pairs of the phrasebook together, as aligners do: they are given
text to align and no alignments. `calque align` does the work.
"""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from calque.evaluation.alignment import alignment_error_rate
from recipes.alignment.align import TESTED, read_links
from recipes.alignment.run import write_book
from recipes.runner.files import read_lines, write_lines
from recipes.runner.pages import publish, report_parser, table

BOOKS = {"de-en": "book", "zh-en": "book-zh"}
MODELS = {"ibm1": "IBM 1", "hmm": "HMM"}
METHODS = ("forward", "backward", "intersection", "union", "grow-diag", "grow-diag-final-and")


def collect(out: Path) -> dict[str, Any]:
    """The error rates by languages, model and symmetrisation; the corpora are written first if they do not exist."""
    results: dict[str, Any] = {}
    for name, folder in BOOKS.items():
        source, target = name.split("-")
        write_book(out / folder, languages=(source, target))
        references = [read_links(line) for line in read_lines(out / folder / "test.align")[:TESTED]]
        with TemporaryDirectory() as temporary:
            files = {language: Path(temporary) / language for language in (source, target)}
            for language, path in files.items():
                test, train = (read_lines(out / folder / f"{part}.{language}") for part in ("test", "train"))
                write_lines(path, [*test[:TESTED], *train])
            results[name] = {
                model: {
                    method: alignment_error_rate(
                        _align(files[source], files[target], model=model, method=method)[:TESTED], references
                    )
                    for method in METHODS
                }
                for model in MODELS
            }
    return results


def page(results: dict[str, Any]) -> str:
    """A row for each pair of languages and each model, with the error rate of every symmetrisation in per cent."""
    rows = [
        [name, MODELS[model], *(f"{100 * rates[method]:.1f}" for method in METHODS)]
        for name, models in results.items()
        for model, rates in models.items()
    ]
    return table(["languages", "model", *METHODS], rows)


def _align(source: Path, target: Path, *, model: str, method: str) -> list[list[tuple[int, int]]]:
    """The links that `calque align` finds in each pair."""
    command = ["align", "--source", str(source), "--target", str(target), "--model", model, "--symmetrise", method]
    done = subprocess.run([sys.executable, "-m", "calque", *command], check=True, capture_output=True, text=True)
    return [read_links(line) for line in done.stdout.split("\n")[:-1]]


def main() -> None:
    """Prints, keeps and writes the table."""
    options = report_parser(__doc__).parse_args()
    if not options.path.is_file():
        options.path.mkdir(parents=True, exist_ok=True)
    publish(options, collect=collect, page=page, name="statistical")


if __name__ == "__main__":
    main()
