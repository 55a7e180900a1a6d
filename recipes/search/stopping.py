"""The cost of exact stopping: searching until no better hypothesis is possible.

    python -m recipes.search.stopping MODEL CORPUS OUT [--beams 5 16] [--limit N]

writes OUT/stopping.jsonl: BLEU, decoder steps and CPU seconds on test_2016_flickr for every stopping rule. Rules take
turns batch by batch in one process, so that other load on the machine affects all of them.
"""

import time
from typing import Any, get_args

import torch

from calque.engine import MARKS, Translator
from calque.search.decode import Rules, decode, limits_of
from calque.search.observers import Hooks
from calque.search.settings import SearchConfig
from recipes.runner.files import append_jsonl, read_jsonl
from recipes.search.common import TEST, Pairs, parse_arguments, provenance, read_pairs, score
from recipes.search.shared_search import DecoderCost, batches

RESULTS = "stopping.jsonl"
BEAMS = (5, 16)
RULES = get_args(SearchConfig.model_fields["stopping"].annotation)  # exact, first, patience
ALPHA = 1.0


@torch.inference_mode()
def measure(translator: Translator, pairs: Pairs, *, beam: int) -> list[dict[str, Any]]:
    """Measures every stopping rule; returns one row per rule."""
    searches = {rule: SearchConfig(beam=beam, length_penalty=ALPHA, stopping=rule) for rule in RULES}
    texts = {rule: [""] * len(pairs.sources) for rule in RULES}
    totals = {rule: {"steps": 0, "rows": 0, "seconds": 0.0} for rule in RULES}
    for number, (places, decoding, lengths) in enumerate(batches(translator, pairs.sources, search=searches["exact"])):
        turn = number % len(RULES)
        for rule in (*RULES[turn:], *RULES[:turn]):
            cost = DecoderCost()
            started = time.process_time()
            hypotheses = decode(
                *decoding,
                source_lengths=lengths,
                limits=limits_of(lengths, search=searches[rule]),
                search=searches[rule],
                marks=MARKS,
                rules=Rules(),
                nbest=1,
                hooks=Hooks(cost),
            )
            totals[rule]["seconds"] += time.process_time() - started
            totals[rule]["steps"] += cost.steps
            totals[rule]["rows"] += cost.rows
            for place, (best,) in zip(places, hypotheses, strict=True):
                texts[rule][place] = translator.tokenizers.target.decode(best.tokens)
    return [
        {
            "stopping": rule,
            "beam": beam,
            "sentences": len(pairs.sources),
            **score(texts[rule], pairs.references),
            **totals[rule],
            "same_as_exact": sum(text == exact for text, exact in zip(texts[rule], texts["exact"], strict=True)),
            "made_with": provenance(),
        }
        for rule in RULES
    ]


def _main() -> None:
    options = parse_arguments(__doc__, beams=BEAMS)
    pairs = read_pairs(options.corpus, TEST, limit=options.limit)
    options.translator.translate(pairs.sources[:8])  # warm up
    for beam in options.beams:
        existing = {(row["beam"], row["sentences"]) for row in read_jsonl(options.out / RESULTS)}
        if (beam, len(pairs.sources)) not in existing:
            append_jsonl(options.out / RESULTS, measure(options.translator, pairs, beam=beam))
    for row in read_jsonl(options.out / RESULTS):
        numbers = f"{row['bleu_lowercased']:.2f}  {row['rows']:,} rows  {row['seconds']:.0f} s"
        print(f"beam {row['beam']:2}  {row['stopping']:8}  {numbers}")


if __name__ == "__main__":
    _main()
