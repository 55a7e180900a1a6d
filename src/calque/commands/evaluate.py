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
    choice_option,
    count_option,
    file_option,
    model_argument,
    model_option,
    search_argument,
)
from calque.commands.recogniser_scores import evaluate_recogniser
from calque.commands.recommender_scores import evaluate_recommender
from calque.commands.rendering import one_line
from calque.commands.retrieval_scores import POOLINGS, evaluate_retrieval
from calque.commands.tagger_scores import evaluate_tagger
from calque.errors import ConfigError, DataError

if TYPE_CHECKING:
    from calque.engine import PhraseTranslator, Translator
    from calque.search.settings import SearchConfig


def evaluate(
    model: Annotated[Path, model_argument(help="A run or model folder.")],
    settings: Annotated[list[str] | None, search_argument(help="Search settings, e.g. length_penalty=1")] = None,
    *,
    source: Annotated[Path | None, file_option(help="Sentences, one per line (plain or compressed).")] = None,
    reference: Annotated[Path | None, file_option(help="The reference translations, line by line.")] = None,
    target: Annotated[
        Path | None, file_option(help="The partners of the sources, to score sentence vectors by retrieval.")
    ] = None,
    pooling: Annotated[str | None, choice_option(choices=POOLINGS, help="With --target: as in `calque embed`.")] = None,
    text: Annotated[Path | None, file_option(help="Text, for a language model.")] = None,
    conll: Annotated[Path | None, file_option(help="Labelled words, for a tagger: CoNLL-U or columns.")] = None,
    audio: Annotated[Path | None, file_option(help="A manifest of recordings, for a speech recogniser.")] = None,
    language: Annotated[
        Path | None, model_option(help="With --audio: a language model, as in `calque transcribe`.")
    ] = None,
    images: Annotated[Path | None, file_option(help="A manifest of images and captions, for a captioner.")] = None,
    columns: Columns = None,
    confusion: Annotated[Path | None, file_option(help="With --conll: plot the confusion matrix (PNG).")] = None,
    sequences: Annotated[
        Path | None, file_option(help="Histories, for a recommender; the last item of each user is the target.")
    ] = None,
    exclude_seen: Annotated[
        bool | None,
        typer.Option("--exclude-seen/--include-seen", help="With --sequences: rank items of the history too, or not."),
    ] = None,
    beam: Annotated[int | None, count_option(help="Beam size.")] = None,
    output: Annotated[Path | None, file_option(help="Write the translations to this file.")] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A further metric: rouge, distinct or token_error_rate; repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Score a model on a test set.

    Translation models are scored by BLEU, chrF, TER (sacreBLEU, with signatures), exact match and perplexity; language
    models by perplexity per piece, word and byte; taggers by accuracy and, if the labels describe spans, by the
    precision, recall and F1 of each type; recommenders by HR@k, NDCG@k and MRR over the whole catalogue; speech
    recognisers by word and character error rates, with intervals; captioners by BLEU, chrF and exact match and, if the
    manifest has boxes, by how much attention lies inside the box of an object while it is named. With --target, the
    sentence vectors of any model are scored by retrieval: each source looks for its target among all targets, and the
    other way round; top-1, top-5 and mean reciprocal rank.

    Examples:

        calque evaluate runs/1 --source test.de --reference test.en

        calque evaluate runs/1 length_penalty=1 coverage=0.2 --source test.de --reference test.en

        calque evaluate runs/subjects --source test.body --reference test.subject --metric rouge

        calque evaluate runs/english --text test.txt

        calque evaluate runs/captions --source test.en --target test.de

        calque evaluate runs/upos --conll test.conllu --confusion confusion.png

        calque evaluate runs/beauty --sequences users.txt

        calque evaluate runs/digits --audio test.jsonl --beam 10

        calque evaluate runs/speech --audio test.jsonl --language runs/english language_weight=0.3

        calque evaluate runs/captions --images test.jsonl
    """
    if language is not None and audio is None:
        raise ConfigError("--language needs --audio, the recordings that a speech recogniser is scored on")
    if images is not None:
        if (
            any((source, reference, target, pooling, metric, sequences, audio, text, conll, columns, confusion))
            or exclude_seen is not None
        ):
            raise ConfigError("--images is for a captioner and cannot be combined with options of other tasks")
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
    if audio is not None:
        if (
            any((source, reference, target, pooling, metric, sequences, text, conll, columns, confusion))
            or exclude_seen is not None
        ):
            raise ConfigError("--audio is for a speech recogniser and cannot be combined with options of other tasks")
        evaluate_recogniser(
            model,
            audio,
            settings=settings or [],
            beam=beam,
            language=language,
            output=output,
            as_json=as_json,
            device=device,
            precision=precision,
        )
        return
    if target is not None:
        idle: dict[str, object] = {"--reference": reference, "settings": settings, "--beam": beam, "--output": output}
        idle |= {"--text": text, "--conll": conll, "--columns": columns, "--confusion": confusion, "--metric": metric}
        evaluate_retrieval(
            model,
            source=source,
            target=target,
            pooling=pooling,
            idle=[name for name, value in idle.items() if value],
            as_json=as_json,
            device=device,
            precision=precision,
        )
        return
    if pooling is not None:
        raise ConfigError("--pooling needs --source and --target, the pairs whose vectors are compared")
    is_translation = bool(source or reference or settings or beam or output or metric)
    _refuse_unknown_metrics(metric or [])
    if sequences is not None:
        if is_translation or text or conll:
            raise ConfigError("--sequences is for a recommender and cannot be combined with options for other tasks")
        evaluate_recommender(
            model, sequences, exclude_seen=exclude_seen, as_json=as_json, device=device, precision=precision
        )
        return
    if exclude_seen is not None:
        raise ConfigError("--exclude-seen and --include-seen need --sequences")
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
            "give --source and --reference for translation, --source and --target for sentence vectors, --text for a "
            "language model, --conll for a tagger, --sequences for a recommender, --audio for a speech recogniser, or "
            "--images for a captioner"
        )
    from calque.commands.statistical_models import load_statistical
    from calque.engine import is_statistical
    from calque.evaluation.perplexity import perplexity

    test = _read_test_set(source, reference, output=output)
    if is_statistical(model):
        statistical = load_statistical(model, settings or [], beam=beam, device=device, precision=precision)
        translations = _translate(statistical, test, search=statistical.search, output=output)
        beam = statistical.config.search.stack
        _print_scores(translations, test, perplexity=None, beam=beam, further=metric or [], as_json=as_json)
        return
    translator, search = _load_translator(model, settings or [], beam=beam, device=device, precision=precision)
    translations = _translate(translator, test, search=search, output=output)
    loss = perplexity(translator.loss(test.sources, test.references))
    _print_scores(translations, test, perplexity=loss, beam=search.beam, further=metric or [], as_json=as_json)


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
    if not sources:
        raise DataError(f"{source} is empty: there is nothing to evaluate")
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


def _translate(
    translator: "Translator | PhraseTranslator", test: _TestSet, *, search: "SearchConfig", output: Path | None
) -> list[str]:
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


def _refuse_unknown_metrics(names: list[str]) -> None:
    """Raises an error for an unknown --metric, and for ROUGE without its package, before anything is decoded."""
    if not names:
        return
    from calque.evaluation.further_metrics import SCORERS

    if unknown := [name for name in names if name not in SCORERS]:
        raise ConfigError(f"--metric {unknown[0]}: unknown metric; expected one of {', '.join(SCORERS)}")
    if "rouge" in names:
        SCORERS["rouge"](["a"], ["a"])


def _print_scores(
    translations: list[str],
    test: _TestSet,
    *,
    perplexity: float | None,
    beam: int,
    further: list[str],
    as_json: bool,
) -> None:
    """Prints all scores; a statistical model has no perplexity, and its beam is the size of its stacks."""
    from calque.evaluation.further_metrics import SCORERS
    from calque.evaluation.metrics import is_short_for_bleu, median_words, score_translations

    scores = score_translations(translations, test.references)._asdict()
    for name in dict.fromkeys(further):
        scores |= SCORERS[name](translations, test.references)
    words = median_words(test.references)
    if as_json:
        values = {name: metric._asdict() for name, metric in scores.items()}
        facts = {"perplexity": perplexity, "beam": beam, "median_reference_words": words}
        typer.echo(json.dumps({**values, **facts}, indent=1))
        return
    for name, metric in scores.items():
        typer.echo(f"{name.replace('_', ' '):16} {metric.value:7.2f}   {metric.signature}")
    if perplexity is not None:
        typer.echo(f"{'perplexity':16} {perplexity:7.2f}   per piece; beam {beam} for the other scores")
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
