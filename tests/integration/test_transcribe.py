"""`calque transcribe`, and `train`, `evaluate` and `data check` of a recogniser: mistakes and bad audio are named."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import soundfile
from recipes.digits.tones import RATE, write_tones

from calque.experiment import train
from tests.conftest import Answer, without_plots
from tests.spoken import recognition_values

Command = Callable[..., Answer]


class Spoken:
    """A recogniser of tones, and the folder of its corpora; do not change them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with without_plots():
            self.run = train(recognition_values(folder), run=folder / "run", quiet=True).folder
        self.manifest = folder / "valid" / "manifest.jsonl"
        self.wavs = [folder / "valid" / f"{number}.wav" for number in range(3)]


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Spoken:
    return Spoken(tmp_path_factory.mktemp("spoken"))


def test_files_are_transcribed_in_every_format(spoken: Spoken, tmp_path: Path, command: Command) -> None:
    texts = []
    for wav in spoken.wavs:
        answer = command("transcribe", spoken.run, wav)
        assert answer.code == 0, answer.err
        texts.append(answer.out.removesuffix("\n"))
    table = command("transcribe", spoken.run, *spoken.wavs)
    assert [line.split("\t")[::2] for line in table.out.splitlines()] == [
        [str(wav), text] for wav, text in zip(spoken.wavs, texts, strict=True)
    ]
    output = tmp_path / "out.jsonl"
    assert command("transcribe", spoken.run, *spoken.wavs, "--timestamps", "--output", output).code == 0
    for line, text in zip(output.read_text().splitlines(), texts, strict=True):
        values = json.loads(line)
        assert values["text"] == text
        assert " ".join(word["word"] for word in values["words"]) == text
    best = command("transcribe", spoken.run, spoken.wavs[0], "--nbest", 4, "--format", "jsonl", "reward=0.5")
    candidates = json.loads(best.out)["candidates"]
    assert 1 < len(candidates) <= 4
    assert [item["score"] for item in candidates] == sorted((item["score"] for item in candidates), reverse=True)
    assert command("transcribe", spoken.run, spoken.wavs[0], "--beam", 1, "--chunk", 0.5).code == 0


def test_a_bad_file_is_named_and_the_others_transcribed(spoken: Spoken, tmp_path: Path, command: Command) -> None:
    (tmp_path / "bad.wav").write_bytes(b"RIFF\0\0\0\0WAVE")
    soundfile.write(tmp_path / "none.wav", np.zeros(0), RATE)
    answer = command("transcribe", spoken.run, spoken.wavs[0], tmp_path / "bad.wav", tmp_path / "none.wav", "gone.wav")
    assert answer.code == 2 and len(answer.out.splitlines()) == 1
    for name in ("bad.wav: ", "none.wav: empty: no audio", "gone.wav: no such file"):
        assert name in answer.err
    output = tmp_path / "out"
    output.write_text("")
    assert "unknown key" in command("transcribe", spoken.run, spoken.wavs[0], f"a={'a' * 300}.wav").err
    answer = command("transcribe", spoken.run, spoken.wavs[0], f"{'a' * 300}.wav", "--output", output)
    assert answer.code == 2 and "File name too long" in answer.err and len(output.read_text().splitlines()) == 1
    good, bad = spoken.wavs[0], tmp_path / "bad.wav"
    text = command("transcribe", spoken.run, good).out
    assert command("transcribe", spoken.run, bad, good, bad, good, "--format", "text").out == f"\n{text}\n{text}"
    assert command("transcribe", spoken.run, bad, "--format", "text", "--nbest", 2).out == "\n\n"
    lines = command("transcribe", spoken.run, tmp_path / "bad.wav", "--format", "jsonl").out
    assert "bad.wav" in json.loads(lines)["error"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "FILE... is missing"),
        (["beam=3"], "no audio files"),
        (["a.wav", "--format", "xml"], "--format: 'xml' is not one of"),
        (["a.wav", "--timestamps", "--format", "text"], "--timestamps needs JSON lines"),
        (["a.wav", "--nbest", "4", "--beam", "2"], "nbest is 4 and beam is 2"),
        (["a.wav", "--chunk", "0.001"], "too short"),
        (["a.wav", "method=sample"], "for speech recognisers; set it to 'beam'"),
        (["a.wav", "beem=3"], "beem"),
    ],
)
def test_mistakes_are_named(spoken: Spoken, command: Command, arguments, message) -> None:
    answer = command("transcribe", spoken.run, *arguments)
    assert answer.code == 2 and message in answer.err and "Traceback" not in answer.err


def test_other_commands_say_which_to_use(spoken: Spoken, tmp_path: Path, command: Command) -> None:
    (tmp_path / "text").write_text("a\n")
    for name in ("translate", "generate", "tag"):
        answer = command(name, spoken.run, "--input", tmp_path / "text")
        assert answer.code == 2 and "calque transcribe" in answer.err
    scored = command("score", spoken.run, "--target", tmp_path / "text")
    assert scored.code == 2 and "--audio" in scored.err
    assert "--audio MANIFEST" in command("evaluate", spoken.run, "--text", tmp_path / "text").err
    assert "recurrent 1×16 → ctc" in command("runs", spoken.folder).out
    compare = ["compare", f"a={spoken.run}", f"b={spoken.run}", "--text", tmp_path / "text"]
    for arguments in (["inspect", spoken.run, "a"], compare):
        answer = command(*arguments)
        assert answer.code == 2 and "speech recogniser" in answer.err and "--audio" in answer.err


def test_recordings_are_inspected_in_every_format(spoken: Spoken, tmp_path: Path, command: Command) -> None:
    first, second = spoken.wavs[:2]
    shown = command("inspect", spoken.run, "--audio", first, "beam=3")
    assert shown.code == 0 and str(first) in shown.out and "log P CTC" in shown.out, shown.err
    answer = command("inspect", spoken.run, "--audio", first, "--audio", second, "--format", "json")
    document = json.loads(answer.out)
    assert document["task"] == "recognition" and document["model"]["head"] == "ctc"
    texts = [sentence["target"]["text"] for sentence in document["sentences"]]
    assert texts == command("transcribe", spoken.run, first, second, "--format", "text").out.splitlines()
    for name in ("page.html", "a.svg", "a.png"):
        written = command("inspect", spoken.run, "--audio", first, "--output", tmp_path / name)
        assert written.code == 0, written.err
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    (embedded,) = re.findall(r'<script type="application/json" id="document">(.*?)</script>', page, re.DOTALL)
    (on_page,) = json.loads(embedded)["sentences"]
    for key in ("source", "target", "words", "tokens", "candidates", "weights"):
        assert on_page[key] == document["sentences"][0][key]
    words = {f">{word}<" for word in texts[0].split()}
    drawing = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert drawing.startswith("<?xml") and words and all(word in drawing for word in {*words, ">seconds<"})
    pixels = plt.imread(tmp_path / "a.png")
    assert min(pixels.shape[:2]) > 100 and len(np.unique(pixels.reshape(-1, pixels.shape[2]), axis=0)) > 50
    given = command("inspect", spoken.run, "--audio", first, "--target", "low high")
    assert given.code == 0 and "low high (given)" in given.out and "warning" not in given.err
    unknown = command("inspect", spoken.run, "--audio", first, "--target", "low lower")
    assert (
        f"warning: --target for {spoken.run}: these parts are not in the model's vocabulary" in unknown.err
        and "'lower'" in unknown.err
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a b"], "is a speech recogniser, which reads recordings: give --audio FILE instead of sentences"),
        (["--image", "{a}"], "--image is supported for captioners only, but this model is for recognition"),
        (["--audio", "{a}", "--image", "{a}"], "--image and --audio are for different kinds of models"),
        (["--audio", "{a}", "a b"], "both --audio and sentences were given"),
        (["--audio", "{a}", "--audio", "{b}", "--target", "low"], "--target takes the text of a single file"),
        (["--audio", "{a}", "--audio", "{b}", "--output", "x.svg"], "a picture shows one sentence and one model"),
        (["--audio", "{a}", "--prefix", "low"], "--prefix: supported for neural translation models only"),
        (["--audio", "{a}", "--output", "x.svg", "--picture", "attention"], "no decoder, so there is no attention"),
        (["--audio", "{a}", "--output", "x.svg", "--picture", "beam"], "--picture"),
        (["--audio", "gone.wav"], "gone.wav: no such file"),
        (["--audio", "{a}", "--language", "{run}"], "is a speech recogniser, not a language model"),
    ],
)
def test_mistakes_of_inspect_are_named(spoken: Spoken, command: Command, arguments, message) -> None:
    filled = [item.format(a=spoken.wavs[0], b=spoken.wavs[1], run=spoken.run) for item in arguments]
    answer = command("inspect", spoken.run, *filled)
    assert answer.code == 2 and message in answer.err and "Traceback" not in answer.err, answer.err


def test_models_and_files_of_transcripts_are_compared(spoken: Spoken, tmp_path: Path, command: Command) -> None:
    manifest = spoken.folder / "valid" / "manifest.jsonl"
    references = [json.loads(line)["text"] for line in manifest.read_text().splitlines()]
    (tmp_path / "right.txt").write_text("".join(f"{text}\n" for text in references))
    systems = [f"greedy={spoken.run}:beam=1", f"wide={spoken.run}:beam=4", f"right={tmp_path / 'right.txt'}"]
    samples = ["--bootstrap", "50", "--randomisation", "50"]
    answer = command("compare", *systems, "--audio", manifest, *samples, "--json")
    assert answer.code == 0, answer.err
    document = json.loads(answer.out)
    greedy, wide, right = document["systems"]
    assert right["scores"] == {"wer": 0, "cer": 0} and right["exact_match"] == 100
    for system, beam in ((greedy, 1), (wide, 4)):
        values = json.loads(command("evaluate", spoken.run, "--audio", manifest, "--json", "--beam", beam).out)
        assert system["scores"]["wer"] == pytest.approx(values["wer"]["rate"])
        assert system["scores"]["cer"] == pytest.approx(values["cer"]["rate"])
    page = command("compare", *systems, "--audio", manifest, *samples, "--output", tmp_path / "page.html")
    assert page.code == 0 and "12 recordings" in page.out and (tmp_path / "page.html").stat().st_size > 50_000
    (tmp_path / "short.txt").write_text("low\n")
    for arguments, message in (
        ([f"a={tmp_path / 'short.txt'}", spoken.run], "a has 1 lines, but the manifest has 12 recordings"),
        ([*systems, "--text", tmp_path / "right.txt"], "--text and --audio belong to different tasks"),
        ([*systems, "--columns", "a"], "--columns: not supported for the task"),
    ):
        refused = command("compare", *arguments, "--audio", manifest)
        assert refused.code == 2 and message in refused.err and "Traceback" not in refused.err, refused.err


def test_error_rates_come_with_intervals(spoken: Spoken, tmp_path: Path, command: Command) -> None:
    manifest = spoken.folder / "valid" / "manifest.jsonl"
    printed = command("evaluate", spoken.run, "--audio", manifest, "--output", tmp_path / "texts")
    assert printed.code == 0 and printed.out.startswith("WER ") and "interval" in printed.out
    values = json.loads(command("evaluate", spoken.run, "--audio", manifest, "--json", "--beam", 2).out)
    assert values["recordings"] == 12 and values["wer"]["low"] <= values["wer"]["rate"] <= values["wer"]["high"]
    assert len((tmp_path / "texts").read_text().splitlines()) == 12
    (tmp_path / "bad.jsonl").write_text('{"audio": "gone.wav", "text": "low"}\n')
    answer = command("evaluate", spoken.run, "--audio", tmp_path / "bad.jsonl")
    assert answer.code == 2 and "line 1: " in answer.err and "gone.wav: no such file" in answer.err
    mixed = command("evaluate", spoken.run, "--audio", manifest, "--text", manifest)
    assert mixed.code == 2 and "cannot be combined" in mixed.err


def test_the_model_card_says_what_happens_to_other_rates(spoken: Spoken, tmp_path: Path) -> None:
    card = "README.md"
    assert "other recordings are resampled" in (spoken.run / "model" / card).read_text()
    values = recognition_values(tmp_path)
    values["task"] = {**values["task"], "resample": False}
    values["training"] = {**values["training"], "steps": 1, "validate_every": 1}
    with without_plots():
        run = train(values, run=tmp_path / "run", quiet=True).folder
    assert "other recordings are rejected" in (run / "model" / card).read_text()


def test_words_that_are_heard_in_silence_are_errors(spoken: Spoken, tmp_path: Path, command: Command) -> None:
    """A recording without a transcript keeps its line in --output, and what is inserted there is counted."""
    first, second = spoken.wavs[:2]
    texts = command("transcribe", spoken.run, first, second, "--format", "text").out.splitlines()
    manifest = tmp_path / "m.jsonl"
    entries = [{"audio": str(first), "text": ""}, {"audio": str(second), "text": texts[1]}]
    manifest.write_text("\n".join(map(json.dumps, entries)) + "\n")
    values = json.loads(
        command("evaluate", spoken.run, "--audio", manifest, "--json", "--output", tmp_path / "out").out,
        parse_constant=lambda name: pytest.fail(f"{name} is not JSON"),
    )
    assert (tmp_path / "out").read_text().splitlines() == texts and values["recordings"] == 2
    assert values["wer"]["insertions"] == len(texts[0].split()) > 0
    (tmp_path / "right.txt").write_text(f"\n{texts[1]}\n")
    compared = command("compare", spoken.run, tmp_path / "right.txt", "--audio", manifest, "--bootstrap", 9, "--json")
    model, right = json.loads(compared.out)["systems"]
    assert right["scores"]["wer"] == 0 and model["scores"]["wer"] == pytest.approx(values["wer"]["rate"])


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("temperature=2.0", "it is used only in sampling"),
        ("samples=3", "it is supported for translation only"),
        ("batch_tokens=3", "it is not supported for speech recognisers"),
        ("language_weight=3.0", "it is used only with --language"),
        ("length_penalty=2.0", "this model has only CTC"),
    ],
)
def test_settings_without_effect_are_refused(spoken: Spoken, command: Command, setting: str, reason: str) -> None:
    for arguments in (
        ["transcribe", spoken.run, spoken.wavs[0], setting],
        ["evaluate", spoken.run, "--audio", spoken.manifest, setting],
        ["inspect", spoken.run, "--audio", spoken.wavs[0], setting],
        ["compare", f"{spoken.run}:{setting}", f"second={spoken.run}", "--audio", spoken.manifest],
    ):
        answer = command(*arguments)
        assert answer.code == 2 and f"{setting} has no effect: {reason}" in answer.err, answer.err


def test_a_language_model_changes_transcripts_and_scores_alike(
    spoken: Spoken, tmp_path: Path, command: Command
) -> None:
    (tmp_path / "text").write_text("high high high\nhigh high\n" * 50)
    with without_plots():
        trained = command(
            *("train", "--text", tmp_path / "text", "text.kind=given", f"text.path={spoken.run}", "--scale", 0.1),
            *("task.reading=lines", "training.steps=10", "training.device=cpu", "--run", tmp_path / "language"),
        )
    assert trained.code == 0, trained.err
    manifest = spoken.folder / "valid" / "manifest.jsonl"
    wavs = [spoken.folder / "valid" / f"{number}.wav" for number in range(12)]
    fused = ["--language", tmp_path / "language", "language_weight=3", "reward=6", "--beam", 4]
    plain = ["reward=6", "--beam", 4]
    for name, options in (("plain", plain), ("fused", fused)):
        answer = command("evaluate", spoken.run, "--audio", manifest, *options, "--output", tmp_path / name)
        assert answer.code == 0, answer.err
        transcribed = command("transcribe", spoken.run, *wavs, *options, "--format", "text")
        assert transcribed.out == (tmp_path / name).read_text(), transcribed.err
    assert (tmp_path / "plain").read_text() != (tmp_path / "fused").read_text()
    wrong = command("evaluate", spoken.run, "--audio", manifest, "--language", spoken.run)
    assert wrong.code == 2 and "is a speech recogniser, not a language model" in wrong.err
    inspected = command("inspect", spoken.run, "--audio", wavs[0], "--language", tmp_path / "language")
    assert inspected.code == 0 and "log P language" in inspected.out, inspected.err
    idle = command("evaluate", spoken.run, "--text", manifest, "--language", tmp_path / "language")
    assert idle.code == 2 and "--language needs --audio" in idle.err


def test_the_python_of_the_page_works_as_written(
    spoken: Spoken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "speech.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "speech").symlink_to(spoken.run)
    for name in ("talk.wav", "a.wav"):
        (tmp_path / name).write_bytes(spoken.wavs[0].read_bytes())
    exec(example, {})
    text, words, same, error = capsys.readouterr().out.splitlines()
    assert text == same and "broken.wav: no such file" in error
    assert words.count("TimedWord(") == len(text.split())


def bad_corpus(folder: Path) -> Path:
    """A corpus with four recordings that cannot be used, and one text too long for its recording."""
    manifest = write_tones(folder, recordings=30)
    (folder / "text.wav").write_text("words, not sound\n" * 9)
    (folder / "empty.wav").write_bytes(b"")
    soundfile.write(folder / "none.wav", np.zeros(0), RATE)
    lines = [f'{{"audio": "{name}.wav", "text": "low"}}\n' for name in ("text", "empty", "none", "gone")]
    lines.append(f'{{"audio": "0.wav", "text": "{"low " * 90}"}}\n')
    manifest.write_text(manifest.read_text() + "".join(lines))
    return manifest


def test_check_counts_and_names_recordings_that_cannot_be_used(tmp_path: Path, command: Command) -> None:
    manifest = bad_corpus(tmp_path / "corpus")
    settings = ["--audio", manifest, f"task.rate={RATE}", "text.kind=words"]
    answer = command("data", "check", *settings)
    assert answer.code == 2
    assert "4 recordings that cannot be used" in answer.out
    for name in ("text.wav", "empty.wav", "none.wav", "gone.wav"):
        assert f"{name}: " in answer.out
    assert "8000 Hz" in answer.out and "iconv" not in answer.out
    skipped = command("data", "check", *settings, "data.invalid=skip")
    assert skipped.code == 0, skipped.err
    assert "left out: 5 unusable" in skipped.err
    good = write_tones(tmp_path / "good", recordings=30)
    good.write_text(good.read_text() + f'{{"audio": "0.wav", "text": "{"low " * 90}"}}\n')
    unfit = command("data", "check", "--audio", good, f"task.rate={RATE}", "text.kind=words")
    assert unfit.code == 2 and "line 31: " in unfit.err and "0.wav: a text of 90 tokens is too long for" in unfit.err


def test_train_rejects_bad_recordings_or_leaves_them_out(tmp_path: Path, command: Command) -> None:
    manifest = bad_corpus(tmp_path / "corpus")
    settings = [
        *("--audio", manifest, f"task.rate={RATE}", "text.kind=words", "--scale", "0.1", "--system", "graves2006"),
        *("training.steps=2", "training.device=cpu"),
    ]
    answer = command("train", *settings, "--run", tmp_path / "run")
    assert answer.code == 2 and "gone.wav: no such file" in answer.err and "Traceback" not in answer.err
    with without_plots():
        trained = command("train", *settings, "data.invalid=skip", "--run", tmp_path / "skipped")
    assert trained.code == 0, trained.err
    assert "next: calque transcribe" in trained.err
    wav = tmp_path / "corpus" / "0.wav"
    assert command("transcribe", tmp_path / "skipped", wav).code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--audio", "{m}", "--text", "{m}"], "--audio is for a speech recogniser and cannot be combined with --text"),
        (["--audio", "{m}", "--system", "tiny"], "this system reads pairs"),
        (["--text", "{m}", "--system", "speech"], "a speech recogniser reads recordings"),
        (["--valid-audio", "{m}"], "--valid-audio needs --audio"),
        (
            ["--audio", "{w}"],
            "0.wav: a binary file, not a manifest; a manifest is a text file with one line per rec",
        ),
        (["--audio", "{m}", "model.head=ctc", "model.ctc_weight=0.5"], "ctc_weight"),
        (["--audio", "{m}", "training.label_smoothing=0.1"], "label_smoothing"),
        (["--audio", "{m}", "data.invalid=replace"], "'fail' or 'skip'"),
        (["--audio", "{m}", "task.speeds=10"], "from 50 to 200 percent"),
        (["--audio", "{m}", "--system", "chan2016", "model.decoder.kind=recurrent"], "has no attention"),
        (
            ["--audio", "{m}", "training.watch_gradients=1", "training.device=cpu"],
            "training.watch_gradients is not supported",
        ),
        (["--audio", "gone.jsonl"], "gone.jsonl"),
    ],
)
def test_settings_that_do_not_fit_are_named(tmp_path: Path, command: Command, arguments, message) -> None:
    manifest = write_tones(tmp_path / "corpus", recordings=3)
    given = [argument.format(m=manifest, w=tmp_path / "corpus" / "0.wav") for argument in arguments]
    answer = command("train", *given, f"task.rate={RATE}", "text.kind=words", "--run", tmp_path / "run")
    assert answer.code == 2 and message in answer.err, answer.err
