"""The built-in corpus: a synchronous grammar of Chinese, English and German, from meanings drawn at random.

Every sentence has exactly one translation, word alignments come from the derivation, and the test set holds
combinations of words that training never shows. Of calque nothing enters but `calque.errors`.
"""

from calque_phrasebook.alignment import Link
from calque_phrasebook.baselines import baselines
from calque_phrasebook.files import check_options, write_phrasebook
from calque_phrasebook.split import Pair, Phrasebook, phrasebook
from calque_phrasebook.surface import Language

__all__ = ["Language", "Link", "Pair", "Phrasebook", "baselines", "check_options", "phrasebook", "write_phrasebook"]
