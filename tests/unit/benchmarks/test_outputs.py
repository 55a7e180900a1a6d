"""Translations compared byte by byte."""

from benchmarks.outputs import comparison_of, differing_lines, remarks_on


def test_lines_that_differ_are_counted_from_one() -> None:
    assert differing_lines(b"a\nb\nc\n", b"a\nB\nc\n") == [2]
    assert differing_lines(b"a\nb\n", b"a\nb\n") == []
    assert differing_lines(b"a\nb\nc\n", b"a\nb\n") == [3, 4]
    assert differing_lines(b"a\n", b"a") == [2]  # a last line without its end


def test_a_contender_is_compared_with_the_first() -> None:
    outputs = {"here": [b"a\nb\n"] * 2, "same": [b"a\nb\n"] * 2, "other": [b"a\nx\n"] * 2}
    shown = [comparison_of(outputs, name, base="here") for name in outputs]
    assert shown == ["–", "same bytes", "1 of 2 lines differ"]
    assert remarks_on(outputs, base="here", beam=5) == ["Beam 5: line 2 is 'b' by here and 'x' by other."]


def test_a_contender_that_differs_from_itself_is_reported() -> None:
    outputs = {"here": [b"a\n"] * 3, "other": [b"a\n", b"a\n", b"b\n"]}
    assert remarks_on(outputs, base="here", beam=1) == [
        "Beam 1: other wrote different output in round 3 than in its first."
    ]
