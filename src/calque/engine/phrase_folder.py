"""The model folder of a statistical translation model: its tables are the weights."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from calque.config import Config
from calque.data.store import Array
from calque.engine.model_files import WEIGHTS, refuse_other_pieces, write_model_folder, write_parts
from calque.engine.phrase_translator import PhraseTranslator
from calque.errors import FolderError
from calque.folders.weights import read_weights
from calque.models.phrase_based import PhraseBasedConfig, PhraseTables
from calque.statistics.ngram_tables import NgramTables
from calque.statistics.phrase_estimation import Estimated, SpecialWords, phrase_model
from calque.statistics.phrase_table import PHRASE_SCORES, WORD_SCORES, PhraseTable
from calque.statistics.phrase_trie import PhraseTrie
from calque.tasks.translation import TranslationConfig
from calque.text import BOS, EOS, PAD, UNK, Tokenizers, load_tokenizers, save_tokenizers

SPECIAL = SpecialWords(PAD, BOS, EOS, UNK)
PREFIX = "tables."  # of the names of tables in a file of weights


class PhraseFolder(Config):
    """The config.toml of a statistical translation model's folder."""

    task: TranslationConfig = TranslationConfig()
    vocabularies: dict[str, int]
    joint: bool
    model: PhraseBasedConfig
    tuned: dict[str, float]
    """The weights of the log-linear model."""


def tables_of(estimated: Estimated, *, weights: Mapping[str, float], source_forms: Array | None) -> PhraseTables:
    """The tensors, by name, in which a model folder stores the tables of an estimated phrase-based model."""
    table, language = estimated
    arrays: dict[str, Array] = {
        "sources": table.sources.keys.astype(np.int64),
        "targets": table.targets.keys.astype(np.int64),
        "offsets": table.offsets.astype(np.int64),
        "translations": table.translations.astype(np.int32),
        "scores": table.scores.astype(np.float32),
        "lengths": table.lengths.astype(np.int32),
        "estimates": table.estimates.astype(np.float32),
    }
    if table.orientations is not None:
        arrays["orientations"] = table.orientations.astype(np.float32)
    if source_forms is not None:
        arrays["source_forms"] = source_forms.astype(np.int32)
    if language is not None:
        for level in range(1, language.order + 1):
            if level > 1:
                arrays[f"language_keys_{level}"] = language.keys[level - 1].astype(np.int64)
            arrays[f"language_log10_{level}"] = language.log_probs[level - 1].astype(np.float32)
            if level < language.order:
                arrays[f"language_backoff_{level}"] = language.backoffs[level - 1].astype(np.float32)
    return PhraseTables({name: torch.from_numpy(array) for name, array in arrays.items()}, weights=weights)


def estimated_of(tables: PhraseTables, *, config: PhraseBasedConfig, sizes: tuple[int, int]) -> Estimated:
    """The estimated phrase-based model that a model folder's tensors hold: the inverse of `tables_of`."""

    def array(name: str) -> Array:
        return tables[name].numpy()

    table = PhraseTable(
        PHRASE_SCORES if config.units == "phrases" else WORD_SCORES,
        PhraseTrie(array("sources"), sizes[0]),
        PhraseTrie(array("targets"), sizes[1]),
        array("offsets"),
        array("translations"),
        array("scores"),
        array("lengths"),
        array("estimates"),
        array("orientations") if "orientations" in tables else None,
        config.longest if config.units == "phrases" else 1,
    )
    if not config.language_order:
        return Estimated(table, None)
    orders = range(1, config.language_order + 1)
    return Estimated(
        table,
        NgramTables(
            sizes[1],
            [np.arange(sizes[1]), *(array(f"language_keys_{level}") for level in orders[1:])],
            [array(f"language_log10_{level}").astype(np.float64) for level in orders],
            [array(f"language_backoff_{level}").astype(np.float64) for level in orders[:-1]],
        ),
    )


def phrase_translator(tables: PhraseTables, tokenizers: Tokenizers, *, config: PhraseBasedConfig) -> PhraseTranslator:
    """The translator with these tables."""
    sizes = len(tokenizers.source.vocabulary), len(tokenizers.target.vocabulary)
    phrases = phrase_model(estimated_of(tables, config=config, sizes=sizes), weights=tables.weights, special=SPECIAL)
    return PhraseTranslator(tables, phrases, tokenizers, config=config)


def save_phrase_translator(
    path: Path, translator: PhraseTranslator, *, card: str, artefacts: Mapping[str, bytes] | None = None
) -> None:
    """Writes the folder of a statistical translation model atomically."""
    tokenizers = translator.tokenizers
    folder_config = PhraseFolder(
        vocabularies={name: len(tokenizer.vocabulary) for name, tokenizer in tokenizers._asdict().items()},
        joint=tokenizers.joint,
        model=translator.config,
        tuned=dict(translator.phrases.weights),
    )

    def fill(folder: Path) -> None:
        save_tokenizers(tokenizers, folder / "tokenizer")
        write_parts(folder, folder_config, model=translator.model, card=card, artefacts=artefacts or {})

    write_model_folder(path, fill=fill)


def read_phrase_translator(folder: Path, folder_config: PhraseFolder) -> PhraseTranslator:
    """The translator in a folder; tables that do not fit together raise a FolderError."""
    tokenizers = load_tokenizers(folder / "tokenizer")
    sizes = {name: len(tokenizer.vocabulary) for name, tokenizer in tokenizers._asdict().items()}
    refuse_other_pieces(folder, sizes, folder_config.vocabularies, agree=tokenizers.joint == folder_config.joint)
    weights = {name.removeprefix(PREFIX): table for name, table in read_weights(folder / WEIGHTS).items()}
    problems = _problems(weights, config=folder_config.model, sizes=(sizes["source"], sizes["target"]))
    if problems:
        listed = "\n  ".join(problems)
        raise FolderError(f"{folder / WEIGHTS}: the tables do not fit the model:\n  {listed}")
    tables = PhraseTables(weights, weights=folder_config.tuned)
    return phrase_translator(tables, tokenizers, config=folder_config.model)


def _problems(weights: Mapping[str, Tensor], *, config: PhraseBasedConfig, sizes: tuple[int, int]) -> list[str]:
    """The reasons why the `weights` of a phrase-based model do not fit its config and vocabulary sizes, if any."""
    columns = len(PHRASE_SCORES if config.units == "phrases" else WORD_SCORES)
    whole, real = (torch.int64, torch.int32), (torch.float32,)
    expected: dict[str, tuple[tuple[torch.dtype, ...], tuple[int, ...]]] = {
        "sources": (whole, (-1,)),
        "targets": (whole, (-1,)),
        "offsets": (whole, (-1,)),
        "translations": (whole, (-1,)),
        "scores": (real, (-1, columns)),
        "lengths": (whole, (-1,)),
        "estimates": (real, (-1,)),
    }
    if config.units == "phrases" and config.reordering:
        expected["orientations"] = (real, (-1, 6))
    if config.case != "keep":
        expected["source_forms"] = (whole, (sizes[0],))
    for level in range(1, config.language_order + 1):
        if level > 1:
            expected[f"language_keys_{level}"] = (whole, (-1,))
        expected[f"language_log10_{level}"] = (real, (sizes[1] if level == 1 else -1,))
        if level < config.language_order:
            expected[f"language_backoff_{level}"] = (real, (sizes[1] if level == 1 else -1,))
    problems = [f"{name} is missing" for name in expected.keys() - weights.keys()]
    problems += [f"{name} is unknown" for name in weights.keys() - expected.keys()]
    for name, (dtypes, shape) in expected.items():
        table = weights.get(name)
        if table is None:
            continue
        fits = len(table.shape) == len(shape) and all(
            want in (-1, size) for want, size in zip(shape, table.shape, strict=True)
        )
        if not fits or table.dtype not in dtypes:
            problems.append(f"{name} has shape {tuple(table.shape)} and type {table.dtype}")
    if problems:
        return sorted(problems)
    return _faults(weights, config=config, sizes=sizes)


def _faults(weights: Mapping[str, Tensor], *, config: PhraseBasedConfig, sizes: tuple[int, int]) -> list[str]:
    """Describes inconsistencies in the values of a phrase-based model's `weights`, such as indices out of range."""
    problems = []
    nodes = {name: len(weights[name]) + 1 for name in ("sources", "targets")}
    entries = len(weights["translations"])
    for name, size in zip(("sources", "targets"), sizes, strict=True):
        keys = weights[name]
        parents = keys // size
        if len(keys) and not (
            bool((keys[1:] > keys[:-1]).all())
            and bool((parents >= 0).all())
            and bool((parents <= torch.arange(len(keys))).all())
        ):
            problems.append(f"{name}: not a trie")
    offsets = weights["offsets"]
    if len(offsets) != nodes["sources"] + 1 or not (
        int(offsets[0]) == 0 and int(offsets[-1]) == entries and bool((offsets[1:] >= offsets[:-1]).all())
    ):
        problems.append("offsets: expected the index of the first translation of each phrase")
    for name in ("scores", "lengths", "estimates", "orientations"):
        if name in weights and len(weights[name]) != entries:
            problems.append(f"{name} has {len(weights[name])} entries, but there are {entries} translations")
    for name, limit in (("translations", nodes["targets"]), ("source_forms", sizes[0])):
        if name in weights and entries and not bool(((weights[name] >= 0) & (weights[name] < limit)).all()):
            problems.append(f"{name}: an index is out of range")
    rows = sizes[1]
    for level in range(2, config.language_order + 1):
        keys = weights[f"language_keys_{level}"]
        in_order = bool((keys[1:] > keys[:-1]).all())
        if not in_order or (len(keys) and not (int(keys[0]) >= 0 and int(keys[-1]) < rows * sizes[1])):
            problems.append(f"language_keys_{level}: expected sorted n-grams that extend n-grams of order {level - 1}")
        rows = len(keys)
        for kind in ("log10", "backoff"):
            table = weights.get(f"language_{kind}_{level}")
            if table is not None and len(table) != rows:
                problems.append(f"language_{kind}_{level} has {len(table)} entries, but there are {rows} n-grams")
    return problems
