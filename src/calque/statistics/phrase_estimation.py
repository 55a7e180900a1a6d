"""Estimates a phrase-based model, with untuned weights, from a parallel corpus."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from calque.data.store import Column
from calque.statistics.em import SILENT, Observer
from calque.statistics.kneser_ney import kneser_ney
from calque.statistics.ngram_counts import count_ngrams, lines_of
from calque.statistics.ngram_tables import NgramQueries, NgramTables
from calque.statistics.phrase_extraction import AlignedCorpus, aligned_corpus
from calque.statistics.phrase_model import PhraseModel, with_estimates
from calque.statistics.phrase_table import Discount, PhraseTable, extract_table, word_table
from calque.statistics.symmetrisation import Symmetrisation, symmetrise
from calque.statistics.word_alignment import AlignmentSettings, ModelName, WordAlignments, align_words


class PhraseSettings(NamedTuple):
    """The settings of the estimation of a phrase table and its language model."""

    units: str = "phrases"
    longest: int = 7
    alignment: ModelName = "hmm"
    symmetrisation: Symmetrisation = "grow-diag-final-and"
    discount: Discount = "kneser-ney"
    reordering: bool = True
    translations: int = 50
    language_order: int = 5


class SpecialWords(NamedTuple):
    """The ids of words with a special meaning in both vocabularies."""

    padding: int
    begin: int
    end: int
    unknown: int


class Estimated(NamedTuple):
    """A phrase table, and the n-gram tables of its language model, if it has one."""

    table: PhraseTable
    language: NgramTables | None


def estimate_phrases(
    source: Column,
    target: Column,
    *,
    sizes: tuple[int, int],
    special: SpecialWords,
    settings: PhraseSettings,
    say: Callable[[str], None] = lambda _: None,
    observer: Observer = SILENT,
) -> Estimated:
    """The phrase table (or dictionary of words) and the language model that are estimated from a parallel corpus."""
    alignment = AlignmentSettings(settings.alignment)
    forward = align_words(source, target, settings=alignment, observer=observer)
    backward = align_words(target, source, settings=alignment, observer=observer)
    say(f"word alignment: {forward.pairs:,} sentence pairs, with {settings.alignment.upper()} in both directions")
    if settings.units == "words":
        table = word_table(
            forward.lexicon,
            backward.lexicon,
            sizes=sizes,
            best=settings.translations,
            never=special.unknown,
        )
        say(f"dictionary: {len(table.translations):,} translations of {table.sources.nodes - 1:,} words")
    else:
        corpus = symmetrised_corpus(source, target, forward, backward, method=settings.symmetrisation)
        table = extract_table(
            corpus,
            sizes=sizes,
            maximum=settings.longest,
            discount=settings.discount,
            reordering=settings.reordering,
            limit=settings.translations,
            never=special.unknown,
        )
        sources = int((np.diff(table.offsets) > 0).sum())
        say(f"phrase table: {len(table.translations):,} translations of {sources:,} phrases")
    if not settings.language_order:
        return Estimated(table, None)
    counts = count_ngrams(
        lines_of(target, begin=special.begin, end=special.end),
        order=settings.language_order,
        vocabulary_size=sizes[1],
    )
    tables = kneser_ney(counts, never=(special.padding, special.begin)).tables
    tables = single_precision(tables)
    say(f"language model: {sum(tables.sizes):,} n-grams up to order {tables.order}")
    return Estimated(with_estimates(table, NgramQueries(tables, begin=special.begin)), tables)


def phrase_model(estimated: Estimated, *, weights: Mapping[str, float], special: SpecialWords) -> PhraseModel:
    """The log-linear model that combines the estimated tables with these weights."""
    language = None if estimated.language is None else NgramQueries(estimated.language, begin=special.begin)
    return PhraseModel(estimated.table, language, weights, special.end, special.unknown)


def single_precision(tables: NgramTables) -> NgramTables:
    """The tables in single precision, as they are saved, so that saved and estimated models score exactly the same."""
    log_probs, backoffs = (
        [table.astype(np.float32).astype(np.float64) for table in part] for part in (tables.log_probs, tables.backoffs)
    )
    return tables._replace(log_probs=log_probs, backoffs=backoffs)


def symmetrised_corpus(
    source: Column, target: Column, forward: WordAlignments, backward: WordAlignments, *, method: Symmetrisation
) -> AlignedCorpus:
    """The corpus with the links of both directions, combined by `method`."""
    links = [
        sorted(
            symmetrise(
                set(forward.links(pair)), {(place, other) for other, place in backward.links(pair)}, method=method
            )
        )
        for pair in range(len(source.lengths))
    ]
    return aligned_corpus(source, target, links)
