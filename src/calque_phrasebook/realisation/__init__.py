"""One realiser per language: from a meaning to its words. The lexicon and meanings enter."""
