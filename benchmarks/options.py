"""Options that the benchmark commands share, and how a command ends."""

import argparse
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from benchmarks.corpora import PHRASEBOOK_PAIRS, Corpus, open_corpus, write_phrasebook
from benchmarks.errors import BenchmarkError
from benchmarks.report import Report, show, write_json, write_note
from benchmarks.source_trees import SourceTree


def command_parser(name: str, *, description: str | None) -> argparse.ArgumentParser:
    """The parser of `python -m benchmarks.NAME`, with a module's docstring as its help."""
    return argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options for contenders, corpus, rounds and results."""
    parser.add_argument(
        "--against",
        action="append",
        default=[],
        metavar="PATH_OR_REV",
        help="another version of Calque: a folder that holds src/calque, or a git revision; may be repeated",
    )
    parser.add_argument(
        "--corpus", type=Path, help="a folder with train.de.gz, train.en.gz, … (default: the phrasebook)"
    )
    parser.add_argument("--from", dest="source", default="de", metavar="LANGUAGE", help="source language (default: de)")
    parser.add_argument("--to", dest="target", default="en", metavar="LANGUAGE", help="target language (default: en)")
    parser.add_argument("--vocabulary", type=positive, default=8000, help="maximum vocabulary size (default: 8000)")
    parser.add_argument("--rounds", type=positive, default=5, help="interleaved rounds (default: 5)")
    parser.add_argument(
        "--threads",
        type=positive,
        default=1,
        help="CPU threads (default: 1); with more than 1, speeds are per second of wall time",
    )
    add_report_options(parser)


def add_report_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options for where results are written."""
    parser.add_argument("--json", type=Path, metavar="FILE", help="save every measurement to this file")
    parser.add_argument("--note", action="store_true", help="add the table to benchmarks/results/")


def add_system_option(parser: argparse.ArgumentParser) -> None:
    """Adds the option that replaces the usual model of `--work`."""
    parser.add_argument("--system", help="a named system instead of the usual model of --work")


def add_peers_option(parser: argparse.ArgumentParser) -> None:
    """Adds the option that compares other toolkits too."""
    parser.add_argument(
        "--peers", type=Path, metavar="DIR", help="also compare other toolkits, which are installed in this folder"
    )


def positive(text: str) -> int:
    """Parses a whole number of at least 1."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: expected a whole number of at least 1")
    return number


def parse_sizes(sizes: Sequence[int], *, option: str) -> tuple[int, int]:
    """The sizes SHORT and LONG of an option; raises a BenchmarkError unless LONG is larger."""
    short, long = sizes
    if short >= long:
        raise BenchmarkError(f"{option} {short} {long}: the second number must be larger than the first")
    return short, long


def parse_tokens_of(assignments: Sequence[str], *, names: Sequence[str]) -> dict[str, int]:
    """The numbers N of all options `--tokens-of NAME=N`, by the contender's name."""
    tokens = {}
    for text in assignments:
        name, _, number = text.rpartition("=")
        if name not in names:
            raise BenchmarkError(f"--tokens-of {text}: no contender {name!r}; choose from {', '.join(names)}")
        if not (number.isascii() and number.isdigit() and int(number)):
            raise BenchmarkError(f"--tokens-of {text}: {number!r} is not a positive whole number")
        tokens[name] = int(number)
    return tokens


def chosen_corpus(
    options: argparse.Namespace, *, tree: SourceTree, folder: Path, pairs: int = PHRASEBOOK_PAIRS
) -> Corpus:
    """The corpus given by the options; if there is none, `tree` generates a phrasebook of `pairs` pairs."""
    if options.corpus is None:
        return write_phrasebook(tree, folder=folder, source=options.source, target=options.target, pairs=pairs)
    return open_corpus(options.corpus, source=options.source, target=options.target)


def progress(text: str) -> None:
    """Prints a line to standard error."""
    print(text, file=sys.stderr, flush=True)


def run_command(compare: Callable[[], Report], *, json: Path | None, note: bool) -> int:
    """Runs a comparison, prints and saves its report, and returns the exit code; an error is printed as one message.

    Ctrl-C and SIGTERM end the contender that is running and remove the temporary folder.
    """
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        if json is not None and not json.absolute().parent.is_dir():
            raise BenchmarkError(f"--json {json}: no such folder")
        report = compare()
    except BenchmarkError as error:
        progress(f"benchmarks: {error}")
        return error.code
    except KeyboardInterrupt:
        progress("benchmarks: stopped; nothing was saved")
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)
    show(report)
    if json is not None:
        write_json(report, json)
    if note:
        progress(f"wrote {write_note(report)}")
    return 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
