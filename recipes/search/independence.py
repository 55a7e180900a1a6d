"""Whether a translation depends on what else is in its batch; where one does, by how little its two outcomes differ.

    python recipes/search/independence.py MODEL... --source FILE [--precision float32] [--device cpu] [--out FILE]

translates sentences of FILE (plain or .gz, evenly spread over it) one by one, and again in random orders and batches of
several sizes, unsorted, so that short ones are padded as far as can be. Each translation is compared with the one made
alone. For one that differs, both searches are gone through step by step until they part:

- *kept*: the beam kept another hypothesis. The gap is between the log-probabilities of what one kept and the other did
  not, each read back alone.
- *ended*: a hypothesis was among the K best with its end in one search and not in the other. The gap is to the nearest
  hypothesis of that step.
- *ranked*: both looked at the same hypotheses and another one came first. The gap is between the two scores.

It prints a row of a table for each model, then every difference; --out adds them to a file of JSON lines.
"""

import argparse
import random
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from sentences import append_rows, made_with, read_lines
from torch import Tensor

import calque
from calque.engine import DEVICES, MARKS, PRECISIONS, Translator, pad_source
from calque.engine.ensemble import start_decoding
from calque.engine.forced_decoding import Answer, read_back
from calque.search.beam import BestK, Expansion, Extended, Goal, Live, beam_search
from calque.search.decode import limits_of, scoring_of
from calque.search.settings import SearchConfig
from calque.search.step import Hypothesis

SENTENCES = 200
SIZES = (3, 32, SENTENCES)  # of batches, beside those of one
NEAR = 1e-5  # outcomes that are so near each other may change places in float32
SCORE_NOISE = 2e-5  # of a log-probability, for each token, in float32
Tokens = tuple[int, ...]
Ids = list[int]


class Seen(NamedTuple):
    """What a search looked at in one step of one sentence."""

    kept: frozenset[Tokens]
    ended: frozenset[Tokens]


class Found(NamedTuple):
    """A search's answer to one sentence, and how it came to it."""

    best: Hypothesis
    steps: list[Seen]


class Parting(NamedTuple):
    """Where two searches part, and by how little."""

    kind: str  # kept, ended or ranked
    step: int
    gap: float


class Difference(NamedTuple):
    """A sentence that is translated differently alone and in a batch."""

    source: str
    size: int  # of the batches
    alone: str
    together: str
    parting: Parting


class Compared(NamedTuple):
    """What became of sentences in batches, beside themselves alone."""

    alone: list[str]  # translations
    comparisons: int
    noise: float  # the largest difference of log-probabilities, for each token, between equal translations
    differences: list[Difference]


class Traced:
    """An expansion that remembers what every sentence of the batch kept and ended at every step."""

    def __init__(self, inner: Expansion) -> None:
        self.inner = inner
        self.steps: list[tuple[Tensor, Extended]] = []

    def start(self, sentences: Tensor) -> Any:
        return torch.arange(len(sentences), device=sentences.device), self.inner.start(sentences)

    def extend(self, live: Live, log_probs: Tensor, memory: Any, *, end: int) -> tuple[Extended, Any]:
        rows, own = memory
        grown, own = self.inner.extend(live, log_probs, own, end=end)
        self.steps.append((rows, grown))
        return grown, (rows, own)

    def missing_phrase(self, memory: Any) -> Tensor | None:
        return self.inner.missing_phrase(memory[1])

    def of(self, sentence: int) -> list[Seen]:
        """The steps of one sentence of the batch."""
        found = []
        for rows, grown in self.steps:
            for row in (rows == sentence).nonzero().flatten().tolist():
                found.append(Seen(*(_there(live, row) for live in (grown.live, grown.ended))))
        return found


@torch.inference_mode()
def search_batch(translator: Translator, batch: Sequence[Ids], *, search: SearchConfig) -> list[Found]:
    """The best hypothesis of each source, padded and searched together."""
    source = pad_source(batch).to(translator.device)
    lengths = source.lengths.to(translator.device)
    decoding = start_decoding(
        translator.model, source, ensemble=translator.ensemble, search=search, attention=search.coverage > 0
    )
    traced = Traced(BestK(search.beam))
    answers = beam_search(
        *decoding,
        expansion=traced,
        goal=Goal(scoring_of(search)),
        limits=limits_of(lengths, search=search),
        marks=MARKS,
        source_lengths=lengths,
    )
    return [Found(answers[row][0], traced.of(row)) for row in range(len(batch))]


def in_batches(
    translator: Translator, ids: Sequence[Ids], *, search: SearchConfig, size: int, order: Sequence[int]
) -> list[Found]:
    """What is found for each source when they are searched in this order, so many at a time; in their own order."""
    results: dict[int, Found] = {}
    for start in range(0, len(order), size):
        places = order[start : start + size]
        found = search_batch(translator, [ids[place] for place in places], search=search)
        results |= dict(zip(places, found, strict=True))
    return [results[place] for place in range(len(ids))]


def compare(
    translator: Translator, sources: Sequence[str], *, search: SearchConfig, sizes: Sequence[int], seed: int
) -> Compared:
    """Every source in batches of every size, each time in another random order, beside the same source alone."""
    generator = random.Random(seed)
    ids = translator.tokenizers.source.encode_many(sources)
    places = list(range(len(ids)))
    alone = in_batches(translator, ids, search=search, size=1, order=places)
    texts = [translator.tokenizers.target.decode(each.best.tokens) for each in alone]
    noise, differences = 0.0, []
    for size in sizes:
        together = in_batches(translator, ids, search=search, size=size, order=generator.sample(places, len(places)))
        for place, (one, other) in enumerate(zip(alone, together, strict=True)):
            if not (isfinite(one.best.log_prob) and isfinite(other.best.log_prob)):
                raise ValueError(f"no score that is a number for {sources[place]!r}: there is nothing to compare")
            if one.best.tokens == other.best.tokens:
                noise = max(noise, abs(one.best.log_prob - other.best.log_prob) / (len(one.best.tokens) + 1))
                continue
            text = translator.tokenizers.target.decode(other.best.tokens)
            parting = part(translator, ids[place], one, other)
            differences.append(Difference(sources[place], size, texts[place], text, parting))
    return Compared(texts, len(ids) * len(sizes), noise, differences)


def part(translator: Translator, source: Ids, one: Found, other: Found) -> Parting:
    """Where two searches of the same source part."""
    for step, (mine, theirs) in enumerate(zip(one.steps, other.steps, strict=False), start=1):
        if mine.kept != theirs.kept:
            values = log_probs(translator, source, mine.kept ^ theirs.kept)
            left, right = (
                [values[each] for each in side] for side in (mine.kept - theirs.kept, theirs.kept - mine.kept)
            )
            return Parting("kept", step, max((_nearest(value, right) for value in left), default=torch.inf))
        if mine.ended != theirs.ended:
            parted = mine.ended ^ theirs.ended
            values = log_probs(translator, source, mine.kept | parted)
            others = [values[each] for each in mine.kept]
            return Parting("ended", step, max(_nearest(values[each], others) for each in parted))
    return Parting("ranked", min(len(one.steps), len(other.steps)), abs(one.best.score - other.best.score))


def log_probs(translator: Translator, source: Ids, hypotheses: frozenset[Tokens]) -> dict[Tokens, float]:
    """What the model, reading each alone, gives hypotheses as far as they go."""
    found = {}
    for tokens in hypotheses:
        ((reading,),) = read_back(translator.model, [source], [[Answer(tokens, cut=True)]])
        found[tokens] = sum(reading.log_probs)
    return found


def table_row(name: str, found: Compared, *, translator: Translator, precision: str) -> str:
    """A model's row, in Markdown."""
    gaps = sorted(each.parting.gap for each in found.differences)
    gap = f"{median(gaps):.1e} ({gaps[-1]:.1e})" if gaps else ""
    kinds = ", ".join(
        f"{sum(each.parting.kind == kind for each in found.differences)} {kind}"
        for kind in ("kept", "ended", "ranked")
        if any(each.parting.kind == kind for each in found.differences)
    )
    cells = [name, translator.device.type, precision, f"{found.comparisons:,}", str(len(gaps)), kinds, gap]
    return f"| {' | '.join([*cells, f'{found.noise:.1e}'])} |"


def spread(lines: Sequence[str], *, count: int) -> list[str]:
    """So many lines that are not empty, evenly spread."""
    filled = [line for line in lines if line.strip()]
    count = min(count, len(filled))
    return [filled[place * len(filled) // count] for place in range(count)]


def _there(live: Live, row: int) -> frozenset[Tokens]:
    rows = zip(live.tokens[row].tolist(), live.log_probs[row].tolist(), strict=True)
    return frozenset(tuple(tokens) for tokens, value in rows if value > -torch.inf)


def _nearest(value: float, others: Sequence[float]) -> float:
    return min((abs(value - each) for each in others), default=torch.inf)


def _lines(path: Path) -> list[str]:
    if path.suffix == ".gz":
        return read_lines(path)
    return [line.rstrip("\r") for line in path.read_text(encoding="utf-8").split("\n")]


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=Path, nargs="+", metavar="MODEL")
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--sentences", type=int, default=SENTENCES)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--beam", type=int, help="else the model's own")
    parser.add_argument("--device", choices=DEVICES, default="cpu")
    parser.add_argument("--precision", choices=PRECISIONS, default="float32")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, help="a file of JSON lines to add to")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    sources = spread(_lines(given.source), count=given.sentences)
    for path in given.models:
        translator = calque.load(path, device=given.device, precision=given.precision)
        search = translator.search.model_copy(update={"beam": given.beam} if given.beam else {})
        found = compare(translator, sources, search=search, sizes=given.sizes, seed=given.seed)
        name = path.parent.name if path.name == "model" else path.name
        print(table_row(name, found, translator=translator, precision=given.precision), flush=True)
        for each in found.differences:
            print(
                f"  {each.parting.kind} at step {each.parting.step}, gap {each.parting.gap:.2e}, batches of {each.size}"
            )
            print(f"    {each.source}\n    alone:    {each.alone}\n    together: {each.together}", flush=True)
        if given.out:
            told = [{**each._asdict(), "parting": each.parting._asdict()} for each in found.differences]
            asked = {"model": name, "device": given.device, "precision": given.precision, "sizes": list(given.sizes)}
            numbers = {"comparisons": found.comparisons, "noise": found.noise, "differences": told}
            append_rows(given.out, [{**asked, **numbers, "made_with": made_with()}])


if __name__ == "__main__":
    _main()
