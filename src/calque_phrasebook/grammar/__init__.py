"""The rules that draw a meaning, from noun phrases up to whole sentences. May use the lexicon and meanings."""
