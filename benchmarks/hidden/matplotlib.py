"""Stands in for matplotlib where a contender runs, so that it finds none and draws no curves."""

raise ModuleNotFoundError("matplotlib is hidden while a benchmark runs", name="matplotlib")
