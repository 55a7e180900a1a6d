"""`calque caption`, and `train`, `evaluate`, `data check` and `data scenes` of images: mistakes are named."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from calque.experiment import train
from tests.captioned import captioning_values, write_images
from tests.conftest import Answer, without_plots
from tests.unit.data.test_images import png_that_claims

Command = Callable[..., Answer]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a captioner with its images beside it; do not change them."""
    folder = tmp_path_factory.mktemp("caption")
    with without_plots():
        values = captioning_values(folder, steps=80, validate_every=40, checkpoint_every=80)
        train(values, run=folder / "run", quiet=True)
    return folder


@pytest.fixture
def run(folder: Path) -> Path:
    return folder / "run"


@pytest.fixture
def files(folder: Path) -> list[Path]:
    return [folder / "valid" / f"{number}.png" for number in range(3)]


def test_a_line_per_image_in_order(run, files, command: Command, tmp_path) -> None:
    answer = command("caption", run, *files)
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    assert len(lines) == 3 and all(lines)
    assert command("caption", run, files[2], files[0]).out.splitlines() == [lines[2], lines[0]]
    output = tmp_path / "captions.txt"
    assert command("caption", run, *files, "--output", output).code == 0
    assert output.read_text().splitlines() == lines
    best = [line.split("\t") for line in command("caption", run, *files, "--nbest", "2").out.splitlines()]
    assert [row[0] for row in best] == [str(path) for path in files for _ in range(2)]
    assert [row[2] for row in best][::2] == lines


def test_json_has_pieces_and_attention(run, files, command: Command) -> None:
    plain = json.loads(command("caption", run, files[0], "--json").out)
    assert "grid" not in plain and "attention" not in plain["candidates"][0] and plain["candidates"][0]["log_probs"]
    answer = command("caption", run, *files, "--json", "--attention-weights", "--nbest", "2", "length_penalty=1")
    values = [json.loads(line) for line in answer.out.splitlines()]
    assert [value["image"] for value in values] == [str(path) for path in files]
    for value in values:
        assert value["grid"] == [4, 4] and len(value["candidates"]) == 2
        for candidate in value["candidates"]:
            attention = np.array(candidate["attention"])
            assert attention.shape == (len(candidate["log_probs"]), 16)
            assert len(candidate["pieces"]) in (len(attention), len(attention) - 1)


def test_attention_is_drawn_for_every_image(run, files, command: Command, tmp_path) -> None:
    twin = tmp_path / "0.png"
    twin.write_bytes(files[1].read_bytes())
    answer = command("caption", run, files[0], twin, "--attention", tmp_path / "pictures")
    assert answer.code == 0, answer.err
    assert sorted(path.name for path in (tmp_path / "pictures").iterdir()) == ["0-2.png", "0.png"]
    for path in (tmp_path / "pictures").iterdir():
        with Image.open(path) as picture:
            assert picture.width > 400 and np.array(picture.convert("RGB")).std() > 10


def test_hostile_images_are_reported_and_the_others_described(run, files, command: Command, tmp_path) -> None:
    hostile = {
        "bomb.png": png_that_claims(50_000, 50_000),
        "cut.png": files[0].read_bytes()[:60],
        "text.png": b"not an image",
        "script.eps": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\nshowpage\n",
    }
    for name, content in hostile.items():
        (tmp_path / name).write_bytes(content)
    paths = [files[0], *(tmp_path / name for name in hostile), tmp_path / "missing.png", tmp_path, files[1]]
    answer = command("caption", run, *paths)
    assert answer.code == 2 and "Traceback" not in answer.err
    lines = answer.out.splitlines()
    assert len(lines) == len(paths) and lines[0] and lines[-1] and not any(lines[1:-1])
    for name in (*hostile, "missing.png"):
        assert f"{tmp_path / name}: " in answer.err
    assert "6 of 8 images could not be captioned" in answer.err
    rows = [json.loads(line) for line in command("caption", run, *paths, "--json").out.splitlines()]
    assert ["error" in row for row in rows] == [False, *[True] * 6, False]


def test_mistakes_are_told(run, files, command: Command, tmp_path) -> None:
    for arguments, problem in (
        ((run, "beam=3"), "no images were given; name at least one image file"),
        ((tmp_path / "none", files[0]), "no such run or model folder"),
        ((run, files[0], "--nbest", "3", "--beam", "2"), "nbest is 3 and beam is 2"),
        ((run, files[0], "method=sample"), "is not supported for captioners"),
        ((run, files[0], "shortlst=true"), "shortlst"),
        ((run, files[0], "temperature=2.0"), "temperature=2.0 has no effect: it is used only in sampling"),
        (
            (run, files[0], "language_weight=2.0", "maximum_ratio=2"),
            "maximum_ratio=2.0 has no effect: it depends on the length of a source text",
        ),
        ((run, files[0], "--attention-weights"), "--attention-weights needs --json"),
        ((run, files[0], f"a={'a' * 300}.png"), "unknown key"),
        ((run, files[0], "--attention", files[1]), "File exists"),
    ):
        answer = command("caption", *arguments)
        assert answer.code == 2 and problem in answer.err, (arguments, answer.err)
        assert "Traceback" not in answer.err
    for other in (("translate", run), ("tag", run), ("generate", run), ("inspect", run, "a"), ("score", run)):
        answer = command(*other, *(("--target", files[0]) if other[0] == "score" else ()))
        assert answer.code == 2 and "captioner" in answer.err, (other, answer.err)
    answer = command("inspect", run, "--gradients")
    assert answer.code == 2 and "captioner" in answer.err


def test_an_image_is_inspected(run, files, command: Command, tmp_path) -> None:
    answer = command("inspect", run, "--image", files[0], "beam=3")
    assert answer.code == 0, answer.err
    assert f"image        {files[0]}" in answer.out and "attends to (row, column)" in answer.out
    for name in ("view.json", "view.html", "view.png"):
        assert command("inspect", run, "--image", files[0], "--output", tmp_path / name).code == 0
    values = json.loads((tmp_path / "view.json").read_text())
    assert values["task"] == "captioning" and len(values["sentences"][0]["candidates"]) == 5
    assert "data:image/png" in (tmp_path / "view.html").read_text()
    both = command("inspect", run, "--image", files[0], "--image", files[1], "--output", tmp_path / "two.html")
    assert both.code == 0, both.err
    for arguments, problem in (
        (("--image", files[0], "a sentence"), "both --image and sentences were given"),
        (("--image", tmp_path / "none.png"), "none.png: no such file"),
        (("--image", files[0], "--prefix", "a"), "for neural translation models only"),
        (("--image", files[0], "--picture", "beam", "--output", tmp_path / "a.png"), "--picture"),
    ):
        answer = command("inspect", run, *arguments)
        assert answer.code == 2 and problem in answer.err, (arguments, answer.err)


def test_evaluation_scores_captions_and_attention(run, folder, command: Command, tmp_path) -> None:
    manifest = folder / "valid" / "manifest.jsonl"
    output = tmp_path / "captions.txt"
    answer = command("evaluate", run, "--images", manifest, "--beam", "1", "--output", output, "--json")
    assert answer.code == 0, answer.err
    values = json.loads(answer.out)
    assert values["images"] == 12 and values["attention"]["names"] == 12
    assert values["attention"]["area"] == pytest.approx(0.25)
    captions = output.read_text().splitlines()
    gold = [json.loads(line)["captions"][0] for line in manifest.read_text().splitlines()]
    equal = sum(map(str.__eq__, captions, gold))
    assert values["exact_match"]["value"] == pytest.approx(100 * equal / 12)
    text = command("evaluate", run, "--images", manifest).out
    assert "attention inside" in text and "points inside" in text
    bare = tmp_path / "bare.jsonl"
    bare.write_text(f'{{"image": "{folder}/valid/0.png", "caption": "a"}}\n')
    assert "attention" not in command("evaluate", run, "--images", bare).out
    bare.write_text(f'{{"image": "{folder}/valid/0.png"}}\n')
    assert "1 images have no reference caption" in command("evaluate", run, "--images", bare).err
    for option in (("--text", manifest), ("--metric", "rouge"), ("--pooling", "mean"), ("--include-seen",)):
        refused = command("evaluate", run, "--images", manifest, *option)
        assert refused.code == 2 and "--images is for a captioner and cannot be combined" in refused.err
    image = command("evaluate", run, "--images", folder / "valid" / "0.png")
    assert image.code == 2 and "a binary file, not a manifest" in image.err and "iconv" not in image.err
    idle = command("evaluate", run, "--images", manifest, "temperature=2.0")
    assert idle.code == 2 and "temperature=2.0 has no effect" in idle.err
    other = command("evaluate", run, "--text", manifest)
    assert other.code == 2 and f"`calque evaluate {run} --images FILE` evaluates it" in other.err


def test_captioners_are_compared(run, folder, command: Command, tmp_path) -> None:
    manifest = folder / "valid" / "manifest.jsonl"
    gold = [json.loads(line)["captions"][0] for line in manifest.read_text().splitlines()]
    (tmp_path / "gold.txt").write_text("".join(f"{line}\n" for line in gold))
    systems = (f"greedy={run}:beam=1", f"best={tmp_path / 'gold.txt'}")
    answer = command("compare", *systems, "--images", manifest, "--metric", "bleu", "--output", tmp_path / "page.html")
    assert answer.code == 0, answer.err
    assert "greedy" in answer.out and "100.0" in answer.out and (tmp_path / "page.html").is_file()
    (tmp_path / "short.txt").write_text("one\n")
    for arguments, problem in (
        ((f"a={run}", f"b={tmp_path / 'short.txt'}", "--images", manifest), "12"),
        ((f"a={run}", f"b={tmp_path / 'gold.txt'}", "--text", manifest), "captioner"),
        (
            (f"a={run}", f"b={tmp_path / 'gold.txt'}", "--images", manifest, "--columns", "a"),
            "not supported for the task captioning",
        ),
    ):
        answer = command("compare", *arguments)
        assert answer.code == 2 and problem in answer.err, (arguments, answer.err)


def test_training_and_checking_name_every_unusable_image(command: Command, tmp_path) -> None:
    manifest = write_images(tmp_path / "images", images=60)
    (tmp_path / "images" / "3.png").write_bytes(b"nothing")
    (tmp_path / "images" / "7.png").unlink()
    manifest.write_text(manifest.read_text() + "{}\n")
    answer = command("data", "check", "--images", manifest)
    assert answer.code == 2 and "training would reject these corpora" in answer.err
    assert "2 images that cannot be used" in answer.out and "line 4: " in answer.out and "line 8: " in answer.out
    assert "line 61: expected" in answer.out and "iconv" not in answer.out
    answer = command("train", "--images", manifest, "--run", tmp_path / "run")
    assert answer.code == 2 and "3.png: not an image" in answer.err and "7.png: no such file" in answer.err
    assert not (tmp_path / "run").exists()
    manifest.write_text("".join(manifest.read_text().splitlines(keepends=True)[:-1]))
    good = write_images(tmp_path / "good", images=60)
    answer = command("data", "check", "--images", good, "--test-images", good, "task.size=16")
    assert answer.code == 0, answer.err
    assert "60 images" in answer.out and "captions per image: 1 to 1" in answer.out
    settings = ("data.invalid=skip", "task.size=16", "text.kind=words", "training.steps=1", "training.device=cpu")
    with without_plots():
        answer = command("train", "--images", manifest, "--run", tmp_path / "run", "--scale", "0.1", *settings)
    assert answer.code == 0, answer.err
    assert "left out: 2 unusable" in answer.err and "next: calque caption" in answer.err


def test_options_of_other_tasks_are_refused(command: Command, tmp_path) -> None:
    manifest = write_images(tmp_path / "images", images=4)
    for arguments, problem in (
        (("--images", manifest, "--text", manifest), "--images is for a captioner and cannot be combined with --text"),
        (
            ("--images", tmp_path / "images" / "0.png"),
            "0.png: a binary file, not a manifest; a manifest is a text file",
        ),
        (("--images", manifest, "--system", "tiny"), "--images is for a captioner (--system xu2015"),
        (("--text", manifest, "--system", "xu2015"), "a captioner reads images: give --images"),
        (("--valid-images", manifest), "--valid-images needs --images"),
        (("--images", manifest, "task.size=20"), "task.size = 20 must be a multiple of 8"),
        (("--images", manifest, "training.compile=true"), "training.compile is not supported for captioners"),
        (("--images", manifest, "--watch-gradients"), "training.watch_gradients is not supported for captioners"),
        (("--images", manifest, "text.kind=forms"), "is not supported for captioners"),
        (("--images", manifest, "search.method=sample"), "search.method = 'sample' is not supported for captioners"),
    ):
        answer = command("train", *arguments, "--run", tmp_path / "run")
        assert answer.code == 2 and problem in answer.err, (arguments, answer.err)


def test_scenes_are_written_and_can_be_checked(command: Command, tmp_path) -> None:
    out = tmp_path / "scenes"
    answer = command("data", "scenes", "--out", out, "--pairs", "50", "--pixels", "32", "--seed", "3")
    assert answer.code == 0 and "50 training, 50 validation, 50 test images" in answer.err
    assert len(list((out / "train").iterdir())) == 50
    assert command("data", "check", "--images", out / "train.zh.jsonl", "text.kind=characters").code == 0
    again = command("data", "scenes", "--out", out)
    assert again.code == 2 and "not an empty folder" in again.err
    assert command("data", "scenes", "--out", tmp_path / "new", "--pixels", "900").code == 2


def test_runs_are_listed(folder, command: Command) -> None:
    answer = command("runs", folder)
    assert answer.code == 0 and "grid" in answer.out and "bahdanau" in answer.out
