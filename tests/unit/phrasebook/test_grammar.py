"""How large the grammar is, and that it means one thing at a time."""

from collections import Counter
from itertools import permutations
from random import Random

from calque_phrasebook.grammar import sentences as grammar
from calque_phrasebook.grammar.rules import build, choose, productions, word
from calque_phrasebook.surface import LANGUAGES, MARKS, Language, join, words

SAMPLE = 110_000


def drawn(count: int, *, seed: int) -> list[grammar.Sentence]:
    random = Random(seed)
    return [grammar.draw(random) for _ in range(count)]


def test_rules_count_what_they_derive() -> None:
    letter = word("letter", "abc")
    pair = build("pair", lambda first, second: first + second, letter, word("digit", "12"))
    either = choose("either", (1, pair), (3, letter))
    seen = {either.draw(Random(seed)) for seed in range(300)}
    assert either.count == len(seen) == 9
    assert productions(either) == {"either": 1, "pair": 1}


def test_the_grammar_has_rules_words_and_meanings_enough() -> None:
    assert len(grammar.rules()) >= 60
    assert grammar.count() >= 1_000_000
    sample = drawn(40_000, seed=1)
    for language in LANGUAGES:
        assert len({token for meaning in sample for token in words(meaning, language=language)} - MARKS) >= 600


def test_sampled_meanings_rarely_collide() -> None:
    # n draws from fewer than n² / 2c equally likely values collide more than c times
    random = Random(2)
    sample = [grammar.linked.draw(random) for _ in range(5_000)]
    collisions = len(sample) - len(set(sample))
    assert len(sample) ** 2 / (2 * max(1, collisions)) > 1_000_000
    everything = drawn(20_000, seed=3)
    assert len(set(everything)) > 0.9 * len(everything)


def test_a_sentence_has_one_translation_in_every_direction() -> None:
    sample = drawn(SAMPLE, seed=4)
    said = {language: [join(words(m, language=language), language=language) for m in sample] for language in LANGUAGES}
    for source, target in permutations(LANGUAGES, 2):
        translations: dict[str, str] = {}
        for sentence, translation in zip(said[source], said[target], strict=True):
            assert translations.setdefault(sentence, translation) == translation, (source, sentence)


def test_sentences_are_short_and_well_formed() -> None:
    sample = drawn(20_000, seed=5)
    for language in LANGUAGES:
        lengths = [sum(token not in MARKS for token in words(meaning, language=language)) for meaning in sample]
        assert 6 <= sum(lengths) / len(lengths) <= 9
        assert max(lengths) <= 20
        assert min(lengths) >= 2
        for meaning in sample:
            _check(join(words(meaning, language=language), language=language), language)


def _check(text: str, language: Language) -> None:
    if language == "zh":
        assert " " not in text
        assert text[-1] in "。？"
    else:
        assert text[0].isupper()
        assert text[-1] in ".?"
        assert "  " not in text
        assert " ." not in text
        assert " ," not in text
        assert ",," not in text
        assert ",." not in text


def test_no_word_is_rare() -> None:
    sample = drawn(40_000, seed=6)
    for language, least in (("zh", 20), ("en", 6), ("de", 4)):
        counts = Counter(token for meaning in sample for token in words(meaning, language=language))
        assert min(counts.values()) >= least, (language, counts.most_common()[-5:])
