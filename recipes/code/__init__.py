"""Code: from an English description to a line of Python (Django)."""
