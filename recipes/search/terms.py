"""Whether required words are always there and forbidden ones never, and what both cost.

    python recipes/search/terms.py MODEL CORPUS OUT [--limit N]

writes OUT/terms.json, and its failures, if there are any, to the screen too. The terms come from the corpus itself:

- The model reads the reference of each test sentence; a word of it is aligned to the source word that its pieces look
  at most. A term is such a pair where the German word looks like a noun: 4 letters or more, the first one large, and
  not the sentence's first word.
- Up to 2 German words a sentence are required: first those that the translation without constraints lacks.
- The 50 most frequent such words of the training text are forbidden, in all sentences alike.

Sentences are taken in rounds: each round is translated without constraints, with required words and with forbidden
ones, in one process; speeds are of all rounds together, by the process's own CPU time.
"""

import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from asking import asked
from sentences import TEST, Pairs, made_with, read_lines, read_pairs, scored

from calque.engine import OutputOptions, Request, Translator
from calque.engine.forced_decoding import Answer, read_back
from calque.evaluation.alignment import Link, align, words_of

BEAM = 10
ROUND = 250  # sentences
MOST = 2  # required words a sentence
FORBIDDEN = 50
WORD = re.compile(r"\w+")


class Term(NamedTuple):
    """A source word, and what it must become."""

    source: str
    target: str


class Round(NamedTuple):
    """What became of some sentences, and the CPU seconds each way took."""

    plain: list[str]
    required: list[str]
    forbidden: list[str]
    seconds: dict[str, float]
    terms: list[list[Term]]


def is_noun_like(word: str) -> bool:
    """Four letters or more, the first one large, the others small."""
    return len(word) >= 4 and word.isalpha() and word[0].isupper() and word[1:].islower()


def nouns_of(line: str) -> list[str]:
    """The noun-like words of a line, without its first word."""
    return [word for word in WORD.findall(line)[1:] if is_noun_like(word)]


def frequent_nouns(lines: Iterable[str], *, count: int) -> list[str]:
    """The most frequent noun-like words, most frequent first; equal ones by the alphabet."""
    counts = Counter(word for line in lines for word in nouns_of(line))
    return sorted(counts, key=lambda word: (-counts[word], word))[:count]


def has_word(text: str, word: str) -> bool:
    """Whether the word stands in the text with no letter or digit beside it."""
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def terms_of(source: Sequence[str], target: Sequence[str], links: Sequence[Link]) -> list[Term]:
    """The terms among linked words (which spaces part, so with their punctuation), each target word once."""
    found: dict[str, Term] = {}
    for ours, theirs in links:
        words, term = WORD.findall(target[theirs]), "".join(WORD.findall(source[ours]))
        if theirs > 0 and len(words) == 1 and is_noun_like(words[0]) and term.isalpha():
            found.setdefault(words[0], Term(term, words[0]))
    return list(found.values())


def chosen(terms: Sequence[Term], *, translation: str) -> list[Term]:
    """Those to require: at first what the translation lacks, in the order of the reference."""
    return sorted(terms, key=lambda term: has_word(translation, term.target))[:MOST]


def reference_terms(translator: Translator, pairs: Pairs) -> list[list[Term]]:
    """The terms of each pair, by the model's own alignment of the reference."""
    source, target = translator.tokenizers
    results = []
    for text, reference in zip(*pairs, strict=True):
        ours, theirs = source.tokenise(text), target.tokenise(reference)
        answer = Answer(target.vocabulary.ids(theirs))
        ((reading,),) = read_back(translator.model, [source.vocabulary.ids(ours)], [[answer]])
        if reading.attention is None:
            raise ValueError("the model has no attention to align words by")
        source_words = words_of([source.starts_word(piece) for piece in ours])
        target_words = words_of([target.starts_word(piece) for piece in theirs])
        links = align(reading.attention, source_words=source_words, target_words=target_words)
        results.append(terms_of(text.split(), reference.split(), _within(links, text, reference)))
    return results


def missing_phrase(requests: Sequence[Sequence[Term]], translations: Sequence[str]) -> list[dict[str, str]]:
    """Every required word that is not in its translation."""
    return [
        {"word": term.target, "translation": translation}
        for terms, translation in zip(requests, translations, strict=True)
        for term in terms
        if not has_word(translation, term.target)
    ]


def holding(words: Sequence[str], translations: Sequence[str]) -> list[dict[str, str]]:
    """Every forbidden word that is in a translation."""
    return [
        {"word": word, "translation": translation}
        for translation in translations
        for word in words
        if has_word(translation, word)
    ]


def one_round(translator: Translator, pairs: Pairs, *, forbidden: Sequence[str]) -> Round:
    """Some sentences, all three ways."""
    seconds: dict[str, float] = {}
    search = translator.search.model_copy(update={"beam": BEAM})

    def translated(name: str, requests: Sequence[Request], options: OutputOptions = OutputOptions()) -> list[str]:  # noqa: B008
        started = time.process_time()
        found = [each.text for each in translator.stream(requests, search=search, options=options)]
        seconds[name] = time.process_time() - started
        return found

    free = [Request(text) for text in pairs.sources]
    plain = translated("plain", free)
    terms = [
        chosen(each, translation=translation)
        for each, translation in zip(reference_terms(translator, pairs), plain, strict=True)
    ]
    asked = [
        Request(text, required=tuple(term.target for term in each))
        for text, each in zip(pairs.sources, terms, strict=True)
    ]
    required = translated("required", asked)
    without = translated("forbidden", free, OutputOptions(forbidden=tuple(forbidden)))
    return Round(plain, required, without, seconds, terms)


def summary(rounds: Sequence[Round], pairs: Pairs, *, forbidden: Sequence[str]) -> dict[str, Any]:
    """What terms.json tells."""
    plain, required, without = ([text for each in rounds for text in each[way]] for way in range(3))
    terms = [each for one in rounds for each in one.terms]
    asked = [place for place, each in enumerate(terms) if missing_phrase([each], [plain[place]])]
    ways = {"plain": plain, "required": required, "forbidden": without}
    words = sum(map(len, terms))
    unmet = missing_phrase(terms, required)
    return {
        "sentences": len(plain),
        "rounds": len(rounds),
        "beam": BEAM,
        "scores": {name: scored(texts, pairs.references) for name, texts in ways.items()},
        "scores_where_asked": {
            name: scored([ways[name][place] for place in asked], [pairs.references[place] for place in asked])
            for name in ("plain", "required")
            if asked
        },
        "required": {
            "words": words,
            "sentences": sum(map(bool, terms)),
            "sentences_where_asked": len(asked),
            "there_without": words - len(missing_phrase(terms, plain)),
            "there": words - len(unmet),
            "failures": unmet,
            "examples": [[*term] for place in asked[:10] for term in terms[place]],
        },
        "forbidden": {
            "words": list(forbidden),
            "there_without": len(holding(forbidden, plain)),
            "there": len(holding(forbidden, without)),
            "failures": holding(forbidden, without),
        },
        "speed": {name: speed(rounds, name) for name in ("required", "forbidden")},
        "seconds": {name: sum(each.seconds[name] for each in rounds) for name in ways},
        "examples": [
            {"source": pairs.sources[place], **{name: texts[place] for name, texts in ways.items()}}
            for place in asked[:5]
        ],
    }


def speed(rounds: Sequence[Round], name: str) -> dict[str, float]:
    """As a share of the speed without constraints: over all rounds, and the slowest and fastest round."""
    shares = [each.seconds["plain"] / each.seconds[name] for each in rounds]
    total = sum(each.seconds["plain"] for each in rounds) / sum(each.seconds[name] for each in rounds)
    return {"ratio": total, "slowest": min(shares), "fastest": max(shares)}


def _within(links: Sequence[Link], text: str, reference: str) -> list[Link]:
    """Links between words that spaces part; a tokenizer that parts others gives places behind the last."""
    ours, theirs = len(text.split()), len(reference.split())
    return [link for link in links if link[0] < ours and link[1] < theirs]


def _main() -> None:
    given = asked(__doc__)
    pairs = read_pairs(given.corpus, TEST, limit=given.limit)
    forbidden = frequent_nouns(read_lines(given.corpus / "train.de.gz"), count=FORBIDDEN)
    given.translator.translate(pairs.sources[:8], beam=BEAM)  # the first call is slower than all others
    rounds = []
    for start in range(0, len(pairs.sources), ROUND):
        part = Pairs(*(side[start : start + ROUND] for side in pairs))
        rounds.append(one_round(given.translator, part, forbidden=forbidden))
        print(
            f"{start + len(part.sources):,} sentences",
            {k: round(v, 1) for k, v in rounds[-1].seconds.items()},
            flush=True,
        )
    found = {**summary(rounds, pairs, forbidden=forbidden), "made_with": made_with()}
    (given.out / "terms.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for kind in ("required", "forbidden"):
        for failure in found[kind]["failures"]:
            print(f"{kind}: {failure['word']}: {failure['translation']}", file=sys.stderr)
    print(json.dumps({key: found[key] for key in ("scores", "speed", "seconds")}, indent=1))


if __name__ == "__main__":
    _main()
