"""`calque quickstart`."""


def quickstart() -> None:
    """x"""
