"""What a page is made of; needs no browser."""

import html
import json
import re
import tomllib
from fnmatch import fnmatch
from html.parser import HTMLParser
from pathlib import Path

import pytest

from calque import web
from tests.web.documents import GERMAN, inspection, translation

FOLDER = Path(web.__file__).parent
HOSTILE = "</script><script>alert(1)</script> <!-- & ' \" \u2028 \u2029 \x00 \x07 \ud800 ]]>"


class Parts(HTMLParser):
    """The elements of a page, and the text of its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.title = ""
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside == "title":
            self.title += data


def test_a_document_comes_back_whatever_it_holds() -> None:
    document = {"text": HOSTILE, "nested": [{HOSTILE: [1.5, None, True]}]}
    text = web.page(title=HOSTILE.replace("\ud800", ""), view="calque/inspection", document=document)
    parts = Parts(text)
    assert len(parts.scripts) == 3  # import map, document, start: nothing opened another
    assert json.loads(parts.scripts[1]) == document
    assert re.search(r"[<>&\u2028\u2029]", parts.scripts[1]) is None
    assert html.unescape(parts.title).startswith("</script><script>alert(1)")
    text.encode()  # a lone surrogate is escaped


def test_a_page_loads_nothing() -> None:
    parts = Parts(web.page(title="t", view="calque/inspection", document=inspection(translation(*GERMAN))))
    addresses = [value for _, attributes in parts.tags for name, value in attributes.items() if name in ("src", "href")]
    assert addresses == []
    urls = json.loads(parts.scripts[0])["imports"].values()
    assert all(url.startswith("data:text/javascript;base64,") for url in urls)
    policy = next(attributes["content"] for tag, attributes in parts.tags if tag == "meta" and "content" in attributes)
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "http" not in policy
    foreign = {
        url for text in [*web.modules().values(), web.stylesheet()] for url in re.findall(r"https?://[^\"' )]+", text)
    }
    assert foreign == {"http://www.w3.org/2000/svg"}


def test_an_unknown_view_and_numbers_that_are_not_json_are_rejected() -> None:
    with pytest.raises(
        ValueError, match=r"no JavaScript module 'calque/nothing' to show a document; found .*calque/inspection"
    ):
        web.page(title="t", view="calque/nothing", document={})
    with pytest.raises(ValueError, match="JSON"):
        web.page(title="t", view="calque/inspection", document={"score": float("nan")})


def test_modules_import_names_that_exist() -> None:
    modules = web.modules()
    exported = {
        name: set(re.findall(r"^export (?:async )?(?:function|const|let) (\w+)", text, re.MULTILINE))
        for name, text in modules.items()
    }
    wrong = []
    for name, text in modules.items():
        for names, module in re.findall(r"^import \{([^}]*)\} from \"([^\"]+)\";$", text, re.MULTILINE):
            imported = {item.split(" as ")[0].strip() for item in names.split(",")}
            wrong += [f"{name}: {item} from {module}" for item in imported - exported.get(module, set())]
            body = text.replace(f"import {{{names}}}", "")
            local = [item.split(" as ")[-1].strip() for item in names.split(",")]
            wrong += [f"{name}: {item} is not used" for item in local if not re.search(rf"\b{item}\b", body)]
        assert re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text) is None
    assert wrong == []


def test_every_string_has_both_languages() -> None:
    modules = web.modules()
    lists = [name for name in modules if name.endswith("strings")]
    text = "\n".join(modules[name] for name in lists)
    pairs = re.findall(
        r"^  \"([\w.-]+)\": \[\s*\"((?:[^\"\\]|\\.)*)\",\s*\"((?:[^\"\\]|\\.)*)\",?\s*\],$", text, re.MULTILINE
    )
    strings = {key: (english, chinese) for key, english, chinese in pairs}
    assert len(strings) == len(re.findall(r"^  \"[\w.-]+\": \[", text, re.MULTILINE)) > 50
    differing = [
        key for key, pair in strings.items() if len({tuple(sorted(re.findall(r"\{\w+\}", one))) for one in pair}) > 1
    ]
    assert differing == []
    used = {key for module in modules.values() for key in re.findall(r"\bt\(\s*\"([\w.-]+)\"", module)}
    assert used - set(strings) == set()
    beginnings = {start for module in modules.values() for start in re.findall(r"\bt\(`([\w.-]+)\$\{", module)}
    quoted = {
        key for module in modules.values() for key in re.findall(r"\"([a-z]+\.[\w.-]+)\"", module) if key in strings
    }
    named = {key for name, module in modules.items() if name not in lists for key in strings if f'"{key}"' in module}
    unused = [
        key for key in strings if key not in used | named and not any(key.startswith(start) for start in beginnings)
    ]
    assert quoted
    assert [key for key in unused if not key.startswith("attention.")] == []  # `attention.${side}-pieces`


def test_the_wheel_has_every_file() -> None:
    project = tomllib.loads((FOLDER.parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = project["tool"]["setuptools"]["package-data"]["calque.web"]
    files = [file.name for file in FOLDER.iterdir() if file.is_file() and file.suffix not in (".py", ".pyc")]
    assert files
    assert [name for name in files if not any(fnmatch(name, pattern) for pattern in patterns)] == []
