"""Training objectives compared on Multi30k."""
