"""Models to test every law on, one file per family; tests/laws/models.py combines them into one list."""
