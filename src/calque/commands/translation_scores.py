"""`calque evaluate --source --reference`: scores a model's translations of a test set against references."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from calque.commands.inputs import input_lines, refuse_unreadable
from calque.commands.rendering import one_line
from calque.errors import ConfigError, DataError

if TYPE_CHECKING:
    from calque.engine import PhraseTranslator, Translator
    from calque.search.settings import SearchConfig


class TranslationTest(NamedTuple):
    """The path of a test set's source file, and the lines of the source and reference files."""

    path: Path
    sources: list[str]
    references: list[str]


def evaluate_translation(
    model: Path,
    *,
    source: Path | None,
    reference: Path | None,
    settings: list[str],
    beam: int | None,
    output: Path | None,
    metric: list[str],
    as_json: bool,
    device: str,
    precision: str,
) -> None:
    """Prints the scores of the translations of a file, and writes the translations to `output` if it is given."""
    from calque.commands.statistical_models import load_statistical
    from calque.engine import is_statistical
    from calque.evaluation.perplexity import perplexity

    _refuse_unknown_metrics(metric)
    if source is None or reference is None:
        raise ConfigError(
            "the test set is missing or incomplete; give --source and --reference for translation, --source and "
            "--target for sentence vectors, --text for a language model, --conll for a tagger, --sequences for a "
            "recommender, --audio for a speech recogniser, or --images for a captioner"
        )
    test = _read_test_set(source, reference, output=output)
    if is_statistical(model):
        statistical = load_statistical(model, settings, beam=beam, device=device, precision=precision)
        translations = _translate(statistical, test, search=statistical.search, output=output)
        beam = statistical.config.search.stack
        _print_scores(translations, test, perplexity=None, beam=beam, further=metric, as_json=as_json)
        return
    translator, search = _load_translator(model, settings, beam=beam, device=device, precision=precision)
    translations = _translate(translator, test, search=search, output=output)
    loss = perplexity(translator.loss(test.sources, test.references))
    _print_scores(translations, test, perplexity=loss, beam=search.beam, further=metric, as_json=as_json)


def _read_test_set(source: Path, reference: Path, *, output: Path | None) -> TranslationTest:
    from calque.commands.output import refuse_output
    from calque.data.line_counts import refuse_misaligned

    refuse_unreadable(source, reference)
    refuse_output(output, source, reference)
    sources, references = _lines(source), _lines(reference)
    if len(sources) != len(references):
        refuse_misaligned(source, target=reference)
    if not sources:
        raise DataError(f"{source} is empty, so there is nothing to evaluate")
    return TranslationTest(source, sources, references)


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
    translator: "Translator | PhraseTranslator", test: TranslationTest, *, search: "SearchConfig", output: Path | None
) -> list[str]:
    """Translates the test set, and writes the translations to `output` if it is given."""
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
    """Raises an error, before translating, for an unknown --metric or if the package for ROUGE is missing."""
    if not names:
        return
    from calque.evaluation.further_metrics import SCORERS

    if unknown := [name for name in names if name not in SCORERS]:
        raise ConfigError(f"--metric {unknown[0]}: unknown metric; expected one of {', '.join(SCORERS)}")
    if "rouge" in names:
        SCORERS["rouge"](["a"], ["a"])


def _print_scores(
    translations: list[str],
    test: TranslationTest,
    *,
    perplexity: float | None,
    beam: int,
    further: list[str],
    as_json: bool,
) -> None:
    """Prints all scores; for a statistical model, `perplexity` is None and `beam` is the size of its stacks."""
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
    """The lines of a file, each cut at 1 MiB, which is far more than a model reads."""
    return [line.text for line in input_lines(path, limit=1 << 20, invalid="fail")]
