"""What recipes share, from a list of variants to a page with results.

`variants` reads lists and selects on validation; `plan` turns lists into jobs; `scheduler` runs them in parallel on a
device; `scoring` scores a run; `significance` tests differences; `results` collects scores; `pages` writes Markdown.
"""
