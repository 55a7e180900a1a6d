"""The words: their kinds, and the tables of each part of speech. Nothing enters."""
