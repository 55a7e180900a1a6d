"""Self-contained HTML pages: stylesheet, JavaScript modules and their JSON data in one file that loads nothing."""

import base64
import hashlib
import html
import json
from importlib.resources import files
from typing import Any

_SHELL = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>{style}</style>
<script type="importmap">{import_map}</script>
</head>
<body>
<noscript>This page needs JavaScript. 此页面需要 JavaScript。</noscript>
<script type="application/json" id="document">{document}</script>
<script type="module">{start}</script>
</body>
</html>
"""


def modules() -> dict[str, str]:
    """The text of every ES module by the name under which others import it: `calque/dom` is dom.js."""
    folder = files("calque.web")
    scripts = sorted((file for file in folder.iterdir() if file.name.endswith(".js")), key=lambda file: file.name)
    return {f"calque/{file.name.removesuffix('.js')}": file.read_text(encoding="utf-8") for file in scripts}


def stylesheet() -> str:
    """The text of the stylesheet, which all pages share."""
    return files("calque.web").joinpath("style.css").read_text(encoding="utf-8")


def page(*, title: str, view: str, document: dict[str, Any]) -> str:
    """The HTML of a page on which the JavaScript module `view`, such as "calque/inspection", shows `document`.

    The document must be JSON without NaN or infinities. It is embedded as data, never as markup, and the page's
    Content-Security-Policy allows no request to any host.
    """
    scripts = modules()
    if view not in scripts:
        raise ValueError(f"there is no JavaScript module {view!r} to show a document; found {', '.join(scripts)}")
    style = stylesheet()
    import_map = embedded_json({"imports": {name: _data_url(name, text) for name, text in scripts.items()}})
    start = f'import {{start}} from "calque/page"; start({json.dumps(view)});'
    policy = "; ".join(
        (
            "default-src 'none'",
            f"script-src {_hash(import_map)} {_hash(start)} data:",
            f"style-src {_hash(style)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    return _SHELL.format(
        policy=policy,
        title=html.escape(title),
        style=style,
        import_map=import_map,
        document=embedded_json(document),
        start=start,
    )


def embedded_json(value: Any) -> str:
    """JSON that is safe inside a script element: ASCII only, without `<`, `>` and `&`.

    >>> embedded_json({"text": "</script>"})
    '{"text":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _data_url(name: str, text: str) -> str:
    named = f"{text}\n//# sourceURL={name}.js\n"  # the name that a browser's console shows
    return f"data:text/javascript;base64,{base64.b64encode(named.encode()).decode()}"


def _hash(text: str) -> str:
    """The source expression of a Content-Security-Policy that allows this inline text and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
