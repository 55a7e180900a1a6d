"""The translator: one output line per input line, independent of the batch, and model folders that are verified."""

import json
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from calque.devices import choose_precision
from calque.engine import (
    KIND,
    Candidate,
    Request,
    Translator,
    choose_device,
    decoding_step,
    load,
    pad_source,
    save_model,
)
from calque.engine.decoding import decode_batch
from calque.engine.model_files import FORMAT
from calque.engine.preparation import Part, Settings
from calque.errors import ConfigError, FolderError, TextError
from calque.evaluation.confidence import Confidence
from calque.folders import writing
from calque.folders.weights import weights_of
from calque.layers.adaptive import AdaptiveOutputConfig
from calque.layers.sampled import SampledOutputConfig
from calque.models.model import Model, Sizes
from calque.search.settings import SearchConfig
from calque.text import BOS, EOS

LINES = ["a b c", "", "h", " \t ", "g g f e d c", "a b", "\u2028", "b c d e f"]


@pytest.fixture(scope="module")
def translator(trained: Path) -> Translator:
    return load(trained)


@pytest.fixture
def folder(trained: Path, tmp_path: Path) -> Path:
    """A copy of a sound model folder, to be spoilt."""
    return Path(shutil.copytree(trained / "model", tmp_path / "model"))


def sentences(count: int, *, seed: int = 1) -> list[str]:
    generator = random.Random(seed)
    return [" ".join(generator.choices("abcdefgh", k=generator.randint(1, 9))) for _ in range(count)]


# --- Lines ---


def test_it_has_learnt_to_copy(translator: Translator) -> None:
    assert translator.translate("a b c d") == "a b c d"


def test_a_string_gives_a_string_and_a_list_a_list(translator: Translator) -> None:
    text = translator.translate("a b c")
    assert isinstance(text, str)
    assert translator.translate(["a b c", "h g"]) == [text, translator.translate("h g")]
    assert translator.translate([]) == []
    assert translator.translate("a b c", nbest=2)[0] == text
    assert [best[0] for best in translator.translate(["a b c", "h g"], nbest=2)] == translator.translate(
        ["a b c", "h g"]
    )


@pytest.mark.parametrize("text", [None, 3, ["a", None]])
def test_a_value_that_is_not_text_is_rejected_by_name(translator: Translator, text: Any) -> None:
    with pytest.raises(TypeError, match="text must be a string or a list of strings"):
        translator.translate(text)


def test_one_output_line_per_input_line_and_empty_lines_stay_empty(translator: Translator) -> None:
    translations = translator.translate(LINES)
    assert len(translations) == len(LINES)
    assert [place for place, text in enumerate(translations) if not text] == [1, 3, 6]
    assert translations[0] == "a b c"
    assert translator.translate("") == ""


def test_nothing_is_lost_over_the_edge_of_a_window(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [*sentences(9), "", *sentences(4, seed=5)]
    whole = translator.translate(lines)
    monkeypatch.setattr("calque.engine.engine.WINDOW", 5)
    assert translator.translate(lines) == whole


def test_lines_are_read_a_window_at_a_time(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calque.engine.engine.WINDOW", 3)
    read: list[str] = []
    stream = translator.stream(line for line in sentences(9) if not read.append(line))  # type: ignore[func-returns-value]
    next(stream)
    assert len(read) == 3


@pytest.mark.parametrize("mark", ["\u2028", "\x85", "\x0b", "\x0c", "\u2029", "\x1c", "\r", "\n"])
def test_characters_like_line_ends_do_not_break_lines(translator: Translator, mark: str) -> None:
    translations = translator.translate([f"a{mark}b", f"{mark}", f"c{mark}"])
    assert len(translations) == 3
    assert "\n" not in "".join(translations)


def test_odd_text_is_translated_into_something(translator: Translator) -> None:
    odd = ["\x00", "🙂‍↕️ é́", "﷽" * 300, "<unk> <s> </s> <pad>", "￭ ￭a￭", "a" * 3000, "\ufeffa"]
    assert len(translator.translate(odd)) == len(odd)
    with pytest.raises(TextError, match="surrogate"):
        translator.translate("a \ud800")


def test_weights_are_stored_in_the_precision(trained: Path, translator: Translator) -> None:
    expected = [translation.candidates[0].log_prob for translation in translator.stream(LINES)]
    for precision, kind, near in (("float64", torch.float64, 1e-4), ("bfloat16", torch.bfloat16, 0.5)):
        converted = load(trained, device="cpu", precision=precision)
        assert {parameter.dtype for parameter in converted.model.parameters()} == {kind}
        assert converted.translate("a b c d") == "a b c d"
        assert [translation.candidates[0].log_prob for translation in converted.stream(LINES)] == pytest.approx(
            expected, abs=near
        )
        search = converted.search.model_copy(update={"coverage": 0.2})
        (translation,) = converted.stream([Request("a b c", detail=True)], search=search)
        assert translation.candidates[0].detail is not None
        assert sum(translation.candidates[0].detail.log_probs) == pytest.approx(
            translation.candidates[0].log_prob, abs=near
        )
    with pytest.raises(ConfigError, match="mps does not support float64"):
        choose_precision("float64", device=torch.device("mps"))


def test_an_overlong_source_is_cut_and_marked(translator: Translator) -> None:
    search = SearchConfig(source_limit=3, beam=2)
    cut, whole, long = translator.stream(["a b c d e", "a b c", "a " * 40000], search=search)
    assert [cut.source_cut, whole.source_cut, long.source_cut] == [True, False, True]
    assert cut.text == whole.text


def test_a_translation_has_its_limits(translator: Translator) -> None:
    short = SearchConfig(beam=2, maximum_ratio=0.01, maximum_extra=2)
    (translation,) = translator.stream(["a b c d e"], search=short)
    assert translation.candidates[0].cut
    assert len(translation.text.split()) == 2
    (long,) = translator.stream(["a"], search=SearchConfig(beam=2, minimum=4))
    assert len(long.text.split()) >= 4


# --- Search ---


def test_nbest_candidates_are_sorted_and_distinct(translator: Translator) -> None:
    (translation,) = translator.stream(["a b c d"], search=SearchConfig(beam=6), nbest=4)
    scores = [candidate.score for candidate in translation.candidates]
    assert len(translation.candidates) == 4
    assert scores == sorted(scores, reverse=True)
    assert len({candidate.text for candidate in translation.candidates}) == 4
    assert [candidate.text for candidate in translation.candidates] == translator.translate("a b c d", beam=6, nbest=4)


@pytest.mark.parametrize(("nbest", "beam"), [(3, 2), (6, None), (0, 2), (-1, 2), (1, 0)])
def test_nbest_over_the_beam_is_rejected(translator: Translator, nbest: int, beam: int | None) -> None:
    with pytest.raises(TextError, match=f"nbest is {nbest} and beam is"):
        translator.translate("a", beam=beam, nbest=nbest)


def test_beam_one_without_normalisation_is_greedy(translator: Translator) -> None:
    lines = sentences(30)
    greedy = list(translator.stream(lines, search=SearchConfig(beam=1, length_penalty=0)))
    beam = list(translator.stream(lines, search=SearchConfig(beam=1, length_penalty=1e-12)))
    assert [translation.text for translation in greedy] == [translation.text for translation in beam]
    for translation, expected in zip(greedy, beam, strict=True):
        assert translation.candidates[0].log_prob == pytest.approx(expected.candidates[0].log_prob, abs=1e-5)


@pytest.mark.parametrize("search", [SearchConfig(beam=1, length_penalty=0), SearchConfig(beam=4)])
def test_batch_size_and_order_change_no_translation(translator: Translator, search: SearchConfig) -> None:
    """P15: 200 sentences of a trained model, 0 differences; scores to 2e-5 times the length."""
    lines = sentences(200)
    expected = list(translator.stream(lines, search=search))
    shuffled = random.Random(7).sample(range(200), 200)
    for tokens, order in ((1, list(range(200))), (37, shuffled), (100_000, shuffled[::-1])):
        changed = search.model_copy(update={"batch_tokens": tokens})
        translations = list(translator.stream([lines[place] for place in order], search=changed))
        for place, translation in zip(order, translations, strict=True):
            assert translation.text == expected[place].text
            length = len(translation.text.split()) + 1
            assert translation.candidates[0].score == pytest.approx(
                expected[place].candidates[0].score, abs=2e-5 * length
            )


@torch.no_grad()
def rescore(translator: Translator, source: str, target: str) -> float:
    """log P(target | source), step by step."""
    ids = translator.tokenizers.source.encode(source)
    context = translator.model.prepare(pad_source([ids]))
    state, step, total = translator.model.start(context), decoding_step(translator.model), 0.0
    tokens = translator.tokenizers.target.encode(target)
    for previous, token in zip([BOS, *tokens], [*tokens, EOS], strict=True):
        output, state = step(torch.tensor([previous]), state, context)
        total += float(output.log_probs[0, token])
    return total


def test_rescoring_a_hypothesis_gives_its_score(translator: Translator) -> None:
    """P16, for every candidate; the score is the log-probability over GNMT's penalty."""
    search = SearchConfig(beam=3, length_penalty=0.8)
    lines = ["a b c", "h g f e", "d"]
    for line, translation in zip(lines, translator.stream(lines, search=search, nbest=3), strict=True):
        for candidate in translation.candidates:
            if not candidate.cut and "<unk>" not in candidate.text:
                assert candidate.log_prob == pytest.approx(rescore(translator, line, candidate.text), abs=1e-4)
                length = len(candidate.text.split()) + 1
                assert candidate.score == pytest.approx(candidate.log_prob / ((5 + length) / 6) ** 0.8, rel=1e-5)


def test_the_loss_is_the_mean_over_all_tokens(translator: Translator) -> None:
    sources, targets = ["a b c", "h", "d e"], ["a b c", "g h", ""]
    total = sum(rescore(translator, *pair) for pair in zip(sources, targets, strict=True))
    tokens = sum(len(target.split()) + 1 for target in targets)
    assert translator.loss(sources, targets) == pytest.approx(-total / tokens, rel=1e-5)


@pytest.mark.parametrize(("sources", "targets"), [([], []), (["a"], []), (["a", "b"], ["a"])])
def test_the_loss_of_no_pairs_or_of_misaligned_pairs_is_rejected(
    translator: Translator, sources: list[str], targets: list[str]
) -> None:
    with pytest.raises(TextError, match=f"{len(sources)} sources and {len(targets)} targets"):
        translator.loss(sources, targets)


def test_translation_uses_no_dropout_and_restores_the_mode(trained: Path) -> None:
    translator = load(trained)
    expected = translator.translate(sentences(20))
    assert not translator.model.training
    for module in translator.model.modules():
        if hasattr(module, "dropout"):
            module.dropout = 0.9
    translator.model.train()
    assert translator.translate(sentences(20)) == expected
    assert translator.model.training


def test_a_batch_does_not_exceed_its_padded_positions(translator: Translator, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[tuple[int, int]] = []

    def spy(models: Any, parts: Sequence[Part], settings: Settings, **options: Any) -> list[list[Candidate]]:
        sizes.append((len(parts), max(len(part.source.ids) for part in parts) + 1))
        return decode_batch(models, parts, settings, **options)

    monkeypatch.setattr("calque.engine.engine.decode_batch", spy)
    list(translator.stream(sentences(100), search=SearchConfig(beam=2, batch_tokens=40)))
    assert sum(rows for rows, _ in sizes) == 100
    assert all(rows * width <= 40 for rows, width in sizes)
    assert len(sizes) < 40  # and they are well filled


def test_a_translation_with_a_line_end_is_still_one_line(
    translator: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translator.tokenizers.target, "detokenise", lambda _pieces: "a\nb")
    assert translator.translate("a") == "a b"


# --- Folders ---


def test_a_saved_translator_is_loaded_unchanged(translator: Translator, tmp_path: Path) -> None:
    save_model(tmp_path / "model", translator, card="# a card\n")
    loaded = load(tmp_path / "model", device="cpu")
    assert (loaded.config, loaded.search) == (translator.config, translator.search)
    assert loaded.length_profile == translator.length_profile
    assert loaded.length_profile[:2] == (6, 1)
    assert loaded.confidence == translator.confidence is not None
    before = weights_of(translator.model)
    assert all(torch.equal(value, before[name]) for name, value in weights_of(loaded.model).items())
    assert loaded.translate(LINES) == translator.translate(LINES)
    assert (tmp_path / "model" / "README.md").read_text(encoding="utf-8") == "# a card\n"


def test_artefacts_of_a_validation_replace_earlier_ones(translator: Translator, tmp_path: Path) -> None:
    learnt = Confidence(((-3.0, 0.25), (0.0, 0.5)))
    artefacts = {"confidence.json": json.dumps(learnt._asdict()).encode(), "notes.txt": b"read me"}
    save_model(tmp_path / "model", translator, card="", artefacts=artefacts)
    assert load(tmp_path / "model").confidence == learnt != translator.confidence
    assert (tmp_path / "model" / "notes.txt").read_bytes() == b"read me"


@pytest.mark.parametrize(
    "output", [SampledOutputConfig(samples=3), AdaptiveOutputConfig(), AdaptiveOutputConfig(cutoffs=(2, 7), shrink=3)]
)
def test_every_output_layer_is_saved_and_loaded(output: Any, translator: Translator, tmp_path: Path) -> None:
    """With what it knows of the corpus; whole numbers must be whole."""
    torch.manual_seed(2)
    config = translator.config.model_copy(update={"output": output})
    pieces = len(translator.tokenizers.target.vocabulary)
    model = Model(config, sizes=Sizes(pieces, pieces, joint=translator.tokenizers.joint)).eval()
    model.output.learn_frequencies(torch.randint(100, (pieces,)))
    saved = Translator(model, translator.tokenizers, config=config, search=translator.search)
    save_model(tmp_path / "model", saved, card="")
    loaded = load(tmp_path / "model", device="cpu")
    assert loaded.config == config
    before, after = weights_of(model), weights_of(loaded.model)
    assert {name for name, value in before.items() if torch.equal(value, after[name])} == set(before) == set(after)
    assert [value.dtype for value in before.values()] == [value.dtype for value in after.values()]
    assert [parameter.requires_grad for parameter in model.parameters()] == [
        parameter.requires_grad for parameter in loaded.model.parameters()
    ]
    assert loaded.translate(LINES, nbest=2) == saved.translate(LINES, nbest=2)
    assert loaded.loss(["a b"], ["b a"]) == saved.loss(["a b"], ["b a"])


FORGED = {
    "not whole": (lambda ranks: ranks.float(), r"output.ranks has dtype torch.float32, expected torch.int64"),
    "too high": (lambda ranks: ranks + 1, "output.ranks does not contain every rank exactly once"),
    "too low": (lambda ranks: ranks - 1, "output.ranks does not contain every rank exactly once"),
    "twice": (lambda ranks: ranks * 0, "output.ranks does not contain every rank exactly once"),
}


@pytest.mark.parametrize("forgery", FORGED)
def test_forged_ranks_are_refused(forgery: str, translator: Translator, tmp_path: Path) -> None:
    """An index out of range would be a crash, on a device a lasting one."""
    config = translator.config.model_copy(update={"output": AdaptiveOutputConfig()})
    pieces = len(translator.tokenizers.target.vocabulary)
    model = Model(config, sizes=Sizes(pieces, pieces, joint=translator.tokenizers.joint))
    save_model(tmp_path, Translator(model, translator.tokenizers, config=config, search=translator.search), card="")
    change, message = FORGED[forgery]
    weights = weights_of(model)
    save_file({**weights, "output.ranks": change(weights["output.ranks"])}, tmp_path / "weights.safetensors")
    _reseal(tmp_path)
    with pytest.raises(FolderError, match=message):
        load(tmp_path)


def test_the_same_model_is_saved_as_the_same_bytes(translator: Translator, tmp_path: Path) -> None:
    for name in "ab":
        save_model(tmp_path / name, translator, card="")
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*") if path.is_file())
    assert len(files) >= 6
    assert all((tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes() for name in files)


def _reseal(folder: Path) -> None:
    """A new manifest that fits the files: what a hostile maker of folders would write."""
    (folder / "manifest.json").unlink()
    writing._seal(folder, kind=KIND, format=FORMAT, details={})


def _flip(folder: Path, name: str) -> None:
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 4
    (folder / name).write_bytes(content)


def _edit(folder: Path, *, old: str, new: str) -> None:
    text = (folder / "config.toml").read_text(encoding="utf-8")
    assert old in text
    (folder / "config.toml").write_text(text.replace(old, new), encoding="utf-8")
    _reseal(folder)


def _link(folder: Path) -> None:
    shutil.move(folder / "weights.safetensors", folder.parent / "elsewhere")
    (folder / "weights.safetensors").symlink_to(folder.parent / "elsewhere")


def _pickle(folder: Path) -> None:
    torch.save({"a": torch.zeros(1)}, folder / "weights.safetensors")
    _reseal(folder)


def _foreign_tokenizer(folder: Path) -> None:
    file = folder / "tokenizer" / "tokenizer.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "format": 99}), encoding="utf-8")
    _reseal(folder)


def _more_words(folder: Path) -> None:
    import hashlib

    file = folder / "tokenizer" / "source.vocabulary"
    file.write_bytes(file.read_bytes() + b'"more"\n')
    described = json.loads((folder / "tokenizer" / "tokenizer.json").read_text())
    described["files"]["source.vocabulary"] = hashlib.sha256(file.read_bytes()).hexdigest()
    (folder / "tokenizer" / "tokenizer.json").write_text(json.dumps(described), encoding="utf-8")
    _reseal(folder)


def _profile(folder: Path, **changes: object) -> None:
    """Another length profile; values that are None are left out."""
    values = {"pieces": 6, "sentences": 1, "targets": [[6, 9]], **changes}
    _write_profile(folder, {name: value for name, value in values.items() if value is not None})


def _write_profile(folder: Path, values: object) -> None:
    (folder / "length_profile.json").write_text(json.dumps(values), encoding="utf-8")
    _reseal(folder)


def test_the_profile_that_the_spoilt_ones_are_made_from_is_sound(folder: Path) -> None:
    _profile(folder)
    assert load(folder).length_profile == (6, 1, ((6, 9),))


SPOILT: dict[str, tuple[Callable[[Path], object], str]] = {
    "bit in the weights": (lambda folder: _flip(folder, "weights.safetensors"), "weights.safetensors"),
    "bit in the tokenizer": (lambda folder: _flip(folder, "tokenizer/source.vocabulary"), "source.vocabulary"),
    "bit in the manifest": (lambda folder: _flip(folder, "manifest.json"), "manifest.json"),
    "bit in the config": (lambda folder: _flip(folder, "config.toml"), "config.toml"),
    "missing weights": (lambda folder: (folder / "weights.safetensors").unlink(), "weights.safetensors: missing"),
    "missing tokenizer": (lambda folder: shutil.rmtree(folder / "tokenizer"), "tokenizer"),
    "missing manifest": (lambda folder: (folder / "manifest.json").unlink(), "no manifest.json"),
    "cut short": (lambda folder: (folder / "weights.safetensors").write_bytes(b"short"), "weights.safetensors"),
    "link": (_link, "weights.safetensors: is a link"),
    "extra file": (lambda folder: (folder / "extra.py").write_text("import os"), "extra.py: not listed"),
    "no safetensors": (_pickle, "weights.safetensors"),
    "format of the tokenizer": (_foreign_tokenizer, "tokenizer.json"),
    "more words than weights": (_more_words, "do not belong together"),
    "another width": (lambda folder: _edit(folder, old="width = 32", new="width = 34"), "weights.safetensors"),
    "a huge width": (lambda folder: _edit(folder, old="width = 32", new="width = 60000"), "weights.safetensors"),
    "an absurd width": (lambda folder: _edit(folder, old="width = 32", new="width = 1000000"), "config.toml"),
    "another family": (lambda folder: _edit(folder, old='"luong"', new='"bahdanau"'), "config.toml"),
    "an unknown key": (lambda folder: _edit(folder, old="joint =", new="code = 1\njoint ="), "config.toml"),
    "no config at all": (lambda folder: _edit(folder, old="[", new="]"), "config.toml"),
    "not even": (lambda folder: _edit(folder, old="width = 32", new="width = 33"), "config.toml"),
    "another output layer": (lambda folder: _edit(folder, old='"full"', new='"sampled"'), "proposal is missing"),
    "ties that do not fit": (lambda folder: _edit(folder, old='tie = "none"', new='tie = "all"'), "tie"),
    "no usual length": (lambda folder: _profile(folder, pieces=0), "length_profile.json"),
    "a usual length of another kind": (lambda folder: _profile(folder, pieces="many"), "length_profile.json"),
    "no limits of lengths": (lambda folder: _profile(folder, targets=None), "length_profile.json"),
    "limits out of order": (lambda folder: _profile(folder, targets=[[5, 9], [4, 8]]), "length_profile.json"),
    "a limit of one number": (lambda folder: _profile(folder, targets=[[5]]), "length_profile.json"),
    "a list of lengths": (lambda folder: _write_profile(folder, [6, 1]), "length_profile.json"),
    "another number of pieces": (
        lambda folder: _edit(folder, old='"source" = 12', new='"source" = 13'),
        "do not belong together",
    ),
    "a column too few": (lambda folder: _edit(folder, old='"source" = 12, ', new=""), "do not belong together"),
    "another task": (lambda folder: _edit(folder, old='"translation"', new='"divination"'), "config.toml"),
}


@pytest.mark.parametrize("fault", SPOILT)
def test_a_damaged_or_hostile_folder_is_refused_and_the_file_named(fault: str, folder: Path) -> None:
    spoil, named = SPOILT[fault]
    load(folder)
    spoil(folder)
    with pytest.raises(FolderError, match=named) as caught:
        load(folder)
    assert str(folder) in str(caught.value)


def test_a_missing_folder_or_one_without_a_model_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(FolderError, match="no such run or model folder"):
        load(tmp_path / "nowhere")
    (tmp_path / "config.toml").touch()
    with pytest.raises(FolderError, match=r"no model here yet; .*--resume"):
        load(tmp_path)
    with pytest.raises(FolderError, match="is a file, not a run or model folder"):
        load(tmp_path / "config.toml")
    (tmp_path / "empty").mkdir()
    with pytest.raises(FolderError, match=r"manifest\.json"):
        load(tmp_path / "empty")


def test_missing_devices_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert choose_device("auto") == choose_device("cpu") == torch.device("cpu")
    for name in ("cuda", "mps"):
        with pytest.raises(ConfigError, match=name):
            choose_device(name)  # type: ignore[arg-type]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert choose_device("auto") == torch.device("cuda")


def test_a_minimum_holds_even_over_the_maximum(translator: Translator) -> None:
    search = SearchConfig(beam=2, minimum=9, maximum_ratio=0.01, maximum_extra=1)
    (translation,) = translator.stream(["a"], search=search)
    assert len(translation.text.split()) >= 9
