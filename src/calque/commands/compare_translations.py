"""`calque compare --source --reference`: compares translation models, or files of translations."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from calque.commands import compared_systems
from calque.commands.compare_task import ComparisonRequest, Document, TaskComparison
from calque.commands.compare_translation_tables import translation_tables
from calque.commands.compared_systems import Argument, Options, corpus_texts, read_lines, translate
from calque.errors import ConfigError

if TYPE_CHECKING:
    from calque.data.corpora import Corpus
    from calque.evaluation.comparison.translations import EvaluationSet, Settings, System, Training, WordLabels

METRICS = ("bleu", "chrf", "ter")
"""The metrics of calque.evaluation.segment_statistics, which is not imported here because it imports sacreBLEU."""


def compare_translation_systems(request: ComparisonRequest) -> Document:
    """Compares translations and returns a JSON document; models translate the test set first."""
    from calque.commands.progress import preparing
    from calque.evaluation.comparison.translations import EvaluationSet, compare_translations

    arguments, options = request.arguments, request.options
    source, reference = request.files.get("--source"), request.files["--reference"]
    corpora = _pair_corpora(request.train_source, request.train_target) if request.training_data else []
    settings = translation_settings(request)
    facts = {"source": None if source is None else str(source), "reference": str(reference)}
    sources, labels_of_sentences = (
        None if path is None else read_lines(path) for path in (source, request.sentence_labels)
    )
    test = EvaluationSet(read_lines(reference), sources, facts, labels_of_sentences)
    systems = _read_systems(arguments, test, options=options)
    labels = None if request.tagger is None else _label_words(request.tagger, test, systems, options=options)
    with preparing() as progress:
        training = _count_training(arguments, test, systems, corpora=corpora, progress=progress)
        return compare_translations(
            test, systems, settings=settings, training=training, labels=labels, progress=progress
        )


def translation_settings(request: ComparisonRequest) -> "Settings":
    """The metrics and tests of a comparison of texts with references."""
    from calque.evaluation.comparison.translations import Settings
    from calque.evaluation.segment_statistics import metric_names

    names = metric_names([name.strip().lower() for name in request.metrics.split(",") if name.strip()])
    if not names:
        raise ConfigError(f"--metric is empty: choose from {', '.join(METRICS)}")
    return Settings(
        names, {"bootstrap": request.bootstrap, "randomisation": request.options.randomisation}, request.sentences
    )


def _pair_corpora(sources: list[Path] | None, targets: list[Path] | None) -> "list[Corpus] | None":
    """The corpora of --train-source and --train-target; None if neither is given."""
    from calque.data.corpora import FilesConfig

    if not sources and not targets:
        return None
    if len(sources or ()) != len(targets or ()):
        raise ConfigError("--train-source and --train-target must name the same number of files")
    return [FilesConfig(source=left, target=right) for left, right in zip(sources or (), targets or (), strict=True)]


def _read_systems(arguments: Sequence[Argument], test: "EvaluationSet", *, options: Options) -> "list[System]":
    """Returns the systems with their translations; problems with files are reported before any model translates."""
    from calque.evaluation.comparison.translations import System, check_systems

    if test.sources is None and (models := [str(item.path) for item in arguments if not item.is_file]):
        raise ConfigError(
            f"--source is missing: {', '.join(models)} must translate it; only systems given as output files need no "
            "source"
        )
    files = {item.name: read_lines(item.path) for item in arguments if item.is_file}
    size = len(test.references)
    check_systems(test, [System(item.name, files.get(item.name, [""] * size)) for item in arguments])
    _refuse_blank(files)
    systems = []
    for item in arguments:
        texts, facts = translate(
            item, test.sources or [], beam=options.beam, device=options.device, precision=options.precision
        )
        systems.append(System(item.name, texts, item.group, facts))
    return systems


def _refuse_blank(files: dict[str, list[str]]) -> None:
    blank = [name for name, lines in files.items() if not any(line.strip() for line in lines)]
    if blank:
        raise ConfigError("\n".join(f"{name}: every line is blank; expected the output of a system" for name in blank))


def _count_training(
    arguments: Sequence[Argument],
    test: "EvaluationSet",
    systems: "Sequence[System]",
    *,
    corpora: "list[Corpus] | None",
    progress: Callable[[str, int, int], None],
) -> "Training | None":
    """Counts the test set's words in the training data, and finds the test set's n-grams and sources that occur there.

    The training data is `corpora` or, if that is None, the data of the first compared run whose data is recorded and
    still exists. Returns None if there is no training data.
    """
    from calque.data.corpora import PairCorpus, paths
    from calque.evaluation.comparison.training_overlap import count_training
    from calque.evaluation.comparison.translations import EvaluationWords, Training
    from calque.evaluation.comparison.words import WordSplitter

    origin = "" if corpora is None else ", ".join(str(path) for item in corpora for path in paths(item).values())
    if corpora is None and (recorded := compared_systems.training_data(arguments)):
        data, origin = recorded
        corpora = list(data.train)
    pairs = [corpus for corpus in corpora or () if isinstance(corpus, PairCorpus)]
    if not pairs:
        return None
    words = EvaluationWords.of(test, systems)
    rows = ((texts[0], texts[1]) for texts in _counted(corpus_texts(pairs), progress))
    counts = count_training(
        rows,
        sources=words.sources,
        words=words.targets,
        source_splitter=WordSplitter(test.sources or test.references),
        target_splitter=WordSplitter(test.references),
    )
    return Training(counts, origin)


def _counted(rows: Iterator[tuple[str, ...]], progress: Callable[[str, int, int], None]) -> Iterator[tuple[str, ...]]:
    """Yields the rows unchanged, and reports progress every 1,000 rows."""
    for number, row in enumerate(rows, start=1):
        if number % 1000 == 0:
            progress("reading the training data", number, 0)
        yield row


def _label_words(run: Path, test: "EvaluationSet", systems: "Sequence[System]", *, options: Options) -> "WordLabels":
    """The labels that the tagger of `run` predicts for the words of the references and of all systems' outputs."""
    from calque.engine import Sentence, load_tagger
    from calque.evaluation.comparison.translations import EvaluationWords, WordLabels
    from calque.evaluation.comparison.word_accuracy import LabelledWord

    tagger = load_tagger(run, device=options.device, precision=options.precision)
    words = EvaluationWords.of(test, systems)

    def label(sentences: Sequence[Sequence[str]]) -> list[list[LabelledWord]]:
        tagged = tagger.stream(Sentence(sentence) for sentence in sentences)
        return [[LabelledWord(*pair) for pair in sentence] for sentence in tagged]

    return WordLabels(label(words.references), [label(system) for system in words.systems])


TRANSLATION = TaskComparison(
    "translation",
    "--reference",
    "--source and --reference for translation",
    compare_translation_systems,
    translation_tables,
    takes=frozenset({"--train-source", "--train-target", "--no-training-data", "--tagger", "--sentence-labels"})
    | {"--group", "--metric", "--sentences", "--beam"},
    searches=True,
)
