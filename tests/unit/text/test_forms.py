"""Words as forms: what their vectors and characters are looked up by, and vocabularies that survive the disk."""

import pytest

from calque.errors import TextError
from calque.text import (
    UNK,
    FormsConfig,
    TaggerVocabularies,
    WordsConfig,
    learn_vocabularies,
    save_tokenizers,
    train_tokenizers,
)
from calque.text.vocabulary import PIECES

FORMS = [["The", "dog", "<pad>", "1984"], ["the", "dog", "1985", "␛<pad>"]]
LABELS = [["D", "N", "X", "M"], ["D", "N", "M", "<unk>"]]


def learnt(**settings: object) -> TaggerVocabularies:
    config = FormsConfig.model_validate(settings)
    return learn_vocabularies(config, forms=FORMS, labels=LABELS, columns={"pos": LABELS}, characters=True)


def test_case_and_digits_are_one_for_vectors_where_that_is_asked_for() -> None:
    plain, folded = learnt(), learnt(lowercase=True, digits=True)
    assert (
        plain.encode(["The", "1984"], {"pos": ["D", "M"]}).words
        != plain.encode(["the", "1985"], {"pos": ["D", "M"]}).words
    )
    first, second = (folded.encode(words, {"pos": ["D", "M"]}) for words in (["The", "1984"], ["THE", "7777"]))
    assert first.words == second.words and UNK not in first.words
    assert first.characters != second.characters, "characters are as they are"


def test_words_that_look_like_special_pieces_are_words() -> None:
    vocabularies = learnt()
    encoded = vocabularies.encode(["<pad>", "␛<pad>", "<unk>"], {"pos": ["X", "<unk>", "D"]})
    assert len(set(encoded.words)) == 3 and min(encoded.words[:2]) >= len(PIECES) and encoded.words[2] == UNK
    assert min(encoded.columns["pos"]) >= len(PIECES)
    assert set(vocabularies.labels) == {"D", "N", "M", "X", "<unk>"}


def test_rare_words_are_unknown_and_so_are_new_ones() -> None:
    vocabularies = learnt(minimum_count=2)
    assert vocabularies.encode(["dog", "The", "mouse"], {"pos": ["N", "D", "Z"]}).words[1:] == [UNK, UNK]
    assert vocabularies.encode(["dog"], {"pos": ["Z"]}).columns["pos"] == [UNK]


def test_of_long_words_both_ends_are_read() -> None:
    config = FormsConfig(maximum_characters=5)
    assert [config.spelling(word) for word in ("abcde", "abcdef", "abcdefgh")] == ["abcde", "abcef", "abcgh"]


def test_labels_are_in_order_of_frequency_then_of_name() -> None:
    assert learnt().labels == ("D", "M", "N", "<unk>", "X")


def test_what_was_saved_is_loaded(tmp_path) -> None:
    vocabularies = learnt()
    vocabularies.save(tmp_path)
    assert TaggerVocabularies.load(tmp_path, config=vocabularies.config) == vocabularies


@pytest.mark.parametrize("content", ["{}", '{"labels": []}', '{"labels": [1]}', "[", '{"labels": "AB"}'])
def test_a_damaged_label_set_is_named(tmp_path, content) -> None:
    learnt().save(tmp_path)
    (tmp_path / "labels.json").write_text(content)
    with pytest.raises(TextError, match=r"labels\.json: damaged"):
        TaggerVocabularies.load(tmp_path, config=FormsConfig())


def test_bio_labels_become_iobes_inside_and_bio_again_outside() -> None:
    labels = [["B-NP", "I-NP", "O", "B-VP"]]
    config = FormsConfig(scheme="iobes")
    vocabularies = learn_vocabularies(config, forms=FORMS[:1], labels=labels, columns={}, characters=False)
    assert set(vocabularies.labels) == {"B-NP", "E-NP", "O", "S-VP"}
    assert set(vocabularies.predicted_labels) == {"B-NP", "I-NP", "O", "B-VP"}
    assert vocabularies.label_names(vocabularies.label_ids(labels[0])) == labels[0]
    assert vocabularies.label_ids(["B-NP", "I-NP", "I-NP"])[1] == len(vocabularies.labels), "I inside was never seen"
    shares = dict.fromkeys(vocabularies.labels, 0.0) | {"S-VP": 0.75, "E-NP": 0.25}
    totals = vocabularies.label_shares([shares[label] for label in vocabularies.labels])
    assert totals == {"B-NP": 0, "I-NP": 0.25, "O": 0, "B-VP": 0.75}


@pytest.mark.parametrize("label", ["NOUN", "S-NP", "E-NP"])
def test_labels_that_are_not_bio_cannot_become_iobes(label) -> None:
    config = FormsConfig(scheme="iobes")
    with pytest.raises(TextError, match=rf'text.scheme = "iobes" is for BIO labels .* this corpus has .*{label}'):
        learn_vocabularies(config, forms=[["a", "b"]], labels=[["B-NP", label]], columns={}, characters=False)


def test_a_missing_label_set_is_named(tmp_path) -> None:
    vocabularies = learnt()
    vocabularies.save(tmp_path)
    (path,) = [path for path in tmp_path.iterdir() if b'"labels"' in path.read_bytes()]
    path.unlink()
    with pytest.raises(TextError, match=rf"{path.name}: No such file or directory"):
        TaggerVocabularies.load(tmp_path, config=vocabularies.config)


def test_vocabularies_of_pairs_are_not_those_of_a_tagger(tmp_path) -> None:
    tokenizers = train_tokenizers(WordsConfig(), source=lambda: iter(["a"]), target=lambda: iter(["b"]), pairs=1)
    save_tokenizers(tokenizers, tmp_path)
    with pytest.raises(TextError, match="the vocabulary of words is missing; found only source and target"):
        TaggerVocabularies.load(tmp_path, config=FormsConfig())
