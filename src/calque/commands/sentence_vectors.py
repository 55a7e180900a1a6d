"""Computes and writes the output of `calque embed`: vectors, or nearest sentences, for lines as they arrive."""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from calque.commands.inputs import input_lines, input_name
from calque.commands.output import DirectOutput, ResumableFile, sink
from calque.commands.progress import counting
from calque.commands.rendering import json_line, one_field
from calque.commands.streaming import LineWarnings, windows
from calque.commands.vector_files import NumpyFile, VectorCorpus
from calque.data.lines import LINE_LIMIT, Invalid, Line
from calque.engine.sentence_vectors import BATCH_TOKENS, VectorReader, checked_pooling, stream_vectors
from calque.errors import DataError, RequestError
from calque.evaluation.nearest import nearest
from calque.layers.pooling import PoolingName

Array = NDArray[Any]

NOT_FINITE = "its vector is not finite (try --precision float32)"
NO_WORDS = "no words; its vector is 0"


class VectorSettings(NamedTuple):
    """How sentences are read and their vectors computed."""

    pooling: PoolingName
    normalise: bool
    invalid: Invalid
    batch_tokens: int

    @classmethod
    def checked(
        cls, reader: VectorReader, *, pooling: str | None, normalise: bool, invalid: Invalid, batch_tokens: int | None
    ) -> "VectorSettings":
        """The settings for a model; raises a ConfigError if the model does not support the pooling."""
        return cls(checked_pooling(reader, pooling), normalise, invalid, batch_tokens or BATCH_TOKENS)


class Output(NamedTuple):
    """Where to write the results, and whether to write them as soon as their lines arrive."""

    path: Path | None
    jsonl: bool
    made_from: str | None
    live: bool


class LineVector(NamedTuple):
    """A line with its vector, or with a vector of zeros and the reason why no vector could be computed."""

    line: Line
    values: Array  # [W]
    problem: str | None = None


def write_vectors(reader: VectorReader, path: Path | None, settings: VectorSettings, *, output: Output) -> None:
    """Writes the vector of every line: to a NumPy file, or as JSON lines."""
    is_numpy = output.path is not None and not output.jsonl
    out: ResumableFile | DirectOutput
    if is_numpy:
        assert output.path is not None
        out = NumpyFile(output.path, width=reader.width, made_from=output.made_from)
    else:
        out = sink(output.path, made_from=output.made_from)
    with out:
        warnings = _resumed_warnings(out, path)
        for window in _line_vectors(reader, path, settings, live=output.live, out=out, warnings=warnings):
            for line, values, problem in window:
                out.write(values.tobytes() if is_numpy else _vector_json(line, values, problem))
    _finish(warnings)


def write_nearest(
    reader: VectorReader,
    path: Path | None,
    settings: VectorSettings,
    *,
    output: Output,
    corpus: Path,
    corpus_reader: VectorReader,
    top: int,
) -> None:
    """Writes the nearest sentences of the file `corpus` for every line, by cosine."""
    settings = settings._replace(normalise=True)
    with tempfile.TemporaryDirectory(prefix="calque-embed-") as folder:
        searched = VectorCorpus(Path(folder), width=reader.width)
        searched.fill(_corpus_vectors(corpus_reader, corpus, settings))
        if not len(searched):
            raise DataError(f"{corpus}: no line contains words, so there is nothing to search")
        with sink(output.path, made_from=output.made_from) as out:
            warnings = _resumed_warnings(out, path)
            for window in _line_vectors(reader, path, settings, live=output.live, out=out, warnings=warnings):
                found = nearest(np.stack([row.values for row in window]), searched.vectors, top=top)
                for row, indices, scores in zip(window, found.indices.tolist(), found.scores.tolist(), strict=True):
                    neighbours = [] if row.problem else list(zip(indices, scores, strict=True))
                    out.write(_neighbours(row, neighbours, corpus=searched, jsonl=output.jsonl))
    _finish(warnings)


def unit_vectors(
    reader: VectorReader, texts: Sequence[str], *, pooling: PoolingName, advance: Callable[[int], None]
) -> Array:
    """The normalised vectors [N,W] of texts; values that are not finite are replaced by 0."""
    vectors = np.zeros((len(texts), reader.width), dtype=np.float32)
    for row, vector in enumerate(stream_vectors(reader, texts, pooling=pooling, normalise=True)):
        vectors[row] = np.nan_to_num(vector.values, posinf=0, neginf=0)
        advance(1)
    return vectors


def _corpus_vectors(reader: VectorReader, path: Path, settings: VectorSettings) -> Iterator[tuple[int, str, Array]]:
    """Yields the number, text and vector of every line that has a usable vector; warns about the other lines."""
    warnings = LineWarnings(str(path))
    for window in _line_vectors(reader, path, settings, live=False, out=None, warnings=warnings):
        yield from ((row.line.number, row.line.text, row.values) for row in window if row.problem is None)
    warnings.summarise()


def _line_vectors(
    reader: VectorReader,
    path: Path | None,
    settings: VectorSettings,
    *,
    live: bool,
    out: ResumableFile | DirectOutput | None,
    warnings: LineWarnings,
) -> Iterator[list[LineVector]]:
    """Yields the lines with their vectors, one list per window of lines; after each, records progress in `out`."""
    lines = input_lines(path, invalid=settings.invalid)
    with counting("reading sentences" if out is None else "embedding", total=None) as advance:
        for window in windows(lines, live=live, skip=0 if out is None else out.lines):
            yield _embed_window(reader, window, settings, warnings=warnings)
            advance(len(window))
            if out is not None:
                out.flush()
                out.checkpoint(window[-1].number, errors=warnings.errors)


def _embed_window(
    reader: VectorReader, lines: Sequence[Line], settings: VectorSettings, *, warnings: LineWarnings
) -> list[LineVector]:
    vectors = stream_vectors(
        reader,
        [line.text for line in lines],
        pooling=settings.pooling,
        normalise=settings.normalise,
        batch_tokens=settings.batch_tokens,
    )
    rows = []
    for line, vector in zip(lines, vectors, strict=True):
        problem = NO_WORDS if vector.empty else None if np.isfinite(vector.values).all() else NOT_FINITE
        if line.invalid is not None:
            warnings.warn(f"byte number {line.invalid} of the line is not UTF-8", line=line.number, kind="not UTF-8")
        if vector.cut or line.cut:
            read = f"{reader.limit:,} words or pieces" if vector.cut else f"{LINE_LIMIT:,} bytes"
            warnings.warn(f"too long; only its beginning ({read}) was read", line=line.number)
        if problem is not None:
            warnings.warn(problem, line=line.number)
        warnings.errors += problem == NOT_FINITE
        values = vector.values if problem is None else np.zeros_like(vector.values)
        rows.append(LineVector(line, values, problem))
    return rows


def _vector_json(line: Line, values: Array, problem: str | None) -> bytes:
    error = {} if problem is None else {"problem": problem}
    return json_line({"line": line.number, "text": line.text, "vector": [float(f"{x:.9g}") for x in values], **error})


def _neighbours(
    row: LineVector, neighbours: Sequence[tuple[int, float]], *, corpus: VectorCorpus, jsonl: bool
) -> bytes:
    """The output for one query line: a tab-separated line per neighbour or, with `jsonl`, one JSON line with all."""
    found = [(corpus.numbers[index], score, corpus.text(index)) for index, score in neighbours]
    if jsonl:
        listed = [{"line": number, "score": round(score, 6), "text": text} for number, score, text in found]
        problem = {} if row.problem is None else {"problem": row.problem}
        return json_line({"line": row.line.number, "text": row.line.text, "nearest": listed, **problem})
    lines = (
        f"{row.line.number}\t{rank}\t{score:.4f}\t{number}\t{one_field(text)}\n"
        for rank, (number, score, text) in enumerate(found, start=1)
    )
    return "".join(lines).encode()


def _resumed_warnings(out: ResumableFile | DirectOutput, path: Path | None) -> LineWarnings:
    if out.lines:
        typer.echo(f"{out.path}: resuming after line {out.lines:,}", err=True)
    warnings = LineWarnings(input_name(path))
    warnings.errors = out.errors
    return warnings


def _finish(warnings: LineWarnings) -> None:
    """Summarises the warnings; raises an error if the vectors of some lines are not finite."""
    warnings.summarise()
    if warnings.errors:
        lines = "1 line" if warnings.errors == 1 else f"{warnings.errors:,} lines"
        raise RequestError(f"{warnings.name}: the vectors of {lines} are not finite; zeros were written instead")
