"""Faults, injected on purpose: kill -9 and a full disk at every file-system call, damage, signals, changed data.

Every promise of docs/reliability.md has its test here. What is faulted is always a real `calque` command in a process
of its own; the run it left is then resumed and compared, byte by byte, with an undisturbed run.
"""
