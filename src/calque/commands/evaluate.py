"""`calque evaluate`."""

import json
import math
from pathlib import Path
from typing import Annotated

import typer

from calque.commands.inputs import input_lines, refuse_unreadable


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
    from calque.commands.company import refuse_sourceless
    from calque.commands.progress import counting
    from calque.data.alignment import refuse_misaligned
    from calque.evaluation.metrics import score_translations
    from calque.translator import load

    refuse_unreadable(source, reference)
    sources, references = _lines(source), _lines(reference)
    if len(sources) != len(references):
        refuse_misaligned(source, target=reference)
    translator = load(model, device=choice(device, ("auto", "cpu", "cuda", "mps"), option="--device"))
    refuse_sourceless(translator, path=model)
    search = translator.search.model_copy(update={"beam": beam} if beam else {})
    translations, cut = [], 0
    with counting("translating", total=len(sources)) as more:
        for translation in translator.stream(sources, search=search):
            translations.append(translation.text)
            cut += translation.source_cut
            more(1)
    if output is not None:
        output.write_text("".join(f"{line}\n" for line in translations), encoding="utf-8", newline="\n")
    if cut:
        typer.echo(
            f"{source}: {cut:,} lines are too long; only {search.source_limit} pieces of each were read", err=True
        )
    scores = score_translations(translations, references)
    perplexity = math.exp(min(translator.loss(sources, references), 700.0))
    if as_json:
        values = {name: metric._asdict() for name, metric in scores._asdict().items()}
        typer.echo(json.dumps({**values, "perplexity": perplexity, "beam": search.beam}, indent=1))
        return
    for name, metric in scores._asdict().items():
        typer.echo(f"{name.replace('_', ' '):16} {metric.value:7.2f}   {metric.signature}")
    typer.echo(f"{'perplexity':16} {perplexity:7.2f}   per piece, beam {search.beam} for the rest")


def _lines(path: Path) -> list[str]:
    """Every line of a file, up to 1 MiB of each: far more than a model reads."""
    return [line.text for line in input_lines(path, limit=1 << 20, invalid="fail")]
