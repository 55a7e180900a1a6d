"""Taggers on UD English EWT and CoNLL-2000."""
