"""The recogniser: answers or errors of their own, long recordings in parts, times of words, a language model."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from recipes.digits.tones import WORDS, recording

from calque.data.audio import Clip, Sound
from calque.engine import Recogniser, TextGenerator, load
from calque.engine.recogniser_folder import save_recogniser
from calque.engine.sound_parts import SoundPart, TimedToken, join_positions, join_tokens, split_sound
from calque.engine.speech_decoding import Decoded, SpeechSearch
from calque.errors import CalqueError, ConfigError, DataError, FolderError, OutOfMemory
from calque.models.language_model import LanguageModel, LanguageModelConfig, RecurrentLanguageConfig
from calque.models.recogniser import RecogniserConfig, RecogniserModel, RecogniserSizes
from calque.search.settings import SearchConfig
from calque.tasks.language_modelling import LanguageModellingConfig
from calque.tasks.recognition import RecognitionConfig
from calque.text import CharactersConfig, WordsConfig, train_tokenizer

RATE = 8000


def recogniser(head: str = "ctc", *, seed: int = 0, **task: object) -> Recogniser:
    """A recogniser with random weights."""
    tokenizer = train_tokenizer(WordsConfig(), lines=lambda: iter([" ".join(WORDS)]), count=1)
    decoder = {} if head == "ctc" else {"decoder": {"kind": "luong", "layers": 1, "width": 8, "embedding": 6}}
    config = RecogniserConfig.model_validate(
        {
            "head": head,
            "features": 12,
            "subsampling": {"layers": 1, "channels": 2},
            "encoder": {"kind": "recurrent", "layers": 1, "width": 8, "embedding": 6},
            **decoder,
        }
    )
    torch.manual_seed(seed)
    model = RecogniserModel(config, sizes=RecogniserSizes(len(tokenizer.vocabulary), RATE)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter))
    task_config = RecognitionConfig(rate=RATE, **task)  # type: ignore[arg-type]
    return Recogniser(model, tokenizer, config=config, task=task_config, search=SearchConfig(maximum=20))


def sound(seed: int = 0, words: int = 3) -> Sound:
    generator = np.random.default_rng(seed)
    names = [str(name) for name in generator.choice(list(WORDS), size=words)]
    return Sound(recording(names, generator=generator).astype(np.float32), RATE)


HEADS = ["ctc", "attention", "hybrid"]


@pytest.mark.parametrize("head", HEADS)
def test_answers_do_not_depend_on_their_neighbours(head) -> None:
    model = recogniser(head)
    sounds = [sound(seed, words=1 + seed % 4) for seed in range(7)]
    together = list(model.answers(sounds, timestamps=True, nbest=2, batch_frames=200))
    for alone, answer in zip(
        (model.transcribe(one, timestamps=True, nbest=2) for one in sounds), together, strict=True
    ):
        assert not isinstance(answer, CalqueError)
        assert alone.text == answer.text and alone.words == answer.words
        assert [item.score for item in alone.candidates] == pytest.approx(
            [item.score for item in answer.candidates], abs=1e-3
        )


def test_one_bad_recording_does_not_take_its_neighbours_with_it(tmp_path: Path) -> None:
    model = recogniser()
    soundfile.write(tmp_path / "good.wav", sound().samples, RATE, subtype="FLOAT")
    (tmp_path / "bad.wav").write_bytes(b"RIFF")
    given = [
        tmp_path / "good.wav",
        tmp_path / "bad.wav",
        Sound(np.zeros(0, np.float32), RATE),
        sound(),
        Clip("none.wav"),
        f"{'a' * 300}.wav",
        "a\0.wav",
    ]
    answers = list(model.answers(given))
    assert [isinstance(answer, DataError) for answer in answers] == [False, True, True, False, True, True, True]
    assert answers[0].text == answers[3].text == model.transcribe(str(tmp_path / "good.wav")).text
    with pytest.raises(DataError, match=r"bad\.wav"):
        model.transcribe(tmp_path / "bad.wav")


def test_few_recordings_are_in_memory_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model, given = recogniser(), [sound(seed) for seed in range(9)]
    monkeypatch.setattr("calque.engine.recogniser.TOGETHER_SAMPLES", 2 * max(len(one.samples) for one in given))
    read: list[int] = []

    def recordings() -> Iterator[Sound]:
        for number, one in enumerate(given):
            read.append(number)
            yield one

    ahead, texts = [], []
    for place, answer in enumerate(model.answers(recordings())):
        assert not isinstance(answer, CalqueError)
        ahead.append(len(read) - place)
        texts.append(answer.text)
    shortest = min(len(one.samples) for one in given)
    assert max(ahead) <= 1 + 2 * max(len(one.samples) for one in given) // shortest < 9
    assert texts == [model.transcribe(one).text for one in given]


def test_other_rates_and_channels_are_converted_unless_the_task_says_no(tmp_path: Path) -> None:
    model = recogniser()
    stereo = Sound(np.stack([sound().samples] * 2, axis=1), RATE)
    assert model.transcribe(stereo).text == model.transcribe(sound()).text
    assert model.transcribe(Sound(sound().samples, 16000)).seconds == pytest.approx(
        len(sound().samples) / 16000, abs=1e-3
    )
    with pytest.raises(DataError, match="16000 samples per second, but this model reads 8000"):
        recogniser(resample=False).transcribe(Sound(sound().samples, 16000))
    soundfile.write(tmp_path / "a.wav", sound().samples, 16000)
    (answer,) = recogniser(resample=False).answers([tmp_path / "a.wav"])
    assert str(answer).startswith(f"{tmp_path / 'a.wav'}: the recording has 16000 samples per second, but")


def test_memory_that_runs_out_is_the_error_of_a_named_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = recogniser()
    for name, words in (("a.wav", 1), ("long.wav", 9)):
        soundfile.write(tmp_path / name, sound(words=words).samples, RATE)
    decode, limit = model._decode, len(sound(words=9).samples)

    def decode_short(waveforms: list[np.ndarray], settings: SpeechSearch) -> list[Decoded]:
        if max(map(len, waveforms)) >= limit:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return decode(waveforms, settings)

    monkeypatch.setattr(model, "_decode", decode_short)
    answers = list(model.answers([tmp_path / "a.wav", tmp_path / "long.wav", sound(words=9)]))
    assert not isinstance(answers[0], CalqueError)
    assert all(isinstance(answer, OutOfMemory) for answer in answers[1:])
    assert str(answers[1]) == f"{tmp_path / 'long.wav'}: {answers[2]}"


@pytest.mark.parametrize("head", HEADS)
def test_words_have_times_in_order_within_the_recording(head) -> None:
    model, given = recogniser(head), sound(words=4)
    transcript = model.transcribe(given, timestamps=True)
    assert transcript.words is not None
    assert [word.word for word in transcript.words] == transcript.text.split()
    step = model.stride / RATE
    assert all(0 <= word.start < word.end <= transcript.seconds + step for word in transcript.words)
    starts = [word.start for word in transcript.words]
    assert starts == sorted(starts)
    assert model.transcribe(given).words is None


@pytest.mark.parametrize("head", HEADS)
def test_a_long_recording_is_read_in_parts(head) -> None:
    model = recogniser(head)
    long = Sound(np.concatenate([sound(seed).samples for seed in range(12)]), RATE)
    transcript = model.transcribe(long, chunk=1.0, timestamps=True)
    assert transcript.parts > 4 and transcript.words is not None
    starts = [word.start for word in transcript.words]
    assert starts == sorted(starts) and transcript.seconds == pytest.approx(len(long.samples) / RATE)
    assert model.transcribe(long).parts == 1
    with pytest.raises(ConfigError, match="too short"):
        model.transcribe(long, chunk=0.001)
    for chunk in (float("inf"), float("nan"), 1e308):
        with pytest.raises(ConfigError, match="expected a finite number of seconds"):
            model.transcribe(long, chunk=chunk)
    assert model.transcribe(long, chunk=1e12).parts == 1


@pytest.mark.parametrize(
    ("positions", "longest", "overlap"), [(5, 6, 2), (6, 6, 2), (7, 6, 2), (100, 7, 3), (50, 9, 20)]
)
def test_parts_cover_every_position_once(positions, longest, overlap) -> None:
    parts = split_sound(positions, longest=longest, overlap=overlap)
    covered = [place for part in parts for place in range(part.begin, part.end)]
    assert covered == list(range(positions))
    for part in parts:
        assert part.first <= part.begin < part.end <= min(positions, part.first + longest)


def test_parts_are_joined_in_the_middle_of_their_overlap() -> None:
    parts = [SoundPart(0, 0, 5), SoundPart(4, 5, 10)]
    values = [torch.arange(6.0)[:, None], 4 + torch.arange(6.0)[:, None]]
    assert join_positions(parts, values).flatten().tolist() == list(range(10))
    tokens = [
        [TimedToken(7, 1, 2), TimedToken(8, 5, 6)],
        [TimedToken(8, 1, 2), TimedToken(9, 4, 5), TimedToken(6, 0, 1)],
    ]
    assert join_tokens(parts, tokens) == [TimedToken(7, 1, 2), TimedToken(8, 5, 6), TimedToken(9, 8, 9)]


def language(model: Recogniser, *, seed: int = 0) -> TextGenerator:
    config = LanguageModelConfig(network=RecurrentLanguageConfig(layers=1, width=8, embedding=6), tie=False)
    torch.manual_seed(seed)
    network = LanguageModel(config, vocabulary_size=len(model.tokenizer.vocabulary)).eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(2 * torch.randn_like(parameter))
    task = LanguageModellingConfig(reading="lines")
    return TextGenerator(network, model.tokenizer, config=config, task=task, search=SearchConfig())


@pytest.mark.parametrize("head", HEADS)
def test_a_language_model_changes_texts_by_its_weight(head) -> None:
    model = recogniser(head)
    generator, given = language(model), sound(words=4)
    search = model.search.model_copy(update={"minimum": 3, "maximum": 3, "language_weight": 0.0})
    plain = model.transcribe(given, search=search)
    assert model.transcribe(given, language=generator, search=search).text == plain.text
    heavy = search.model_copy(update={"language_weight": 100.0})
    scores = generator.score([plain.text, model.transcribe(given, language=generator, search=heavy).text])
    before, after = (scored.log_prob for scored in scores)
    assert after > before


def test_a_language_model_of_other_pieces_is_rejected() -> None:
    model = recogniser()
    generator = language(model)
    generator.tokenizer = train_tokenizer(CharactersConfig(), lines=lambda: iter(["abc"]), count=1)
    with pytest.raises(FolderError, match="pieces of the language model differ"):
        model.transcribe(sound(), language=generator)


@pytest.mark.parametrize(
    ("changes", "nbest", "message"),
    [
        ({"beam": 3}, 4, "nbest is 4 and beam is 3"),
        ({"method": "sample"}, 1, "for speech recognisers; set it to 'beam'"),
    ],
)
def test_settings_that_do_not_fit_are_rejected(changes, nbest, message) -> None:
    model = recogniser()
    with pytest.raises(ConfigError, match=message):
        model.transcribe(sound(), search=SearchConfig(**changes), nbest=nbest)


@pytest.mark.parametrize("head", HEADS)
def test_a_folder_gives_back_the_same_recogniser(tmp_path: Path, head) -> None:
    model = recogniser(head)
    save_recogniser(tmp_path / "model", model, card="")
    loaded = load(tmp_path / "model", device="cpu")
    assert isinstance(loaded, Recogniser) and repr(loaded) == repr(model)
    here, there = (one.transcribe(sound(), nbest=3).candidates for one in (model, loaded))
    assert [item.text for item in there] == [item.text for item in here]
    assert [item.score for item in there] == pytest.approx([item.score for item in here], abs=1e-4)
    halved = load(tmp_path / "model", device="cpu", precision="bfloat16")
    assert isinstance(halved, Recogniser) and halved.transcribe(sound()).candidates
    eighth = load(tmp_path / "model", device="cpu", precision="int8")
    assert isinstance(eighth, Recogniser) and eighth.transcribe(sound(), timestamps=True).candidates


def test_characters_are_joined_to_words_with_times() -> None:
    model = recogniser()
    model.tokenizer = train_tokenizer(CharactersConfig(), lines=lambda: iter(["ab c"]), count=1)
    ids = model.tokenizer.encode("ab c")
    words = model.words([TimedToken(token, 2 * place, 2 * place + 1) for place, token in enumerate(ids)])
    step = model.stride / RATE
    assert [(word.word, word.start, word.end) for word in words] == [
        ("ab", 0.0, round(3 * step, 3)),
        ("c", round(6 * step, 3), round(7 * step, 3)),
    ]


def test_more_cepstral_coefficients_than_bands_are_rejected() -> None:
    assert RecogniserConfig(features=20, cepstrum=19).cepstrum == 19
    with pytest.raises(ValueError, match="cepstrum = 20 must be below features = 20; 0 turns it off"):
        RecogniserConfig(features=20, cepstrum=20)
