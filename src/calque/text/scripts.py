"""What scripts do with spaces."""


def is_unspaced(character: str) -> bool:
    """Whether words of its script stand without spaces: Thai and Lao, kana, Chinese characters."""
    return "\u0e00" <= character <= "\u0eff" or "\u3040" <= character <= "\u30ff" or "\u3400" <= character <= "\u9fff"


def as_bytes(text: str | bytes) -> bytes:
    """In UTF-8."""
    return text.encode() if isinstance(text, str) else text


def begins_apart(surface: bytes) -> bool:
    """Whether a text that goes on like this, in UTF-8, has ended its last word."""
    text = surface.decode(errors="ignore")
    return bool(text) and surface.startswith(text[0].encode()) and not text[0].isalnum()


def ends_apart(surface: bytes) -> bool:
    """Whether whatever follows a text that ends like this, in UTF-8, begins a word."""
    text = surface.decode(errors="ignore")
    return bool(text) and surface.endswith(text[-1].encode()) and not text[-1].isalnum()
