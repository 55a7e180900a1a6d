"""The built-in corpus: a synchronous grammar of Chinese, English and German, from meanings drawn at random.

Every sentence has exactly one translation, and the test set holds combinations of words that training never shows.
Nothing enters but `calque.errors`.
"""

from calque_phrasebook.baselines import baselines
from calque_phrasebook.split import Pair, Phrasebook, phrasebook
from calque_phrasebook.surface import Language

__all__ = ["Language", "Pair", "Phrasebook", "baselines", "phrasebook"]
