"""`calque evaluate`."""

import json
import math
from pathlib import Path
from typing import Annotated

import typer

from calque.commands.inputs import input_lines, refuse_unreadable
from calque.errors import DataError


def evaluate(
    model: Annotated[Path, typer.Argument(help="A run or model folder.")],
    source: Annotated[Path, typer.Option(help="Sentences, one a line (plain or .gz).")],
    reference: Annotated[Path, typer.Option(help="Their reference translations, line by line.")],
    beam: Annotated[int | None, typer.Option(min=1, help="Hypotheses kept a step.")] = None,
    output: Annotated[Path | None, typer.Option(help="Keep the translations here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
) -> None:
    """Translate a test set and score it: BLEU, chrF, TER (sacreBLEU, with signatures), exact match, perplexity.

    Example:

        calque evaluate runs/1 --source test.de --reference test.en
    """
    from calque.commands.choices import choice
    from calque.commands.progress import counting
    from calque.evaluation.metrics import score_translations
    from calque.translator import load

    refuse_unreadable(source, reference)
    sources, references = _lines(source), _lines(reference)
    if len(sources) != len(references):
        raise DataError(f"{source} has {len(sources):,} lines, {reference} has {len(references):,}: they must line up")
    translator = load(model, device=choice(device, ("auto", "cpu", "cuda", "mps"), option="--device"))
    search = translator.search.model_copy(update={"beam": beam} if beam else {})
    translations = []
    with counting("translating", total=len(sources)) as more:
        for translation in translator.stream(sources, search=search):
            translations.append(translation.text)
            more(1)
    if output is not None:
        output.write_text("".join(f"{line}\n" for line in translations), encoding="utf-8", newline="\n")
    scores = score_translations(translations, references)
    perplexity = math.exp(translator.loss(sources, references))
    if as_json:
        values = {name: metric._asdict() for name, metric in scores._asdict().items()}
        typer.echo(json.dumps({**values, "perplexity": perplexity, "beam": search.beam}, indent=1))
        return
    for name, metric in scores._asdict().items():
        typer.echo(f"{name.replace('_', ' '):16} {metric.value:7.2f}   {metric.signature}")
    typer.echo(f"{'perplexity':16} {perplexity:7.2f}   per piece, beam {search.beam} for the rest")


def _lines(path: Path) -> list[str]:
    """Every line of a file, whole."""
    return [line.text for line in input_lines(path, limit=1 << 20, invalid="fail")]
