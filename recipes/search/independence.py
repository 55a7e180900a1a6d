"""Tests whether translations depend on their batch and, where one does, how close the two outcomes are.

    python -m recipes.search.independence MODEL... --source FILE [--precision float32] [--device cpu] [--out FILE]

translates sentences of FILE (plain or .gz, evenly spread over it) one by one, and again in random orders and batches of
several sizes, unsorted, so that short sentences are padded as much as possible. Every translation is compared with that
of the sentence alone. If they differ, the two searches are compared step by step up to the step where they diverge:

- *kept*: the beam kept another hypothesis. The gap is between the log-probabilities of the hypotheses that only one
  search kept, each scored by forced decoding alone.
- *ended*: a hypothesis ended among the K best in one search only. The gap is to the nearest hypothesis of that step.
- *ranked*: both searches had the same hypotheses and ranked another one first. The gap is between the two scores.

It prints one table row per model, then every difference; --out appends them to a file of JSON lines.
"""

import argparse
import random
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch

from calque.engine import DEVICES, MARKS, PRECISIONS, Translator, load_translator, pad_source
from calque.engine.ensemble import start_decoding
from calque.engine.forced_decoding import TargetTokens, force_decode
from calque.search.beam import BestK, Goal, beam_search
from calque.search.decode import limits_of, scoring_of
from calque.search.observers import Hooks, SearchStep
from calque.search.settings import SearchConfig
from calque.search.step import Hypothesis, Live
from recipes.runner.arguments import parser_of
from recipes.runner.files import append_jsonl, read_lines
from recipes.search.common import provenance

SENTENCES = 200
SIZES = (3, 32, SENTENCES)  # of batches, besides single sentences
NEAR = 1e-5  # outcomes this close can swap in float32
SCORE_NOISE = 2e-5  # of a log-probability per token in float32
Tokens = tuple[int, ...]
Ids = list[int]


class StepTrace(NamedTuple):
    """The hypotheses of one step of one sentence."""

    kept: frozenset[Tokens]
    ended: frozenset[Tokens]


class Trace(NamedTuple):
    """The best hypothesis of one sentence, and the steps of the search."""

    best: Hypothesis
    steps: list[StepTrace]


class Divergence(NamedTuple):
    """The step where two searches diverge, and how close the outcomes are."""

    kind: str  # kept, ended or ranked
    step: int
    gap: float


class Difference(NamedTuple):
    """A sentence whose translation in a batch differs from that of the sentence alone."""

    source: str
    size: int  # of the batches
    alone: str
    together: str
    divergence: Divergence


class Comparison(NamedTuple):
    """The comparison of sentences translated in batches with the same sentences translated alone."""

    alone: list[str]  # translations
    comparisons: int
    noise: float  # largest difference in log-probability per token between equal translations
    differences: list[Difference]


class TraceObserver:
    """Records the hypotheses that every sentence keeps and ends at every step of a search."""

    def __init__(self) -> None:
        self.steps: dict[int, list[StepTrace]] = {}  # by sentence

    def search_step(self, step: SearchStep) -> None:
        for row, sentence in enumerate(step.sentence.tolist()):
            trace = StepTrace(*(_hypotheses(live, row) for live in (step.live, step.ended)))
            self.steps.setdefault(sentence, []).append(trace)


@torch.inference_mode()
def search_batch(translator: Translator, batch: Sequence[Ids], *, search: SearchConfig) -> list[Trace]:
    """The best hypothesis of each source, padded and searched together."""
    source = pad_source(batch).to(translator.device)
    lengths = source.lengths.to(translator.device)
    decoding = start_decoding(
        translator.model, source, ensemble=translator.ensemble, search=search, attention=search.coverage > 0
    )
    observer = TraceObserver()
    hypotheses = beam_search(
        *decoding,
        expansion=BestK(search.beam),
        goal=Goal(scoring_of(search)),
        limits=limits_of(lengths, search=search),
        marks=MARKS,
        source_lengths=lengths,
        hooks=Hooks(observer),
    )
    return [Trace(hypotheses[row][0], observer.steps[row]) for row in range(len(batch))]


def in_batches(
    translator: Translator, ids: Sequence[Ids], *, search: SearchConfig, size: int, order: Sequence[int]
) -> list[Trace]:
    """The traces of all sources, searched in this order in batches of `size`; returned in the original order."""
    results: dict[int, Trace] = {}
    for start in range(0, len(order), size):
        places = order[start : start + size]
        traces = search_batch(translator, [ids[place] for place in places], search=search)
        results |= dict(zip(places, traces, strict=True))
    return [results[place] for place in range(len(ids))]


def compare(
    translator: Translator, sources: Sequence[str], *, search: SearchConfig, sizes: Sequence[int], seed: int
) -> Comparison:
    """Compares every source, searched in batches of every size and in random order, with the source searched alone."""
    generator = random.Random(seed)
    ids = translator.tokenizers.source.encode_many(sources)
    places = list(range(len(ids)))
    alone = in_batches(translator, ids, search=search, size=1, order=places)
    texts = [translator.tokenizers.target.decode(trace.best.tokens) for trace in alone]
    noise, differences = 0.0, []
    for size in sizes:
        together = in_batches(translator, ids, search=search, size=size, order=generator.sample(places, len(places)))
        for place, (single, batched) in enumerate(zip(alone, together, strict=True)):
            if not (isfinite(single.best.log_prob) and isfinite(batched.best.log_prob)):
                raise ValueError(f"{sources[place]!r}: the score is not a finite number, so nothing can be compared")
            if single.best.tokens == batched.best.tokens:
                noise = max(noise, abs(single.best.log_prob - batched.best.log_prob) / (len(single.best.tokens) + 1))
                continue
            text = translator.tokenizers.target.decode(batched.best.tokens)
            divergence = diverge(translator, ids[place], single, batched)
            differences.append(Difference(sources[place], size, texts[place], text, divergence))
    return Comparison(texts, len(ids) * len(sizes), noise, differences)


def diverge(translator: Translator, source: Ids, single: Trace, batched: Trace) -> Divergence:
    """The step at which two searches of the same source diverge, and why."""
    for step, (first, second) in enumerate(zip(single.steps, batched.steps, strict=False), start=1):
        if first.kept != second.kept:
            values = log_probs(translator, source, first.kept ^ second.kept)
            left, right = (
                [values[tokens] for tokens in side] for side in (first.kept - second.kept, second.kept - first.kept)
            )
            return Divergence("kept", step, max((_nearest(value, right) for value in left), default=torch.inf))
        if first.ended != second.ended:
            differing = first.ended ^ second.ended
            values = log_probs(translator, source, first.kept | differing)
            others = [values[tokens] for tokens in first.kept]
            return Divergence("ended", step, max(_nearest(values[tokens], others) for tokens in differing))
    return Divergence("ranked", min(len(single.steps), len(batched.steps)), abs(single.best.score - batched.best.score))


def log_probs(translator: Translator, source: Ids, hypotheses: frozenset[Tokens]) -> dict[Tokens, float]:
    """The log-probabilities of unfinished hypotheses by forced decoding, each alone."""
    values = {}
    for tokens in hypotheses:
        ((scores,),) = force_decode(translator.model, [source], [[TargetTokens(tokens, cut=True)]])
        values[tokens] = sum(scores.log_probs)
    return values


def table_row(name: str, comparison: Comparison, *, translator: Translator, precision: str) -> str:
    """The table row of a model."""
    gaps = sorted(difference.divergence.gap for difference in comparison.differences)
    gap = f"{median(gaps):.1e} ({gaps[-1]:.1e})" if gaps else ""
    kinds = ", ".join(
        f"{count} {kind}"
        for kind in ("kept", "ended", "ranked")
        if (count := sum(difference.divergence.kind == kind for difference in comparison.differences))
    )
    cells = [name, translator.device.type, precision, f"{comparison.comparisons:,}", str(len(gaps)), kinds, gap]
    return f"| {' | '.join([*cells, f'{comparison.noise:.1e}'])} |"


def spread(lines: Sequence[str], *, count: int) -> list[str]:
    """`count` non-empty lines, evenly spread."""
    filled = [line for line in lines if line.strip()]
    count = min(count, len(filled))
    return [filled[place * len(filled) // count] for place in range(count)]


def _hypotheses(live: Live, row: int) -> frozenset[Tokens]:
    rows = zip(live.tokens[row].tolist(), live.log_probs[row].tolist(), strict=True)
    return frozenset(tuple(tokens) for tokens, value in rows if value > -torch.inf)


def _nearest(value: float, others: Sequence[float]) -> float:
    return min((abs(value - other) for other in others), default=torch.inf)


def _row(comparison: Comparison, options: argparse.Namespace) -> dict[str, Any]:
    differences = [
        {**difference._asdict(), "divergence": difference.divergence._asdict()} for difference in comparison.differences
    ]
    settings = {"device": options.device, "precision": options.precision, "sizes": list(options.sizes)}
    return {**settings, "comparisons": comparison.comparisons, "noise": comparison.noise, "differences": differences}


def _main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=SENTENCES)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--beam", type=int, help="default: that of the model")
    parser.add_argument("--device", choices=DEVICES, default="cpu")
    parser.add_argument("--precision", choices=PRECISIONS, default="float32")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, help="a file of JSON lines to append to")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    sources = spread(read_lines(options.source), count=options.sentences)
    for path in options.models:
        translator = load_translator(path, device=options.device, precision=options.precision)
        search = translator.search.model_copy(update={"beam": options.beam} if options.beam else {})
        comparison = compare(translator, sources, search=search, sizes=options.sizes, seed=options.seed)
        name = path.parent.name if path.name == "model" else path.name
        print(table_row(name, comparison, translator=translator, precision=options.precision), flush=True)
        for difference in comparison.differences:
            kind, step, gap = difference.divergence
            print(f"  {kind} at step {step}, gap {gap:.2e}, batches of {difference.size}")
            print(f"    {difference.source}\n    alone:    {difference.alone}\n    together: {difference.together}")
        if options.out:
            append_jsonl(options.out, [{"model": name, **_row(comparison, options), "made_with": provenance()}])


if __name__ == "__main__":
    _main()
