"""Recommenders on Amazon Beauty and on generated histories."""
