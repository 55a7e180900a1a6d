"""`calque evaluate`."""

import json
import math
from pathlib import Path
from typing import Annotated

import typer

from calque.commands.inputs import choice, input_lines, refuse_unreadable
from calque.commands.rendering import one_line
from calque.commands.tagger_scores import evaluate_tagger
from calque.errors import ConfigError


def evaluate(
    model: Annotated[Path, typer.Argument(help="A run or model folder.")],
    settings: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Search settings, e.g. length_penalty=1")
    ] = None,
    *,
    source: Annotated[Path | None, typer.Option(help="Sentences, one per line (plain or .gz).")] = None,
    reference: Annotated[Path | None, typer.Option(help="Their reference translations, line by line.")] = None,
    text: Annotated[Path | None, typer.Option(help="Text, for a language model.")] = None,
    conll: Annotated[Path | None, typer.Option(help="Labelled words, for a tagger: CoNLL-U or columns.")] = None,
    columns: Annotated[str | None, typer.Option(help="With --conll: the names of its columns.")] = None,
    confusion: Annotated[Path | None, typer.Option(help="With --conll: draw which labels are confused (PNG).")] = None,
    beam: Annotated[int | None, typer.Option(min=1, help="Hypotheses kept a step.")] = None,
    output: Annotated[Path | None, typer.Option(help="Keep the translations here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    precision: Annotated[str, typer.Option(help="float32, bfloat16 or float64.")] = "float32",
) -> None:
    """Score a model on a test set.

    A translation model by BLEU, chrF, TER (sacreBLEU, with signatures), exact match and perplexity; a language model
    by its perplexity per piece, word and byte; a tagger by its accuracy and, where labels describe spans, by precision,
    recall and F1 of each type.

    Examples:

        calque evaluate runs/1 --source test.de --reference test.en

        calque evaluate runs/1 length_penalty=1 coverage=0.2 --source test.de --reference test.en

        calque evaluate runs/english --text test.txt

        calque evaluate runs/upos --conll test.conllu --confusion confusion.png
    """
    if conll is not None:
        if source or reference or settings or beam or output or text:
            raise ConfigError("--conll is for a tagger, and stands alone with --columns and --confusion")
        evaluate_tagger(
            model, conll, columns=columns, confusion=confusion, as_json=as_json, device=device, precision=precision
        )
        return
    if columns or confusion:
        raise ConfigError("--columns and --confusion go with --conll")
    if text is not None:
        if source or reference or settings or beam or output:
            raise ConfigError("--text is for a language model, and stands alone")
        _evaluate_text(model, text, as_json=as_json, device=device, precision=precision)
        return
    if source is None or reference is None:
        raise ConfigError("give --source and --reference, or, for a language model, --text, or, for a tagger, --conll")
    from calque.commands.loading import ModelPaths, refuse_idle_settings, search_of
    from calque.commands.output import refuse_output, sink
    from calque.commands.progress import counting
    from calque.data.line_counts import refuse_misaligned
    from calque.evaluation.metrics import score_translations

    refuse_unreadable(source, reference)
    refuse_output(output, source, reference)
    sources, references = _lines(source), _lines(reference)
    if len(sources) != len(references):
        refuse_misaligned(source, target=reference)
    paths = ModelPaths.chosen(model, (), None, None, device=device, precision=precision)
    translator, _ = paths.load()
    search = search_of(translator.search, settings or [], beam=beam, nbest=1, batch_tokens=None)
    refuse_idle_settings(settings or [], search=search, paths=paths)
    translations, cut = [], 0
    with counting("translating", total=len(sources)) as more:
        for translation in translator.stream(sources, search=search):
            translations.append(translation.text)
            cut += translation.source_cut
            more(1)
    if output is not None:
        with sink(output) as out:
            out.write("".join(f"{one_line(text)}\n" for text in translations).encode())
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


def _evaluate_text(model: Path, text: Path, *, as_json: bool, device: str, precision: str) -> None:
    from calque.devices import DEVICES, PRECISIONS
    from calque.engine import TextGenerator, load

    where = choice(device, DEVICES, option="--device")
    fine = choice(precision, PRECISIONS, option="--precision")
    refuse_unreadable(text)
    generator = load(model, device=where, precision=fine)
    if not isinstance(generator, TextGenerator):
        raise ConfigError(f"--text: {model} is no language model; give --source and --reference")
    found = generator.perplexity(_lines(text))
    values = {"per piece": found.per_token, "per word": found.per_word, "per byte": found.per_byte}
    counts = {"per piece": found.tokens, "per word": found.words, "per byte": found.bytes}
    if as_json:
        perplexities = {name.replace("per ", "perplexity_"): value for name, value in values.items()}
        typer.echo(json.dumps({**perplexities, "nats": found.nats, **found._asdict()}, indent=1))
        return
    for name, value in values.items():
        typer.echo(
            f"perplexity {name:10} {value:9.3f}   {counts[name]:,} {name.removeprefix('per ')}s, ends of lines counted"
        )
