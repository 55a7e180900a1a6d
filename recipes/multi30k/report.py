"""Makes the tables of the search from a folder of runs: what val said of each variant, and the one that was tested.

python recipes/multi30k/report.py OUT --keep recipes/multi30k/results.json
python recipes/multi30k/report.py recipes/multi30k/results.json --write recipes/multi30k/README.md
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(1, str(Path(__file__).resolve().parents[1]))

from pages import asking, mean, of_runs, publish, ranged, read_tested, table, variant_of
from variants import Lists, read_lists

HERE = Path(__file__).resolve().parent
LIST = HERE / "search.toml"
ROWS = ("best", "widest")  # the last one that was tested is told of


def collect(out: Path, lists: Lists) -> dict[str, Any]:
    """All numbers of the tables."""
    name = next((row for row in reversed(ROWS) if read_tested(out, row)), None)
    if name is None:
        return {}
    tested = read_tested(out, name)
    chosen = variant_of(tested[0])
    settled = [json.loads(path.read_bytes())["tried"] for path in sorted((out / "settled").glob(f"{name}-*.json"))]
    variants = {
        each: {
            "why": lists.variants[each].why,
            "valid": of_runs(out, each, "scores", "bleu_lowercased"),
            "parameters": of_runs(out, each, "parameters")[:1],
            "seconds": of_runs(out, each, "training_seconds"),
        }
        for each in lists.rows[name].of
    }
    return {
        "variants": variants,
        "chosen": chosen,
        "tried": [
            {"setting": each[0]["setting"], "valid": mean([one["bleu_lowercased"] for one in each])}
            for each in zip(*settled, strict=True)
        ],
        "tested": [
            {"seed": each.seed, "setting": each.result["scores"]["setting"], **_scores(each.result)} for each in tested
        ],
        "signatures": tested[0].result["scores"]["signatures"],
    }


def page(kept: Mapping[str, Any]) -> str:
    """Variants by what val said of them, settings of the chosen one, and its test."""
    order = sorted(kept["variants"].items(), key=lambda item: -max(item[1]["valid"][:1], default=0.0))
    searched = [
        (
            f"**`{name}`**" if name == kept["chosen"] else f"`{name}`",
            one["why"],
            f"{one['parameters'][0]:,.0f}" if one["parameters"] else "",
            f"{one['valid'][0]:.2f}" if one["valid"] else "not trained",
            ranged(one["valid"]) if len(one["valid"]) > 1 else "",
            f"{mean(one['seconds']):.0f}" if one["seconds"] else "",
        )
        for name, one in order
    ]
    tried = [(*_setting(one["setting"]), f"{one['valid']:.2f}") for one in kept["tried"]]
    results = [
        (str(one["seed"]), *(f"{one[key]:.2f}" for key in ("bleu_lowercased", "bleu", "chrf")))
        for one in kept["tested"]
    ]
    ranges = (ranged([one[key] for one in kept["tested"]]) for key in ("bleu_lowercased", "bleu", "chrf"))
    told = ", ".join(
        f"{name} {value}" for name, value in zip(NAMES, _setting(kept["tested"][0]["setting"]), strict=True)
    )
    parts = [
        table(("variant", "what", "parameters", "val BLEU, first seed", "all seeds (range)", "training, s"), searched),
        f"Chosen: `{kept['chosen']}`. How it translates, lowercased BLEU on val in the mean of all seeds:"
        if tried
        else "",
        table((*NAMES, "val BLEU"), tried) if tried else "",
        f"test_2016_flickr, looked at once, with {told}:",
        table(("seed", "BLEU lowercased", "BLEU cased", "chrF"), [*results, ("**mean** (range)", *ranges)]),
        "\n".join(f"- {name}: `{one}`" for name, one in kept["signatures"].items()),
    ]
    return "\n\n".join(part for part in parts if part)


NAMES = ("beam", "length penalty")


def _setting(one: list[Any]) -> tuple[str, ...]:
    return tuple("as trained" if value is None else str(value) for value in one)


def _scores(result: Mapping[str, Any]) -> dict[str, float]:
    return {key: result["scores"][key] for key in ("bleu_lowercased", "bleu", "chrf")}


def _main() -> None:
    publish(
        asking(__doc__).parse_args(), collect=lambda out: collect(out, read_lists([LIST])), page=page, name="search"
    )


if __name__ == "__main__":
    _main()
