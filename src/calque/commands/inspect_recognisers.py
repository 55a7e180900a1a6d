"""`calque inspect --audio`: shows what recognisers compute for recordings, as tables for a terminal or a pipe."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from calque.commands.inputs import warn_unknown
from calque.commands.inspect_questions import Question
from calque.commands.inspect_tables import Brief, alternatives, number, share
from calque.commands.inspect_task import TaskInspection, View, ViewOptions
from calque.commands.loading import load_language_model, search_of
from calque.commands.recogniser_scores import refuse_idle_speech_settings
from calque.commands.rendering import one_field
from calque.commands.tables import table
from calque.engine import Recogniser, TextGenerator
from calque.inspection.document import Weights, as_lists
from calque.inspection.recognition import (
    RecordingView,
    SpeechCandidate,
    inspect_recording,
    log_prob,
    recogniser_summary,
    recording_values,
)
from calque.inspection.recognition_pictures import RECORDING_PICTURES, draw_recording

SHOWN = 10  # candidates
PARTS = {"ctc": "CTC", "decoder": "decoder", "language": "language"}


class RecordingInspection(TaskInspection[Recogniser, RecordingView]):
    """Runs speech recognisers on recordings, and shows the transcripts with times and probabilities."""

    task = "recognition"
    models = "speech recognisers"
    searches = True
    pictures = tuple(RECORDING_PICTURES)
    reads = "--audio"
    advice = "is a speech recogniser, which reads recordings: give --audio FILE instead of sentences"
    options = frozenset({"--target", "--language"})

    def views(
        self, models: Mapping[str, Recogniser], questions: Sequence[Question], options: ViewOptions
    ) -> list[View]:
        language = None
        if options.language is not None:
            language = load_language_model(options.language, device=options.device, precision=options.precision)
        return [
            self.view(loaded, name, question, options, language=language)
            for question in questions
            for name, loaded in models.items()
        ]

    def view(
        self,
        loaded: Recogniser,
        name: str,
        question: Question,
        options: ViewOptions,
        *,
        language: TextGenerator | None = None,
    ) -> View:
        search = search_of(loaded.search, options.settings, beam=None, nbest=1, batch_tokens=None)
        refuse_idle_speech_settings(list(options.settings), search=search, recogniser=loaded, language=options.language)
        path = Path(str(question.text))
        if question.target is not None:
            warn_unknown(question.target, encode=loaded.tokenizer.encode, name=f"--target for {name}")
        return View(name, inspect_recording(loaded, path, search=search, language=language, target=question.target))

    def lines(self, view: RecordingView, *, name: str | None = None) -> Iterator[str]:
        return recording_lines(view, name=name)

    def brief(self, view: RecordingView) -> Brief:
        return Brief(log_prob(view.best, view.weights), len(view.tokens), view.audio, view.text)

    def values(self, view: RecordingView, *, weights: Weights = as_lists) -> dict[str, Any]:
        return recording_values(view, weights=weights)

    def summary(self, loaded: Recogniser, *, name: str) -> dict[str, Any]:
        return recogniser_summary(loaded, name=name)

    def draw(self, path: Path, view: RecordingView, *, picture: str) -> list[str]:
        return draw_recording(path, view, picture=picture)


def recording_lines(view: RecordingView, *, name: str | None = None) -> Iterator[str]:
    """Yields a summary, the times of words and tokens, the decoder's probabilities, and a table of candidates."""
    if name is not None:
        yield f"model        {name}"
    yield f"audio        {one_field(view.audio)}, {view.seconds:.2f} s at {view.rate:,} Hz"
    mark = " (given)" if view.is_given else _cut(view.best)
    yield f"transcript   {one_field(view.text)}{mark}"
    terms = " + ".join(f"{weight:g} × {PARTS[part]}" for part, weight in view.weights.items())
    yield f"log P        {number(log_prob(view.best, view.weights))}{f' = {terms}' if len(view.weights) > 1 else ''}"
    if view.words and len(view.words) != len(view.tokens):
        yield ""
        rows = [[one_field(word.word), f"{word.start:.2f}", f"{word.end:.2f}"] for word in view.words]
        yield from table(["word", "from", "to, s"], rows)
    yield ""
    yield from table(*_token_table(view))
    if len(view.candidates) > 1:
        yield ""
        shown = [part for part in PARTS if part in view.weights]
        rows = [
            [_score(item), *(_part(item, part) for part in shown), one_field(item.text) + _cut(item)]
            for item in view.candidates[:SHOWN]
        ]
        yield from table(["score", *(f"log P {PARTS[part]}" for part in shown), "candidate"], rows)


def _token_table(view: RecordingView) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of a table with one row per token of the transcript.

    The first columns are the token's piece, start and end in seconds. If the model has CTC, the CTC probability and the
    alternatives follow; if it has an attention decoder, the decoder's probability, rank and alternatives follow.
    """
    has_ctc, has_decoder = view.posteriors is not None, bool(view.steps)
    header = ["piece", "from", "to, s"]
    header += ["CTC", "other labels at its peak"] if has_ctc else []
    header += ["decoder", "rank", "runners-up"] if has_decoder else []
    rows = []
    for place, token in enumerate(view.tokens):
        row = [one_field(token.piece), f"{token.first * view.position:.2f}", f"{token.end * view.position:.2f}"]
        row += [f"{token.peak:.3f}", alternatives(token.rivals)] if token.peak is not None else []
        rows.append(row + _step(view, place) if has_decoder else row)
    if has_decoder and len(view.steps) > len(view.tokens):
        place = len(view.tokens)
        rows.append([view.steps[place].piece, "", "", *(["", ""] if has_ctc else []), *_step(view, place)])
    return header, rows


def _step(view: RecordingView, place: int) -> list[str]:
    step = view.steps[place]
    return [share(step.log_prob), str(step.rank), alternatives(step.runners_up[:3])]


def _score(candidate: SpeechCandidate) -> str:
    return "given" if candidate.score != candidate.score else number(candidate.score)


def _cut(candidate: SpeechCandidate) -> str:
    return " (cut)" if candidate.cut else ""


def _part(candidate: SpeechCandidate, part: str) -> str:
    value = getattr(candidate, part)
    return "" if value is None else number(value)
