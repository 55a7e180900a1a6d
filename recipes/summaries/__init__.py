"""Summaries: from the body of an e-mail to its subject line (AESLC)."""
