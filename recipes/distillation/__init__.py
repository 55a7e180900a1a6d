"""Sequence-level distillation (Kim and Rush 2016): selecting translations, measuring speed, reporting."""
