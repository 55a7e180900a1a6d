"""The least that preparing pairs takes: sentencepiece trained and applied by a short program, with Calque's settings.

python -m benchmarks.plain_sentencepiece SOURCE TARGET
"""

import io
import sys
from pathlib import Path

import sentencepiece

SAMPLE = 100_000  # lines that subwords are learnt from, as in `calque.text.SentencePieceConfig`


def main() -> None:
    sides = [Path(name).read_text(encoding="utf-8").removesuffix("\n").split("\n") for name in sys.argv[1:]]
    pairs, take = len(sides[0]), SAMPLE // 2
    sample = (line for side in sides for at, line in enumerate(side) if at * take % pairs < take)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=sample,
        model_writer=model,
        model_type="bpe",
        vocab_size=8000,
        hard_vocab_limit=False,
        character_coverage=0.9999,
        byte_fallback=True,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        max_sentence_length=1 << 15,
        num_threads=1,
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    for side in sides:
        processor.encode(side, num_threads=1)


if __name__ == "__main__":
    main()
