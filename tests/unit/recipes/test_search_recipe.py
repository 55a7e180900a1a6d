"""The recipe of search, without a trained model: shared search, terms, the grid, tables and the figure."""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from recipes.runner import pages
from recipes.runner.files import append_jsonl, read_jsonl
from recipes.search import beams, common, independence, report, shared_search, stopping, terms
from torch import Tensor

import calque
from calque.engine import MARKS, pad_source
from calque.engine.ensemble import Decoding
from calque.search.decode import Rules, decode, limits_of
from calque.search.observers import Hooks
from calque.search.settings import SearchConfig
from calque.search.step import StepOutput
from calque.tensors import Padded

Term = terms.Term
SIGNATURES = {"bleu_lowercased": "case:lc", "bleu": "case:mixed"}
MADE = {"date": "2026-01-02", "torch": "2", "calque": "0", "cpu": "a CPU", "threads": 1}


def begun(*, rows: int, vocabulary: int, longest: int, seed: int) -> tuple[Decoding, Tensor]:
    """A step that knows the last token alone, over sources of some lengths."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, longest + 1, (rows,), generator=generator)
    logits = 3 * torch.randn(rows, vocabulary, vocabulary, generator=generator)
    is_word = torch.arange(longest) < lengths[:, None, None]
    looks = (
        torch.randn(rows, vocabulary, longest, generator=generator).masked_fill(~is_word, -torch.inf).softmax(dim=-1)
    )

    def step(tokens: Tensor, state: Tensor, context: tuple[Tensor, Tensor]) -> tuple[StepOutput, Tensor]:
        sentence = torch.arange(len(context[0])).repeat_interleave(len(tokens) // len(context[0]))
        return StepOutput(context[0][sentence, tokens], context[1][sentence, tokens]), state

    return Decoding(step, torch.zeros(rows), (logits.log_softmax(dim=-1), looks)), lengths


def row(setting: str, beam: int, *, bleu: float, part: str = "test_2016_flickr", **parameters: Any) -> dict[str, Any]:
    """What beams.py would have written."""
    scores = {"bleu_lowercased": bleu, "bleu": bleu - 1, "ratio": 0.95, "signatures": SIGNATURES}
    settings = {"part": part, "setting": setting, "parameters": parameters, "beam": beam, "sentences": 10}
    return {**settings, **scores, "made_with": MADE}


@pytest.mark.parametrize("beam", [1, 2, 5])
@pytest.mark.parametrize("seed", range(4))
def test_a_shared_search_gives_each_setting_what_a_search_of_its_own_would(beam: int, seed: int) -> None:
    searches = [beams.search_of(parameters, beam=beam) for _, parameters in beams.grid()]
    start, lengths = begun(rows=7, vocabulary=11, longest=6, seed=seed)
    results = shared_search.search_shared(start, lengths, searches=searches)
    for search, answers in zip(searches, results, strict=True):
        alone = decode(
            *start,
            source_lengths=lengths,
            limits=limits_of(lengths, search=search),
            search=search,
            marks=MARKS,
            rules=Rules(),
            nbest=1,
        )
        finished = [(answer, best.tokens) for answer, (best,) in zip(answers, alone, strict=True) if not best.cut]
        assert finished
        assert all(ours == theirs for ours, theirs in finished), search


@pytest.mark.parametrize(
    "search", [SearchConfig(beam=1, length_penalty=0.0), SearchConfig(beam=1), SearchConfig(beam=4)]
)
def test_the_cost_of_a_search_is_its_calls_of_the_decoder(search: SearchConfig) -> None:
    start, lengths = begun(rows=5, vocabulary=11, longest=6, seed=1)
    calls: list[int] = []

    def step(tokens: torch.Tensor, state: Any, context: Any) -> Any:
        calls.append(len(tokens))
        return start.step(tokens, state, context)

    cost = shared_search.DecoderCost()
    decode(
        *start._replace(step=step),
        source_lengths=lengths,
        limits=limits_of(lengths, search=search),
        search=search,
        marks=MARKS,
        rules=Rules(),
        nbest=1,
        hooks=Hooks(cost),
    )
    assert (cost.steps, cost.rows) == (len(calls), sum(calls))


def test_what_looks_like_a_noun() -> None:
    assert [word for word in ("Hund", "Öl", "gehen", "USA", "Straße", "T4x4", "Ärzte") if terms.is_noun_like(word)] == [
        "Hund",
        "Straße",
        "Ärzte",
    ]
    assert terms.nouns_of("Hunde sehen die Katze, den Hund-Korb an.") == ["Katze", "Hund", "Korb"]
    assert terms.frequent_nouns(["Ein Hund am Baum.", "Ein Hund, eine Katze"], count=2) == ["Hund", "Baum"]


def test_a_word_is_there_only_as_a_whole() -> None:
    assert terms.has_word("Der Hund, müde.", "Hund")
    assert terms.has_word("(Hund)", "Hund")
    assert not terms.has_word("Der Hunde", "Hund")
    assert not terms.has_word("Ein Schoßhund und ein hund", "Hund")


def test_terms_are_pairs_of_linked_words_and_missing_ones_come_first() -> None:
    source = ["A", "dog,", "a", "cat", "and", "2", "trees", "."]
    target = ["Hunde", "ein", "Hund,", "eine", "Katze", "und", "Bäume", "und", "Hund"]
    links = [(1, 0), (1, 2), (3, 4), (5, 6), (7, 1), (1, 8)]
    selected = terms.terms_of(source, target, links)
    assert selected == [Term("dog", "Hund"), Term("cat", "Katze")]  # no first word, no number, each word once
    assert terms.select(selected, translation="Ein Hund .") == [Term("cat", "Katze"), Term("dog", "Hund")]
    three = [*selected, Term("tree", "Bäume")]
    assert terms.select(three, translation="Ein Hund .") == [Term("cat", "Katze"), Term("tree", "Bäume")]


def test_failures_are_found() -> None:
    assert terms.missing([[Term("dog", "Hund")], []], ["Hunde", ""]) == [{"word": "Hund", "translation": "Hunde"}]
    assert terms.violations(["Hund"], ["Hunde", "ein Hund"]) == [{"word": "Hund", "translation": "ein Hund"}]


def test_the_speed_of_rounds_is_that_of_all_their_seconds() -> None:
    rounds = [
        terms.Round([], [], [], {"plain": plain, "required": required}, [])
        for plain, required in ((1.0, 2.0), (3.0, 3.0))
    ]
    assert terms.speed(rounds, "required") == {"ratio": 0.8, "slowest": 0.5, "fastest": 1.0}


def test_only_what_is_not_given_is_chosen_on_the_grid() -> None:
    tried = [
        row("length", 8, bleu=99, part="val", length_penalty=2.0),
        row("end", 8, bleu=30, part="val", end_normalisation=0.5),
        row("end", 8, bleu=31, part="val", end_normalisation=1.0),
        row("together", 8, bleu=31, part="val", coverage=0.1),
    ]
    selected = beams.select(tried)
    assert list(selected) == list(beams.SETTINGS)
    assert selected["length"] == {"length_penalty": 1.0}
    assert selected["end"] == {"end_normalisation": 1.0}


def test_the_grid_has_every_given_setting_and_searches_that_differ_in_their_score_alone() -> None:
    tried = list(beams.grid())
    assert all(any(setting == (name, parameters) for setting in tried) for name, parameters in beams.GIVEN.items())
    ours = {"length_penalty", "normalisation", "coverage", "end_normalisation", "reward"}
    shared = [beams.search_of(parameters, beam=4).model_dump(exclude=ours) for _, parameters in tried]
    assert all(values == shared[0] for values in shared)
    assert SearchConfig(**shared[0]).stopping == "exact"


def test_rows_outlive_a_cut_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    assert read_jsonl(path) == []
    append_jsonl(path, [{"a": 1}, {"a": "ö"}])
    path.write_bytes(path.read_bytes() + b'{"a": ')
    assert read_jsonl(path) == [{"a": 1}, {"a": "ö"}]
    append_jsonl(path, [{"a": 3}])
    assert [row["a"] for row in read_jsonl(path)] == [1, "ö", 3]


def test_pairs_must_line_up(tmp_path: Path) -> None:
    for language, lines in (("en", b"a\nb\n"), ("de", b"c\n")):
        (tmp_path / f"x.{language}.gz").write_bytes(gzip.compress(lines))
    with pytest.raises(ValueError, match="2 English lines but 1 German"):
        common.read_pairs(tmp_path, "x")
    assert common.length_ratio(["a b", "c"], ["a", "b c d e f"]) == 0.5


def test_the_report_has_what_the_folder_has(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no results yet"):
        report.report(tmp_path)
    tried = [
        row("end", 8, bleu=30, part="val", end_normalisation=0.5),
        row("together", 8, bleu=31, part="val", length_penalty=1.0, coverage=0.1),
    ]
    rows = [row("none", 1, bleu=40), row("none", 4, bleu=38.5), row("length", 4, bleu=41, length_penalty=1.0)]
    append_jsonl(tmp_path / beams.RESULTS, [*tried, *rows])
    text, lines = report.report(tmp_path)
    assert "| none | log P alone | **40.00** (39.00; 0.950) | 38.50 (37.50; 0.950) |" in text
    assert "| length | α 1 |  | **41.00** (40.00; 0.950) |" in text
    assert "| together | α 1, β 0.1 | 31.00 | 0.950 | chosen |" in text
    assert "2026-01-02, torch 2, Calque 0, CPU a CPU, one thread" in text
    report.draw_beams(tmp_path / "x.png", lines, labels={"none": "a", "length": "b"})
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_the_report_compares_ways_to_stop_with_exact_and_tells_of_terms(tmp_path: Path) -> None:
    scores = {"bleu_lowercased": 40.0, "bleu": 39.0, "ratio": 1.0, "signatures": SIGNATURES}
    stops = [
        {"stopping": way, "beam": 5, "sentences": 10, **scores, "steps": 7, "rows": rows, "seconds": 2.0}
        | {"same_as_exact": 9, "made_with": MADE}
        for way, rows in (("exact", 2000), ("first", 1000))
    ]
    append_jsonl(tmp_path / stopping.RESULTS, stops)
    rounds = [
        terms.Round(
            ["Ein"], ["Ein Hund"], ["Ein"], {"plain": 1, "required": 2, "forbidden": 4}, [[Term("dog", "Hund")]]
        )
    ]
    summary = terms.summary(rounds, common.Pairs(["A dog"], ["Ein Hund"]), forbidden=["Katze"])
    (tmp_path / "terms.json").write_text(json.dumps({**summary, "made_with": MADE}), encoding="utf-8")
    text, _ = report.report(tmp_path)
    assert "1,000 (0.50) | 2 (1.00)" in text
    assert "| 1 words required in 1 sentences | 0.0% → 100.0% |" in text
    assert "| 0.25 (0.25 to 0.25) |" in text
    assert "failures: 0" in text


@pytest.mark.parametrize("name", ["", "lstm"])
def test_results_go_between_the_marks(name: str) -> None:
    begin, end = (f"<!-- {slash}{report.mark(name)} -->" for slash in ("", "/"))
    both = "<!-- results other --> z <!-- /results other -->"
    expected = f"{both} a {begin}\n\ny\n\n{end} b"
    assert pages.fill(f"{both} a {begin} x {end} b", "y\n", name=report.mark(name)) == expected
    with pytest.raises(ValueError, match="no place"):
        pages.fill("a", "y", name=report.mark(name))


# --- Independence ---


LINES = ["a b c", "h g f e d c", "b b", "c", "d e f g h a", "g a"]


def test_scripts_are_asked_alike(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, threads = tmp_path / "a" / "b", torch.get_num_threads()
    monkeypatch.setattr(sys, "argv", ["x.py", str(trained), str(tmp_path), str(out), "--limit", "3"])
    arguments = common.parse_arguments("what it does", beams=(5, 16))
    assert (arguments.corpus, arguments.out, arguments.limit, arguments.beams) == (tmp_path, out, 3, (5, 16))
    assert out.is_dir()
    assert arguments.translator.translate("a b c") == calque.load(trained, device="cpu").translate("a b c")
    assert common.parse_arguments("what it does").beams == ()
    torch.set_num_threads(threads)


@pytest.mark.parametrize("wrong", [0, 1])
def test_folders_that_are_not_there_are_named(
    wrong: int, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [str(trained), str(tmp_path)]
    folders[wrong] = str(tmp_path / "nowhere")
    monkeypatch.setattr(sys, "argv", ["x.py", *folders, str(tmp_path / "out")])
    with pytest.raises(SystemExit) as ended:
        common.parse_arguments(None)
    assert ended.value.code == 2
    assert "nowhere: no such" in capsys.readouterr().err


def test_a_sound_model_does_not_depend_on_its_batch(trained: Path) -> None:
    translator = calque.load(trained, device="cpu")
    comparison = independence.compare(translator, LINES, search=translator.search, sizes=(2, 6), seed=1)
    assert (comparison.comparisons, comparison.differences) == (12, [])
    assert 0 <= comparison.noise <= independence.SCORE_NOISE
    assert comparison.alone == translator.translate(LINES)


def test_a_model_that_looks_at_padding_is_found_out(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row as long as the longest."""

    def padded(ids: list[list[int]]) -> Padded:
        values, lengths, _ = pad_source(ids)
        return Padded(values, torch.full_like(lengths, int(lengths.max())))

    monkeypatch.setattr(independence, "pad_source", padded)
    translator = calque.load(trained, device="cpu")
    comparison = independence.compare(translator, LINES, search=translator.search, sizes=(6,), seed=1)
    assert comparison.noise > independence.SCORE_NOISE or comparison.differences
    assert all(difference.divergence.gap > independence.NEAR for difference in comparison.differences)


def test_the_gap_is_between_what_parted(trained: Path) -> None:
    """Searches that are the same up to a step, where one has another hypothesis."""
    translator = calque.load(trained, device="cpu")
    (source,) = translator.tokenizers.source.encode_many(["a b c"])
    (trace,) = independence.search_batch(translator, [source], search=translator.search)
    parts = {word: translator.tokenizers.target.encode(word)[0] for word in "abcdefgh"}
    first = trace.steps[0]
    gone = next(iter(first.kept))
    new = next((token,) for token in parts.values() if (token,) not in first.kept)
    values = independence.log_probs(translator, source, frozenset({gone, new}))
    assert all(value < 0 for value in values.values())
    changed_step = first._replace(kept=first.kept - {gone} | {new})
    changed_trace = trace._replace(steps=[changed_step, *trace.steps[1:]])
    parting = independence.diverge(translator, source, trace, changed_trace)
    assert parting == ("kept", 1, pytest.approx(abs(values[gone] - values[new]), abs=1e-5))
    ended = first._replace(ended=first.ended | {new})
    (kind, step, gap) = independence.diverge(translator, source, trace, trace._replace(steps=[ended, *trace.steps[1:]]))
    every = independence.log_probs(translator, source, first.kept | {new})
    assert (kind, step) == ("ended", 1)
    assert gap == pytest.approx(min(abs(every[hypothesis] - every[new]) for hypothesis in first.kept), abs=1e-5)
    again = trace._replace(best=trace.best._replace(score=trace.best.score - 0.5))
    assert independence.diverge(translator, source, trace, again) == ("ranked", len(trace.steps), pytest.approx(0.5))


def test_lines_are_spread_over_the_file() -> None:
    assert independence.spread(["a", "", "b", " ", "c", "d"], count=2) == ["a", "c"]
    assert independence.spread(["a", ""], count=5) == ["a"]
