"""The words: their kinds, and the tables of each part of speech. Uses no other package."""
