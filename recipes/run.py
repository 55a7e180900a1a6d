"""Trains what lists of variants ask for on Multi30k, many runs side by side, chooses on val, and tests what was chosen.

    python recipes/run.py CORPUS OUT --lists recipes/objectives/objectives.toml recipes/multi30k/search.toml

Called again it goes on where it was. Every run is OUT/VARIANT-SEED with its log beside it; the choice of a row is made
on val with the first seed, its winner is trained with all seeds, translates val in every setting that the row lists,
and then, once, the test set: OUT/tested/ROW-SEED.json and .de. Exit codes: 0 all done, 1 a run failed, 2 a mistake in
what was asked, 75 stopped with some left.
"""

import argparse
import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from fleet import Job, Stage, longest_chain_first, refuse_other_settings, sail, train_command, write_json
from judge import read_lines, written
from variants import (
    RESULT,
    Lists,
    Made,
    Row,
    Setting,
    Variant,
    best_setting,
    chosen,
    read_lists,
    result_of,
    settings_of,
)

from calque.config import check, to_values
from calque.data.fingerprint import digest
from calque.data.prepare import prepare
from calque.errors import UserError
from calque.experiment import Experiment, assembly_of, experiment_values

HERE = Path(__file__).resolve().parent
ASSIGNMENT = re.compile(r"[a-z_]+(\.[a-z_]+)+=.*", re.DOTALL)
TEST = "test_2016_flickr"
LANGUAGES = ("en", "de")
TRANSLATING, SCORING = 0.2, 0.02  # what a part of a made corpus and a test set cost, in trainings


class Plan(NamedTuple):
    """What was asked for."""

    lists: Lists
    corpus: Path
    out: Path
    seeds: tuple[int, ...]
    device: str
    assignments: tuple[str, ...] = ()

    def files(self, part: str) -> tuple[Path, Path]:
        """The two sides of a part of the corpus."""
        source, target = (self.corpus / f"{part}.{language}.gz" for language in LANGUAGES)
        return source, target

    def made(self, name: str) -> tuple[Path, Path]:
        """The two sides of a corpus that is made."""
        source, target = (self.out / "made" / name / f"train.{language}" for language in LANGUAGES)
        return source, target


def jobs_of(plan: Plan) -> list[Job]:
    """All jobs of the rows; the winner's other seeds wait for the choice."""
    lists = plan.lists
    candidates = dict.fromkeys(name for row in lists.rows.values() for name in row.of)
    wanted: dict[str, bool] = {}  # a variant, and whether all its seeds are needed whatever is chosen
    for name in candidates:
        _want(name, lists, wanted, surely=lists.variants[name].seeds == "all")
    makes = dict.fromkeys(corpus for name in wanted if (corpus := lists.variants[name].corpus))
    jobs = [run_job(name, seed, plan, surely=wanted[name]) for seed in plan.seeds for name in wanted]
    jobs += [job for name in makes for job in made_jobs(name, plan)]
    jobs += [job for name, row in lists.rows.items() for job in test_jobs(name, row, plan)]
    return longest_chain_first(jobs)


def run_job(name: str, seed: int, plan: Plan, *, surely: bool = False) -> Job:
    """A variant with a seed: trained, and judged on val."""
    variant, first = plan.lists.variants[name], plan.seeds[0]
    folder = plan.out / f"{name}-{seed}"
    competing = [row for row in plan.lists.rows.values() if name in row.of]
    needs = [variant.corpus] if variant.corpus else []
    needs += [f"{variant.warm}-{seed}"] if variant.warm else []

    def is_wanted() -> bool | None:
        winners = [chosen(row, out=plan.out, seed=first) for row in competing]
        if seed == first or surely or name in winners:
            return True
        return None if None in winners else False

    def told() -> str:
        found = result_of(plan.out, name, seed)
        return f"BLEU {found['scores']['bleu_lowercased']:.2f} on val, trained in {found['training_seconds']:.0f} s"

    stages = (
        Stage("trains", lambda: train_command(folder, begin(name, seed, plan)), folder / "trained"),
        Stage(
            "is judged",
            lambda: judge_command(folder, plan.files("val"), folder / RESULT, plan, name=name, seed=seed),
            folder / RESULT,
        ),
    )
    return Job(folder.name, folder, stages, tuple(dict.fromkeys(needs)), variant.cost, is_wanted, told)


def made_jobs(name: str, plan: Plan) -> list[Job]:
    """A made corpus: parts of it translated by all teachers, then put together."""
    made = plan.lists.made[name]
    folder = plan.out / "made" / name
    teachers = [plan.out / f"{made.teachers}-{seed}" for seed in plan.seeds]
    parts = [folder / f"part-{number}" for number in range(made.parts)]
    jobs = []
    for number, part in enumerate(parts):
        source, picked = (part.with_suffix(f".{language}") for language in LANGUAGES)
        stages = (
            Stage("is cut", partial(_distil, "cut", name, number, plan), source),
            Stage("is translated", partial(_translate, part, made, teachers, plan), part.with_suffix(".translated")),
            Stage("is picked from", partial(_distil, "pick", name, number, plan), picked),
        )
        jobs.append(Job(f"{name}.{part.name}", part, stages, tuple(each.name for each in teachers), TRANSLATING))
    whole = (Stage("is put together", partial(_distil, "join", name, 0, plan), plan.made(name)[1]),)
    return [*jobs, Job(name, folder / "whole", whole, tuple(each.label for each in jobs), SCORING)]


def test_jobs(name: str, row: Row, plan: Plan) -> list[Job]:
    """What follows a row's choice: all settings on val where there are several, then the test set once."""
    needs = tuple(f"{each}-{seed}" for each in row.of for seed in plan.seeds)
    jobs = []
    if len(settings_of(row)) > 1:
        for seed in _scored(row, plan):
            stage = Stage("tries settings", partial(_settle, name, seed, plan), _settled(name, seed, plan))
            jobs.append(Job(f"{name}-{seed}.settle", stage.done.with_suffix(""), (stage,), needs, SCORING))
        needs += tuple(job.label for job in jobs)
    for seed in _scored(row, plan):
        stage = Stage("is tested", partial(_test, name, seed, plan), plan.out / "tested" / f"{name}-{seed}.json")
        told = partial(_told, stage.done)
        jobs.append(Job(f"{name}-{seed}.test", stage.done.with_suffix(""), (stage,), needs, SCORING, told=told))
    return jobs


def _scored(row: Row, plan: Plan) -> tuple[int, ...]:
    """The seeds that have scores of their own; all together have those of the first."""
    return plan.seeds[:1] if row.together else plan.seeds


def _settled(name: str, seed: int, plan: Plan) -> Path:
    return plan.out / "settled" / f"{name}-{seed}.json"


def _winner(name: str, seed: int, plan: Plan) -> Path:
    return plan.out / f"{chosen(plan.lists.rows[name], out=plan.out, seed=plan.seeds[0])}-{seed}"


def _settle(name: str, seed: int, plan: Plan) -> list[str]:
    tries = settings_of(plan.lists.rows[name])
    return _judge_row(name, seed, plan, plan.files("val"), _settled(name, seed, plan), tries=tries)


def _test(name: str, seed: int, plan: Plan) -> list[str]:
    """The test set, in the setting that was best on val in the mean of all seeds."""
    row = plan.lists.rows[name]
    tries = settings_of(row)
    if len(tries) > 1:
        found = [json.loads(_settled(name, each, plan).read_bytes())["tried"] for each in _scored(row, plan)]
        tries = [best_setting(found)]
    to = plan.out / "tested" / f"{name}-{seed}.json"
    return _judge_row(name, seed, plan, plan.files(TEST), to, tries=tries, keeps=True)


def _judge_row(
    name: str, seed: int, plan: Plan, files: tuple[Path, Path], to: Path, *, tries: list[Setting], keeps: bool = False
) -> list[str]:
    """How a row's winner is scored: a seed alone, or all of them as one."""
    runs = [_winner(name, each, plan) for each in (plan.seeds if plan.lists.rows[name].together else [seed])]
    command = judge_command(runs[0], files, to, plan, name=name, seed=seed, tries=tries, keeps=keeps)
    return command + (["--with", *map(str, runs[1:])] if runs[1:] else [])


def _told(path: Path) -> str:
    return f"BLEU {json.loads(path.read_bytes())['scores']['bleu_lowercased']:.2f} on the test set"


def _translate(part: Path, made: Made, teachers: Sequence[Path], plan: Plan) -> list[str]:
    """What the teachers, as one, say of a part of the sources."""
    return [
        *(sys.executable, "-m", "calque", "translate", str(teachers[0])),
        *(word for each in teachers[1:] for word in ("--ensemble", str(each))),
        *("--input", str(part.with_suffix(f".{LANGUAGES[0]}")), "--output", str(part.with_suffix(".tsv"))),
        *("--format", "tsv", "--beam", str(made.beam), "--nbest", str(made.nbest), "--device", plan.device),
        "batch_tokens=16000",
    ]


def begin(name: str, seed: int, plan: Plan) -> list[str]:
    """The arguments of `calque train` for a run."""
    variant = plan.lists.variants[name]
    (source, target), (valid_source, valid_target) = plan.files("train"), plan.files("val")
    return [
        *("--config", str(variant.config)),
        *(("--system", variant.system, "--scale", repr(variant.scale)) if variant.system else ()),
        *("--source", str(source), "--target", str(target)),
        *("--valid-source", str(valid_source), "--valid-target", str(valid_target)),
        *assignments_of(variant, seed, plan),
        *((f"data.store={store_of(variant, plan)}",) if not variant.corpus else ()),
        *(f"seed={seed}", f"training.device={plan.device}", "training.threads=1"),
    ]


def assignments_of(variant: Variant, seed: int, plan: Plan) -> list[str]:
    """A variant's settings, those for all runs, and what it takes from other runs."""
    found = [*variant.settings, *plan.assignments]
    if variant.corpus:
        both = (plan.files("train"), plan.made(variant.corpus))
        corpora = ", ".join(f"{{kind = 'files', source = '{one}', target = '{other}'}}" for one, other in both)
        teacher = plan.out / f"{plan.lists.made[variant.corpus].teachers}-{plan.seeds[0]}"
        found += [f"data.train=[{corpora}]", f"text={{kind = 'given', path = '{teacher}'}}"]
    if variant.warm:
        found += [f"training.warm_start={plan.out / f'{variant.warm}-{seed}'}"]
    return found


def experiment_of(variant: Variant, plan: Plan, *, origin: str = "variant") -> Experiment:
    """What a run of a variant will be; a ConfigError where the settings do not fit it."""
    parts = {"train": plan.files("train"), "valid": plan.files("val")}
    corpora = {
        role: [{"kind": "files", "source": str(one), "target": str(other)}] for role, (one, other) in parts.items()
    }
    values = experiment_values(
        config=variant.config,
        system=variant.system,
        corpora=corpora,
        assignments=assignments_of(variant, plan.seeds[0], plan),
        scale=variant.scale,
    )
    return check(Experiment, values, origin=origin)


def store_of(variant: Variant, plan: Plan) -> Path:
    """The prepared corpus that all runs with the same text section share."""
    experiment = experiment_of(variant, plan)
    return plan.out / "stores" / digest(json.loads(json.dumps(to_values(experiment.text), default=str)))


def judge_command(
    run: Path,
    files: tuple[Path, Path],
    to: Path,
    plan: Plan,
    *,
    name: str = "",
    seed: int = 0,
    tries: Sequence[Setting] = (),
    keeps: bool = False,
) -> list[str]:
    """How a run is scored."""
    return [
        *(sys.executable, str(HERE / "judge.py"), str(run), "--source", str(files[0]), "--reference", str(files[1])),
        *("--to", str(to), "--name", name, "--seed", str(seed), "--device", plan.device),
        *(word for one in tries for word in ("--setting", written(one))),
        *(("--translations", str(to.with_suffix(f".{LANGUAGES[1]}"))) if keeps else ()),
    ]


def _distil(what: str, name: str, number: int, plan: Plan) -> list[str]:
    made: Made = plan.lists.made[name]
    source, target = plan.files("train")
    return [
        *(sys.executable, str(HERE / "distillation" / "distil.py"), what, str(plan.out / "made" / name)),
        *("--source", str(source), "--target", str(target), "--parts", str(made.parts), "--part", str(number)),
        *("--pick", made.pick, "--languages", *LANGUAGES),
    ]


def _want(name: str, lists: Lists, wanted: dict[str, bool], *, surely: bool) -> None:
    """A variant, and all that it is made from; teachers are needed with all seeds."""
    variant = lists.variants[name]
    if variant.warm:
        _want(variant.warm, lists, wanted, surely=True)
    if variant.corpus:
        _want(lists.made[variant.corpus].teachers, lists, wanted, surely=True)
    wanted[name] = wanted.get(name, False) or surely


def _prepare(plan: Plan, names: Iterator[str]) -> None:
    """Checks every variant, and makes every store once, before many processes want it at the same time."""
    for name in names:
        variant = plan.lists.variants[name]
        experiment = experiment_of(variant, plan, origin=name)
        if not variant.corpus:
            store = store_of(variant, plan)
            store.parent.mkdir(parents=True, exist_ok=True)
            prepare(experiment.data, preparation=assembly_of(experiment).preparation, folder=store)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.usage = "%(prog)s CORPUS OUT --lists LIST ... [OPTION ...] [KEY=VALUE ...]"
    parser.epilog = "KEY=VALUE are settings of Calque for all runs, for a quick try."
    parser.add_argument("corpus", type=Path, help=f"a folder with train, val and {TEST}, as .en.gz and .de.gz")
    parser.add_argument("out", type=Path, help="the folder for all runs")
    parser.add_argument("--lists", type=Path, nargs="+", required=True, help="TOML files of variants and rows")
    parser.add_argument("--rows", nargs="+", help="all of the lists unless said")
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=[1, 2, 3], help="1 2 3 unless said; the first one chooses"
    )
    parser.add_argument("--jobs", type=int, default=6, help="processes side by side, 6 unless said")
    parser.add_argument("--seconds", type=float, help="save and stop after so long")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda", "mps"), default="auto")
    given = parser.parse_args([one for one in sys.argv[1:] if not ASSIGNMENT.fullmatch(one)])
    given.assignments = tuple(filter(ASSIGNMENT.fullmatch, sys.argv[1:]))
    if given.jobs < 1:
        parser.error("--jobs must be 1 or more")
    return given


def _main() -> int:
    started = time.monotonic()
    given = _arguments()
    out = given.out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    shared: dict[str, Any] = {"assignments": list(given.assignments), "seeds": given.seeds}
    try:
        refuse_other_settings(out / "settings.json", shared)
        lists = read_lists(given.lists, rows=given.rows)
        corpus = given.corpus.absolute()
        plan = Plan(lists, corpus, out, tuple(given.seeds), given.device, given.assignments)
        for part in ("train", "val", TEST):
            for path in plan.files(part):
                read_lines(path)
        jobs = jobs_of(plan)
        _prepare(
            plan, (name for name in lists.variants if any(job.label == f"{name}-{given.seeds[0]}" for job in jobs))
        )
        write_json(out / "settings.json", shared)
    except (OSError, ValueError, UserError) as error:
        print(f"run.py: {error}", file=sys.stderr)
        return 2
    seconds = None if given.seconds is None else max(0.0, given.seconds - (time.monotonic() - started))
    return sail(jobs, side_by_side=given.jobs, seconds=seconds)


if __name__ == "__main__":
    sys.exit(_main())
