"""The steps between two trainings: translates a text, or writes the text of the first round.

    python -m recipes.back_translation.steps translate RUN INPUT [TAG] --out OUT --to FILE [search settings]
    python -m recipes.back_translation.steps lexicon --out OUT --to FILE

`translate` writes FILE, and a copy with the ending .tagged.txt, in which TAG (by default <BT>) precedes every line.
`lexicon` writes the text that the first round of unsupervised training reads; FILE then lists the lexicon.
"""

import random
import sys
from pathlib import Path

from calque.engine import load_translator
from recipes.back_translation.lexicon import induce, word_for_word, word_vectors, words_of
from recipes.back_translation.text import SYNTHETIC, noised, tagged, untagged
from recipes.runner.arguments import parser_of
from recipes.runner.files import read_lines, write_lines
from recipes.runner.pair_jobs import decode

COPIES = 3  # differently noised copies of each sentence per round
LANGUAGES = ("en", "de")


def to(language: str) -> str:
    """The tag of sources that are to be translated into a language."""
    return f"<2{language}>"


def translate(run: Path, source: Path, output: Path, *, tag: str, settings: list[str], device: str, seed: int) -> None:
    """Translates a text with a run; an empty output is replaced by the source without its tag."""
    translator = load_translator(run, device=device)  # type: ignore[arg-type]
    lines = read_lines(source)
    found = decode(translator, lines, settings=[f"seed={seed}", *settings])
    outputs = [text.strip() or untagged(line) for text, line in zip(found, lines, strict=True)]
    write_lines(output.with_suffix(".tagged.txt"), tagged(outputs, tag))
    write_lines(output, outputs)


def first_round(out: Path, output: Path, *, seed: int) -> None:
    """Writes the pairs of the first round, from both texts: noised sentences, and noised word-for-word translations."""
    texts = {language: read_lines(out / "data" / "unsupervised" / f"{language}.txt") for language in LANGUAGES}
    vectors = {language: word_vectors([words_of(line) for line in lines]) for language, lines in texts.items()}
    lexicon = induce(vectors["en"], vectors["de"])
    generator = random.Random(seed)
    for language, entries in (("de", lexicon.forward), ("en", lexicon.backward)):
        other = "en" if language == "de" else "de"
        lines = texts[other]  # translated word for word into `language`, they are sources for their own language
        literal = [noised(word_for_word(line, entries), generator, drop=0.0) for line in lines]
        write_lines(out / "synthetic" / f"literal-{language}-{seed}.txt", tagged(literal, to(other)))
    for language, lines in texts.items():
        copies = [noised(line, generator) for _ in range(COPIES) for line in lines]
        write_lines(out / "synthetic" / f"noised-{language}-{seed}.txt", tagged(copies, to(language)))
        write_lines(out / "synthetic" / f"restored-{language}-{seed}.txt", lines * COPIES)
    write_lines(output, [f"{word}\t{entry}" for word, entry in lexicon.forward.items()])


def main(arguments: list[str]) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("step", choices=("translate", "lexicon"))
    parser.add_argument("values", nargs="*")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_intermixed_args(arguments)
    if options.step == "lexicon":
        first_round(options.out, options.to, seed=options.seed)
        return
    settings = [value for value in options.values if "=" in value]
    run, source, *tags = (value for value in options.values if "=" not in value)
    translate(
        options.out / "runs" / run,
        options.out / source,
        options.to,
        tag=tags[0] if tags else SYNTHETIC,
        settings=settings,
        device=options.device,
        seed=options.seed,
    )


if __name__ == "__main__":
    main(sys.argv[1:])
