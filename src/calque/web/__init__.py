"""Web pages: one stylesheet, ES modules, strings in English and Chinese, and the function that puts them in one file.

The modules import each other by bare names (`calque/dom`). A page maps these names to data: URLs, so that it works when
opened from disk; a server maps them to its own URLs. Of Calque, only errors may be imported here.
"""

from calque.web.pages import modules, page, stylesheet

__all__ = ["modules", "page", "stylesheet"]
