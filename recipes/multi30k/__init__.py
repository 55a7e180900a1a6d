"""Multi30k: configs, and the report of the search for better ones."""
