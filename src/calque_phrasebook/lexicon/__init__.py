"""The lexicon: the classes of words, and a table of words per part of speech. May use `calque.errors` only."""
