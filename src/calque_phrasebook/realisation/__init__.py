"""One realiser per language: from a meaning to its words. May use the lexicon and meanings."""
