"""What it costs to stop a search only when nothing better can come.

    python recipes/search/stopping.py MODEL CORPUS OUT [--beams 5 16] [--limit N]

writes OUT/stopping.jsonl: BLEU, decoder steps and CPU seconds of test_2016_flickr for each way to stop. The ways take
turns batch by batch in one process, so that what else the machine does falls on all of them.
"""

import time
from typing import Any, get_args

import torch
from asking import asked
from sentences import TEST, Pairs, append_rows, made_with, read_pairs, read_rows, scored
from together import batches, counted

from calque.engine import MARKS, Translator
from calque.search.decode import Rules, decode
from calque.search.settings import SearchConfig

RESULTS = "stopping.jsonl"
BEAMS = (5, 16)
WAYS = get_args(SearchConfig.model_fields["stopping"].annotation)  # exact, first, patience
ALPHA = 1.0


@torch.inference_mode()
def measured(translator: Translator, pairs: Pairs, *, beam: int) -> list[dict[str, Any]]:
    """A row a way to stop."""
    searches = {way: SearchConfig(beam=beam, length_penalty=ALPHA, stopping=way) for way in WAYS}
    texts = {way: [""] * len(pairs.sources) for way in WAYS}
    totals = {way: {"steps": 0, "rows": 0, "seconds": 0.0} for way in WAYS}
    for number, (places, begun, lengths) in enumerate(batches(translator, pairs.sources, search=searches["exact"])):
        turn = number % len(WAYS)
        for way in (*WAYS[turn:], *WAYS[:turn]):
            step, told = counted(begun.step)
            started = time.process_time()
            found = decode(
                step,
                begun.state,
                begun.context,
                source_lengths=lengths,
                search=searches[way],
                marks=MARKS,
                rules=Rules(),
                nbest=1,
                streams=torch.tensor(places),
            )
            calls, rows = told()
            totals[way]["seconds"] += time.process_time() - started
            totals[way]["steps"] += calls
            totals[way]["rows"] += rows
            for place, (best,) in zip(places, found, strict=True):
                texts[way][place] = translator.tokenizers.target.decode(best.tokens)
    return [
        {
            "stopping": way,
            "beam": beam,
            "sentences": len(pairs.sources),
            **scored(texts[way], pairs.references),
            **totals[way],
            "same_as_exact": sum(ours == theirs for ours, theirs in zip(texts[way], texts["exact"], strict=True)),
            "made_with": made_with(),
        }
        for way in WAYS
    ]


def _main() -> None:
    given = asked(__doc__, beams=BEAMS)
    pairs = read_pairs(given.corpus, TEST, limit=given.limit)
    given.translator.translate(pairs.sources[:8])  # the first call is slower than all others
    for beam in given.beams:
        there = {(row["beam"], row["sentences"]) for row in read_rows(given.out / RESULTS)}
        if (beam, len(pairs.sources)) not in there:
            append_rows(given.out / RESULTS, measured(given.translator, pairs, beam=beam))
    for row in read_rows(given.out / RESULTS):
        told = f"{row['bleu_lowercased']:.2f}  {row['rows']:,} rows  {row['seconds']:.0f} s"
        print(f"beam {row['beam']:2}  {row['stopping']:8}  {told}")


if __name__ == "__main__":
    _main()
