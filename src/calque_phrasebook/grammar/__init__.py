"""The rules that draw a meaning, from noun phrases up to whole sentences. The lexicon and meanings enter."""
