"""Web pages: one stylesheet, ES modules, strings in English and Chinese, and the function that joins them to one file.

The modules import each other by bare names (`calque/dom`). A page maps these names to data: URLs, so that it works from
a disk; a server maps them to its own URLs. Imports nothing of Calque but errors.
"""

from calque.web.pages import modules, page, stylesheet

__all__ = ["modules", "page", "stylesheet"]
