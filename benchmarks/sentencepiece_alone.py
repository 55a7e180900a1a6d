"""Trains a tokenizer and encodes a corpus with sentencepiece alone: the minimum that `calque data prepare` must do.

    python -m benchmarks.sentencepiece_alone --source train.de --target train.en --output ids --vocabulary 8000

The settings are those of Calque's sentencepiece tokenizer: joint BPE with byte fallback, learnt from at most 100,000
lines spread evenly over both sides. All lines are encoded in this process by one thread, and written as 32-bit ids.
"""

import argparse
import io
from array import array
from pathlib import Path

import sentencepiece

from benchmarks.corpora import read_lines

SAMPLE = 50_000  # lines of each side
CHUNK = 10_000  # lines encoded together


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True, help="the file of ids")
    parser.add_argument("--vocabulary", type=int, default=8000)
    options = parser.parse_args()
    sides = [read_lines(path) for path in (options.source, options.target)]
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(line for side in sides for line in spread_evenly(side, take=SAMPLE)),
        model_writer=model,
        model_type="bpe",
        vocab_size=options.vocabulary,
        hard_vocab_limit=False,
        character_coverage=0.9999,
        pad_id=0,
        bos_id=1,
        eos_id=2,
        unk_id=3,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        max_sentence_length=8 * 4096,
        num_threads=1,
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor()
    processor.LoadFromSerializedProto(model.getvalue())
    with options.output.open("wb") as file:
        for side in sides:
            for start in range(0, len(side), CHUNK):
                for ids in processor.encode(side[start : start + CHUNK], num_threads=1):
                    array("i", ids).tofile(file)


def spread_evenly(lines: list[str], *, take: int) -> list[str]:
    """At most `take` evenly spaced lines, the same that Calque chooses."""
    return [line for at, line in enumerate(lines) if at * take % len(lines) < take]


if __name__ == "__main__":
    main()
