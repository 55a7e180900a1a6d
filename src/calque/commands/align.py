"""The command `calque align`, which aligns the words of a parallel corpus."""

from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calque.commands.corpus_kinds import pair_corpora
from calque.commands.inputs import choice, refuse_unreadable
from calque.commands.options import choice_option, count_option, factor_option, file_option
from calque.commands.table_options import (
    Delimiter,
    Header,
    SourceColumn,
    TableColumns,
    Tables,
    TargetColumn,
)
from calque.errors import ConfigError, DataError

if TYPE_CHECKING:
    from calque.data.corpora import PairCorpus
    from calque.statistics.lexicon import LexicalTable
    from calque.statistics.text_pairs import TextPairs
    from calque.statistics.word_alignment import AlignmentSettings, WordAlignments

MODELS = ("hmm", "ibm2", "ibm1")
METHODS = ("grow-diag-final-and", "grow-diag", "intersection", "union", "forward", "backward")
LONGEST = 512  # words of a side that can be aligned; memory grows with the square
TENSIONS = (0.0, 20.0)
DIRICHLETS = (0.01, 10.0)  # below, exp(ψ(α)) underflows
SHOWN = 0.001
"""The lowest probability of a translation that is written to --lexicon."""


def align(
    source: Annotated[Path | None, file_option(help="Source sentences, one per line (plain or compressed).")] = None,
    target: Annotated[Path | None, file_option(help="The translations of --source, line by line.")] = None,
    tsv: Annotated[
        Path | None,
        file_option(help="Sentence pairs, one per line, separated by a tab; instead of --source and --target."),
    ] = None,
    csv: Annotated[
        Path | None, file_option(help="A CSV file of sentence pairs, instead of --source and --target.")
    ] = None,
    jsonl: Annotated[
        Path | None, file_option(help="Sentence pairs, one JSON object per line; instead of --source and --target.")
    ] = None,
    source_column: SourceColumn = None,
    target_column: TargetColumn = None,
    header: Header = None,
    delimiter: Delimiter = None,
    output: Annotated[Path | None, file_option(help="Write the alignments to this file; stdout by default.")] = None,
    model: Annotated[
        str,
        choice_option(
            choices=MODELS,
            help="hmm: prefers short jumps between links; ibm2: prefers the diagonal; ibm1: ignores positions.",
        ),
    ] = "hmm",
    iterations: Annotated[
        tuple[int, int],
        typer.Option(metavar="N N", help="The EM iterations of IBM 1, and those of the model that IBM 1 initialises."),
    ] = (5, 5),
    tension: Annotated[
        float | None,
        factor_option(help="With ibm2: how strongly to prefer the diagonal, from 0 to 20; learnt by default."),
    ] = None,
    dirichlet: Annotated[
        float | None,
        factor_option(help="With ibm2: use variational Bayes, with this Dirichlet prior on the lexicon, e.g. 0.01."),
    ] = None,
    symmetrise: Annotated[
        str, choice_option(choices=METHODS, help="How to combine the alignments of the two directions.")
    ] = METHODS[0],
    case: Annotated[bool, typer.Option("--case", help="Distinguish upper and lower case.")] = False,
    maximum: Annotated[
        int, count_option(help="Leave out pairs with more words than this on either side; 512 at most.")
    ] = 256,
    lexicon: Annotated[
        Path | None, file_option(help="Write a table of source word, target word and t(target | source) to this file.")
    ] = None,
    dictionary: Annotated[
        Path | None, file_option(help="Write each source word and its most likely translation to this file.")
    ] = None,
    reference: Annotated[
        Path | None, file_option(help="Reference alignments (Pharaoh format): also compute the alignment error rate.")
    ] = None,
) -> None:
    """Align the words of a parallel corpus; writes one line per pair, such as 0-0 1-2 2-1.

    A link consists of a source position and a target position, counted from 0. Words are separated by white space, so
    text without spaces between words, such as Chinese, must be segmented first. A pair with an empty side yields an
    empty line.

    The models learn from the corpus itself, once in each direction: the forward model links every target word to at
    most one source word, and the backward model links every source word to at most one target word. The perplexity per
    word of each iteration is printed to standard error. `calque train --alignments` uses the output for guided
    alignment, and `calque translate --dictionary` uses the file that --dictionary writes.

    Examples:

        calque align --source train.de --target train.en --output train.align

        calque align --tsv pairs.tsv --model ibm1 --symmetrise intersection --lexicon de-en.lexicon

        calque align --source train.de --target train.en --model ibm2 --dirichlet 0.01 --dictionary de-en.tsv

        calque align --source test.de --target test.en --reference test.align --output /dev/null
    """
    from calque.commands.output import refuse_output, sink
    from calque.evaluation.alignment import alignment_error_rate, pharaoh
    from calque.statistics.text_pairs import name_of, read_links, read_text_pairs
    from calque.statistics.word_alignment import AlignmentSettings

    method = choice(symmetrise, METHODS, option="--symmetrise")
    if maximum > LONGEST:
        raise ConfigError(f"--maximum is {maximum}, but at most {LONGEST} words can be aligned; lower it")
    if min(iterations) < 1:
        raise ConfigError(
            f"--iterations is {iterations[0]} {iterations[1]}, but both numbers must be at least 1: the iterations of "
            "IBM 1, and those of the model (--model) that IBM 1 initialises"
        )
    settings = AlignmentSettings(
        choice(model, MODELS, option="--model"), iterations=iterations, dirichlet=dirichlet, maximum=maximum
    )
    for option, value, bounds in (("--tension", tension, TENSIONS), ("--dirichlet", dirichlet, DIRICHLETS)):
        if value is not None and model != "ibm2":
            raise ConfigError(f"{option} has no effect on --model {model}; leave it out, or use --model ibm2")
        if value is not None and not bounds[0] <= value <= bounds[1]:
            raise ConfigError(f"{option} is {value}; expected a number from {bounds[0]:g} to {bounds[1]:g}")
    if tension is not None:
        settings = settings._replace(tension=tension, learns_tension=False)
    inputs = (source, target, tsv, csv, jsonl, reference)
    refuse_unreadable(*inputs)
    refuse_output(output, *inputs)
    outputs = {"--output": output, "--lexicon": lexicon, "--dictionary": dictionary}
    for option, path in list(outputs.items())[1:]:
        refuse_output(path, *inputs, output, option=option)
    for first, second in combinations(outputs, 2):
        if outputs[first] is not None and outputs[first] == outputs[second]:
            raise ConfigError(f"{first} and {second} are both {outputs[first]}; name two different files")
    columns = TableColumns(source_column, target_column, header, delimiter)
    corpus = _corpus(source, target, Tables(*([path] if path else None for path in (tsv, csv, jsonl))), columns=columns)
    pairs = read_text_pairs(corpus, keep_case=case)
    _check(pairs, maximum=maximum, name=name_of(corpus))
    gold = None if reference is None else read_links(reference, pairs)
    wants_forward = method != "backward" or lexicon is not None or dictionary is not None
    forward = _align(pairs, settings, direction="forward") if wants_forward else None
    if lexicon is not None and forward is not None:
        _write_lexicon(lexicon, forward.lexicon, pairs)
    if dictionary is not None and forward is not None:
        _write_dictionary(dictionary, forward.lexicon, pairs)
    backward = None if method == "forward" else _align(pairs, settings, direction="backward")
    links = []
    with sink(output) as out:
        for pair_links in _symmetrised(forward, backward, pairs=len(pairs), method=method):
            out.write(f"{pharaoh(pair_links)}\n".encode())
            if gold is not None:
                links.append(pair_links)
        out.flush()
    _summarise(pairs, maximum=maximum)
    if gold is not None:
        typer.echo(f"alignment error rate {100 * alignment_error_rate(links, gold):.2f} %, {reference}", err=True)


def _corpus(source: Path | None, target: Path | None, tables: Tables, *, columns: TableColumns) -> "PairCorpus":
    """The one corpus that the command's options name; raises a ConfigError if they name none or several."""
    from calque.data.corpora import DataConfig

    columns.check(tables)
    corpora: list[dict[str, Any]] = pair_corpora([source] if source else None, [target] if target else None)
    corpora += tables.corpora(columns)
    if len(corpora) != 1:
        raise ConfigError(
            f"the options name {len(corpora) or 'no'} corpora; give exactly one: --source and --target, or --tsv, "
            "--csv or --jsonl"
        )
    (corpus,) = DataConfig.model_validate({"train": corpora}).train
    return corpus  # type: ignore[return-value]


def _check(pairs: "TextPairs", *, maximum: int, name: str) -> None:
    """Raises a DataError if no pair has 1 to `maximum` words on each side; warns if text seems to lack spaces."""
    usable = pairs.counts(maximum=maximum).usable
    if not usable:
        raise DataError(
            f"{name}: nothing to align: each of its {len(pairs):,} pairs has an empty side, or more than {maximum} "
            "words on a side (--maximum)"
        )
    for side, column in (("source", pairs.source), ("target", pairs.target)):
        single = int((column.lengths == 1).sum())
        if 2 * single > usable:
            typer.echo(
                f"warning: {single:,} {side} lines consist of a single word; words are separated by white space, so "
                "text without spaces must be segmented first",
                err=True,
            )


def _align(pairs: "TextPairs", settings: "AlignmentSettings", *, direction: str) -> "WordAlignments":
    """Aligns the words of all pairs in one direction, forward or backward; prints a line per EM iteration."""
    from calque.commands.progress import preparing
    from calque.statistics.em import Iteration, Observer
    from calque.statistics.word_alignment import align_words

    class Report(Observer):
        def iteration(self, iteration: Iteration) -> None:
            detail = f", {iteration.detail}" if iteration.detail else ""
            typer.echo(
                f"{direction}: {iteration.model}, iteration {iteration.number}: log-likelihood "
                f"{iteration.log_likelihood:,.1f}, perplexity {iteration.perplexity:.3f} per word{detail}",
                err=True,
            )

        def progress(self, phase: str, done: int, total: int) -> None:
            show(f"{direction}: {phase}", done, total)

    sides = (pairs.source, pairs.target) if direction == "forward" else (pairs.target, pairs.source)
    with preparing() as show:
        return align_words(*sides, settings=settings, minimum=SHOWN, observer=Report())


def _symmetrised(
    forward: "WordAlignments | None", backward: "WordAlignments | None", *, pairs: int, method: Any
) -> Iterator[list[tuple[int, int]]]:
    """Yields the symmetrised word alignment of each pair; a direction that `method` does not use may be None."""
    from calque.statistics.symmetrisation import symmetrise

    for pair in range(pairs):
        there = {*forward.links(pair)} if forward else set()
        back = {(source, target) for target, source in backward.links(pair)} if backward else set()
        yield sorted(symmetrise(there, back, method=method))


def _write_lexicon(path: Path, table: "LexicalTable", pairs: "TextPairs") -> None:
    """Writes every source word's likely translations and their probabilities; the NULL word is an empty string."""
    from calque.commands.output import sink

    with sink(path) as out:
        for number, source in enumerate([*pairs.source_words, ""]):
            for target, probability in zip(*table.best(number), strict=True):
                out.write(f"{source}\t{pairs.target_words[target]}\t{probability:.6f}\n".encode())
        out.flush()


def _write_dictionary(path: Path, table: "LexicalTable", pairs: "TextPairs") -> None:
    """Writes the most likely translation of every source word."""
    from calque.commands.output import sink

    with sink(path) as out:
        for number, source in enumerate(pairs.source_words):
            for target in table.best(number, 1)[0]:
                out.write(f"{source}\t{pairs.target_words[target]}\n".encode())
        out.flush()


def _summarise(pairs: "TextPairs", *, maximum: int) -> None:
    usable, empty, long = pairs.counts(maximum=maximum)
    left_out = [f"{empty:,} with an empty side"] * bool(empty)
    left_out += [f"{long:,} with more than {maximum} words on a side"] * bool(long)
    typer.echo(f"{usable:,} pairs aligned" + (f"; left out: {', '.join(left_out)}" if left_out else ""), err=True)
