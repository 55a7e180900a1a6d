"""Speech recognition of spoken digits, and a generator of tones for trials without a corpus."""
