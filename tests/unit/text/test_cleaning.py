from calque.text import strip_bom, strip_return


def test_one_trailing_carriage_return_is_stripped():
    assert strip_return("a\r") == ("a", True)
    assert strip_return("a\r\r") == ("a\r", True)
    assert strip_return("\ra") == ("\ra", False)
    assert strip_return("\r") == ("", True)
    assert strip_return("") == ("", False)


def test_one_leading_byte_order_mark_is_stripped():
    assert strip_bom("\ufeffa") == ("a", True)
    assert strip_bom("\ufeff\ufeff") == ("\ufeff", True)
    assert strip_bom("a\ufeff") == ("a\ufeff", False)
    assert strip_bom("") == ("", False)
