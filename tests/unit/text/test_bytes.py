import pytest

from calque.errors import TextError
from calque.text import PIECES, BytesTokenizer, Vocabulary

BYTES = BytesTokenizer()


def test_pieces_are_utf8_bytes():
    assert BYTES.tokenise("Aé") == ["<0x41>", "<0xC3>", "<0xA9>"]
    assert BYTES.encode("Aé") == [0x41 + 4, 0xC3 + 4, 0xA9 + 4] == BYTES.vocabulary.ids(BYTES.tokenise("Aé"))
    assert len(BYTES.vocabulary) == 260


def test_invalid_utf8_becomes_the_replacement_character():
    assert BYTES.detokenise(["<0x41>", "<0xC3>", "<0x42>"]) == "A\ufffdB"


def test_nothing_is_unknown():
    assert not BYTES.unknown_characters("any \0 é 👩")


def test_another_vocabulary_is_rejected():
    with pytest.raises(TextError, match="bytes"):
        BytesTokenizer.from_bytes(Vocabulary(PIECES).to_bytes())
