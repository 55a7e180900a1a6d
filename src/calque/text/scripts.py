"""Word boundaries in scripts with and without spaces."""


def is_unspaced(character: str) -> bool:
    """Whether the character's script is written without spaces: Thai and Lao, kana, Chinese characters."""
    return "\u0e00" <= character <= "\u0eff" or "\u3040" <= character <= "\u30ff" or "\u3400" <= character <= "\u9fff"


def as_bytes(text: str | bytes) -> bytes:
    """The text in UTF-8."""
    return text.encode() if isinstance(text, str) else text


def starts_outside_word(surface: bytes) -> bool:
    """Whether appending these bytes (UTF-8) ends the last word of a text: they do not start with a letter or digit."""
    text = surface.decode(errors="ignore")
    return bool(text) and surface.startswith(text[0].encode()) and not text[0].isalnum()


def ends_outside_word(surface: bytes) -> bool:
    """Whether a text (UTF-8) does not end with a letter or digit, so that whatever follows it starts a new word."""
    text = surface.decode(errors="ignore")
    return bool(text) and surface.endswith(text[-1].encode()) and not text[-1].isalnum()
