"""`calque compare --audio`: compares speech recognisers, or files of transcripts, on the recordings of a manifest."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from calque.commands.compare_tables import bucket_table, names_of, size_and_speed
from calque.commands.compare_task import Block, ComparisonRequest, Document, TaskComparison
from calque.commands.compare_translation_tables import group_tables, score_lines, significance_tables
from calque.commands.compared_systems import Argument, Options, load, model_facts, read_lines, speed
from calque.commands.recogniser_scores import AudioTest, read_audio_test
from calque.commands.tables import Row, aligned
from calque.errors import CalqueError

if TYPE_CHECKING:
    from calque.evaluation.comparison.transcripts import TranscribedSystem

SHOWN_CONFUSIONS, SHOWN_RECORDINGS = 10, 5


def compare_recordings(request: ComparisonRequest) -> Document:
    """Compares transcripts by word and character errors; models transcribe the recordings first.

    Returns the comparison as a JSON document.
    """
    from calque.data.audio import Clip
    from calque.evaluation.comparison.transcripts import (
        TranscribedSystem,
        TranscribedTest,
        check_transcripts,
        compare_transcripts,
    )

    manifest = request.files["--audio"]
    recordings = read_audio_test(manifest)
    clips = map(Clip.of, recordings.clips)
    names = [clip._replace(path=Path(clip.path).name).name(Path()) for clip in clips]
    test = TranscribedTest(names, recordings.references, {"path": str(manifest)}, recordings.lines)
    files = {item.name: read_lines(item.path) for item in request.arguments if item.is_file}
    blank = [""] * len(names)
    check_transcripts(test, [TranscribedSystem(item.name, files.get(item.name, blank)) for item in request.arguments])
    systems = [
        TranscribedSystem(item.name, files[item.name], item.group, item.facts)
        if item.is_file
        else _transcribed(item, recordings, options=request.options)
        for item in request.arguments
    ]
    return compare_transcripts(
        test,
        systems,
        samples={"bootstrap": request.bootstrap, "randomisation": request.options.randomisation},
        shown=request.sentences,
    )


def _transcribed(argument: Argument, test: AudioTest, *, options: Options) -> "TranscribedSystem":
    """Transcribes all recordings with a model; returns the transcripts and facts such as the model's size and speed."""
    from calque.commands.loading import search_of
    from calque.commands.progress import counting
    from calque.commands.recogniser_scores import refuse_idle_speech_settings
    from calque.data.audio import Clip
    from calque.engine import Recogniser
    from calque.evaluation.comparison.transcripts import TranscribedSystem

    recogniser = load(argument, Recogniser, device=options.device, precision=options.precision)
    settings = list(argument.settings)
    has_beam = any(setting.removeprefix("search.").startswith("beam=") for setting in settings)
    beam = None if has_beam else options.beam
    search = search_of(recogniser.search, settings, beam=beam, nbest=1, batch_tokens=None)
    refuse_idle_speech_settings(settings, search=search, recogniser=recogniser, language=None)
    texts, started = [], time.perf_counter()
    with counting(f"transcribing with {argument.name}", total=len(test.clips)) as advance:
        for answer in recogniser.answers(map(Clip.of, test.clips), search=search):
            if isinstance(answer, CalqueError):
                raise answer
            texts.append(answer.text)
            advance(1)
    words = sum(len(text.split()) for text in texts)
    pace = speed(time.perf_counter() - started, len(texts), words, device=str(recogniser.device))
    return TranscribedSystem(argument.name, texts, argument.group, model_facts(argument, recogniser) | {"speed": pace})


def transcript_tables(document: Document) -> Iterator[Block]:
    """The tables of a comparison of transcripts, each with its title."""
    test, systems = document["test"], document["systems"]
    names = names_of(systems)
    sizes = f"{test['sentences']:,} recordings, {test['words']:,} words, {test['characters']:,} characters"
    yield f"{test['path']}: {sizes}; error rates in per cent; the baseline is {names[0]}", score_lines(document)
    yield from significance_tables(document)
    yield from group_tables(document)
    yield "errors", _errors(systems)
    yield from size_and_speed(systems, names, unit="recordings")
    for section in document["sections"]:
        yield bucket_table(section, names, metric=document["metrics"][0], unit="recordings")
    for system in systems:
        if confusions := _confusions(system):
            yield f"most frequent errors of {system['name']}", confusions
    yield from _recordings(document, names)


def _errors(systems: Sequence[Document]) -> list[str]:
    rows: list[Row] = [["system", "", "substitutions", "insertions", "deletions", "edits"]]
    for system in systems:
        for name, unit in (("wer", "words"), ("cer", "characters")):
            errors = system["errors"][name]
            kinds = [errors[kind] for kind in ("substitutions", "insertions", "deletions")]
            cells = [f"{count:,}" for count in (*kinds, sum(kinds))]
            rows.append([system["name"] if name == "wer" else "", unit, *cells])
    return aligned(rows, left=2)


def _confusions(system: Document) -> list[str]:
    edits = [(item["count"], item["reference"], item["hypothesis"]) for item in system["substituted"]]
    edits += [(item["count"], item["word"], "(left out)") for item in system["deleted"]]
    edits += [(item["count"], "(added)", item["word"]) for item in system["inserted"]]
    edits.sort(key=lambda edit: (-edit[0], edit[1:]))
    if not edits:
        return []
    rows = [[said, heard, f"{count:,}"] for count, said, heard in edits[:SHOWN_CONFUSIONS]]
    return aligned([["said", "transcribed", "times"], *rows], left=2)


def _recordings(document: Document, names: Sequence[str]) -> Iterator[Block]:
    """Yields a titled list of the recordings whose word error rates differ most between the first two systems."""

    def gap(item: Document) -> float:
        first, second = (item["systems"][place]["scores"]["wer"] for place in (0, 1))
        return abs(float(second - first))

    items = [item for item in document["sentences"]["items"] if gap(item)]
    lines = []
    for item in sorted(items, key=lambda item: (-gap(item), item["line"]))[:SHOWN_RECORDINGS]:
        rows = [[f"line {item['line']}", "WER", item["source"]], ["reference", "", "".join(item["reference"])]]
        for name, system in zip(names, item["systems"], strict=True):
            rows.append([name, f"{system['scores']['wer']:.1f}", "".join(system["words"])])
        lines += aligned(rows, left=3)
    if lines:
        yield f"recordings on which {names[0]} and {names[1]} differ most", lines


RECOGNITION = TaskComparison(
    "recognition",
    "--audio",
    "--audio for speech recognisers",
    compare_recordings,
    transcript_tables,
    takes=frozenset({"--group", "--sentences", "--beam"}),
    searches=True,
)
