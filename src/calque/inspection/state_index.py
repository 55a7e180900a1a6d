"""The index of training states: a folder with the encoder's and the decoder's states of a sample of training pairs.

    RUN/states/manifest.json      sizes, digests, and the fingerprint of the model
               columns/           a memory-mapped store: `encoder` and `decoder` states, `sentences` as JSON
               projections.json   the two principal components of either side

The folder is written atomically, and rejected if it is damaged or belongs to another model.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from calque.data.corpora import DataConfig, paths
from calque.data.store import ColumnKind, Rows, Store, StoreWriter, open_store
from calque.engine.engine import lock_of
from calque.engine.postprocessing import pieces_of
from calque.engine.translator import Translator
from calque.errors import ConfigError, DataError, FolderError, shell_path
from calque.folders import Manifest, verify_folder, write_folder
from calque.inspection.model_states import PairIds, PairStates, model_fingerprint, read_many
from calque.inspection.projection import Projection, fit_projection, from_values, to_values
from calque.inspection.training_pairs import Progress, TrainingPair, draw_pairs, given_data, is_run, run_data
from calque.parsing import parse_json
from calque.text import EOS, PIECES, NumberedText

Side = Literal["encoder", "decoder"]
SIDES: tuple[Side, Side] = ("encoder", "decoder")
Precision = Literal["float32", "float16"]
DTYPES: dict[Precision, str] = {"float32": "<f4", "float16": "<f2"}

KIND, FORMAT = "states", 1
FOLDER, COLUMNS, PROJECTIONS, SENTENCES = "states", "columns", "projections.json", "sentences"
STATES = 100_000
"""The default maximum number of states of either side in an index."""

_TOGETHER = 512  # texts tokenised together
_AROUND = re.compile(r"^[\W_]+|[\W_]+$")


class TrainingSentence(NamedTuple):
    """A training pair whose states are in the index."""

    corpus: int  # from 0
    line: int  # from 1
    source: str
    target: str
    source_pieces: list[str]  # with the end mark
    target_pieces: list[str]

    def pieces(self, side: Side) -> list[str]:
        """The pieces of one side, one per state: source pieces for the encoder, target pieces for the decoder."""
        return self.source_pieces if side == "encoder" else self.target_pieces


class IndexSize(NamedTuple):
    """The size of an index: its sentence pairs, states and bytes, and how much of the training data it covers."""

    pairs: int
    encoder: int  # states
    decoder: int
    bytes: int  # of the states
    total: int | None = None  # pairs that training had, too long ones included; None if an older index does not say

    def __str__(self) -> str:
        return (
            f"{self.encoder:,} encoder states and {self.decoder:,} decoder states of {self.coverage}, "
            f"{self.bytes / 1e6:,.1f} MB"
        )

    @property
    def coverage(self) -> str:
        """The number of training pairs in the index and their share of all training pairs, as text."""
        if self.total is None:
            return f"{self.pairs:,} training pairs"
        return f"{self.pairs:,} of {self.total:,} training pairs ({self.pairs / max(1, self.total):.1%})"


@dataclass(frozen=True)
class StateIndex:
    """An index of the encoder and decoder states of training pairs, memory-mapped from a folder on disk."""

    folder: Path
    store: Store
    projections: dict[Side, Projection]
    manifest: Manifest

    @property
    def id(self) -> str:
        """A digest of all files: indices with the same id have the same states and can share the axes of a picture."""
        files = json.dumps({name: entry.sha256 for name, entry in sorted(self.manifest.files.items())})
        return hashlib.sha256(files.encode()).hexdigest()[:16]

    @property
    def size(self) -> IndexSize:
        """The number of pairs, states and bytes of the index."""
        encoder, decoder = (self.states(side) for side in SIDES)
        total = self.manifest.details.get("training_pairs")
        size = encoder.nbytes + decoder.nbytes
        return IndexSize(len(self.store), len(encoder), len(decoder), size, total if isinstance(total, int) else None)

    @cached_property
    def words(self) -> dict[Side, Counter[str]]:
        """How often each word occurs in the pairs of the index: in sources (encoder) and in targets (decoder)."""
        counts: dict[Side, Counter[str]] = {side: Counter() for side in SIDES}
        for number in range(len(self.store)):
            sentence = self.sentence(number)
            counts["encoder"].update(words_of_text(sentence.source))
            counts["decoder"].update(words_of_text(sentence.target))
        return counts

    def states(self, side: Side) -> NDArray[Any]:
        """[N,D], all states of a side, memory-mapped."""
        return self.store[side].values

    def place(self, side: Side, state: int) -> tuple[int, int]:
        """The number of the training pair that a state belongs to, and the position of the state's piece, from 0."""
        offsets = self.store[side].offsets
        sentence = int(np.searchsorted(offsets, state, side="right")) - 1
        return sentence, state - int(offsets[sentence])

    def sentence(self, number: int) -> TrainingSentence:
        """The training pair with this number in the index."""
        return TrainingSentence(**parse_json(bytes(self.store[SENTENCES].row(number))))


def words_of_text(text: str) -> list[str]:
    """The words of a text, split at white space and stripped of surrounding punctuation."""
    return [word for part in text.split() if (word := _AROUND.sub("", part))]


class _Chosen(NamedTuple):
    """A training pair chosen for the index, as text and as ids."""

    sentence: TrainingSentence
    ids: PairIds


def build_run_index(
    translator: Translator,
    run: Path,
    *,
    folder: Path | None = None,
    files: tuple[Path, Path] | None = None,
    states: int = STATES,
    precision: Precision = "float32",
    progress: Progress | None = None,
    report: Callable[[str], None] | None = None,
) -> StateIndex:
    """Builds the index of a run in RUN/states, from its training corpora or from `files` (source and target).

    `report` is called with the index's size before any state is computed, and again once the index is written.
    """
    destination = folder or index_folder(run)
    if files is None:
        data, seed = run_data(run)
    elif is_run(run):
        trained_on, seed = run_data(run)
        data = given_data(*files, like=trained_on)
    else:
        data, seed = given_data(*files), 1
    return build_index(
        translator,
        destination,
        data=data,
        seed=seed,
        states=states,
        precision=precision,
        progress=progress,
        report=report,
    )


def build_index(
    translator: Translator,
    folder: Path,
    *,
    data: DataConfig,
    seed: int,
    states: int = STATES,
    precision: Precision = "float32",
    progress: Progress | None = None,
    report: Callable[[str], None] | None = None,
) -> StateIndex:
    """Writes an index of the states of randomly drawn training pairs; an earlier index in `folder` is replaced.

    Every pair is equally likely to be drawn; pairs are added as long as neither side has more than `states` states. The
    same model, data and seed give the same bytes on the same machine.
    """
    if states < 2:
        raise ConfigError(f"an index of {states} states is too small; it needs at least 2, for a piece and an end mark")
    show, tell = progress or _quiet, report or _silent
    drawn = draw_pairs(data, seed=seed, most=max(states // 2, 1), progress=show)
    chosen = _choose(translator, drawn.pairs, states=states, longest=data.maximum_length)
    if not chosen:
        raise DataError(f"no training pair is short enough for an index of {states:,} states; choose a larger number")
    size = _expected_size(translator, chosen, precision=precision)._replace(total=drawn.total)
    tell(f"{folder}: {size} to write")

    def fill(unfinished: Path) -> dict[str, Any]:
        _write_columns(unfinished / COLUMNS, translator, chosen, precision=precision, progress=show)
        projections = _fit(unfinished / COLUMNS, progress=show)
        (unfinished / PROJECTIONS).write_text(json.dumps(projections) + "\n", encoding="ascii")
        return {
            "fingerprint": model_fingerprint(translator),
            "corpora": [[str(path) for path in paths(corpus).values()] for corpus in data.train],
            "seed": seed,
            "requested": states,
            "training_pairs": drawn.total,
        }

    write_folder(folder, kind=KIND, format=FORMAT, fill=fill, replace=True)
    index = open_index(folder, translator)
    tell(f"{folder}: {index.size} written")
    return index


def open_index(folder: Path, translator: Translator, *, build: str = "calque inspect RUN --index") -> StateIndex:
    """The index in a folder, after checking that it is intact and holds states of this model.

    `build` is the command that builds the index, for error messages.
    """
    if not folder.exists():
        raise FolderError(f"{folder} does not exist: there is no index of training states; build it first: {build}")
    try:
        manifest = verify_folder(folder, kind=KIND, formats=[FORMAT])
    except FolderError as error:
        raise FolderError(f"{error}\nRemove the index and build it again: {build}") from None
    recorded, now = manifest.details.get("fingerprint"), model_fingerprint(translator)
    if recorded != now:
        before = recorded if isinstance(recorded, dict) else {}
        changed = [name for name in now if before.get(name) != now[name]]
        raise FolderError(
            f"{folder} contains the states of another model, or of this one in another precision "
            f"({' and '.join(changed) or 'fingerprint'} differ); build the index again: {build}"
        )
    try:
        return _open(folder, manifest)
    except (ValueError, TypeError, KeyError, IndexError, OSError) as error:
        raise FolderError(f"{folder} is damaged: {error}\nRemove the index and build it again: {build}") from None


def open_run_index(translator: Translator, run: Path, *, folder: Path | None = None) -> StateIndex:
    """The index of a run, in RUN/states unless another folder is given."""
    return open_index(folder or index_folder(run), translator, build=f"calque inspect {shell_path(run)} --index")


def index_folder(run: Path) -> Path:
    """The default folder of a run's index of states, RUN/states; raises an error for a model folder."""
    if not is_run(run):
        raise FolderError(
            f"{run} is not a run folder, and only a run can hold an index of states; use the run that the model was "
            "trained in or, in Python, pass another folder"
        )
    return run / FOLDER


def _open(folder: Path, manifest: Manifest) -> StateIndex:
    store = open_store(folder / COLUMNS, spans=())
    values = parse_json((folder / PROJECTIONS).read_bytes())
    projections: dict[Side, Projection] = {
        side: from_values(values[side], width=store[side].values.shape[1]) for side in SIDES
    }
    lengths = {side: int(store[side].lengths.sum(dtype=np.int64)) for side in SIDES}
    if any(lengths[side] != len(store[side].values) for side in SIDES):
        raise ValueError("the sentence lengths in the index do not add up to its number of states")
    index = StateIndex(folder, store, projections, manifest)
    index.sentence(0)
    return index


def _choose(translator: Translator, drawn: Sequence[TrainingPair], *, states: int, longest: int) -> list[_Chosen]:
    """The first of the `drawn` pairs that have, together, at most `states` encoder and `states` decoder states.

    Pairs with more than `longest` pieces are left out. The chosen pairs are sorted by corpus and line.
    """
    chosen: list[_Chosen] = []
    encoder = decoder = 0
    for start in range(0, len(drawn), _TOGETHER):
        for pair in _encode(translator, drawn[start : start + _TOGETHER], longest=longest):
            encoder += len(pair.ids.source) + 1
            decoder += len(pair.ids.target)
            if max(encoder, decoder) > states:
                return _in_order(chosen)
            chosen.append(pair)
    return _in_order(chosen)


def _in_order(chosen: Sequence[_Chosen]) -> list[_Chosen]:
    return sorted(chosen, key=lambda pair: (pair.sentence.corpus, pair.sentence.line))


def _encode(translator: Translator, pairs: Sequence[TrainingPair], *, longest: int) -> list[_Chosen]:
    """The pairs as ids, without those that training leaves out: more than `longest` pieces on a side, or none."""
    models, tokenizers = translator.engine().models, translator.tokenizers
    sources = models.encode_sources([pair.source for pair in pairs], limit=longest)
    numbered: list[NumberedText] = [source.numbered for source in sources]
    targets = models.encode_targets([pair.target for pair in pairs], numbered)
    chosen = []
    for pair, source, target in zip(pairs, sources, targets, strict=True):
        ids, unknown = PairIds(source.numbered.ids, [*target.numbered.ids, EOS]), source.numbered.unknown
        is_cut = source.cut or target.cut or len(target.numbered.ids) > longest
        if is_cut or not source.numbered.ids or not target.numbered.ids:
            continue
        source_pieces = [*pieces_of(tokenizers.source, ids.source, unknown), PIECES[EOS]]
        target_pieces = [*pieces_of(tokenizers.target, target.numbered.ids, unknown), PIECES[EOS]]
        chosen.append(_Chosen(TrainingSentence(*pair, source_pieces, target_pieces), ids))
    return chosen


def _expected_size(translator: Translator, chosen: Sequence[_Chosen], *, precision: Precision) -> IndexSize:
    encoder = sum(len(pair.ids.source) + 1 for pair in chosen)
    decoder = sum(len(pair.ids.target) for pair in chosen)
    values = encoder * translator.model.encoder.shape.width + decoder * translator.model.decoder.width
    return IndexSize(len(chosen), encoder, decoder, values * np.dtype(DTYPES[precision]).itemsize)


def _write_columns(
    folder: Path, translator: Translator, chosen: Sequence[_Chosen], *, precision: Precision, progress: Progress
) -> None:
    widths = {"encoder": translator.model.encoder.shape.width, "decoder": translator.model.decoder.width}
    kinds = {side: ColumnKind(DTYPES[precision], (width,)) for side, width in widths.items()}
    done = 0
    with (
        lock_of(translator.model),
        StoreWriter(folder, columns={**kinds, SENTENCES: ColumnKind("<u1")}, longest=1 << 31) as writer,
    ):
        for window in read_many(translator.model, [pair.ids for pair in chosen]):
            sentences = [pair.sentence for pair in chosen[done : done + len(window)]]
            columns: dict[str, Rows] = {side: _rows(window, side, precision=precision) for side in SIDES}
            writer.append({**columns, SENTENCES: _sentence_rows(sentences)})
            done += len(window)
            progress("computing states", done, len(chosen))


def _rows(window: Sequence[PairStates], side: Side, *, precision: Precision) -> Rows:
    parts: list[NDArray[Any]] = [getattr(states, side).numpy() for states in window]
    values = np.concatenate(parts)
    if not np.isfinite(values).all():
        raise DataError(f"the {side}'s states are not all finite numbers: the training of this model has diverged")
    if precision == "float16" and np.abs(values).max() > np.finfo(np.float16).max:
        raise ConfigError(f"the {side}'s states are too large for float16; build the index in float32")
    return Rows(values, np.array([len(part) for part in parts], dtype=np.uint32))


def _sentence_rows(sentences: Sequence[TrainingSentence]) -> Rows:
    encoded = [json.dumps(sentence._asdict(), ensure_ascii=False).encode() for sentence in sentences]
    lengths = np.array([len(line) for line in encoded], dtype=np.uint32)
    return Rows(np.frombuffer(b"".join(encoded), dtype=np.uint8), lengths)


def _fit(folder: Path, *, progress: Progress) -> dict[str, Any]:
    store = open_store(folder, spans=())
    projections: dict[str, Any] = {}
    for done, side in enumerate(SIDES):
        progress("fitting projections", done, len(SIDES))
        projections[side] = to_values(fit_projection(store[side].values))
    progress("fitting projections", len(SIDES), len(SIDES))
    return projections


def _quiet(stage: str, done: int, total: int) -> None:
    """A progress callback that shows nothing."""


def _silent(message: str) -> None:
    """A report callback that prints nothing."""
