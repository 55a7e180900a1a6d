"""`calque evaluate --audio`: computes the word and character error rates of a recogniser's transcripts."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from calque.commands.inputs import device_and_precision, refuse_unreadable
from calque.commands.rendering import finite
from calque.errors import CalqueError, DataError

if TYPE_CHECKING:
    from calque.engine import Recogniser, TextGenerator
    from calque.evaluation.error_rates import Errors
    from calque.evaluation.intervals import Interval
    from calque.search.settings import SearchConfig


class AudioTest(NamedTuple):
    """The recordings of a manifest, as clips with absolute paths, and their transcripts."""

    clips: list[str]
    """The clips, in the text form of `calque.data.audio.Clip`."""
    references: list[str]
    """The transcripts; that of silence is empty."""
    lines: list[int]
    """The numbers of their lines in the manifest."""


def evaluate_recogniser(
    model: Path,
    *,
    audio: Path,
    settings: list[str],
    beam: int | None,
    language: Path | None,
    output: Path | None,
    as_json: bool,
    device: str,
    precision: str,
) -> None:
    """Prints WER and CER with confidence intervals, and writes the transcripts to `output` if it is given."""
    from calque.commands.loading import load_language_model, load_to_evaluate, search_of
    from calque.commands.output import refuse_output, sink
    from calque.engine import Recogniser
    from calque.evaluation.error_rates import transcript_errors

    device_name, precision_name = device_and_precision(device, precision)
    refuse_unreadable(audio)
    refuse_output(output, audio)
    recogniser = load_to_evaluate(model, Recogniser, device=device_name, precision=precision_name)
    generator = None
    if language is not None:
        generator = load_language_model(language, device=device_name, precision=precision_name)
    search = search_of(recogniser.search, settings, beam=beam, nbest=1, batch_tokens=None)
    refuse_idle_speech_settings(settings, search=search, recogniser=recogniser, language=language)
    test = read_audio_test(audio)
    texts = transcribe_test(recogniser, test, search=search, language=generator)
    if output is not None:
        with sink(output) as out:
            out.write("".join(f"{' '.join(text.split())}\n" for text in texts).encode())
    rates = transcript_errors(test.references, texts)
    if as_json:
        values = {
            "wer": _values(rates.words, rates.words_interval),
            "cer": _values(rates.characters, rates.characters_interval),
        }
        document = finite({**values, "recordings": len(texts), "search": {"beam": search.beam}})
        typer.echo(json.dumps(document, indent=1, allow_nan=False))
        return
    for name, errors, interval, unit in (
        ("WER", rates.words, rates.words_interval, "words"),
        ("CER", rates.characters, rates.characters_interval, "characters"),
    ):
        low, high = 100 * interval.low, 100 * interval.high
        typer.echo(
            f"{name} {100 * errors.rate:6.2f} %  (95 % interval {low:.2f} to {high:.2f})  "
            f"{errors.substitutions:,} substitutions, {errors.insertions:,} insertions, {errors.deletions:,} deletions "
            f"in {errors.length:,} {unit}"
        )


CTC_SETTINGS = ("method", "beam", "reward", "language_weight")
"""The search settings that have an effect on models with CTC only, without a decoder."""


def refuse_idle_speech_settings(
    settings: list[str], *, search: "SearchConfig", recogniser: "Recogniser", language: Path | None
) -> None:
    """Raises a ConfigError for search settings that have no effect on a recogniser's transcripts."""
    from calque.commands.loading import refuse_idle_beam_settings

    unused = dict.fromkeys(("source_limit", "batch_tokens"), "it is not supported for speech recognisers")
    if recogniser.model.speller is None:
        others = set(type(search).model_fields) - set(CTC_SETTINGS)
        unused = dict.fromkeys(others, "this model has only CTC, without a decoder") | unused
    if language is None:
        unused["language_weight"] = "it is used only with --language"
    refuse_idle_beam_settings(settings, search=search, unused=unused)


def read_audio_test(path: Path) -> AudioTest:
    """Reads the recordings and transcripts of a manifest; raises a DataError that lists all problems."""
    from calque.data.audio import Clip
    from calque.data.audio_corpus import AudioConfig
    from calque.data.audio_manifests import parse_manifest
    from calque.data.corpora import read_blocks
    from calque.data.lines import LINE_LIMIT
    from calque.data.problems import refuse

    corpus, test, problems = AudioConfig(path=path), AudioTest([], [], []), []
    for block in read_blocks(corpus, limit=LINE_LIMIT):
        rows = parse_manifest(block, corpus, limit=LINE_LIMIT, keep_empty=True)
        problems += rows.malformed + rows.invalid
        test.lines.extend(rows.lines)
        for cell, text, folder, *_ in zip(*rows.columns, strict=True):
            clip = Clip.of(cell)
            test.clips.append(clip._replace(path=str(Path(folder) / clip.path)).cell)
            test.references.append(text)
    refuse(problems)
    if not test.clips:
        raise DataError(f"{path} contains no recordings")
    return test


def transcribe_test(
    recogniser: "Recogniser", test: AudioTest, *, search: "SearchConfig", language: "TextGenerator | None"
) -> list[str]:
    """The best transcript of every recording."""
    from calque.data.audio import Clip

    texts = []
    for answer in recogniser.answers(map(Clip.of, test.clips), search=search, language=language):
        if isinstance(answer, CalqueError):
            raise answer
        texts.append(answer.text)
    return texts


def _values(errors: "Errors", interval: "Interval") -> dict[str, float]:
    return {
        "rate": 100 * errors.rate,
        "low": 100 * interval.low,
        "high": 100 * interval.high,
        **{name: getattr(errors, name) for name in ("substitutions", "insertions", "deletions", "length")},
    }
