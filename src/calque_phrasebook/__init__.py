"""The built-in corpus: a synchronous grammar of Chinese, English and German that realises randomly drawn meanings.

Every sentence has exactly one translation, word alignments follow from the derivation, and the test set contains
combinations of words that do not occur in training. May use `calque.errors`, and nothing else of calque.
"""

from calque_phrasebook.alignment import Link
from calque_phrasebook.baselines import baselines
from calque_phrasebook.files import check_options, write_phrasebook
from calque_phrasebook.split import Pair, Phrasebook, phrasebook
from calque_phrasebook.surface import Language

__all__ = ["Language", "Link", "Pair", "Phrasebook", "baselines", "check_options", "phrasebook", "write_phrasebook"]
