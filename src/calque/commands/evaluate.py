"""The command `calque evaluate`, which scores a model on a test set."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from calque.commands.caption_scores import evaluate_captioner
from calque.commands.column_options import Columns
from calque.commands.inputs import device_and_precision, input_lines, refuse_unreadable
from calque.commands.options import (
    Device,
    Precision,
    count_option,
    file_option,
    model_argument,
    search_argument,
)
from calque.commands.rendering import one_line
from calque.commands.tagger_scores import evaluate_tagger
from calque.errors import ConfigError, DataError

if TYPE_CHECKING:
    from calque.engine import Translator
    from calque.search.settings import SearchConfig


def evaluate(
    model: Annotated[Path, model_argument(help="A run or model folder.")],
    settings: Annotated[list[str] | None, search_argument(help="Search settings, e.g. length_penalty=1")] = None,
    *,
    source: Annotated[Path | None, file_option(help="Sentences, one per line (plain or compressed).")] = None,
    reference: Annotated[Path | None, file_option(help="The reference translations, line by line.")] = None,
    text: Annotated[Path | None, file_option(help="Text, for a language model.")] = None,
    conll: Annotated[Path | None, file_option(help="Labelled words, for a tagger: CoNLL-U or columns.")] = None,
    images: Annotated[Path | None, file_option(help="A manifest of images and captions, for a captioner.")] = None,
    columns: Columns = None,
    confusion: Annotated[Path | None, file_option(help="With --conll: plot the confusion matrix (PNG).")] = None,
    beam: Annotated[int | None, count_option(help="Beam size.")] = None,
    output: Annotated[Path | None, file_option(help="Write the translations to this file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Score a model on a test set.

    Translation models are scored by BLEU, chrF, TER (sacreBLEU, with signatures), exact match and perplexity; language
    models by perplexity per piece, word and byte; taggers by accuracy and, if the labels describe spans, by the
    precision, recall and F1 of each type; captioners by BLEU, chrF and exact match and, if the manifest has boxes, by
    how much attention lies inside the box of an object while it is named.

    Examples:

        calque evaluate runs/1 --source test.de --reference test.en

        calque evaluate runs/1 length_penalty=1 coverage=0.2 --source test.de --reference test.en

        calque evaluate runs/english --text test.txt

        calque evaluate runs/upos --conll test.conllu --confusion confusion.png

        calque evaluate runs/captions --images test.jsonl
    """
    if images is not None:
        if source or reference or text or conll or columns or confusion:
            raise ConfigError("--images is for a captioner and cannot be combined with the files of other tasks")
        evaluate_captioner(
            model,
            images,
            settings or [],
            beam=beam,
            output=output,
            as_json=as_json,
            device=device,
            precision=precision,
        )
        return
    is_translation = bool(source or reference or settings or beam or output)
    if conll is not None:
        if is_translation or text:
            raise ConfigError("--conll is for a tagger and cannot be combined with --text or options for translation")
        evaluate_tagger(
            model, conll, columns=columns, confusion=confusion, as_json=as_json, device=device, precision=precision
        )
        return
    if columns or confusion:
        raise ConfigError("--columns and --confusion need --conll")
    if text is not None:
        if is_translation:
            raise ConfigError("--text is for a language model and cannot be combined with options for translation")
        _evaluate_text(model, text, as_json=as_json, device=device, precision=precision)
        return
    if source is None or reference is None:
        raise ConfigError(
            "give --source and --reference for translation, --text for a language model, --conll for a tagger, or "
            "--images for a captioner"
        )
    test = _read_test_set(source, reference, output=output)
    translator, search = _load_translator(model, settings or [], beam=beam, device=device, precision=precision)
    translations = _translate(translator, test, search=search, output=output)
    _print_scores(translator, translations, test, search=search, as_json=as_json)


class _TestSet(NamedTuple):
    """The path of a test set's source file, and the lines of its source and reference files."""

    path: Path
    sources: list[str]
    references: list[str]


def _read_test_set(source: Path, reference: Path, *, output: Path | None) -> _TestSet:
    from calque.commands.output import refuse_output
    from calque.data.line_counts import refuse_misaligned

    refuse_unreadable(source, reference)
    refuse_output(output, source, reference)
    sources, references = _lines(source), _lines(reference)
    if len(sources) != len(references):
        refuse_misaligned(source, target=reference)
    return _TestSet(source, sources, references)


def _load_translator(
    model: Path, settings: list[str], *, beam: int | None, device: str, precision: str
) -> "tuple[Translator, SearchConfig]":
    from calque.commands.loading import ModelPaths, load_to_evaluate, refuse_idle_settings, search_of
    from calque.engine import Translator

    paths = ModelPaths.from_options(model, (), None, None, device=device, precision=precision)
    translator = load_to_evaluate(model, Translator, device=paths.device, precision=paths.precision)
    search = search_of(translator.search, settings, beam=beam, nbest=1, batch_tokens=None)
    refuse_idle_settings(settings, search=search, paths=paths)
    return translator, search


def _translate(translator: "Translator", test: _TestSet, *, search: "SearchConfig", output: Path | None) -> list[str]:
    """The translations of the test set, written to `output` if it is given."""
    from calque.commands.output import sink
    from calque.commands.progress import counting

    translations, cut = [], 0
    with counting("translating", total=len(test.sources)) as advance:
        for translation in translator.stream(test.sources, search=search):
            translations.append(translation.text)
            cut += translation.source_cut
            advance(1)
    if output is not None:
        with sink(output) as out:
            out.write("".join(f"{one_line(text)}\n" for text in translations).encode())
    if cut:
        limit = search.source_limit
        typer.echo(
            f"{test.path}: {cut:,} lines are too long; only the first {limit} pieces of each were read", err=True
        )
    return translations


def _print_scores(
    translator: "Translator", translations: list[str], test: _TestSet, *, search: "SearchConfig", as_json: bool
) -> None:
    from calque.evaluation.metrics import is_short_for_bleu, median_words, score_translations
    from calque.evaluation.perplexity import perplexity

    scores = score_translations(translations, test.references)
    per_piece = perplexity(translator.loss(test.sources, test.references))
    words = median_words(test.references)
    if as_json:
        values = {name: metric._asdict() for name, metric in scores._asdict().items()}
        further = {"perplexity": per_piece, "beam": search.beam, "median_reference_words": words}
        typer.echo(json.dumps({**values, **further}, indent=1))
        return
    for name, metric in scores._asdict().items():
        typer.echo(f"{name.replace('_', ' '):16} {metric.value:7.2f}   {metric.signature}")
    typer.echo(f"{'perplexity':16} {per_piece:7.2f}   per piece; beam {search.beam} for the other scores")
    if is_short_for_bleu(words):
        unit = "word" if words == 1 else "words"
        typer.echo(
            f"BLEU is meaningless here: it counts sequences of up to 4 words, and the median reference has {words:g} "
            f"{unit}; read exact match and chrF instead",
            err=True,
        )


def _lines(path: Path) -> list[str]:
    """Every line of a file; a line is cut at 1 MiB, which is far more than a model reads."""
    return [line.text for line in input_lines(path, limit=1 << 20, invalid="fail")]


def _whole_lines(path: Path) -> list[str]:
    """The lines of a text; raises an error for a line that would be cut, as this would change the perplexity."""
    from calque.data.corpora import RUNNING_LIMIT

    lines = list(input_lines(path, limit=RUNNING_LIMIT, invalid="fail"))
    if long := [line.number for line in lines if line.cut]:
        raise DataError(f"{path}: line {long[0]:,} has more than {RUNNING_LIMIT >> 20} MiB; split it")
    return [line.text for line in lines]


def _evaluate_text(model: Path, text: Path, *, as_json: bool, device: str, precision: str) -> None:
    from calque.commands.loading import load_to_evaluate
    from calque.engine import TextGenerator

    device_name, precision_name = device_and_precision(device, precision)
    refuse_unreadable(text)
    generator = load_to_evaluate(model, TextGenerator, device=device_name, precision=precision_name)
    result = generator.perplexity(_whole_lines(text))
    values = {"per piece": result.per_token, "per word": result.per_word, "per byte": result.per_byte}
    counts = {"per piece": result.tokens, "per word": result.words, "per byte": result.bytes}
    if as_json:
        perplexities = {name.replace("per ", "perplexity_"): value for name, value in values.items()}
        typer.echo(json.dumps({**perplexities, "nats": result.nats, **result._asdict()}, indent=1))
        return
    for name, value in values.items():
        unit = name.removeprefix("per ")
        typer.echo(f"perplexity {name:10} {value:9.3f}   {counts[name]:,} {unit}s, line ends counted")
