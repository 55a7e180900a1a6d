"""The comparison of transcripts: rates against jiwer, edits as counted, p-values as sacreBLEU computes them."""

import json
import random

import jiwer
import pytest

from calque.commands.compare_tasks import table_lines
from calque.errors import ConfigError, DataError
from calque.evaluation.comparison.transcripts import (
    TranscribedSystem,
    TranscribedTest,
    align_words,
    compare_transcripts,
)
from calque.evaluation.error_rates import edit_errors
from calque.evaluation.segment_statistics import SegmentMetric
from calque.evaluation.significance import bootstrap_result, paired_test

WORDS = ["zero", "one", "two", "three", "four", "five", "six"]
QUICK = {"bootstrap": 100, "randomisation": 200}


def damaged(generator: random.Random, text: str, *, share: float) -> str:
    """A text some of whose words are replaced, left out or doubled."""
    words = []
    for word in text.split():
        kind = generator.choice(["replaced", "lost", "doubled"]) if generator.random() < share else ""
        words += {"": [word], "replaced": [generator.choice(WORDS)], "lost": [], "doubled": [word, word]}[kind]
    return " ".join(words)


def transcripts(seed: int, *, size: int = 40) -> tuple[TranscribedTest, list[TranscribedSystem]]:
    generator = random.Random(seed)
    references = [" ".join(generator.choices(WORDS, k=generator.randint(1, 14))) for _ in range(size)]
    test = TranscribedTest([f"{number}.wav" for number in range(size)], references, {"path": "test.jsonl"})
    systems = [
        TranscribedSystem(name, [damaged(generator, text, share=share) for text in references])
        for name, share in (("noisy", 0.5), ("better", 0.1))
    ]
    return test, systems


def test_alignments_have_the_edits_that_are_counted(seed: int) -> None:
    generator = random.Random(seed)
    for _ in range(200):
        left, right = (generator.choices("abc", k=generator.randint(0, 7)) for _ in range(2))
        pairs = align_words(left, right)
        assert [word for word, _ in pairs if word is not None] == left
        assert [word for _, word in pairs if word is not None] == right
        errors = edit_errors(left, right)
        assert sum(one is not None and other is not None and one != other for one, other in pairs) == (
            errors.substitutions
        )
        assert sum(one is None for one, _ in pairs) == errors.insertions
        assert sum(other is None for _, other in pairs) == errors.deletions


def test_rates_errors_and_lengths_agree_with_jiwer(seed: int) -> None:
    test, systems = transcripts(seed)
    document = compare_transcripts(test, systems, samples=QUICK)
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    for system, values in zip(systems, document["systems"], strict=True):
        theirs = jiwer.process_words(list(test.references), list(system.transcripts))
        assert values["scores"]["wer"] == pytest.approx(100 * theirs.wer)
        assert values["scores"]["cer"] == pytest.approx(
            100 * jiwer.cer(list(test.references), list(system.transcripts))
        )
        counted = values["errors"]["wer"]
        assert sum(item["count"] for item in values["deleted"]) == counted["deletions"]
        assert sum(item["count"] for item in values["inserted"]) == counted["insertions"]
        assert sum(item["count"] for item in values["substituted"]) == counted["substitutions"]
    (section,) = document["sections"]
    assert sum(section["counts"][0]) == len(test.references)
    wins = document["systems"][1]["wins"]["wer"]
    assert sum(wins.values()) == len(test.references) and wins["better"] > wins["worse"]


def test_significance_is_found_where_it_is(seed: int) -> None:
    test, systems = transcripts(seed, size=80)
    same = systems[0]._replace(name="same")
    document = compare_transcripts(test, [*systems, same], samples=QUICK)
    for result in document["significance"]:
        baseline, better, equal = result["systems"]["wer"]
        assert baseline["p_value"] is None and better["p_value"] < 0.05
        assert equal["score"] == baseline["score"]  # which tables call equal, whatever the p-value
    assert document["systems"][2]["different"] == 0
    assert compare_transcripts(test, systems, samples={"bootstrap": 0, "randomisation": 0})["significance"] == []


def test_the_bootstrap_is_that_of_sacrebleu(seed: int) -> None:
    """Of a metric that both can compute, the rate of translation edits, p-value and interval are the same."""
    test, systems = transcripts(seed)
    metric = SegmentMetric("ter", test.references)
    outputs = {system.name: system.transcripts for system in systems}
    theirs = paired_test(outputs, [metric], method="bootstrap", samples=100).systems["ter"][1]
    first, second = (metric.statistics(system.transcripts) for system in systems)
    ours = bootstrap_result(first, second, scores=metric.scores, samples=100)
    assert ours == pytest.approx(theirs)


def test_marked_differences_rebuild_both_texts(seed: int) -> None:
    test, systems = transcripts(seed)
    document = compare_transcripts(test, systems, samples=QUICK)
    assert document["sentences"]["total"] == len(document["sentences"]["items"]) == len(test.references)
    for item in document["sentences"]["items"]:
        place = item["line"] - 1
        assert "".join(item["reference"]) == test.references[place] and item["source"] == f"{place}.wav"
        for system, values in zip(systems, item["systems"], strict=True):
            assert "".join(values["words"]) == system.transcripts[place]
            said, heard = [], []
            for operation, (first, last), (start, end) in values["difference"]:
                said += item["reference"][first:last]
                heard += values["words"][start:end]
                stripped = [[word.strip() for word in part] for part in (said, heard)]
                assert operation != "=" or stripped[0][-1] == stripped[1][-1]
            assert (said, heard) == (item["reference"], values["words"])
    assert len(compare_transcripts(test, systems, samples=QUICK, shown=3)["sentences"]["items"]) <= 6


def test_tables_and_groups() -> None:
    test, systems = transcripts(1)
    grouped = [system._replace(group=group) for system, group in zip(systems, ("a", "b"), strict=True)]
    lines = "\n".join(table_lines(compare_transcripts(test, grouped, samples=QUICK)))
    for text in (
        "40 recordings",
        "WER",
        "CER",
        "substitutions",
        "(left out)",
        "(added)",
        "groups: WER",
        "recordings on",
    ):
        assert text in lines, text
    perfect = TranscribedSystem("perfect", test.references)
    lines = "\n".join(table_lines(compare_transcripts(test, [perfect, perfect._replace(name="again")], samples=QUICK)))
    assert "most frequent errors" not in lines and "no score differs" in lines


def test_rates_of_silence_are_those_of_jiwer_and_lines_are_those_of_the_manifest() -> None:
    test = TranscribedTest(["a", "b"], ["", "one two"], lines=[2, 5])
    systems = [TranscribedSystem("a", ["", "one"]), TranscribedSystem("b", ["zero one", "one two"])]
    document = compare_transcripts(test, systems, samples=QUICK)
    rates = {
        item["line"]: [system["scores"]["wer"] for system in item["systems"]] for item in document["sentences"]["items"]
    }
    assert rates == {
        line: [100 * jiwer.wer(reference, system.transcripts[place]) for system in systems]
        for place, (line, reference) in enumerate(zip(test.lines, test.references, strict=True))
    }
    assert document["systems"][1]["scores"]["wer"] == 100 and document["systems"][1]["errors"]["wer"]["insertions"] == 2


def test_systems_that_cannot_be_compared() -> None:
    test, systems = transcripts(1)
    with pytest.raises(DataError, match="nothing to compare: the test set has no recordings"):
        compare_transcripts(TranscribedTest([], []), [system._replace(transcripts=[]) for system in systems])
    with pytest.raises(ConfigError, match="at least two"):
        compare_transcripts(test, systems[:1])
    with pytest.raises(DataError, match="better has 39 lines, but the manifest has 40 recordings"):
        compare_transcripts(test, [systems[0], systems[1]._replace(transcripts=systems[1].transcripts[1:])])
