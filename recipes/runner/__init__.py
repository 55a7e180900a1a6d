"""Code that recipes share, from lists of variants to pages with results.

`variants` reads lists and selects on validation; `plan` turns lists into jobs; `scheduler` runs them in parallel on a
device; `scoring` scores a run; `significance` tests differences; `results` collects scores; `pages` writes Markdown.
"""
