"""Recordings in a store: 16-bit samples at one rate, texts as ids; what does not fit is named by file or counted."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
from recipes.digits.tones import write_tones

from calque.data.audio import Clip, read_sound, to_int16
from calque.data.batching import BatchConfig, Bucketed, Planned, Shard
from calque.data.buckets import Size
from calque.data.corpora import DataConfig
from calque.data.prepare import prepare
from calque.data.recognition_preparation import AUDIO, TEXT, Fit, RecognitionPreparation
from calque.data.resampling import resample
from calque.data.speech_batch import collate_speech, speech_widths
from calque.data.store import Rows, pack, store_in_memory
from calque.errors import DataError
from calque.text import WordsConfig

FIT = Fit(hop=80, factor=4, fastest=100, aligned=True)


def preparation(**changes: object) -> RecognitionPreparation:
    return RecognitionPreparation(WordsConfig(), rate=8000, fit=FIT)._replace(**changes)  # type: ignore[arg-type]


def data(*manifests: Path, **changes: object) -> DataConfig:
    corpora = [{"kind": "audio", "path": manifest} for manifest in manifests]
    return DataConfig(train=corpora[:1], valid=corpora[1:], **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tones")
    return write_tones(folder / "train", recordings=70), write_tones(folder / "valid", recordings=5, seed=1)


def test_a_store_holds_the_samples_and_the_words(corpora, tmp_path: Path) -> None:
    prepared = prepare(data(*corpora), preparation=preparation(), folder=tmp_path / "store")
    assert len(prepared.train) == 70 and len(prepared.valid) == 5
    for row in (0, 63, 64, 69):
        samples = read_sound(Clip(f"{row}.wav"), folder=corpora[0].parent).samples
        np.testing.assert_array_equal(prepared.train[AUDIO].row(row), to_int16(samples))
    assert prepared.train[AUDIO].values.dtype == np.int16
    assert len(prepared.valid_text[0][1].split()) == len(prepared.valid[TEXT].row(0))
    same = prepare(data(*corpora), preparation=preparation(), folder=tmp_path / "store")
    assert same.digest == prepared.digest
    with pytest.raises(DataError, match=r"task\.rate: was 8000, is 16000"):
        prepare(data(*corpora), preparation=preparation(rate=16000), folder=tmp_path / "store")


def test_rows_are_held_out_by_their_names_wherever_the_corpus_lies(tmp_path: Path) -> None:
    texts = []
    for place in ("here", "there"):
        manifest = write_tones(tmp_path / place, recordings=40)
        changes = {"validation": {"minimum": 6}}
        prepared = prepare(data(manifest, **changes), preparation=preparation(), folder=tmp_path / f"{place}-store")
        texts.append([row[:2] for row in prepared.valid_text])
    assert texts[0] == texts[1] and len(texts[0]) == 6


def test_other_rates_are_resampled_or_rejected(corpora, tmp_path: Path) -> None:
    prepared = prepare(data(*corpora), preparation=preparation(rate=16000), folder=tmp_path / "store")
    sound = read_sound(Clip("3.wav"), folder=corpora[0].parent)
    expected = to_int16(resample(sound.samples, source=8000, target=16000))
    np.testing.assert_array_equal(prepared.train[AUDIO].row(3), expected)
    with pytest.raises(DataError, match=r"0\.wav: 8000 samples per second, expected 16000 .*\n.*1\.wav"):
        prepare(data(*corpora), preparation=preparation(rate=16000, resampled=False), folder=tmp_path / "other")


def test_a_text_that_does_not_fit_its_recording_is_named_or_left_out(corpora, tmp_path: Path) -> None:
    manifest = corpora[0].with_name("long.jsonl")
    manifest.write_text(corpora[0].read_text() + '{"audio": "0.wav", "text": "' + "low " * 60 + '"}\n')
    with pytest.raises(DataError, match=r"long\.jsonl: line 71: .*0\.wav: a text of 60 tokens is too long for"):
        prepare(data(manifest, corpora[1]), preparation=preparation(), folder=tmp_path / "store")
    skipped = prepare(
        data(manifest, corpora[1], invalid="skip"), preparation=preparation(), folder=tmp_path / "skipped"
    )
    assert len(skipped.train) == 70 and (skipped.train_tally.long, skipped.train_tally.invalid) == (0, 1)
    assert "left out: 1 unusable" in skipped.summary(unit="recordings")
    spelled = preparation(fit=FIT._replace(aligned=False))
    assert len(prepare(data(manifest, corpora[1]), preparation=spelled, folder=tmp_path / "attends").train) == 71


def test_all_texts_that_do_not_fit_are_listed_together(corpora, tmp_path: Path) -> None:
    lines = corpora[0].read_text().splitlines()
    unfit = '{"audio": "0.wav", "text": "' + "low " * 60 + '"}'
    manifest = corpora[0].with_name("unfit.jsonl")
    manifest.write_text("".join(f"{line}\n" for line in [unfit, *lines, unfit]))  # in two blocks
    with pytest.raises(DataError) as error:
        prepare(data(manifest, corpora[1]), preparation=preparation(), folder=tmp_path / "store")
    assert all(f"line {number}: " in line for number, line in zip((1, 72), str(error.value).splitlines(), strict=True))
    manifest.write_text("".join(f"{unfit}\n" for _ in range(70)))
    with pytest.raises(DataError, match="… and 60 more"):
        prepare(data(manifest, corpora[1]), preparation=preparation(), folder=tmp_path / "more")
    with pytest.raises(DataError, match="0 too long, 70 unusable"):
        prepare(data(manifest, corpora[1], invalid="skip"), preparation=preparation(), folder=tmp_path / "none")


def test_long_recordings_are_left_out_and_counted(corpora, tmp_path: Path) -> None:
    prepared = prepare(data(*corpora), preparation=preparation(longest=0.5), folder=tmp_path / "store")
    assert 0 < len(prepared.train) < 70 and prepared.train_tally.long == 70 - len(prepared.train)
    assert int(prepared.train[AUDIO].lengths.max()) <= 4000


@pytest.mark.parametrize(
    ("samples", "tokens", "fits"), [(320, [4], True), (320, [4, 5], False), (960, [4, 4], True), (640, [4, 4], False)]
)
def test_ctc_needs_a_position_per_token_and_one_between_equal_ones(samples, tokens, fits) -> None:
    assert FIT.fits(samples, tokens) is fits
    assert FIT._replace(aligned=False).fits(samples, tokens)


def test_the_fastest_speed_counts() -> None:
    assert FIT.positions(1000) == 4 and FIT._replace(fastest=200).positions(1000) == 2


def store(rows: int = 6):
    generator = np.random.default_rng(0)
    lengths = generator.integers(300, 900, rows)
    samples = generator.integers(-9000, 9000, lengths.sum()).astype(np.int16)
    texts = [generator.integers(4, 9, generator.integers(1, 5)).tolist() for _ in range(rows)]
    return store_in_memory({AUDIO: Rows(samples, lengths.astype(np.uint32)), TEXT: pack(texts)})


def planned(of, rows, **options):
    widths = speech_widths(of, hop=80, **options)
    return Planned(np.array(rows), Size(len(rows), tuple(int(axis[rows].max()) for axis in widths)))


def test_batches_hold_their_rows() -> None:
    whole = store()
    batch = collate_speech(whole, planned(whole, [4, 1, 2]), hop=80)
    for row, index in enumerate((4, 1, 2)):
        length, tokens = int(batch.audio.lengths[row]), whole[TEXT].row(index).tolist()
        np.testing.assert_array_equal(batch.audio.values[row, :length], whole[AUDIO].row(index))
        assert not batch.audio.values[row, length:].any()
        count = int(batch.target_lengths[row])
        assert batch.target_output[row, :count].tolist() == [*tokens, 2]
        assert batch.target_input[row, :count].tolist() == [1, *tokens]
        assert int(batch.token_lengths[row]) == len(tokens)
    assert batch.weight == batch.shared_weight == int(batch.target_lengths.sum())
    assert batch.filled <= batch.positions
    parts = batch.split(2)
    assert [part.rows for part in parts] == [2, 1] and sum(part.weight for part in parts) == batch.weight


def test_ranks_share_a_batch_without_loss() -> None:
    whole = store()
    plan = planned(whole, [0, 1, 2, 3, 4])
    shards = [collate_speech(whole, plan, hop=80, shard=Shard(rank, 2)) for rank in range(2)]
    assert [shard.rows for shard in shards] == [3, 3]
    assert sum(shard.weight for shard in shards) == shards[0].shared_weight == shards[1].shared_weight
    assert int(shards[1].audio.lengths[2]) == 0 == int(shards[1].target_lengths[2])


def test_speeds_depend_on_row_and_stream_alone_and_fit_the_plan() -> None:
    whole, speeds = store(40), (80, 100, 125)
    plan = planned(whole, list(range(40)), slowest=80)
    batch, again, later = (collate_speech(whole, plan, hop=80, speeds=speeds, stream=(7, epoch)) for epoch in (0, 0, 1))
    assert (batch.audio.values == again.audio.values).all()
    assert (batch.audio.lengths != later.audio.lengths).any()
    ratios = batch.audio.lengths.numpy() / whole[AUDIO].lengths
    assert {round(100 / ratio) for ratio in ratios.tolist()} == {80, 100, 125}
    alone = collate_speech(whole, planned(whole, [9], slowest=80), hop=80, speeds=speeds, stream=(7, 0))
    assert int(alone.audio.lengths[0]) == int(batch.audio.lengths[9])
    assert batch.audio.values.shape[1] <= 80 * plan.size.widths[0]


def test_orders_keep_within_the_budget() -> None:
    whole = store(40)
    order = Bucketed(speech_widths(whole, hop=80), spans=whole.spans, config=BatchConfig(tokens=64), seed=1)
    batches = [collate_speech(whole, plan, hop=80) for plan in order.batches(0)]
    assert all(batch.positions <= 64 for batch in batches) and sum(batch.rows for batch in batches) == 40


def test_stereo_and_flac_are_read(tmp_path: Path) -> None:
    """The channels of a recording are mixed; those of one file differ, and the others are not touched."""
    manifest = write_tones(tmp_path, recordings=3, format="flac")
    samples, rate = soundfile.read(tmp_path / "0.flac")
    other = 0.5 * np.roll(samples, 100)
    soundfile.write(tmp_path / "0.flac", np.stack([samples, other], axis=1), rate)
    assert soundfile.info(tmp_path / "0.flac").channels == 2
    prepared = prepare(data(manifest, manifest), preparation=preparation(), folder=tmp_path / "store")
    found = prepared.train[AUDIO].row(0).astype(int)
    assert np.abs(found - 32768 * (samples + other) / 2).max() <= 2  # both were rounded to 16 bits
    assert np.abs(found - 32768 * samples).max() > 500 and np.abs(found - 32768 * other).max() > 500
    assert [len(prepared.train[AUDIO].row(row)) for row in range(3)] == [
        soundfile.info(tmp_path / f"{row}.flac").frames for row in range(3)
    ]
    for row in (1, 2):
        alone, _ = soundfile.read(tmp_path / f"{row}.flac", dtype="int16")
        np.testing.assert_array_equal(prepared.train[AUDIO].row(row), alone)


@pytest.mark.parametrize("speed", [50, 80, 125, 200])
def test_a_faster_recording_is_shorter_and_higher(speed: int) -> None:
    wave = (9000 * np.sin(2 * np.pi * 50 * np.arange(8000) / 8000)).astype(np.int16)
    whole = store_in_memory({AUDIO: Rows(wave, np.array([8000], dtype=np.uint32)), TEXT: pack([[4]])})
    batch = collate_speech(whole, planned(whole, [0], slowest=50), hop=80, speeds=(speed,))
    length = int(batch.audio.lengths[0])
    assert length == 8000 * 100 // speed
    spectrum = np.abs(np.fft.rfft(batch.audio.values[0, :length].numpy()))
    assert spectrum.argmax() * 8000 / length == pytest.approx(50 * speed / 100, abs=1)
