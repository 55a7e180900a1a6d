"""The judges of recognition and of sentence vectors, against what they say written out plainly."""

from collections.abc import Sequence
from itertools import pairwise

import jiwer
import numpy as np
import pytest
import torch

from calque.data.batching import BatchConfig, Planned
from calque.data.buckets import Size
from calque.data.recognition_preparation import AUDIO, TEXT
from calque.data.speech_batch import collate_speech, speech_widths
from calque.data.store import Rows, Store, pack, store_in_memory, store_of_pairs
from calque.engine import Recogniser, SentenceEncoder
from calque.experiment.embedding import TOGETHER, EmbeddingJudge
from calque.experiment.recognition import RecognitionJudge
from calque.models.model import Sizes
from calque.models.recogniser import RecogniserConfig, RecogniserModel, RecogniserSizes
from calque.models.recurrent import RecurrentEncoderConfig
from calque.models.sentence_encoder import SentenceEncoderConfig, SentenceEncoderModel
from calque.search.settings import SearchConfig
from calque.tasks.embedding import EmbeddingConfig
from calque.tasks.recognition import RecognitionConfig, recognition_loss
from calque.text import Tokenizers, WordsConfig, train_tokenizer

RATE = 8000
WORDS = ["low", "high", "long", "short", "loud"]


def loud(model: torch.nn.Module, *, seed: int) -> None:
    """Weights that are large enough for outputs to differ."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter))


def recogniser(head: str, *, seed: int) -> Recogniser:
    tokenizer = train_tokenizer(WordsConfig(), lines=lambda: iter([" ".join(WORDS)]), count=1)
    decoder = {} if head == "ctc" else {"decoder": {"kind": "luong", "layers": 1, "width": 8, "embedding": 6}}
    config = RecogniserConfig.model_validate(
        {
            "head": head,
            "features": 12,
            "ctc_weight": 0.3,
            "subsampling": {"layers": 1, "channels": 2},
            "encoder": {"kind": "recurrent", "layers": 1, "width": 8, "embedding": 6},
            **decoder,
        }
    )
    model = RecogniserModel(config, sizes=RecogniserSizes(len(tokenizer.vocabulary), RATE)).double().eval()
    loud(model, seed=seed)
    task = RecognitionConfig(rate=RATE)
    return Recogniser(model, tokenizer, config=config, task=task, search=SearchConfig(maximum=12))


def recordings(tokenizer: object, *, seed: int, rows: int = 9) -> tuple[Store, list[str]]:
    """Noise with texts that fit it."""
    generator = np.random.default_rng(seed)
    lengths = generator.integers(2500, 6000, rows)
    texts = [" ".join(generator.choice(WORDS, size=generator.integers(1, 5))) for _ in range(rows)]
    samples = generator.integers(-9000, 9000, lengths.sum()).astype(np.int16)
    ids = tokenizer.encode_many(texts)  # type: ignore[attr-defined]
    return store_in_memory({AUDIO: Rows(samples, lengths.astype(np.uint32)), TEXT: pack(ids)}), texts


@pytest.mark.parametrize("head", ["ctc", "attention", "hybrid"])
def test_recordings_are_encoded_once_and_judged_as_if_each_were_alone(
    head: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = recogniser(head, seed=seed)
    store, texts = recordings(model.tokenizer, seed=seed)
    hop, widths = model.task.hop, speech_widths(store, hop=model.task.hop)
    total = 0.0
    with torch.inference_mode():
        for row in range(len(store)):
            plan = Planned(np.array([row]), Size(1, tuple(int(axis[[row]].max()) for axis in widths)))
            total += float(recognition_loss(model.model, collate_speech(store, plan, hop=hop)).objective)
    heard = []
    encode = RecogniserModel.forward

    def counted(self: RecogniserModel, audio: torch.Tensor) -> object:
        heard.append(len(audio.lengths))  # type: ignore[attr-defined]
        return encode(self, audio)  # type: ignore[arg-type]

    monkeypatch.setattr(RecogniserModel, "forward", counted)
    judge = RecognitionJudge(model, store, references=texts, batch=BatchConfig(tokens=200))
    judgement = judge(model.model, parts=1, stop=lambda: False)
    assert sum(heard) == len(store) and len(heard) > 1, "each recording once"
    tokens = sum(len(text.split()) + 1 for text in texts)
    assert judgement.values["loss"] == pytest.approx(total / tokens, rel=1e-6)
    found = [sample.splitlines()[1].removeprefix("recognised").strip() for sample in judgement.samples]
    assert judgement.values["wer"] == pytest.approx(100 * jiwer.wer(texts, found))
    assert judgement.values["cer"] == pytest.approx(100 * jiwer.cer(texts, found))


def sentence_encoder(*, seed: int) -> SentenceEncoder:
    tokenizer = train_tokenizer(WordsConfig(), lines=lambda: iter([" ".join(WORDS)]), count=1)
    config = SentenceEncoderConfig(encoder=RecurrentEncoderConfig(layers=1, width=6, embedding=5), projection=4)
    size = len(tokenizer.vocabulary)
    model = SentenceEncoderModel(config, sizes=Sizes(size, size, joint=True)).double().eval()
    loud(model, seed=seed)
    task = EmbeddingConfig(temperature=0.3, margin=0.1)
    return SentenceEncoder(model, Tokenizers(tokenizer, tokenizer), config=config, task=task)


def plain_loss(source: np.ndarray, target: np.ndarray, texts: Sequence[tuple[str, str]], *, task: EmbeddingConfig):
    """The loss of one group, pair by pair; a pair with the same text on either side is no negative."""
    losses = []
    for row, (own_source, own_target) in enumerate(texts):
        others = [
            at
            for at, (other_source, other_target) in enumerate(texts)
            if at != row and other_source != own_source and other_target != own_target
        ]
        own = (source[row] @ target[row] - task.margin) / task.temperature
        forth = [own, *(source[row] @ target[at] / task.temperature for at in others)]
        back = [own, *(source[at] @ target[row] / task.temperature for at in others)]
        losses.append(sum(np.log(np.exp(scores).sum()) for scores in (forth, back)) / 2 - own)
    return losses


def test_equal_sentences_are_no_negatives_in_validation_either(seed: int) -> None:
    """In groups of 128 consecutive pairs, as in training."""
    encoder, generator = sentence_encoder(seed=seed), np.random.default_rng(seed)
    texts = [
        tuple(" ".join(generator.choice(WORDS, size=generator.integers(1, 4))) for _ in range(2))
        for _ in range(TOGETHER + 30)
    ]
    texts[5] = texts[3]
    texts[9] = (texts[3][0], texts[9][1])
    source, target = (encoder.tokenizers[side].encode_many([row[side] for row in texts]) for side in (0, 1))
    store = store_of_pairs(list(zip(source, target, strict=True)))
    judge = EmbeddingJudge(encoder, store, texts=texts, batch=BatchConfig(tokens=400))
    vectors = encoder.embed_store(store, batch=BatchConfig(tokens=400))
    edges = [*range(0, len(texts), TOGETHER), len(texts)]
    losses = [
        loss
        for first, last in pairwise(edges)
        for loss in plain_loss(
            *(side[first:last].astype(np.float64) for side in vectors), texts[first:last], task=encoder.task
        )
    ]
    judgement = judge(encoder.model, parts=1, stop=lambda: False)
    assert judgement.values["loss"] == pytest.approx(np.mean(losses), rel=1e-6)
