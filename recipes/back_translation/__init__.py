"""Back-translation: translation with half of the pairs and monolingual text, and with no pairs at all."""
