"""The command `calque compare`, which compares systems on one test set."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calque.commands import compared_systems
from calque.commands.column_options import Columns
from calque.commands.compare_tables import table_lines
from calque.commands.compared_systems import Argument, Options, corpus_texts, read_arguments, read_lines, translate
from calque.commands.inputs import choice, device_and_precision, refuse_unreadable
from calque.commands.options import (
    Device,
    Precision,
    choice_option,
    count_option,
    file_option,
    model_option,
)
from calque.commands.rendering import finite, json_line
from calque.errors import ConfigError

if TYPE_CHECKING:
    from calque.data.corpora import Corpus
    from calque.evaluation.comparison.translations import EvaluationSet, Settings, System, Training, WordLabels

FORMATS = ("table", "json")
METRICS = ("bleu", "chrf", "ter")
"""The metrics of calque.evaluation.segment_statistics, which is not imported here because it imports sacreBLEU."""
PAGES, DATA = (".html", ".htm"), (".json",)
VIEW = "calque/comparison"
NOT_FOR = {
    "translation": ("columns", "train_text"),
    "language-modelling": ("columns", "train_source", "train_target", "tagger", "sentence_labels", "group"),
    "tagging": ("train_source", "train_target", "tagger", "sentence_labels", "group"),
    "recommendation": ("columns", "train_source", "train_target", "train_text", "tagger", "sentence_labels", "group"),
    "embedding": ("columns", "train_source", "train_target", "train_text", "tagger", "sentence_labels", "group"),
    "captioning": ("columns", "train_source", "train_target", "train_text", "tagger", "sentence_labels"),
}
"""The options that have no effect with each task."""


def compare(
    systems: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SYSTEM]...",
            help="Runs, model folders or output files, the baseline first: PATH, NAME=PATH or PATH:KEY=VALUE.",
        ),
    ] = None,
    *,
    source: Annotated[Path | None, file_option(help="The sentences of the test set, one per line.")] = None,
    reference: Annotated[Path | None, file_option(help="The reference translations, line by line.")] = None,
    target: Annotated[
        Path | None, file_option(help="The partners of the sources, to compare sentence vectors by retrieval.")
    ] = None,
    text: Annotated[Path | None, file_option(help="Text, to compare language models.")] = None,
    conll: Annotated[Path | None, file_option(help="Labelled words, to compare taggers: CoNLL-U or columns.")] = None,
    sequences: Annotated[
        Path | None, file_option(help="Histories, to compare recommenders; the last item of each is the target.")
    ] = None,
    images: Annotated[Path | None, file_option(help="A manifest of images, to compare captioners.")] = None,
    columns: Columns = None,
    group: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=PATH,PATH", help="Systems that differ only in their seed; repeat for each group."),
    ] = None,
    metric: Annotated[
        str, typer.Option(metavar="NAMES", help=f"Metrics, separated by commas: {', '.join(METRICS)}.")
    ] = ",".join(METRICS),
    bootstrap: Annotated[
        int, count_option(at_least=0, help="Resamples of the paired bootstrap; 0: no such test.")
    ] = 1000,
    randomisation: Annotated[
        int, count_option(at_least=0, help="Trials of approximate randomisation; 0: none.")
    ] = 10_000,
    train_source: Annotated[
        list[Path] | None, file_option(help="The source side of the training data; by default that of the first run.")
    ] = None,
    train_target: Annotated[list[Path] | None, file_option(help="The target side of the training data.")] = None,
    train_text: Annotated[list[Path] | None, file_option(help="With --text: training data.")] = None,
    training_data: Annotated[
        bool, typer.Option(help="Also compare by frequency in, and overlap with, the training data.")
    ] = True,
    tagger: Annotated[Path | None, model_option(help="A tagging run, to report word accuracy by label.")] = None,
    sentence_labels: Annotated[
        Path | None, file_option(help="A file with one label per line, such as the domain: reports scores by label.")
    ] = None,
    sentences: Annotated[int, count_option(help="Sentences shown for each direction: better, and worse.")] = 1000,
    beam: Annotated[int | None, count_option(help="Beam size of all systems; RUN:beam=1 sets that of one.")] = None,
    format: Annotated[str, choice_option(choices=FORMATS, help="The format of standard output.")] = "table",
    as_json: Annotated[bool, typer.Option("--json", help="Short for --format json.")] = False,
    output: Annotated[
        Path | None, file_option(help="A report: FILE.html (one page for a browser) or FILE.json.")
    ] = None,
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Compare two or more systems on one test set: scores, significance, and where they differ.

    A run or model folder translates the test set first, with search settings of its own if they follow its path, as in
    runs/base:beam=1; a file is taken as the system's output, one line per sentence.
    Translations are compared by BLEU, chrF and TER, with sacreBLEU's paired bootstrap and approximate randomisation, by
    sentence length, word frequency, training-data overlap, n-grams, errors and single sentences; taggers by label and
    confusion; language models by the loss of words at each position and frequency; the sentence vectors of any models
    by retrieval (--source and --target); recommenders by the ranks of items, by length of the history and frequency of
    the item (tables and JSON only); captions as translations are, with the first caption of an image as the reference.

    Examples:

        calque compare runs/base runs/wide --source test.de --reference test.en --output report.html

        calque compare greedy=runs/base:beam=1 runs/base:beam=10:length_penalty=1 --source test.de --reference test.en

        calque compare base=base.txt new=new.txt --reference test.en --metric bleu,chrf

        calque compare --group base=runs/a1,runs/a2 --group wide=runs/b1,runs/b2 --source test.de --reference test.en

        calque compare runs/upos-1 runs/upos-2 --conll test.conllu

        calque compare runs/lm-1 runs/lm-2 --text test.txt --format json

        calque compare runs/popularity runs/sasrec --sequences users.txt

        calque compare runs/bag runs/captions --source test.en --target test.de

        calque compare soft=runs/soft hard=runs/hard --images test.jsonl --output captions.html
    """
    format_name = "json" if as_json else choice(format, FORMATS, option="--format")
    arguments = read_arguments(systems or [], group or [])
    _refuse_few(arguments)
    options = Options(beam, *device_and_precision(device, precision), randomisation)
    files = [argument.path for argument in arguments if argument.is_file]
    trained = [*(train_source or ()), *(train_target or ()), *(train_text or ())]
    inputs = [source, reference, target, text, conll, sequences, images, sentence_labels, *files, *trained]
    refuse_unreadable(*inputs)
    _refuse_output(output, inputs)
    task = _task(
        source=source,
        reference=reference,
        target=target,
        text=text,
        conll=conll,
        sequences=sequences,
        images=images,
    )
    if task == "recommendation" and output is not None and output.suffix.lower() in PAGES:
        raise ConfigError("--output: there is no page for recommenders; write .json")
    if task not in ("translation", "captioning"):
        _refuse_settings(arguments)
    given = {
        "columns": columns,
        "train_source": train_source,
        "train_target": train_target,
        "train_text": train_text,
        "tagger": tagger,
        "sentence_labels": sentence_labels,
        "group": group,
    }
    _refuse_idle(task, given)
    match task:
        case "translation":
            assert reference is not None
            corpora = _pair_corpora(train_source, train_target)
            document = _compare_translations(
                arguments,
                source=source,
                reference=reference,
                settings=_settings(metric, bootstrap=bootstrap, randomisation=randomisation, sentences=sentences),
                corpora=corpora if training_data else [],
                tagger=tagger,
                sentence_labels=sentence_labels,
                options=options,
            )
        case "language-modelling":
            from calque.commands.compare_other_tasks import compare_texts

            assert text is not None
            document = compare_texts(
                arguments, text=text, train=train_text, training_data=training_data, options=options
            )
        case "recommendation":
            from calque.commands.compare_recommenders import compare_recommenders

            assert sequences is not None
            document = compare_recommenders(arguments, sequences=sequences, options=options)
        case "embedding":
            from calque.commands.compare_retrieval import compare_vectors

            assert source is not None and target is not None
            document = compare_vectors(arguments, source=source, target=target, options=options)
        case "captioning":
            from calque.commands.compare_images import compare_captions

            assert images is not None
            compared = _settings(metric, bootstrap=bootstrap, randomisation=randomisation, sentences=sentences)
            document = compare_captions(arguments, images=images, settings=compared, options=options)
        case _:
            from calque.commands.compare_other_tasks import compare_labels

            assert conll is not None
            document = compare_labels(arguments, conll=conll, columns=columns, options=options)
    _write(finite(document), format=format_name, output=output)


def _refuse_few(arguments: Sequence[Argument]) -> None:
    if len(arguments) < 2:
        count = "one system" if arguments else "no system"
        raise ConfigError(f"{count} to compare: give at least two runs, model folders or output files")


def _refuse_settings(arguments: Sequence[Argument]) -> None:
    """Raises a ConfigError if search settings are given for systems that do not use search."""
    if searching := [argument for argument in arguments if argument.settings]:
        listed = ", ".join(f"{argument.path} ({', '.join(argument.settings)})" for argument in searching)
        raise ConfigError(f"{listed}: only translation models search; leave the settings out")


def _refuse_output(output: Path | None, inputs: Sequence[Path | None]) -> None:
    from calque.commands.output import refuse_output

    if output is not None and output.suffix.lower() not in (*PAGES, *DATA):
        raise ConfigError(f"--output {output}: name a file that ends in .html (a page) or in .json")
    refuse_output(output, *inputs)


def _task(
    *,
    source: Path | None,
    reference: Path | None,
    target: Path | None,
    text: Path | None,
    conll: Path | None,
    sequences: Path | None,
    images: Path | None,
) -> str:
    if target is not None and source is None:
        raise ConfigError("--target needs --source too: line n of one is the translation of line n of the other")
    pairs = None if target is not None else source
    given = {
        "--reference": pairs or reference,
        "--target": target,
        "--text": text,
        "--conll": conll,
        "--sequences": sequences,
        "--images": images,
    }
    chosen = [option for option, path in given.items() if path is not None]
    if len(chosen) > 1:
        raise ConfigError(f"{' and '.join(chosen)} are for different tasks; give one of them")
    if not chosen:
        raise ConfigError(
            "give --source and --reference for translation, --source and --target for sentence vectors, --text for "
            "language models, --conll for taggers, --sequences for recommenders, or --images for captioners"
        )
    if pairs is not None and reference is None:
        raise ConfigError("--reference is missing: the reference translations of the test set")
    tasks = {
        "--reference": "translation",
        "--target": "embedding",
        "--text": "language-modelling",
        "--conll": "tagging",
        "--sequences": "recommendation",
        "--images": "captioning",
    }
    return tasks[chosen[0]]


def _refuse_idle(task: str, given: Mapping[str, object]) -> None:
    """Raises a ConfigError for options that have no effect with this task."""
    idle = [f"--{name.replace('_', '-')}" for name in NOT_FOR[task] if given[name]]
    if idle:
        raise ConfigError(f"{', '.join(idle)}: not for this task; leave it out")


def _settings(metric: str, *, bootstrap: int, randomisation: int, sentences: int) -> "Settings":
    from calque.evaluation.comparison.translations import Settings
    from calque.evaluation.segment_statistics import metric_names

    names = metric_names([name.strip().lower() for name in metric.split(",") if name.strip()])
    if not names:
        raise ConfigError(f"--metric is empty: choose from {', '.join(METRICS)}")
    return Settings(names, {"bootstrap": bootstrap, "randomisation": randomisation}, sentences)


def _pair_corpora(sources: list[Path] | None, targets: list[Path] | None) -> "list[Corpus] | None":
    """The corpora of --train-source and --train-target; None if neither is given."""
    from calque.data.corpora import FilesConfig

    if not sources and not targets:
        return None
    if len(sources or ()) != len(targets or ()):
        raise ConfigError("--train-source and --train-target: give both, the same number of times")
    return [FilesConfig(source=left, target=right) for left, right in zip(sources or (), targets or (), strict=True)]


def _compare_translations(
    arguments: Sequence[Argument],
    *,
    source: Path | None,
    reference: Path,
    settings: "Settings",
    corpora: "list[Corpus] | None",
    tagger: Path | None,
    sentence_labels: Path | None,
    options: Options,
) -> dict[str, Any]:
    from calque.commands.progress import preparing
    from calque.evaluation.comparison.translations import EvaluationSet, compare_translations

    facts = {"source": None if source is None else str(source), "reference": str(reference)}
    sources, labels_of_sentences = (None if path is None else read_lines(path) for path in (source, sentence_labels))
    test = EvaluationSet(read_lines(reference), sources, facts, labels_of_sentences)
    systems = _read_systems(arguments, test, options=options)
    labels = None if tagger is None else _label_words(tagger, test, systems, options=options)
    with preparing() as progress:
        training = _count_training(arguments, test, systems, corpora=corpora, progress=progress)
        return compare_translations(
            test, systems, settings=settings, training=training, labels=labels, progress=progress
        )


def _read_systems(arguments: Sequence[Argument], test: "EvaluationSet", *, options: Options) -> "list[System]":
    """The systems with their translations; everything that can be wrong with files is reported before translating."""
    from calque.evaluation.comparison.translations import System, check_systems

    if test.sources is None and (models := [str(item.path) for item in arguments if not item.is_file]):
        raise ConfigError(f"--source is missing: {', '.join(models)} would translate it; only files need no source")
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
        raise ConfigError("\n".join(f"{name}: every line is blank; is this the output of a system?" for name in blank))


def _count_training(
    arguments: Sequence[Argument],
    test: "EvaluationSet",
    systems: "Sequence[System]",
    *,
    corpora: "list[Corpus] | None",
    progress: Callable[[str, int, int], None],
) -> "Training | None":
    """The frequencies of the test set's words in the training data, and which of its n-grams and sources occur there.

    The training data is `corpora` or, if that is None, the data of the first run that records it. Returns None if there
    is no training data.
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
    """The labels that a tagger gives the words of references and hypotheses."""
    from calque.engine import Sentence, load_tagger
    from calque.evaluation.comparison.translations import EvaluationWords, WordLabels
    from calque.evaluation.comparison.word_accuracy import LabelledWord

    tagger = load_tagger(run, device=options.device, precision=options.precision)
    words = EvaluationWords.of(test, systems)

    def label(sentences: Sequence[Sequence[str]]) -> list[list[LabelledWord]]:
        tagged = tagger.stream(Sentence(sentence) for sentence in sentences)
        return [[LabelledWord(*pair) for pair in sentence] for sentence in tagged]

    return WordLabels(label(words.references), [label(system) for system in words.systems])


def _write(document: dict[str, Any], *, format: str, output: Path | None) -> None:
    """Writes the comparison to standard output, as tables or JSON, and to `output` (HTML or JSON) if it is given."""
    from calque.commands.output import sink

    if output is not None:
        with sink(output) as out:
            out.write(_page(document) if output.suffix.lower() in PAGES else json_line(document))
    if format == "json":
        with sink(None) as out:
            out.write(json_line(document))
            out.flush()
        return
    for line in table_lines(document):
        typer.echo(line)
    if output is not None:
        typer.echo(f"the report is in {output}", err=True)


def _page(document: dict[str, Any]) -> bytes:
    from calque.web import page

    names = ", ".join(system["name"] for system in document["systems"])
    return page(title=f"calque compare: {names}", view=VIEW, document=document).encode()
