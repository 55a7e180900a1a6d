"""Translations as text: the same number of lines per input line, however many search found."""

import json
import sys
import unicodedata

import pytest

from calque.commands.rendering import Rendering, TranslatedLine, render
from calque.data.lines import Line
from calque.engine import Candidate, Translation
from calque.errors import ConfigError, DataError, TextError


def answered(*texts: str) -> TranslatedLine:
    candidates = [Candidate(text, -1.0, -1.0, cut=False) for text in texts]
    return TranslatedLine(Line("a", 7, cut=False, invalid=None), "a", Translation(candidates))


@pytest.mark.parametrize("texts", [("",), ("b",), ("b", "c"), ("b", "c", "d"), ("b", "c", "d", "e")])
def test_every_line_has_nbest_lines_of_text(texts: tuple[str, ...]) -> None:
    written = render(answered(*texts), rendering=Rendering("text", nbest=3, attention=False))
    assert written.decode().split("\n") == [*(*texts, "", "")[:3], ""]


def test_tsv_numbers_its_lines_and_has_no_empty_ones() -> None:
    written = render(answered("b"), rendering=Rendering("tsv", nbest=3, attention=False))
    assert written == b"7\t-1.0000\tb\n"


@pytest.mark.parametrize(
    ("format", "expected"),
    [("text", "\n\n"), ("tsv", "7\t\t\n"), ("jsonl", '{"line": 7, "source": "a", "error": "too odd"}\n')],
)
def test_a_line_with_an_error_keeps_its_place(format: str, expected: str) -> None:
    failed = TranslatedLine(Line("a", 7, cut=False, invalid=None), "a", TextError("too odd"))
    assert render(failed, rendering=Rendering(format, nbest=2, attention=False)).decode() == expected


BREAKS = {chr(code) for code in range(sys.maxunicode + 1) if len(f"a{chr(code)}b".splitlines()) > 1}
CONTROLS = {chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) == "Cc"}


@pytest.mark.parametrize("format", ["text", "tsv", "jsonl"])
def test_a_translation_is_one_line_for_every_reader_and_has_no_control_characters(format: str) -> None:
    odd = sorted(BREAKS | CONTROLS)
    text = "".join(f"a{character}" for character in odd) + "\u00a0\u4e2d\U0001f600"
    written = render(answered(text, text), rendering=Rendering(format, nbest=2, attention=False)).decode()
    lines = written.split("\n")[:-1]
    assert len(lines) == (1 if format == "jsonl" else 2)
    assert written.splitlines() == lines
    assert not {*"".join(lines)} & (BREAKS | CONTROLS) - {"\t"}
    if format == "jsonl":
        assert [candidate["text"] for candidate in json.loads(written)["candidates"]] == [text, text]
        return
    for line in lines:
        rendered = line.split("\t", 2)[2] if format == "tsv" else line
        allowed = {"\t"} if format == "text" else set()
        assert rendered == "".join(
            " " if character in (BREAKS | CONTROLS) - allowed else character for character in text
        )


def test_a_format_is_chosen_and_attention_needs_jsonl() -> None:
    assert Rendering.from_options(None, nbest=1, attention=False).format == "text"
    assert Rendering.from_options(None, nbest=2, attention=False).format == "tsv"
    assert Rendering.from_options("jsonl", nbest=2, attention=True).attention
    with pytest.raises(DataError, match="--format jsonl"):
        Rendering.from_options("tsv", nbest=2, attention=True)
    with pytest.raises(ConfigError, match="not one of text, tsv, jsonl"):
        Rendering.from_options("xml", nbest=1, attention=False)
