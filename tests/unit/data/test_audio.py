"""Audio files: wav and flac are read, channels mixed, parts cut; every unusable file is named with its reason."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import soundfile

from calque.data.audio import Clip, read_at_rate, read_sound, sound_header, to_int16
from calque.data.audio_corpus import AudioConfig
from calque.data.audio_manifests import parse_manifest
from calque.data.corpora import read_blocks
from calque.data.rows import parse
from calque.errors import DataError


def sine(seconds: float = 0.5, *, rate: int = 8000) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * 440 * np.arange(round(seconds * rate)) / rate)


@pytest.mark.parametrize("name", ["a.wav", "a.flac"])
def test_samples_come_back(tmp_path: Path, name) -> None:
    soundfile.write(tmp_path / name, sine(), 8000)
    sound = read_sound(Clip(name), folder=tmp_path)
    assert sound.rate == 8000
    np.testing.assert_allclose(sound.samples, sine(), atol=1e-4)
    assert sound_header(Clip(name), folder=tmp_path) == (0.5, 8000, 1)
    np.testing.assert_array_equal(to_int16(np.array([0.5, -2, 2])), [16384, -32768, 32767])


def test_channels_are_mixed_and_parts_are_cut(tmp_path: Path) -> None:
    left, right = sine(), np.linspace(-0.5, 0.5, 4000)
    soundfile.write(tmp_path / "a.wav", np.stack([left, right], axis=1), 8000)
    np.testing.assert_allclose(read_sound(Clip("a.wav"), folder=tmp_path).samples, (left + right) / 2, atol=1e-4)
    part = read_sound(Clip("a.wav", 0.1, 0.25), folder=tmp_path).samples
    np.testing.assert_allclose(part, ((left + right) / 2)[800:2000], atol=1e-4)
    assert len(read_at_rate(Clip("a.wav", 0.1, None), folder=tmp_path, rate=16000)) == 6400
    assert Clip.of(Clip("ä\tb.wav", None, 1.5).cell) == Clip("ä\tb.wav", None, 1.5)


def test_channels_are_mixed_block_by_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    channels = np.random.default_rng(0).uniform(-0.5, 0.5, (20_000, 100)).astype(np.float32)
    soundfile.write(tmp_path / "a.wav", channels, 8000, subtype="FLOAT")
    monkeypatch.setattr("calque.data.audio.BLOCK", 10_050)
    tracemalloc.start()
    try:
        samples = read_sound(Clip("a.wav"), folder=tmp_path).samples
        assert tracemalloc.get_traced_memory()[1] < channels.nbytes / 10
    finally:
        tracemalloc.stop()
    np.testing.assert_allclose(samples, channels.mean(axis=1), atol=1e-6)


def test_a_file_of_too_many_samples_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    soundfile.write(tmp_path / "a.wav", sine(), 8000)
    monkeypatch.setattr("calque.data.audio.MOST", 3999)
    with pytest.raises(
        DataError, match=r"a\.wav: 4,000 samples per channel, but at most 3,999 can be read; split the recording"
    ):
        read_sound(Clip("a.wav"), folder=tmp_path)
    assert len(read_sound(Clip("a.wav", 0.1), folder=tmp_path).samples) == 3200


def bad_files(folder: Path) -> dict[str, str]:
    """Unusable files, and what the message about each says."""
    (folder / "empty.wav").write_bytes(b"")
    (folder / "text.wav").write_text("not audio at all, but long enough to have a header in it\n" * 3)
    soundfile.write(folder / "silent.wav", np.zeros(0), 8000)
    soundfile.write(folder / "cut.flac", sine(2.0), 8000)
    content = (folder / "cut.flac").read_bytes()
    (folder / "cut.flac").write_bytes(content[: len(content) // 2])
    soundfile.write(folder / "nan.wav", np.array([0.0, np.nan, 0.1] * 100), 8000, subtype="FLOAT")
    (folder / "folder.wav").mkdir()
    return {
        "empty.wav": "empty file",
        "text.wav": "cannot be read as audio",
        "silent.wav": "empty: no audio",
        "cut.flac": "damaged audio|truncated",
        "nan.wav": "not a number",
        "folder.wav": "not a regular file",
        "none.wav": "no such file",
        "text.wav/none.wav": "no such file",
        f"{'a' * 300}.wav": "cannot be opened: File name too long",
    }


def test_every_unusable_file_is_named_with_its_reason(tmp_path: Path) -> None:
    for name, reason in bad_files(tmp_path).items():
        with pytest.raises(DataError, match=reason) as error:
            read_sound(Clip(name), folder=tmp_path)
        assert str(tmp_path / name) in str(error.value)


TIMES: list[tuple[float, float | None]] = [
    *((0.4, 0.2), (0.0, 0.9), (0.6, None), (0.2, 0.2), (0.5, 0.505), (-0.1, 0.2)),
    *((0.0, 1e308), (1e308, None), (0.0, float("inf")), (float("nan"), None), (0.0, float("nan"))),
]


@pytest.mark.parametrize(("start", "end"), TIMES)
def test_times_outside_the_file_are_rejected(tmp_path: Path, start, end) -> None:
    soundfile.write(tmp_path / "a.wav", sine(), 8000)
    with pytest.raises(DataError, match="the start must be before the end"):
        read_sound(Clip("a.wav", start, end), folder=tmp_path)


@pytest.mark.parametrize("seed", range(20))
def test_damaged_bytes_raise_nothing_but_a_data_error(tmp_path: Path, seed) -> None:
    generator = np.random.default_rng(seed)
    path = tmp_path / ("a.flac" if seed % 2 else "a.wav")
    soundfile.write(path, sine(), 8000)
    content = bytearray(path.read_bytes())
    for place in generator.integers(0, 60 if seed < 12 else len(content), 6):
        content[place] = int(generator.integers(256))
    path.write_bytes(bytes(content))
    try:
        assert np.isfinite(read_sound(Clip(path.name), folder=tmp_path).samples).all()
    except DataError as error:
        assert str(path) in str(error)


def entries(folder: Path, name: str, content: str | bytes, **config: str) -> "object":
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    corpus = AudioConfig(path=folder / name, **config)  # type: ignore[arg-type]
    (block,) = read_blocks(corpus, limit=4000)
    return parse_manifest(block, corpus, limit=4000)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    soundfile.write(tmp_path / "a.wav", sine(), 8000)
    soundfile.write(tmp_path / "b.wav", sine(), 8000)
    return tmp_path


MANIFESTS = {
    "m.jsonl": '{"audio": "a.wav", "text": "one"}\n{"audio": "b.wav", "text": "two", "start": 0.1, "speaker": "x"}\n',
    "m.tsv": "a.wav\tone\nb.wav\ttwo\n",
    "named.tsv": "speaker\ttext\taudio\tstart\tend\r\n\tone\ta.wav\t\t\r\nx\ttwo\tb.wav\t0.1\t\r\n",
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_manifests_of_both_formats(folder: Path, name) -> None:
    rows = entries(folder, name, MANIFESTS[name])
    assert rows.columns[1] == ["one", "two"] and not rows.malformed and not rows.invalid
    times = None if name == "m.tsv" else 0.1
    assert [Clip.of(cell) for cell in rows.columns[0]] == [Clip("a.wav"), Clip("b.wav", times)]
    assert rows.columns[2] == [str(folder)] * 2
    assert rows.columns[3] == ["", "" if name == "m.tsv" else "x"]
    first = 2 if name == "named.tsv" else 1
    assert rows.columns[4] == [f"{folder / name}: line {first + place}" for place in range(2)]


def test_other_keys_and_other_names(folder: Path) -> None:
    rows = entries(folder, "m.data", '{"path": "a.wav", "sentence": "one"}\n', audio_key="path", text_key="sentence")
    assert rows.columns[1] == ["one"]
    table = "id\taudio\ttext\n7\ta.wav\tone\n"
    assert entries(folder, "more.tsv", table).columns[1] == ["one"]
    assert entries(folder, "m.list", "a.wav\tone\n", format="tsv").columns[1] == ["one"]


BAD_LINES = {
    "not json": "not JSON",
    "[1]": "expected a JSON object",
    '{"text": "one"}': "no key 'audio'",
    '{"audio": "a.wav"}': "no key 'text'",
    '{"audio": 3, "text": "one"}': "is not text but int",
    '{"audio": "a.wav", "text": "one", "start": "soon"}': "expected a number of seconds",
    '{"audio": "a.wav", "text": "one", "end": -1}': "expected a number of seconds",
    '{"audio": "a.wav", "text": "one", "start": NaN}': "expected a number of seconds",
    '{"audio": "a.wav", "text": "one", "end": 1e999}': "expected a number of seconds",
    '{"audio": "a.wav", "text": "one", "end": true}': "expected a number of seconds",
    f'{{"audio": "a.wav", "text": "one", "end": 1{"0" * 400}}}': "expected a number of seconds",
    '{"audio": "", "text": "one"}': "not a file name",
    '{"audio": "a\\u0000.wav", "text": "one"}': "not a file name",
    '{"audio": "a.wav", "text": "\\ud800"}': "lone surrogate",
    '{"audio": "a.wav", "text": "one", "ende": 3}': "unknown key 'ende'; expected audio, text, start, end and speaker",
}


def test_malformed_lines_are_named_and_the_others_read(folder: Path) -> None:
    good = '{"audio": "a.wav", "text": "one"}'
    rows = entries(folder, "m.jsonl", "".join(f"{line}\n" for line in [*BAD_LINES, good]))
    assert len(rows.malformed) == len(BAD_LINES) and rows.columns[1] == ["one"]
    for number, (problem, reason) in enumerate(zip(rows.malformed, BAD_LINES.values(), strict=True), start=1):
        assert f"line {number}: " in problem and reason in problem
    (problem,) = entries(folder, "bytes.jsonl", b'{"audio": "a.wav", "text": "\xff"}\n').malformed
    assert "is not UTF-8" in problem
    (problem,) = entries(folder, "short.tsv", "a.wav\n").malformed
    assert "expected at least 2" in problem


def test_times_beyond_all_files_are_rejected_with_their_line(folder: Path) -> None:
    line = '{"audio": "a.wav", "text": "one", "end": 1e308}\n'
    (problem,) = entries(folder, "m.jsonl", "\n" + line).invalid
    assert "m.jsonl: line 2: " in problem and "a.wav (0 to 1e+308 s): the file has 0.50 s of audio" in problem


def test_unusable_recordings_are_invalid_and_counted(folder: Path) -> None:
    names = bad_files(folder)
    lines = [f'{{"audio": "{name}", "text": "one"}}\n' for name in [*names, "a.wav"]]
    rows = entries(folder, "m.jsonl", "".join(lines) + '\n{"audio": "a.wav", "text": "  "}\n')
    assert rows.columns[1] == ["one"] and rows.lines == [len(names) + 1]
    assert rows.counts["invalid"] == len(rows.invalid) == len(names)
    assert rows.counts["empty"] == 2
    corpus = AudioConfig(path=folder / "m.jsonl")
    (block,) = read_blocks(corpus, limit=4000)
    kept = parse_manifest(block, corpus, limit=4000, keep_empty=True)
    assert kept.columns[1] == ["one", "  "] and kept.lines == [len(names) + 1, len(names) + 3]
    assert kept.counts["empty"] == 1
    parsed = parse(block, corpus=corpus, invalid="skip", limit=4000)
    assert parsed.tally.invalid == len(names) and parsed.tally.lines == len(names) + 3
