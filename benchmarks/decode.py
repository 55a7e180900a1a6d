"""Measures how fast contenders decode, greedily and with a beam of 5: sentences and tokens per CPU-second, peak memory.

    python -m benchmarks.decode --against main
    python -m benchmarks.decode --against v0.1 --model runs/1 --corpus DIR --lines 100 3000 --note
    python -m benchmarks.decode --peers .peers --model runs/1 --corpus DIR --note
    python -m benchmarks.decode --peers .peers --work lstm --model runs/2 --corpus DIR --threads 2

Run from the root of the repository. The working tree is called `here`; other contenders have the names that --against
gives them. All contenders use the same model: --model, which is trained first if there is no such folder, or a
temporary one. Every contender translates a SHORT and a LONG file, each in a new process; the long file begins with the
lines of the short one. The difference in lines is divided by the difference in seconds, so that start-up
does not count. Contenders take turns. No round is discarded: an unmeasured run comes before the first. With one thread
the unit is CPU-seconds, with more it is seconds of wall time. Translations are compared byte by byte. Further
KEY=VALUE arguments are search settings of all contenders.

With --peers DIR, other toolkits decode with the same weights (benchmarks/peers/install installs them in DIR):
CTranslate2 in float32 and int8 for a Transformer, OpenNMT-py for an LSTM. Calque then takes part twice: as `here`
with its default search, and as `here same rules` with the length limits of the peers and, with a beam, `stopping=first`
and CTranslate2's scores. Before anything is timed, greedy translations of the same weights in float32 must be the same
text for 99 % of the lines. --shortlist needs a model with a shortlist (`calque shortlist`).

With --device cuda, a GPU is measured instead; see `python -m benchmarks.decode --device cuda --help`.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import decode_gpu
from benchmarks.corpora import Corpus, read_lines, write_lines
from benchmarks.decoders import CalqueDecoder, Decoder
from benchmarks.errors import BenchmarkError, ContenderError
from benchmarks.figures import (
    UNITS,
    Clock,
    Measured,
    Spread,
    clock_for,
    difference_rate,
    interleaved,
    spread,
    spread_of_ratios,
)
from benchmarks.floor import Floor, measure_floor, read_model_config
from benchmarks.machine import this_machine
from benchmarks.operations import decoding_operations
from benchmarks.options import (
    add_common_options,
    add_peers_option,
    add_system_option,
    chosen_corpus,
    command_parser,
    parse_sizes,
    positive,
    progress,
    run_command,
)
from benchmarks.outputs import comparison_of, differing_lines, remarks_on
from benchmarks.peers.decoders import BATCH_TOKENS, PEERS, SAME_LIMITS, SAME_SCORES, PeerDecoder, prepare_peers
from benchmarks.peers.environments import described_peers, open_environments
from benchmarks.peers.texts import mean_length
from benchmarks.processes import Usage
from benchmarks.report import Report, command_line, remarks_on_table, shown_bytes, shown_spread
from benchmarks.source_trees import HERE, SourceTree, described_trees, open_trees
from benchmarks.works import MODELS, Work

SAME_TEXT = 0.99  # share of lines, at least, that the same weights must translate alike in float32


class Contenders(NamedTuple):
    """The contenders that decode with one beam size."""

    decoders: Sequence[Decoder]
    bases: tuple[str, ...] = (HERE,)  # contenders that get a column of ratios
    text_base: str = HERE  # whose output the others' is compared with


class Files(NamedTuple):
    """The files to translate: the first lines of a test set (short), and more of them (long)."""

    short: Path
    long: Path
    lines: tuple[int, int]


class Round(NamedTuple):
    """A short and a long file translated by one contender, one after the other."""

    short: Usage
    long: Usage
    output: bytes  # of the long file

    def speed(self, amounts: tuple[int, int], *, clock: Clock) -> float:
        """Sentences or tokens per second, without start-up; `amounts` are the counts of both files."""
        short, long = (Measured(*pair) for pair in zip(amounts, (self.short, self.long), strict=True))
        return difference_rate(short, long, clock=clock)


class Series(NamedTuple):
    """All rounds with one beam size, by contender."""

    beam: int
    lines: tuple[int, int]
    tokens: dict[str, tuple[int, int]]  # output tokens of both files
    rounds: dict[str, list[Round]]
    bases: tuple[str, ...] = (HERE,)
    text_base: str = HERE
    precisions: dict[str, str] = {}  # noqa: RUF012
    floor: Floor | None = None

    def speeds(self, clock: Clock) -> dict[str, list[float]]:
        """Sentences per second, round by round."""
        return {name: [pair.speed(self.lines, clock=clock) for pair in rounds] for name, rounds in self.rounds.items()}

    def token_speeds(self, clock: Clock) -> dict[str, list[float]]:
        """Output tokens per second, round by round."""
        return {
            name: [pair.speed(self.tokens[name], clock=clock) for pair in rounds]
            for name, rounds in self.rounds.items()
        }

    def outputs(self) -> dict[str, list[bytes]]:
        """The translations of every round, by contender."""
        return {name: [pair.output for pair in rounds] for name, rounds in self.rounds.items()}

    def values(self, clock: Clock) -> dict[str, Any]:
        """The results as JSON values."""
        speeds = self.speeds(clock)
        return {
            "beam": self.beam,
            "lines": self.lines,
            "tokens": self.tokens,
            "rounds": {
                name: [{"short": pair.short._asdict(), "long": pair.long._asdict()} for pair in rounds]
                for name, rounds in self.rounds.items()
            },
            "speeds": speeds,
            "floor": self.floor._asdict() if self.floor else None,
            "ratios": {name: ratio._asdict() for name, ratio in spread_of_ratios(speeds, of=HERE).items()},
            "ratios_of": {
                base: {name: ratio._asdict() for name, ratio in spread_of_ratios(speeds, of=base).items()}
                for base in self.bases
            },
            "outputs": {name: comparison_of(self.outputs(), name, base=self.text_base) for name in self.rounds},
        }


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the benchmark and returns the exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if "--device" in words:
        return decode_gpu.main(words)
    options = parse(words)
    return run_command(partial(compare, options, words=words), json=options.json, note=options.note)


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parses the command line."""
    parser = command_parser("decode", description=__doc__)
    add_common_options(parser)
    parser.add_argument(
        "--model", type=Path, metavar="DIR", help="a run or model folder; the model is trained there if there is none"
    )
    parser.add_argument(
        "--lines",
        type=positive,
        nargs=2,
        default=(100, 2000),
        metavar=("SHORT", "LONG"),
        help="lines per file (default: 100 2000)",
    )
    add_peers_option(parser)
    parser.add_argument(
        "--precision",
        nargs="+",
        default=["float32"],
        metavar="P",
        help="precisions of the working tree, one contender each (default: float32)",
    )
    parser.add_argument(
        "--shortlist",
        action="store_true",
        help="also measure the working tree with the shortlist of --model (`calque shortlist`), and CTranslate2 with "
        "this shortlist as its vocabulary map",
    )
    parser.add_argument(
        "--beams",
        type=positive,
        nargs="+",
        default=(1, 5),
        metavar="K",
        help="beam sizes; 1 is greedy search (default: 1 5)",
    )
    translating = [name for name in MODELS if name != "language-model"]
    parser.add_argument(
        "--work",
        choices=translating,
        default="transformer",
        help="the kind of model to train if --model does not exist",
    )
    add_system_option(parser)
    parser.add_argument("--steps", type=positive, default=300, help="training steps of that model (default: 300)")
    parser.add_argument(
        "--tokens", type=positive, default=1024, help="training.batch.tokens of that model (default: 1024)"
    )
    parser.add_argument(
        "--trained-by",
        default=HERE,
        metavar="NAME",
        help="the contender that trains this model; older versions may not read models of newer ones (default: here)",
    )
    parser.add_argument("settings", nargs="*", metavar="KEY=VALUE", help="further search settings")
    return parser.parse_intermixed_args(words)


def compare(options: argparse.Namespace, *, words: Sequence[str]) -> Report:
    """Translates with every contender in turn and returns the report."""
    lines = parse_sizes(options.lines, option="--lines")
    trainer = position_of(options.trained_by, names=[HERE, *options.against])
    environments = open_environments(options.peers, PEERS[options.work]) if options.peers else []
    clock = clock_for(options.threads)
    with tempfile.TemporaryDirectory(prefix="calque-decode-") as name:
        folder = Path(name)
        trees = open_trees(options.against, folder=folder)
        corpus = chosen_corpus(options, tree=trees[0], folder=folder)
        files = write_files(corpus, lines=lines, folder=folder)
        work = Work(options.work, corpus, options.tokens, options.vocabulary, options.threads, options.system)
        model = (options.model or folder / "model").resolve()
        if not model.exists():
            progress(f"training a model for {options.steps} steps")
            train_model(trees[trainer], work=work, steps=options.steps, run=model, folder=folder)
        calque = [CalqueDecoder(tree, model, options.threads, tuple(options.settings)) for tree in trees]
        peers = prepare_peers(environments, model, threads=options.threads, folder=folder, shortlist=options.shortlist)
        ours = with_same_rules(calque[0], beam=1)
        agreement = [agreement_of(ours, peer, files=files, folder=folder) for peer in peers if peer.is_exact]
        machine = this_machine()
        series = [
            measure(
                contenders(calque, peers, beam=beam, precisions=options.precision, shortlist=options.shortlist),
                files=files,
                beam=beam,
                rounds=options.rounds,
                clock=clock,
                folder=folder,
            )
            for beam in options.beams
        ]
        progress("measuring the chip's peak for these products")
        series = [with_floor(search, model=model, files=files, threads=options.threads) for search in series]
    usages = [
        usage
        for search in series
        for rounds in search.rounds.values()
        for pair in rounds
        for usage in (pair.short, pair.long)
    ]
    bases = list(dict.fromkeys(base for search in series for base in search.bases))
    trained = model.name if options.model else f"{work.name}, {options.steps} steps"
    return Report(
        f"decode-{work.name}",
        command_line("benchmarks.decode", words),
        machine,
        {
            "work": f"model {trained}; {corpus.name}, {lines[0]:,} and {lines[1]:,} lines, {options.rounds} rounds",
            "threads": str(options.threads),
            "sources": described_trees(trees),
            **({"peers": described_peers(environments)} if environments else {}),
            **{
                f"floor, {search_name(search.beam)}": search.floor.described("sentence", UNITS[clock])
                for search in series
                if search.floor
            },
        },
        [
            *("contender, search", f"sentences / {UNITS[clock]}", *(f"{base} ÷ it" for base in bases)),
            *(f"output tokens / {UNITS[clock]}", "tokens / sentence", "of the floor", "peak RSS", "output"),
        ],
        [row for search in series for row in table(search, bases=bases, clock=clock)],
        [
            *remarks_on_table(base=HERE, usages=usages, threads=options.threads),
            *agreement,
            *(
                remark
                for search in series
                for remark in remarks_on(search.outputs(), base=search.text_base, beam=search.beam)
            ),
        ],
        {"searches": [search.values(clock) for search in series]},
    )


def contenders(
    calque: Sequence[CalqueDecoder],
    peers: Sequence[PeerDecoder],
    *,
    beam: int,
    precisions: Sequence[str],
    shortlist: bool = False,
) -> Contenders:
    """The contenders: the working tree in each precision, with peers also under their rules, and all others.

    With `shortlist`, each of these variants of the working tree takes part with a shortlist too.
    """
    here, *others = calque
    variants = []
    for precision in precisions:
        ours = here if precision == "float32" else here._replace(precision=precision, label=precision)
        variants += [ours, with_same_rules(ours, beam=beam)] if peers else [ours]
    listed = [with_shortlist(variant) for variant in variants] if shortlist else []
    names = tuple(variant.name for variant in variants)
    return Contenders([*variants, *listed, *others, *peers], names, names[1 if peers else 0])


def with_shortlist(ours: CalqueDecoder) -> CalqueDecoder:
    """Calque with the shortlist of its model."""
    return ours._replace(settings=(*ours.settings, "shortlist=true"), label=f"{ours.label} shortlist".lstrip())


def with_same_rules(ours: CalqueDecoder, *, beam: int) -> CalqueDecoder:
    """Calque with the length limits and, with a beam, the stopping rule and the scores of CTranslate2."""
    rules = (*SAME_LIMITS, *(SAME_SCORES if beam > 1 else ()))
    return ours._replace(settings=(*ours.settings, *rules), label=f"{ours.label} same rules".lstrip())


def agreement_of(ours: Decoder, peer: Decoder, *, files: Files, folder: Path) -> str:
    """States the share of lines that a peer translates as Calque does; raises a ContenderError if it is too low."""
    texts = []
    for number, decoder in enumerate((ours, peer)):
        progress(f"greedy translations of {decoder.name}, to be compared")
        output = folder / f"agreement-{number}.txt"
        decoder.translate(files.long, output=output, beam=1)
        texts.append(output.read_bytes())
    lines = files.lines[1]
    share = 1 - len(differing_lines(*texts)) / lines
    found = f"{peer.name} gives the same text as {ours.name} for {share:.2%} of {lines:,} lines (greedy, same weights)"
    if share < SAME_TEXT:
        number = differing_lines(*texts)[0]
        our, their = (text.split(b"\n")[number - 1].decode(errors="replace") for text in texts)
        raise ContenderError(
            f"{found}; at least {SAME_TEXT:.0%} is required, so these are not the same weights or not the same search. "
            f"Line {number} is {our!r} and {their!r}"
        )
    progress(found)
    return f"{found}; at least {SAME_TEXT:.0%} is required."


def write_files(corpus: Corpus, *, lines: tuple[int, int], folder: Path) -> Files:
    """Writes both input files: lines of the test set and, if these are too few, of the training set."""
    sentences = [line for path in (corpus.test_source, corpus.source) for line in read_lines(path, limit=lines[1])]
    if len(sentences) < lines[1]:
        raise BenchmarkError(
            f"--lines {lines[0]} {lines[1]}: {corpus.name} has only {len(sentences):,} test and training lines"
        )
    short, long = (write_lines(folder / f"{count}.source", sentences[:count]) for count in lines)
    return Files(short, long, lines)


def position_of(name: str, *, names: Sequence[str]) -> int:
    """The index of the contender with this name."""
    if name not in names:
        raise BenchmarkError(f"--trained-by {name}: no such contender; choose from {', '.join(names)}")
    return names.index(name)


def train_model(tree: SourceTree, *, work: Work, steps: int, run: Path, folder: Path) -> None:
    """Trains a model to decode with; its run folder has the last weights, whatever their score."""
    tree.calque(
        *("train", *work.model_options(), *work.corpus_options(), "--run", run),
        *("--valid-source", work.corpus.valid_source, "--valid-target", work.corpus.valid_target),
        *(f"training.{key}={steps}" for key in ("steps", "validate_every", "checkpoint_every")),
        *(f"training.batch.tokens={work.tokens}", f"text.vocabulary_size={work.vocabulary}"),
        *("training.device=cpu", f"training.threads={work.threads}", "seed=1"),
        folder=folder,
        threads=work.threads,
    )


def measure(contenders: Contenders, *, files: Files, beam: int, rounds: int, clock: Clock, folder: Path) -> Series:
    """Measures the rounds of every contender with one beam size."""
    decoders = contenders.decoders
    tokens: dict[str, tuple[int, int]] = {}
    for decoder in decoders:
        progress(f"beam {beam}: counting the output tokens of {decoder.name}")
        counts = decoder.count_tokens(files.long, beam=beam, folder=folder)
        tokens[decoder.name] = (sum(counts[: files.lines[0]]), sum(counts))
    measured: dict[str, list[Round]] = {decoder.name: [] for decoder in decoders}
    output = folder / "output.txt"
    for number, decoder in interleaved(decoders, rounds=rounds):
        short, long = (decoder.translate(source, output=output, beam=beam) for source in (files.short, files.long))
        pair = Round(short, long, output.read_bytes())
        measured[decoder.name].append(pair)
        progress(
            f"round {number} of {rounds}, beam {beam}, {decoder.name}: {getattr(short, clock):.1f} and "
            f"{getattr(long, clock):.1f} {UNITS[clock]}, {pair.speed(files.lines, clock=clock):,.1f} sentences "
            f"/ {UNITS[clock]}"
        )
    precisions = {decoder.name: decoder.precision for decoder in decoders}
    return Series(beam, files.lines, tokens, measured, contenders.bases, contenders.text_base, precisions)


def with_floor(series: Series, *, model: Path, files: Files, threads: int) -> Series:
    """Adds the floor to a series, unless the operations of this kind of model cannot be counted."""
    folder = model / "model" if (model / "model").is_dir() else model
    config, tokenizer = read_model_config(folder / "config.toml"), folder / "tokenizer" / "joint.model"
    if config is None or not tokenizer.exists():
        return series
    source = mean_length(files.long, tokenizer=tokenizer)
    target = series.tokens[series.text_base][1] / series.lines[1]
    values, vocabulary = config
    try:
        work = decoding_operations(values, source=source, target=target, vocabulary=vocabulary, beam=series.beam)
    except BenchmarkError as error:
        progress(f"no floor: {error}")
        return series
    rows = round(BATCH_TOKENS / source * series.beam)
    return series._replace(floor=measure_floor(work, amount=1, rows=rows, threads=threads))


def table(series: Series, *, bases: Sequence[str], clock: Clock) -> list[list[str]]:
    """One row per contender, with its ratio to each of the bases."""
    speeds, token_speeds = series.speeds(clock), series.token_speeds(clock)
    ratios = {base: spread_of_ratios(speeds, of=base) for base in bases if base in speeds}
    return [
        [
            f"{name}, {search_name(series.beam)}",
            shown_spread(spread(speeds[name]), digits=1),
            *(shown_ratio(name, ratios.get(base), base=base) for base in bases),
            shown_spread(spread(token_speeds[name]), digits=0),
            f"{series.tokens[name][1] / series.lines[1]:.1f}",
            shown_share(series, name, speed=spread(speeds[name]).median),
            shown_bytes(statistics.median(pair.long.peak for pair in rounds)),
            comparison_of(series.outputs(), name, base=series.text_base),
        ]
        for name, rounds in series.rounds.items()
    ]


def search_name(beam: int) -> str:
    """The name of a search in tables: greedy, or beam 5."""
    return "greedy" if beam == 1 else f"beam {beam}"


def shown_share(series: Series, name: str, *, speed: float) -> str:
    """The speed of a contender as a share of the highest possible speed in its precision."""
    return series.floor.share(speed, precision=series.precisions[name]) if series.floor else "–"


def shown_ratio(name: str, ratios: Mapping[str, Spread] | None, *, base: str) -> str:
    """The speed of `base` divided by that of a contender; a dash if `base` did not take part."""
    if ratios is None:
        return "–"
    return "1" if name == base else shown_spread(ratios[name], digits=3)


if __name__ == "__main__":
    sys.exit(main())
