"""Calque beside other toolkits: `install` makes their environments, the other files run inside them or drive them.

Files whose first line says that a peer's own Python runs them import nothing of Calque, which is not installed there.
"""
