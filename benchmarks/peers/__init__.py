"""Calque compared with other toolkits: `install` creates their environments; the other files run in them or call them.

Files whose first line says that a peer's own Python runs them import nothing of Calque, which is not installed there.
"""
