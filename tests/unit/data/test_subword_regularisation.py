"""Subword sampling: a function of seed, epoch and index; it spells the text, and draws as the papers say."""

import pytest

from calque.config import check
from calque.data.batching import BatchConfig, Bucketed, Shard
from calque.data.pair_batch import collate_pairs, pair_widths
from calque.data.store import store_of_pairs
from calque.data.subword_regularisation import (
    BpeDropoutConfig,
    FixedConfig,
    SubwordSampler,
    UnigramSamplingConfig,
    misfits,
)
from calque.errors import ConfigError
from calque.text import (
    PAD,
    BytesConfig,
    CharactersConfig,
    SentencePieceConfig,
    SentencePieceTokenizer,
    Tokenizers,
    WordsConfig,
    WordsTokenizer,
)

LINES = [
    f"{who} {what} the {size} {thing}{mark}"
    for who in ("Every teacher", "My neighbour", "No traveller", "Ёжик", "她")
    for what in ("watches", "remembers", "repairs")
    for size in ("smallest", "oldest", "well-known")
    for thing in ("bicycle", "railway station", "garden")
    for mark in (".", "!", " …")
]
TARGETS = [*LINES[40:], *LINES[:40]]
CONFIGS = {"bpe": BpeDropoutConfig(dropout=0.3), "unigram": UnigramSamplingConfig(alpha=0.0)}
NBEST = UnigramSamplingConfig(alpha=0.1, nbest=64)
_MADE: dict[str, SentencePieceTokenizer] = {}


def tokenizer(algorithm: str) -> SentencePieceTokenizer:
    if algorithm not in _MADE:
        config = SentencePieceConfig(algorithm=algorithm, vocabulary_size=400)
        _MADE[algorithm] = SentencePieceTokenizer.train(config, lines=LINES)
    return _MADE[algorithm]


def sampler(algorithm: str, *, seed: int = 3, config=None) -> SubwordSampler:
    sentencepiece = tokenizer(algorithm)
    pairs = [
        (sentencepiece.encode(line), sentencepiece.encode(target)) for line, target in zip(LINES, TARGETS, strict=True)
    ]
    return SubwordSampler(
        config or CONFIGS[algorithm],
        store=store_of_pairs(pairs),
        tokenizers=Tokenizers(sentencepiece, sentencepiece),
        seed=seed,
    )


def stored(drawn: SubwordSampler, index: int) -> tuple[list[int], list[int]]:
    """A pair as it is in the store."""
    return drawn.store["source"].row(index).tolist(), drawn.store["target"].row(index).tolist()


def bucketed(drawn: SubwordSampler, *, tokens: int) -> Bucketed:
    store = drawn.store
    return Bucketed(pair_widths(store), spans=store.spans, config=BatchConfig(tokens=tokens), seed=5)


@pytest.mark.parametrize("algorithm", CONFIGS)
def test_a_pair_is_a_function_of_seed_epoch_and_index(algorithm: str) -> None:
    subject, equal_sampler = sampler(algorithm), sampler(algorithm)
    places = [(index, epoch) for index in (0, 17, 40, 134) for epoch in (0, 1, 9)]
    sampled = {place: subject.pair(place[0], epoch=place[1]) for place in places}
    subject.pair(7, epoch=3)
    assert {place: equal_sampler.pair(place[0], epoch=place[1]) for place in reversed(places)} == sampled
    assert sampler(algorithm, seed=4).pair(17, epoch=1) != sampled[17, 1]
    assert len({str(pair) for pair in sampled.values()}) == len(places)


def test_the_likeliest_ways_alone_are_drawn_from_and_by_seed_epoch_and_index() -> None:
    drawn, again = sampler("unigram", config=NBEST), sampler("unigram", config=NBEST)
    unigram = tokenizer("unigram")
    places = [(index, epoch) for index in (0, 17, 40, 134) for epoch in range(6)]
    sampled = {place: drawn.pair(place[0], epoch=place[1]) for place in places}
    assert {place: again.pair(place[0], epoch=place[1]) for place in reversed(places)} == sampled
    for (index, _), (source, target) in sampled.items():
        assert source in [ids for ids, _ in unigram.nbest(LINES[index], count=64)]
        assert target in [ids for ids, _ in unigram.nbest(TARGETS[index], count=64)]
    assert len({str(pair) for pair in sampled.values()}) > len(places) / 2
    only = sampler("unigram", config=UnigramSamplingConfig(nbest=1))
    assert only.pair(3, epoch=1) == stored(only, 3)
    problem = check_refused({"kind": "unigram", "nbest": 513})
    assert "512" in problem


def check_refused(values: dict[str, object]) -> str:
    """What is said of a config that is not valid."""
    with pytest.raises(ConfigError) as refused:
        check(UnigramSamplingConfig, values, origin="test")
    return str(refused.value)


@pytest.mark.parametrize("algorithm", CONFIGS)
def test_pieces_spell_the_text_of_the_store(algorithm: str) -> None:
    sentencepiece, drawn = tokenizer(algorithm), sampler(algorithm)
    for index in range(0, len(LINES), 5):
        source, target = drawn.pair(index, epoch=2)
        assert sentencepiece.decode(source) == LINES[index]
        assert sentencepiece.decode(target) == TARGETS[index]


@pytest.mark.parametrize("algorithm", CONFIGS)
def test_batches_are_the_orders_whatever_was_read_before(algorithm: str) -> None:
    drawn = sampler(algorithm)
    order = bucketed(drawn, tokens=300)
    for epoch in (0, 1):
        batches = [drawn.collate(planned, epoch=epoch) for planned in order.batches(epoch)]
        rest = [drawn.collate(planned, epoch=epoch) for planned in order.batches(epoch, start=3)]
        assert len(rest) == len(batches) - 3 > 0
        for batch, again in zip(batches[3:], rest, strict=True):
            assert batch.target_output.tolist() == again.target_output.tolist()
            assert batch.source.values.tolist() == again.source.values.tolist()
    usual = [collate_pairs(drawn.store, planned=planned) for planned in order.batches(1)]
    decode = tokenizer(algorithm).decode
    for batch, as_stored in zip(batches, usual, strict=True):  # the same pairs, cut otherwise
        for row in range(batch.rows):
            assert decode(batch.target_output[row].tolist()) == decode(as_stored.target_output[row].tolist())
    assert sum(batch.weight for batch in batches) > sum(batch.weight for batch in usual)
    assert all(int((batch.target_output != PAD).sum()) == batch.weight for batch in batches)


def test_ranks_share_a_batch_without_overlap() -> None:
    drawn = sampler("bpe")
    planned = next(bucketed(drawn, tokens=500).batches(1))
    whole = drawn.collate(planned, epoch=1)
    parts = [drawn.collate(planned, epoch=1, shard=Shard(rank, 3)) for rank in range(3)]
    assert {part.shared_weight for part in parts} == {whole.weight}
    assert sum(part.weight for part in parts) == whole.weight
    assert len({part.target_input.shape for part in parts}) == 1
    rows = [row for part in parts for row in part.target_output.tolist() if any(row)]
    assert sorted(rows) == sorted(whole.target_output.tolist())


@pytest.mark.parametrize("algorithm", CONFIGS)
def test_growth_keeps_the_budget_on_average(algorithm: str) -> None:
    drawn = sampler(algorithm)
    growth = drawn.growth()
    assert growth == sampler(algorithm).growth() > 1.05
    pairs = [drawn.pair(index, epoch=3) for index in range(len(LINES))]
    after = sum(2 + len(source) + len(target) for source, target in pairs)
    before = sum(2 + len(source) + len(target) for source, target in (stored(drawn, i) for i in range(len(LINES))))
    assert after / before == pytest.approx(growth, rel=0.05)


def test_one_side_alone_and_pairs_that_grow_too_long() -> None:
    drawn = sampler("bpe", config=BpeDropoutConfig(dropout=0.5, sides="target"))
    for index in (3, 50):
        source, target = drawn.pair(index, epoch=0)
        assert source == stored(drawn, index)[0]
        assert target != stored(drawn, index)[1]
    longest = max(len(stored(drawn, index)[1]) for index in range(len(LINES)))
    short = sampler("bpe", config=BpeDropoutConfig(dropout=1.0, longest=longest))
    pairs = [short.pair(index, epoch=0) for index in range(len(LINES))]
    assert all(len(target) <= longest for _, target in pairs)
    usual_targets = [index for index, (_, target) in enumerate(pairs) if target == stored(short, index)[1]]
    assert len(usual_targets) > 0


@pytest.mark.parametrize("algorithm", CONFIGS)
def test_a_side_of_which_no_text_is_left_stays_as_it_is(algorithm: str) -> None:
    """A lone space; a row without pieces would be another pair."""
    sentencepiece = tokenizer(algorithm)
    space = sentencepiece.vocabulary.id("▁")
    assert sentencepiece.decode([space]) == ""
    store = store_of_pairs([([space], sentencepiece.encode(LINES[0]))])
    drawn = SubwordSampler(CONFIGS[algorithm], store=store, tokenizers=Tokenizers(sentencepiece, sentencepiece), seed=3)
    assert [drawn.pair(0, epoch=epoch)[0] for epoch in range(5)] == [[space]] * 5


def test_every_side_is_cut_by_its_own_tokenizer() -> None:
    """Where hardly a merge is left out, that is byte-pair encoding, with the merges of each side."""
    source_tokenizer = tokenizer("bpe")
    text = SentencePieceConfig(algorithm="bpe", vocabulary_size=300)
    target_tokenizer = SentencePieceTokenizer.train(text, lines=[line[::-1] for line in LINES])
    pairs = [(source_tokenizer.encode(line), target_tokenizer.encode(line)) for line in LINES[:9]]
    config = BpeDropoutConfig(dropout=1e-12)
    drawn = SubwordSampler(
        config, store=store_of_pairs(pairs), tokenizers=Tokenizers(source_tokenizer, target_tokenizer), seed=3
    )
    assert [drawn.pair(index, epoch=1) for index in range(9)] == pairs


def test_what_cannot_be_sampled_is_refused() -> None:
    for algorithm, config in (("unigram", CONFIGS["bpe"]), ("bpe", CONFIGS["unigram"])):
        with pytest.raises(ConfigError, match=r"needs text\.algorithm"):
            sampler(algorithm, config=config)
        text = SentencePieceConfig(algorithm=algorithm)
        (problem,) = misfits(config, text=text, batch=BatchConfig())
        assert "text.algorithm" in problem
    words = WordsTokenizer.train(WordsConfig(), lines=LINES)
    with pytest.raises(ConfigError, match=r"text\.kind = 'sentencepiece'"):
        SubwordSampler(CONFIGS["bpe"], store=store_of_pairs([([4], [4])]), tokenizers=Tokenizers(words, words), seed=1)
    for text in (WordsConfig(), CharactersConfig(), BytesConfig()):
        assert len(misfits(CONFIGS["bpe"], text=text, batch=BatchConfig(shapes="static"))) == 2
        assert misfits(FixedConfig(), text=text, batch=BatchConfig(shapes="static")) == []
    assert misfits(CONFIGS["bpe"], text=SentencePieceConfig(), batch=BatchConfig()) == []
    store, pair = store_of_pairs([([4], [4])]), Tokenizers(words, words)
    assert SubwordSampler.of(FixedConfig(), store=store, tokenizers=pair, seed=1) is None
    with pytest.raises(ConfigError, match="dropout"):
        check(BpeDropoutConfig, {"dropout": 0.0}, origin="test")
