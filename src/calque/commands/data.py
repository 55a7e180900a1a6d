"""The commands `calque data`: `check` and `prepare` for a user's corpora, `phrasebook` and `scenes` for built-in ones.

`check` reports problems of corpora, `prepare` stores corpora as ids for several runs, `phrasebook` writes the built-in
sentence pairs, and `scenes` the built-in images with captions.
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from calque.commands.column_options import is_conllu
from calque.commands.command_group import CommandGroup
from calque.commands.corpus_files import CorpusFiles, HeldOutFiles
from calque.commands.corpus_kinds import pair_corpora
from calque.commands.corpus_options import corpus_options
from calque.commands.option_hints import HintingCommand
from calque.commands.options import (
    LANGUAGES,
    choice_option,
    count_option,
    file_option,
    folder_option,
    settings_argument,
    system_option,
)
from calque.errors import ConfigError, DataError, FolderError

if TYPE_CHECKING:
    from calque.data.corpora import Corpus, DataConfig
    from calque.data.numericalise import Preparation
    from calque.experiment import Experiment

app = typer.Typer(cls=CommandGroup, help="Check corpora, prepare them, or generate one.", no_args_is_help=True)

REJECTED = "training would reject these corpora; the report on standard output says why"

Overrides = Annotated[list[str] | None, settings_argument(help="Settings, e.g. text.vocabulary_size=4000")]


@app.command(cls=HintingCommand)
@corpus_options
def check(
    files: CorpusFiles,
    overrides: Overrides = None,
    config: Annotated[Path | None, file_option(help="Check the corpora of this config.")] = None,
    *,
    test: HeldOutFiles,
) -> None:
    """Report the contents and the problems of corpora before training.

    The report covers counts, lengths, empty lines, unusual length ratios, misaligned lines, labels, duplicates, overlap
    with the test set, invalid UTF-8 by file, line and byte, and images that cannot be decoded. The exit code is 2 if
    training would reject the corpora.

    It also counts characters (for taggers: words) outside the vocabulary that training would build from these corpora.
    They are lost, or encoded as bytes if the tokenizer has byte pieces.

    Pairs of single words, such as inflected forms or pronunciations, are detected. Training splits them into characters
    unless a text setting is given.

    Padding is the share of padded positions in a batch. With exact shapes, the default, a batch is as wide as its
    longest row. Static shapes (training.batch.shapes) use a few fixed sizes, for compiled models.

    Examples:

        calque data check --source train.de --target train.en

        calque data check --tsv pairs.tsv --source-column 2 --target-column 1

        calque data check --text train.txt text.kind=tokens

        calque data check --conll train.conllu --test-conll test.conllu

        calque data check --sequences users.txt

        calque data check --audio train.jsonl --test-audio test.jsonl task.rate=8000

        calque data check --images train.jsonl --test-images test.jsonl

        calque data check --config my.toml --test-source test.de --test-target test.en
    """
    from calque.commands.progress import preparing
    from calque.data import check as data_check
    from calque.data.prepare import prepare
    from calque.data.report import report_lines
    from calque.experiment import assembly_of
    from calque.experiment.text_choice import suggested_text

    test_files = _test_files(files, test)
    if test.tables:  # the column options may describe the test set alone
        files = files._replace(table_columns=files.table_columns.of(files.tables))
    experiment, chosen = _experiment(files, overrides, config=config)
    test_corpora = _test_corpora(test_files)
    assembly = assembly_of(experiment)
    preparation, data = assembly.preparation, experiment.data
    with TemporaryDirectory(prefix="calque-") as folder, preparing() as progress:
        try:
            store = data.store or Path(folder) / "store"
            prepared = prepare(data, preparation=preparation, folder=store, progress=progress)
        except DataError as error:
            report = data_check.check(data, preparation=preparation, test=test_corpora)
            typer.echo("\n".join(report_lines(report)))
            if any(corpus.problems or corpus.invalid for corpus in report.corpora):
                raise DataError(REJECTED) from None
            raise error
        report = data_check.check(
            data,
            preparation=preparation,
            test=test_corpora,
            prepared=prepared,
            order=assembly.corpus(prepared).order,
            batch=experiment.training.batch,
        )
    typer.echo("\n".join(report_lines(report)))
    if advice := chosen or suggested_text(experiment):
        typer.echo(f"text: {advice}")
    if any(corpus.problems for corpus in report.corpora):
        raise DataError(REJECTED)
    typer.echo(prepared.summary(unit=preparation.unit), err=True)
    typer.echo("training would accept these corpora", err=True)


def _test_files(files: CorpusFiles, test: HeldOutFiles) -> CorpusFiles:
    """The test set's files as `CorpusFiles`, with those column options of the training `files` that apply to them."""
    pair_corpora(test.source, test.target, options=("--test-source", "--test-target"))
    columns = None if all(is_conllu(path, columns=files.columns) for path in test.conll or ()) else files.columns
    return CorpusFiles(**test._asdict(), table_columns=files.table_columns.of(test.tables), columns=columns)


def _test_corpora(files: CorpusFiles) -> "tuple[Corpus, ...]":
    from calque.data.corpora import DataConfig

    files.check()
    return DataConfig.model_validate(files.corpora()).train if any(files) else ()


@app.command(cls=HintingCommand)
@corpus_options
def prepare(
    files: CorpusFiles,
    out: Annotated[Path, folder_option(help="Write the store to this folder; a config uses it as data.store.")],
    overrides: Overrides = None,
    config: Annotated[Path | None, file_option(help="Prepare the corpora of this config.")] = None,
    system: Annotated[
        str | None,
        system_option(help="The system to prepare data for; some taggers also need the characters of each word."),
    ] = None,
) -> None:
    """Prepare corpora once for several runs, as a memory-mapped store of ids on disk.

    Examples:

        calque data prepare --source train.de --target train.en --out store

        calque data prepare --csv pairs.csv --source-column German --target-column English --out store

        calque data prepare --conll train.conllu --system ma2016 --out store
    """
    from calque.commands.progress import preparing
    from calque.data.prepare import prepare as prepare_store

    data, preparation, chosen = _plan(files, overrides, config=config, system=system)
    if chosen:
        typer.echo(chosen, err=True)
    with preparing() as progress:
        prepared = prepare_store(data, preparation=preparation, folder=out, progress=progress)
    for warning in prepared.warnings:
        typer.echo(f"warning: {warning}", err=True)
    rows = f"{len(prepared.train):,} {preparation.unit} to train on, {len(prepared.valid):,} to validate"
    typer.echo(f"{out}: {rows}", err=True)


@app.command(cls=HintingCommand)
def phrasebook(
    out: Annotated[Path, folder_option(help="Write the training, validation and test files to this folder.")],
    source: Annotated[str, choice_option("--from", choices=LANGUAGES, help="The source language.")] = "zh",
    target: Annotated[str, choice_option("--to", choices=LANGUAGES, help="The target language.")] = "en",
    pairs: Annotated[
        int,
        count_option(
            at_least=50, help="The number of training pairs; validation and test pairs are generated in addition."
        ),
    ] = 20_000,
    seed: Annotated[
        int, count_option(at_least=0, help="The random seed; a different seed generates a different corpus.")
    ] = 0,
    segment: Annotated[bool, typer.Option("--segment", help="Put spaces between the words of Chinese text.")] = False,
    alignments: Annotated[
        bool, typer.Option("--alignments", help="Also write word alignments (Pharaoh): train.align, …")
    ] = False,
) -> None:
    """Write the built-in corpus as text files: train.zh, train.en, valid.…, test.…

    Test sentences contain combinations of words and clauses that do not occur in training.

    The grammar that generates the pairs also yields their alignments: one line per pair, such as 0-0 1-2 2-1, with the
    source position first. Words are separated by white space and counted from 0, so Chinese needs --segment.

    Examples:

        calque data phrasebook --from zh --to en --pairs 20000 --out book

        calque data phrasebook --from zh --to en --segment --alignments --out aligned-book
    """
    from calque.commands.inputs import choice
    from calque_phrasebook import check_options, write_phrasebook
    from calque_phrasebook import phrasebook as generate_phrasebook

    languages = choice(source, LANGUAGES, option="--from"), choice(target, LANGUAGES, option="--to")
    if languages[0] == languages[1]:
        raise ConfigError("--from and --to must be different languages")
    check_options(languages, segment=segment, alignments=alignments)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FolderError(
            f"{out} is not an empty folder, and its files might not line up with the new ones; choose another --out"
        )
    book = generate_phrasebook(source=languages[0], target=languages[1], pairs=pairs, seed=seed)
    write_phrasebook(book, out, languages=languages, segment=segment, alignments=alignments)
    typer.echo(
        f"{out}: {len(book.train):,} training, {len(book.valid):,} validation, {len(book.test):,} test pairs", err=True
    )


@app.command(cls=HintingCommand)
def scenes(
    out: Annotated[Path, folder_option(help="Write the images and manifests to this folder.")],
    pairs: Annotated[
        int,
        count_option(
            at_least=50, help="The number of training images; validation and test images are drawn in addition."
        ),
    ] = 5_000,
    seed: Annotated[
        int, count_option(at_least=0, help="The random seed; a different seed draws different images.")
    ] = 0,
    pixels: Annotated[int, count_option(at_least=32, help="The height and width of the images, in pixels.")] = 64,
) -> None:
    """Draw the built-in images, scenes of coloured shapes, with captions in English, Chinese and German.

    Writes the folders train, valid and test with PNG files, and a manifest per set and language, such as
    train.en.jsonl. Each line contains the path of an image, its caption and, for every object, its box in pixels and
    the characters of the caption that name it.

    Test images show combinations of colour and shape that do not occur in training, such as red circles.

    Example:

        calque data scenes --pairs 5000 --out scenes
    """
    from calque_scenes import scenes as draw_scenes
    from calque_scenes import write_scenes

    if pixels > 512:
        raise ConfigError(f"--pixels is {pixels}, but images can have at most 512 × 512 pixels; lower it")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise FolderError(
            f"{out} is not an empty folder, and its images might be mixed up with the new ones; choose another --out"
        )
    drawn = draw_scenes(pairs=pairs, seed=seed)
    write_scenes(drawn, out, size=pixels)
    counts = f"{len(drawn.train):,} training, {len(drawn.valid):,} validation, {len(drawn.test):,} test images"
    typer.echo(f"{out}: {counts}", err=True)


def _plan(
    files: CorpusFiles, overrides: list[str] | None, *, config: Path | None, system: str | None
) -> "tuple[DataConfig, Preparation, str]":
    """The corpora, how to prepare them, and a message if the text settings were chosen automatically, else "".

    For sentence pairs without a config or system, this avoids importing torch if possible.
    """
    from calque.data.pair_settings import plan_pairs

    if files.pair_option and config is None and system is None:
        files.check()
        plan = plan_pairs(files.corpora(), [*files.settings, *(overrides or [])])
        if plan is not None:
            return plan
    from calque.experiment import assembly_of

    experiment, chosen = _experiment(files, overrides, config=config, system=system)
    return experiment.data, assembly_of(experiment).preparation, chosen


def _experiment(
    files: CorpusFiles, overrides: list[str] | None, *, config: Path | None, system: str | None = None
) -> "tuple[Experiment, str]":
    """The settings of an experiment on these corpora or of a config, and a message about its text settings.

    If no text settings are given, they are chosen to fit the corpora, as in training; otherwise the message is empty.
    """
    from calque.config import check as check_config
    from calque.experiment import Experiment, experiment_values
    from calque.experiment.text_choice import choose_text

    files.check()
    corpora = files.corpora()
    if not corpora and config is None:
        raise ConfigError(
            "no corpora were given; pass --source with --target, or one of --tsv, --csv, --jsonl, --text, --conll, "
            "--sequences, --audio, --images or --config"
        )
    default = files.default_system if config is None and any(files.kinds) else None
    values = experiment_values(
        config=config, system=system or default, corpora=corpora, assignments=[*files.settings, *(overrides or [])]
    )
    files.refuse_other_task(values)
    values, chosen = choose_text(values)
    return check_config(Experiment, values, origin=str(config or "command line")), chosen
