"""Checks that required words are always present and forbidden words never, and measures the cost of both.

    python -m recipes.search.terms MODEL CORPUS OUT [--limit N]

writes OUT/terms.json, and prints failures to standard error. The terms come from the corpus itself:

- The model reads the reference of every test sentence; each reference word is aligned to the source word with the most
  attention. A term is such a pair whose German word looks like a noun: at least 4 letters, capitalised, and not the
  first word of the sentence.
- Up to 2 German words per sentence are required, first those missing from the unconstrained translation.
- The 50 most frequent such words of the training text are forbidden in all sentences.

Sentences are translated in rounds: without constraints, with required words and with forbidden words, in one process.
Speeds are over all rounds, by CPU time.
"""

import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from calque.engine import Request, Translator
from calque.engine.forced_decoding import TargetTokens, force_decode
from calque.evaluation.alignment import Link, align, words_of
from recipes.runner.files import read_lines, write_json
from recipes.search.common import TEST, Pairs, parse_arguments, provenance, read_pairs, score

BEAM = 10
ROUND = 250  # sentences
MOST_REQUIRED = 2  # words per sentence
FORBIDDEN = 50
WORD = re.compile(r"\w+")


class Term(NamedTuple):
    """A source word and its required translation."""

    source: str
    target: str


class Round(NamedTuple):
    """The translations of some sentences, and CPU seconds by constraint."""

    plain: list[str]
    required: list[str]
    forbidden: list[str]
    seconds: dict[str, float]
    terms: list[list[Term]]


def is_noun_like(word: str) -> bool:
    """Whether a word has at least four letters, the first a capital, the others lowercase."""
    return len(word) >= 4 and word.isalpha() and word[0].isupper() and word[1:].islower()


def nouns_of(line: str) -> list[str]:
    """The noun-like words of a line after its first word."""
    return [word for word in WORD.findall(line)[1:] if is_noun_like(word)]


def frequent_nouns(lines: Iterable[str], *, count: int) -> list[str]:
    """The most frequent noun-like words, most frequent first; ties in alphabetical order."""
    counts = Counter(word for line in lines for word in nouns_of(line))
    return sorted(counts, key=lambda word: (-counts[word], word))[:count]


def has_word(text: str, word: str) -> bool:
    """Whether the text contains the word as a whole word."""
    return re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) is not None


def terms_of(source: Sequence[str], target: Sequence[str], links: Sequence[Link]) -> list[Term]:
    """The terms among aligned words, each target word once. Words are split at spaces and include punctuation."""
    terms: dict[str, Term] = {}
    for source_index, target_index in links:
        words, term = WORD.findall(target[target_index]), "".join(WORD.findall(source[source_index]))
        if target_index > 0 and len(words) == 1 and is_noun_like(words[0]) and term.isalpha():
            terms.setdefault(words[0], Term(term, words[0]))
    return list(terms.values())


def select(terms: Sequence[Term], *, translation: str) -> list[Term]:
    """The terms to require: first those missing from the translation, in the order of the reference."""
    return sorted(terms, key=lambda term: has_word(translation, term.target))[:MOST_REQUIRED]


def reference_terms(translator: Translator, pairs: Pairs) -> list[list[Term]]:
    """The terms of every pair, by the model's alignment of the reference."""
    source, target = translator.tokenizers
    results = []
    for text, reference in zip(*pairs, strict=True):
        source_pieces, target_pieces = source.tokenise(text), target.tokenise(reference)
        tokens = TargetTokens(target.vocabulary.ids(target_pieces))
        ((scores,),) = force_decode(translator.model, [source.vocabulary.ids(source_pieces)], [[tokens]])
        if scores.attention is None:
            raise ValueError("this model has no attention, which aligns words here; use a model with attention")
        source_words = words_of([source.starts_word(piece) for piece in source_pieces])
        target_words = words_of([target.starts_word(piece) for piece in target_pieces])
        links = align(scores.attention, source_words=source_words, target_words=target_words)
        results.append(terms_of(text.split(), reference.split(), _within(links, text, reference)))
    return results


def missing(required: Sequence[Sequence[Term]], translations: Sequence[str]) -> list[dict[str, str]]:
    """All required words that are not in their translation."""
    return [
        {"word": term.target, "translation": translation}
        for terms, translation in zip(required, translations, strict=True)
        for term in terms
        if not has_word(translation, term.target)
    ]


def violations(words: Sequence[str], translations: Sequence[str]) -> list[dict[str, str]]:
    """All forbidden words that are in a translation."""
    return [
        {"word": word, "translation": translation}
        for translation in translations
        for word in words
        if has_word(translation, word)
    ]


def run_round(translator: Translator, pairs: Pairs, *, forbidden: Sequence[str]) -> Round:
    """Translates sentences without constraints, with required and with forbidden words."""
    seconds: dict[str, float] = {}
    search = translator.search.model_copy(update={"beam": BEAM})

    def translate(name: str, requests: Sequence[Request], *, forbidden: Sequence[str] = ()) -> list[str]:
        started = time.process_time()
        restricted = (request._replace(forbidden=tuple(forbidden)) for request in requests)
        texts = [translation.text for translation in translator.stream(restricted, search=search)]
        seconds[name] = time.process_time() - started
        return texts

    unconstrained = [Request(text) for text in pairs.sources]
    plain = translate("plain", unconstrained)
    terms = [
        select(candidates, translation=translation)
        for candidates, translation in zip(reference_terms(translator, pairs), plain, strict=True)
    ]
    constrained = [
        Request(text, required=tuple(term.target for term in required))
        for text, required in zip(pairs.sources, terms, strict=True)
    ]
    required = translate("required", constrained)
    without = translate("forbidden", unconstrained, forbidden=forbidden)
    return Round(plain, required, without, seconds, terms)


def summary(rounds: Sequence[Round], pairs: Pairs, *, forbidden: Sequence[str]) -> dict[str, Any]:
    """The contents of terms.json."""
    plain = [text for part in rounds for text in part.plain]
    required = [text for part in rounds for text in part.required]
    without = [text for part in rounds for text in part.forbidden]
    terms = [sentence for part in rounds for sentence in part.terms]
    lacking = [index for index, sentence in enumerate(terms) if missing([sentence], [plain[index]])]
    translations = {"plain": plain, "required": required, "forbidden": without}
    words = sum(map(len, terms))
    unmet = missing(terms, required)
    return {
        "sentences": len(plain),
        "rounds": len(rounds),
        "beam": BEAM,
        "scores": {name: score(texts, pairs.references) for name, texts in translations.items()},
        "scores_where_asked": {
            name: score(
                [translations[name][index] for index in lacking], [pairs.references[index] for index in lacking]
            )
            for name in ("plain", "required")
            if lacking
        },
        "required": {
            "words": words,
            "sentences": sum(map(bool, terms)),
            "sentences_where_asked": len(lacking),
            "there_without": words - len(missing(terms, plain)),
            "there": words - len(unmet),
            "failures": unmet,
            "examples": [[*term] for index in lacking[:10] for term in terms[index]],
        },
        "forbidden": {
            "words": list(forbidden),
            "there_without": len(violations(forbidden, plain)),
            "there": len(violations(forbidden, without)),
            "failures": violations(forbidden, without),
        },
        "speed": {name: speed(rounds, name) for name in ("required", "forbidden")},
        "seconds": {name: sum(part.seconds[name] for part in rounds) for name in translations},
        "examples": [
            {"source": pairs.sources[index], **{name: texts[index] for name, texts in translations.items()}}
            for index in lacking[:5]
        ],
    }


def speed(rounds: Sequence[Round], name: str) -> dict[str, float]:
    """The speed relative to that without constraints: over all rounds, and in the slowest and fastest round."""
    ratios = [part.seconds["plain"] / part.seconds[name] for part in rounds]
    total = sum(part.seconds["plain"] for part in rounds) / sum(part.seconds[name] for part in rounds)
    return {"ratio": total, "slowest": min(ratios), "fastest": max(ratios)}


def _within(links: Sequence[Link], text: str, reference: str) -> list[Link]:
    """The links between words that are split at spaces; a tokenizer that splits more may have links beyond the last."""
    source_words, target_words = len(text.split()), len(reference.split())
    return [link for link in links if link[0] < source_words and link[1] < target_words]


def _main() -> None:
    options = parse_arguments(__doc__)
    pairs = read_pairs(options.corpus, TEST, limit=options.limit)
    forbidden = frequent_nouns(read_lines(options.corpus / "train.de.gz"), count=FORBIDDEN)
    options.translator.translate(pairs.sources[:8], beam=BEAM)  # warm up
    rounds = []
    for start in range(0, len(pairs.sources), ROUND):
        part = Pairs(*(side[start : start + ROUND] for side in pairs))
        rounds.append(run_round(options.translator, part, forbidden=forbidden))
        print(
            f"{start + len(part.sources):,} sentences",
            {name: round(seconds, 1) for name, seconds in rounds[-1].seconds.items()},
            flush=True,
        )
    result = {**summary(rounds, pairs, forbidden=forbidden), "made_with": provenance()}
    write_json(options.out / "terms.json", result)
    for kind in ("required", "forbidden"):
        for failure in result[kind]["failures"]:
            print(f"{kind}: {failure['word']}: {failure['translation']}", file=sys.stderr)
    print(json.dumps({key: result[key] for key in ("scores", "speed", "seconds")}, indent=1))


if __name__ == "__main__":
    _main()
