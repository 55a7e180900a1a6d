"""Pronunciation: from the spelling of English words to their phonemes (CMU pronouncing dictionary)."""
