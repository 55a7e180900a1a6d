"""The tables of the search for a better config: validation scores of all variants, and the test of the selected one.

python -m recipes.multi30k.report OUT --keep recipes/multi30k/results.json
python -m recipes.multi30k.report recipes/multi30k/results.json --write recipes/multi30k/README.md
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from recipes.runner.pages import list_signatures, mean_and_range, publish, report_parser, table
from recipes.runner.results import Tested, mean, read_tested, read_tuned, values_of_runs
from recipes.runner.variants import Lists, read_lists

LIST = Path(__file__).resolve().parent / "search.toml"
ROWS = ("best", "widest")  # the last one that was tested is reported
METRICS = ("bleu_lowercased", "bleu", "chrf")
SETTING = ("beam", "length penalty")


def collect(out: Path, lists: Lists) -> dict[str, Any]:
    """The numbers of all tables, from a folder of runs."""
    name = next((row for row in reversed(ROWS) if read_tested(out, row)), None)
    if name is None:
        return {}
    tested = read_tested(out, name)
    variants = {
        variant: {
            "why": lists.variants[variant].why,
            "valid": values_of_runs(out, variant, "scores", "bleu_lowercased"),
            "parameters": values_of_runs(out, variant, "parameters")[:1],
            "seconds": values_of_runs(out, variant, "training_seconds"),
        }
        for variant in lists.rows[name].candidates
    }
    return {
        "variants": variants,
        "chosen": tested[0].variant,
        "tried": [
            {"setting": seeds[0]["setting"], "valid": mean([scores["bleu_lowercased"] for scores in seeds])}
            for seeds in read_tuned(out, name)
        ],
        "tested": [_test_scores(test) for test in tested],
        "signatures": tested[0].result["scores"]["signatures"],
    }


def page(results: Mapping[str, Any]) -> str:
    """Variants by validation score, search settings of the selected one, and its test scores."""
    tried = [(*_setting(trial["setting"]), f"{trial['valid']:.2f}") for trial in results["tried"]]
    setting = ", ".join(
        f"{name} {value}" for name, value in zip(SETTING, _setting(results["tested"][0]["setting"]), strict=True)
    )
    parts = [
        _variants_table(results["variants"], selected=results["chosen"]),
        f"Chosen: `{results['chosen']}`. Lowercased BLEU on val by search setting, mean over all seeds:"
        if tried
        else "",
        table((*SETTING, "val BLEU"), tried) if tried else "",
        f"test_2016_flickr, evaluated once, with {setting}:",
        _tests_table(results["tested"]),
        list_signatures(results["signatures"]),
    ]
    return "\n\n".join(part for part in parts if part)


def _variants_table(variants: Mapping[str, Mapping[str, Any]], *, selected: str) -> str:
    header = ("variant", "what", "parameters", "val BLEU, first seed", "all seeds (range)", "training, s")
    order = sorted(variants.items(), key=lambda item: -max(item[1]["valid"][:1], default=0.0))
    lines = [
        (
            f"**`{name}`**" if name == selected else f"`{name}`",
            variant["why"],
            f"{variant['parameters'][0]:,.0f}" if variant["parameters"] else "",
            f"{variant['valid'][0]:.2f}" if variant["valid"] else "not trained",
            mean_and_range(variant["valid"]) if len(variant["valid"]) > 1 else "",
            f"{mean(variant['seconds']):.0f}" if variant["seconds"] else "",
        )
        for name, variant in order
    ]
    return table(header, lines)


def _tests_table(tested: Sequence[Mapping[str, Any]]) -> str:
    lines = [(str(test["seed"]), *(f"{test[key]:.2f}" for key in METRICS)) for test in tested]
    ranges = (mean_and_range([test[key] for test in tested]) for key in METRICS)
    return table(("seed", "BLEU lowercased", "BLEU cased", "chrF"), [*lines, ("**mean** (range)", *ranges)])


def _test_scores(test: Tested) -> dict[str, Any]:
    scores = test.result["scores"]
    return {"seed": test.seed, "setting": scores["setting"], **{key: scores[key] for key in METRICS}}


def _setting(setting: Sequence[Any]) -> tuple[str, ...]:
    return tuple("as trained" if value is None else str(value) for value in setting)


def _main() -> None:
    options = report_parser(__doc__).parse_args()
    publish(options, collect=lambda out: collect(out, read_lists([LIST])), page=page, name="search")


if __name__ == "__main__":
    _main()
