"""The tagger: answers do not depend on their batch, folders give back what was saved, and labels stay well formed."""

from pathlib import Path

import pytest
import torch

from calque.engine import Sentence, Tagger, load, save_tagger
from calque.engine.tagger import tagger_sizes
from calque.errors import FolderError, TextError
from calque.layers.packed import pack
from calque.models.characters import RecurrentCharactersConfig
from calque.models.recurrent import RecurrentEncoderConfig
from calque.models.tagger import TaggerConfig, TaggerModel
from calque.tasks.tagging import TaggingConfig
from calque.text import FormsConfig, learn_vocabularies
from calque.text.span_labels import spans

FORMS = [["The", "dog", "barks"], ["A", "cat", "sees", "the", "dog"]]
LABELS = [["B-NP", "I-NP", "O"], ["B-NP", "I-NP", "O", "B-PP", "I-PP"]]
TEXTS = [["The"], [], ["dog", "cat", "unseen", "sees"], ["A"] * 17, ["barks", "the"], ["x"] * 5, ["cat"] * 17]


def tagger(
    *,
    head: str = "crf",
    scheme: str = "corpus",
    inputs: tuple[str, ...] = (),
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
) -> Tagger:
    vocabularies = learn_vocabularies(
        FormsConfig(scheme=scheme), forms=FORMS, labels=LABELS, columns=dict.fromkeys(inputs, LABELS), characters=True
    )
    config = TaggerConfig(
        head=head,
        encoder=RecurrentEncoderConfig(layers=1, width=6, embedding=5),
        characters=RecurrentCharactersConfig(embedding=3, width=4),
    )
    torch.manual_seed(seed)
    model = TaggerModel(config, sizes=tagger_sizes(vocabularies, inputs=inputs)).to(dtype).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter))
    task = TaggingConfig(labels="chunk", inputs=inputs)
    return Tagger(model, vocabularies, config=config, task=task, columns=("form", "chunk"))


@pytest.mark.parametrize("head", ["crf", "softmax"])
@pytest.mark.parametrize("batch_tokens", [1, 20, 4096])
@pytest.mark.parametrize("together", [1, 3, 512])
def test_an_answer_does_not_depend_on_its_batch(head, batch_tokens, together) -> None:
    own = tagger(head=head)
    sentences = [Sentence(words) for words in TEXTS]
    answers = list(own.stream(sentences, marginals=True, batch_tokens=batch_tokens, together=together))
    for sentence, answer in zip(sentences, answers, strict=True):
        alone = own.tag(sentence, marginals=True)
        assert answer.labels == alone.labels and answer.words == list(sentence.words)
        for shares, others in zip(answer.marginals, alone.marginals, strict=True):
            assert shares == pytest.approx(others, abs=1e-9) and sum(shares.values()) == pytest.approx(1)


def test_a_text_gives_a_sentence_and_a_list_gives_a_list() -> None:
    own = tagger()
    words = ["The", "dog", "barks"]
    answer = own.tag("The dog  barks")
    assert answer == own.tag(Sentence(words)) and answer.words == words
    assert own.tag(["The dog barks", "A"]) == own.tag([words, ["A"]]) == [answer, own.tag("A")]
    assert own.tag([Sentence(words)]) == [answer]
    assert own.tag([]) == [] == own.tag("").labels


def test_a_crf_gives_well_formed_labels_only() -> None:
    texts, ill_formed = [text for text in TEXTS if text], 0
    for seed in range(20):
        own = tagger(seed=seed)
        for answer in own.tag(texts):
            assert all(answer.labels[span.start].startswith("B-") for span in spans(answer.labels))
        own.allowed = own.allowed._replace(**{name: part | True for name, part in own.allowed._asdict().items()})
        ill_formed += sum(answer.labels[0].startswith("I-") for answer in own.tag(texts))
    assert ill_formed, "with everything allowed, some are not"


@pytest.mark.parametrize("head", ["crf", "softmax"])
def test_labels_that_are_iobes_inside_are_bio_outside(head, tmp_path: Path) -> None:
    """Answers have the spans of the labels inside, and the probabilities of what each BIO label stands for."""
    own = tagger(head=head, scheme="iobes", dtype=torch.float32)
    inner = Tagger(own.model, own.vocabularies._replace(config=FormsConfig()), config=own.config, task=own.task)
    assert set(own.vocabularies.labels) == {"O", "B-NP", "E-NP", "B-PP", "E-PP"}
    save_tagger(tmp_path / "model", own, card="")
    pack(own.model)  # as `load` does
    for tagger_of_bio in (own, load(tmp_path / "model", device="cpu")):
        for text in filter(None, TEXTS):
            answer = tagger_of_bio.tag(Sentence(text), marginals=True)
            inside = inner.tag(Sentence(text), marginals=True)
            assert {label[0] for label in answer.labels} <= set("OBI")
            assert spans(answer.labels) == spans(inside.labels)
            for shares, parts in zip(answer.marginals, inside.marginals, strict=True):
                assert set(shares) == {"O", "B-NP", "I-NP", "B-PP", "I-PP"}
                assert shares["I-PP"] == parts["E-PP"] and sum(shares.values()) == pytest.approx(1)


@pytest.mark.parametrize("inputs", [(), ("pos", "a")])
def test_a_folder_gives_back_what_was_saved(tmp_path: Path, inputs) -> None:
    own = tagger(inputs=inputs, dtype=torch.float32)
    save_tagger(tmp_path / "model", own, card="# x\n", artefacts={"confusion.json": b"[]"})
    pack(own.model)  # as `load` does
    loaded = load(tmp_path / "model", device="cpu")
    assert isinstance(loaded, Tagger)
    assert (loaded.vocabularies, loaded.config, loaded.task, loaded.columns) == (
        own.vocabularies,
        own.config,
        own.task,
        own.columns,
    )
    for text in filter(None, TEXTS):
        sentence = Sentence(text, dict.fromkeys(inputs, ["O"] * len(text)))
        assert loaded.tag(sentence, marginals=True) == own.tag(sentence, marginals=True)


def test_a_folder_with_another_label_set_is_refused(tmp_path: Path) -> None:
    save_tagger(tmp_path / "model", tagger(dtype=torch.float32), card="")
    (tmp_path / "model" / "tokenizer" / "labels.json").write_text('{"labels": ["A"]}')
    with pytest.raises(FolderError, match=r"labels\.json"):
        load(tmp_path / "model", device="cpu")


def test_a_column_that_is_missing_or_short_is_refused() -> None:
    own = tagger(inputs=("pos",))
    with pytest.raises(TextError, match="also reads the column 'pos'"):
        own.tag("The dog")
    with pytest.raises(TextError, match="2 words, but 1 values in the column 'pos'"):
        own.tag(Sentence(["The", "dog"], {"pos": ["O"]}))
