"""Replaces matplotlib while a contender runs: importing it fails, so that no curves are drawn."""

raise ModuleNotFoundError("matplotlib is hidden while a benchmark runs", name="matplotlib")
