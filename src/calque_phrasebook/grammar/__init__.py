"""The grammar rules that draw random meanings, from noun phrases to sentences. May use the lexicon and meanings."""
