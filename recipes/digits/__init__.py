"""Speech recognition of spoken digits, and a generator of spoken tones for trials without a corpus."""
