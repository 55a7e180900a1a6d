"""Models to try every law on, one file a family; tests/laws/models.py joins them to one list."""
