"""Semantic parsing: questions to SQL that is executed (geography), and commands to actions (SCAN)."""
