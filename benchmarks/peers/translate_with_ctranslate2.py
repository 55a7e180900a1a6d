"""Translates a file with CTranslate2 as its users do; run by the Python of CTranslate2's environment.

    .peers/ctranslate2/bin/python benchmarks/peers/translate_with_ctranslate2.py MODEL --input FILE --output FILE

MODEL is a folder that to_ctranslate2.py wrote. Lines are encoded and decoded by sentencepiece in this process.
`--counts FILE` also writes the number of output pieces of every line, end mark included.
"""

import argparse
from pathlib import Path
from unicodedata import normalize

import ctranslate2
import sentencepiece


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--input", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--counts", type=Path)
    parser.add_argument("--compute-type", default="float32", help="float32 (the default), int8, …")
    parser.add_argument("--beam", type=int, default=5, help="beam size; 1 is greedy search (default: 5)")
    parser.add_argument(
        "--length-penalty", type=float, default=1.0, help="the exponent α: scores are divided by |Y|^α (default: 1)"
    )
    parser.add_argument("--batch-tokens", type=int, default=4000, help="padded source positions per batch")
    parser.add_argument("--maximum", type=int, default=256, help="maximum number of pieces per translation")
    parser.add_argument("--threads", type=int, default=1, help="number of workers, with one thread each (default: 1)")
    parser.add_argument("--vocabulary-map", action="store_true", help="consider only the words of vmap.txt")
    options = parser.parse_args()
    source, target = (
        sentencepiece.SentencePieceProcessor(model_file=str(options.model / f"{side}.spm"))
        for side in ("source", "target")
    )
    translator = ctranslate2.Translator(
        str(options.model),
        device="cpu",
        compute_type=options.compute_type,
        inter_threads=options.threads,
        intra_threads=1,
    )
    lines = [normalize("NFC", line) for line in options.input.read_text(encoding="utf-8").splitlines()]
    results = translator.translate_batch(
        source.encode(lines, out_type=str),
        beam_size=options.beam,
        length_penalty=options.length_penalty,
        max_batch_size=options.batch_tokens,
        batch_type="tokens",
        max_input_length=0,  # no cut
        max_decoding_length=options.maximum,
        min_decoding_length=0,
        use_vmap=options.vocabulary_map,
    )
    pieces = [result.hypotheses[0] for result in results]
    options.output.write_text("".join(f"{line}\n" for line in target.decode(pieces)), encoding="utf-8")
    if options.counts:
        options.counts.write_text("".join(f"{len(line) + 1}\n" for line in pieces), encoding="utf-8")


if __name__ == "__main__":
    main()
