"""`calque shortlist`: builds the lexical shortlist of a translation model and adds it to the model's folder."""

import shutil
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from calque.config import check, read_toml
from calque.data.corpora import DataConfig, FilesConfig, read_blocks
from calque.data.prepare import open_prepared
from calque.data.problems import refuse
from calque.data.rows import parse
from calque.data.store import Store, store_of_pairs
from calque.engine import KIND, Translator
from calque.engine.folder import load_translator
from calque.engine.model_files import FORMATS, write_model_folder
from calque.engine.shortlist import SHORTLIST, shortlist_bytes
from calque.errors import ConfigError, DataError, FolderError
from calque.folders import MANIFEST, verify_folder
from calque.layers.output import FullOutput
from calque.statistics.em import SILENT, Observer
from calque.statistics.shortlist import BEST, FREQUENT, Shortlist, build_shortlist
from calque.statistics.word_alignment import IBM1, AlignmentSettings
from calque.text import load_tokenizers
from calque.training.lock import owner
from calque.training.runs import CONFIG, STORE, section

LINE_LIMIT = 1 << 20  # bytes of a line; longer lines are left out


class Files(NamedTuple):
    """Two text files whose lines are translations of each other."""

    source: Path
    target: Path


def add_shortlist(
    path: Path,
    *,
    files: Files | None = None,
    frequent: int = FREQUENT,
    best: int = BEST,
    settings: AlignmentSettings = IBM1,
    observer: Observer = SILENT,
) -> Shortlist:
    """Builds the shortlist of a run's model, or of a model folder, and writes it to the folder.

    The shortlist is learnt from `files` if they are given, otherwise from the run's prepared training data. It replaces
    any earlier shortlist.
    """
    translator = load_translator(path, device="cpu")
    folder = path / "model" if (path / "model").is_dir() else path
    _refuse_unsuitable(path, translator, frequent=frequent)
    if folder != path and owner(path) is not None:
        raise FolderError(f"{path} is being trained: wait for it or stop it, as training replaces its model")
    tokenizers = translator.tokenizers
    store = _training_data(path, translator) if files is None else _encoded(files, translator)
    shortlist = build_shortlist(
        store,
        source=tokenizers.source.vocabulary,
        target=tokenizers.target.vocabulary,
        frequent=frequent,
        best=best,
        settings=settings,
        observer=observer,
    )

    def fill(new: Path) -> None:
        shutil.copytree(folder, new, dirs_exist_ok=True, ignore=shutil.ignore_patterns(MANIFEST, SHORTLIST))
        (new / SHORTLIST).write_bytes(shortlist_bytes(shortlist, tokenizers))

    format = verify_folder(folder, kind=KIND, formats=FORMATS).format
    write_model_folder(folder, fill=fill, format=format)
    return shortlist


def _refuse_unsuitable(path: Path, translator: Translator, *, frequent: int) -> None:
    pieces = len(translator.tokenizers.target.vocabulary)
    if translator.model.copies:
        raise ConfigError(
            f"the model in {path} copies source words (model.decoder.copies), which cannot be combined with a shortlist"
        )
    if not isinstance(translator.model.output, FullOutput):
        raise ConfigError(
            f"the model in {path} has an adaptive output layer, which is fast without a shortlist and does not support "
            "one"
        )
    if frequent >= pieces:
        raise ConfigError(
            f"the model in {path} has {pieces:,} target pieces, and a shortlist with the {frequent:,} most frequent "
            "ones would contain all of them; lower --frequent, or translate without a shortlist"
        )


def _training_data(run: Path, translator: Translator) -> Store:
    """The training rows of a run's store; raises a FolderError if its tokenizers are not those of the model."""
    files = "name two text files whose lines correspond: --source FILE --target FILE"
    if not (run / CONFIG).is_file() or (run / MANIFEST).exists():
        raise FolderError(f"{run} is not a run folder, so the training data of its model is unknown; {files}")
    data = section(read_toml(run / CONFIG), "data", origin=run / CONFIG)
    given = check(DataConfig, data, origin=f"{run / CONFIG}: data", written=True).store
    folder = given or run / STORE
    if not folder.is_dir():
        raise FolderError(f"{folder}: this folder with the run's prepared training data no longer exists; {files}")
    prepared = open_prepared(folder)
    sides = zip(load_tokenizers(prepared.vocabularies), translator.tokenizers, strict=True)
    if any(stored.to_bytes() != own.to_bytes() for stored, own in sides):
        raise FolderError(f"{folder}: this data was prepared with other tokenizers than the model in {run}; {files}")
    return prepared.train


def _encoded(files: Files, translator: Translator) -> Store:
    """Encodes the sentence pairs of two parallel files as ids; pairs with an empty source or target are left out."""
    pairs: list[tuple[list[int], list[int]]] = []
    tokenizers = translator.tokenizers
    texts = _texts(files)
    while block := list(islice(texts, 10_000)):
        source, target = (
            tokenizer.encode_many(side) for tokenizer, side in zip(tokenizers, zip(*block, strict=True), strict=True)
        )
        pairs += [pair for pair in zip(source, target, strict=True) if all(pair)]
    if not pairs:
        raise DataError(f"{files.source} and {files.target}: no pairs to learn from, as every pair has an empty side")
    return store_of_pairs(pairs)


def _texts(files: Files) -> Iterator[tuple[str, str]]:
    corpus = FilesConfig(source=files.source, target=files.target)
    for block in read_blocks(corpus, limit=LINE_LIMIT):
        parsed = parse(block, corpus=corpus, invalid="fail", limit=LINE_LIMIT)
        refuse([*parsed.malformed, *parsed.invalid])
        yield from ((row.texts[0], row.texts[1]) for row in parsed.rows)
