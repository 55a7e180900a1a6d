"""Turns lists of variants into jobs: what is trained, scored, selected, distilled, tuned and tested, in which order."""

import json
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from calque.config import check, to_values
from calque.data.fingerprint import digest
from calque.data.prepare import prepare
from calque.experiment import Experiment, assembly_of, experiment_values
from recipes.runner.files import read_json
from recipes.runner.results import TESTED, TUNED
from recipes.runner.scheduler import Job, Stage, longest_chain_first, train_command
from recipes.runner.variants import (
    RESULT,
    DistilledCorpus,
    Lists,
    Row,
    SearchSetting,
    Variant,
    best_setting,
    read_result,
    search_settings,
    winner,
)

TEST = "test_2016_flickr"
LANGUAGES = ("en", "de")
TRANSLATION_COST, SCORING_COST = 0.2, 0.02  # of a part of a distilled corpus and of a test set, in trainings


class Plan(NamedTuple):
    """The lists of variants, the corpus, and the folder for all runs."""

    lists: Lists
    corpus: Path
    out: Path
    seeds: tuple[int, ...]  # the first one selects
    device: str
    assignments: tuple[str, ...] = ()  # settings for all runs

    def files(self, part: str) -> tuple[Path, Path]:
        """The source and target files of a part of the corpus."""
        source, target = (self.corpus / f"{part}.{language}.gz" for language in LANGUAGES)
        return source, target

    def distilled(self, name: str) -> tuple[Path, Path]:
        """The source and target files of a distilled corpus."""
        source, target = (self.out / "distilled" / name / f"train.{language}" for language in LANGUAGES)
        return source, target

    def run(self, variant: str, seed: int) -> Path:
        """The folder of the run of a variant with a seed."""
        return self.out / f"{variant}-{seed}"

    def tuned(self, row: str, seed: int) -> Path:
        """The file of a row's validation scores with all its search settings."""
        return self.out / TUNED / f"{row}-{seed}.json"

    def tested(self, row: str, seed: int) -> Path:
        """The file of a row's test scores."""
        return self.out / TESTED / f"{row}-{seed}.json"

    def winner(self, row: str, seed: int) -> Path:
        """The folder of the run of the variant that was selected for a row."""
        return self.out / f"{winner(self.lists.rows[row], out=self.out, seed=self.seeds[0])}-{seed}"


def jobs_of(plan: Plan) -> list[Job]:
    """All jobs of the rows; the selected variants' other seeds are trained after the selection."""
    variants = needed_variants(plan.lists)
    corpora = dict.fromkeys(corpus for name in variants if (corpus := plan.lists.variants[name].corpus))
    jobs = [
        training_job(name, seed, plan, all_seeds=all_seeds)
        for seed in plan.seeds
        for name, all_seeds in variants.items()
    ]
    jobs += [job for name in corpora for job in distillation_jobs(name, plan)]
    jobs += [job for name, row in plan.lists.rows.items() for job in test_jobs(name, row, plan)]
    return longest_chain_first(jobs)


def needed_variants(lists: Lists) -> dict[str, bool]:
    """Maps each variant that the rows need to whether all its seeds are needed, whatever is selected."""
    needed: dict[str, bool] = {}

    def add(name: str, *, all_seeds: bool) -> None:
        variant = lists.variants[name]
        if variant.warm_start:
            add(variant.warm_start, all_seeds=True)
        if variant.corpus:
            add(lists.corpora[variant.corpus].teacher, all_seeds=True)
        needed[name] = needed.get(name, False) or all_seeds

    for name in dict.fromkeys(name for row in lists.rows.values() for name in row.candidates):
        add(name, all_seeds=lists.variants[name].seeds == "all")
    return needed


def training_job(name: str, seed: int, plan: Plan, *, all_seeds: bool = False) -> Job:
    """The job that trains a variant with a seed and scores it on val."""
    variant, first = plan.lists.variants[name], plan.seeds[0]
    run = plan.run(name, seed)
    competitions = [row for row in plan.lists.rows.values() if name in row.candidates]
    needs = [variant.corpus] if variant.corpus else []
    needs += [plan.run(variant.warm_start, seed).name] if variant.warm_start else []

    def is_wanted() -> bool | None:
        winners = [winner(row, out=plan.out, seed=first) for row in competitions]
        if seed == first or all_seeds or name in winners:
            return True
        return None if None in winners else False

    def summary() -> str:
        result = read_result(plan.out, name, seed)
        return f"BLEU {result['scores']['bleu_lowercased']:.2f} on val, trained in {result['training_seconds']:.0f} s"

    stages = (
        Stage("training", lambda: train_command(run, train_arguments(name, seed, plan)), run / "trained"),
        Stage(
            "scoring",
            lambda: scoring_command([run], plan.files("val"), run / RESULT, plan, name=name, seed=seed),
            run / RESULT,
        ),
    )
    return Job(run.name, run, stages, tuple(dict.fromkeys(needs)), variant.cost, is_wanted, summary)


def distillation_jobs(name: str, plan: Plan) -> list[Job]:
    """Jobs that translate parts of the training sources with an ensemble of all teachers, and then join the parts."""
    corpus = plan.lists.corpora[name]
    folder = plan.distilled(name)[0].parent
    teachers = [plan.run(corpus.teacher, seed) for seed in plan.seeds]
    needs = tuple(teacher.name for teacher in teachers)
    jobs = []
    for number, part in enumerate(folder / f"part-{number}" for number in range(corpus.parts)):
        source, selected = (part.with_suffix(f".{language}") for language in LANGUAGES)
        stages = (
            Stage("splitting", partial(_distil, "split", name, number, plan), source),
            Stage("translating", partial(_translate, part, corpus, teachers, plan), part.with_suffix(".translated")),
            Stage("selecting", partial(_distil, "select", name, number, plan), selected),
        )
        jobs.append(Job(f"{name}.{part.name}", part, stages, needs, TRANSLATION_COST))
    joining = (Stage("joining", partial(_distil, "join", name, 0, plan), plan.distilled(name)[1]),)
    return [*jobs, Job(name, folder / "joined", joining, tuple(job.label for job in jobs), SCORING_COST)]


def test_jobs(name: str, row: Row, plan: Plan) -> list[Job]:
    """The jobs after a row's selection: all its search settings on val if there are several, then the test set once."""
    needs = tuple(plan.run(candidate, seed).name for candidate in row.candidates for seed in plan.seeds)
    jobs = []
    if len(search_settings(row)) > 1:
        for seed in _scored_seeds(row, plan):
            stage = Stage("tuning", partial(_tune, name, seed, plan), plan.tuned(name, seed))
            jobs.append(Job(f"{name}-{seed}.tune", stage.output.with_suffix(""), (stage,), needs, SCORING_COST))
        needs += tuple(job.label for job in jobs)
    for seed in _scored_seeds(row, plan):
        stage = Stage("testing", partial(_test, name, seed, plan), plan.tested(name, seed))
        summary = partial(_test_summary, stage.output)
        folder = stage.output.with_suffix("")
        jobs.append(Job(f"{name}-{seed}.test", folder, (stage,), needs, SCORING_COST, summary=summary))
    return jobs


def train_arguments(name: str, seed: int, plan: Plan) -> list[str]:
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
    """The settings of a run as KEY=VALUE: the variant's, those for all runs, and those that name other runs."""
    assignments = [*variant.settings, *plan.assignments]
    if variant.corpus:
        corpora = ", ".join(
            f"{{kind = 'files', source = '{source}', target = '{target}'}}"
            for source, target in (plan.files("train"), plan.distilled(variant.corpus))
        )
        teacher = plan.run(plan.lists.corpora[variant.corpus].teacher, plan.seeds[0])
        assignments += [f"data.train=[{corpora}]", f"text={{kind = 'given', path = '{teacher}'}}"]
    if variant.warm_start:
        assignments += [f"training.warm_start={plan.run(variant.warm_start, seed)}"]
    return assignments


def experiment_of(variant: Variant, plan: Plan, *, origin: str = "variant") -> Experiment:
    """The experiment of a variant; raises a ConfigError if its settings do not fit together."""
    parts = {"train": plan.files("train"), "valid": plan.files("val")}
    corpora = {
        role: [{"kind": "files", "source": str(source), "target": str(target)}]
        for role, (source, target) in parts.items()
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
    """The folder of the prepared corpus that all runs with the same text section share."""
    experiment = experiment_of(variant, plan)
    return plan.out / "stores" / digest(json.loads(json.dumps(to_values(experiment.text), default=str)))


def prepare_stores(plan: Plan, names: Iterable[str]) -> None:
    """Checks variants, and prepares every store once, before several processes need it at the same time."""
    for name in names:
        variant = plan.lists.variants[name]
        experiment = experiment_of(variant, plan, origin=name)
        if not variant.corpus:
            store = store_of(variant, plan)
            store.parent.mkdir(parents=True, exist_ok=True)
            prepare(experiment.data, preparation=assembly_of(experiment).preparation, folder=store)


def scoring_command(
    runs: Sequence[Path],
    files: tuple[Path, Path],
    to: Path,
    plan: Plan,
    *,
    name: str = "",
    seed: int = 0,
    settings: Sequence[SearchSetting] = (),
    keep_translations: bool = False,
) -> list[str]:
    """The command that scores a run, or several runs as an ensemble."""
    return [
        *(sys.executable, "-m", "recipes.runner.scoring", str(runs[0])),
        *("--source", str(files[0]), "--reference", str(files[1])),
        *("--to", str(to), "--name", name, "--seed", str(seed), "--device", plan.device),
        *(word for setting in settings for word in ("--setting", str(setting))),
        *(("--translations", str(to.with_suffix(f".{LANGUAGES[1]}"))) if keep_translations else ()),
        *(("--with", *map(str, runs[1:])) if runs[1:] else ()),
    ]


def _scored_seeds(row: Row, plan: Plan) -> tuple[int, ...]:
    """The seeds with scores of their own; an ensemble has one score, that of the first seed."""
    return plan.seeds[:1] if row.ensemble else plan.seeds


def _members(name: str, seed: int, plan: Plan) -> list[Path]:
    """The runs that translate for a row: the winner's run of a seed, or of all seeds."""
    return [plan.winner(name, member) for member in (plan.seeds if plan.lists.rows[name].ensemble else [seed])]


def _tune(name: str, seed: int, plan: Plan) -> list[str]:
    settings, to = search_settings(plan.lists.rows[name]), plan.tuned(name, seed)
    runs = _members(name, seed, plan)
    return scoring_command(runs, plan.files("val"), to, plan, name=name, seed=seed, settings=settings)


def _test(name: str, seed: int, plan: Plan) -> list[str]:
    """The command that scores the test set with the search setting that is best on val, averaged over seeds."""
    row = plan.lists.rows[name]
    settings = search_settings(row)
    if len(settings) > 1:
        settings = [best_setting([read_json(plan.tuned(name, own))["tried"] for own in _scored_seeds(row, plan)])]
    return scoring_command(
        _members(name, seed, plan),
        plan.files(TEST),
        plan.tested(name, seed),
        plan,
        name=name,
        seed=seed,
        settings=settings,
        keep_translations=True,
    )


def _test_summary(path: Path) -> str:
    return f"BLEU {read_json(path)['scores']['bleu_lowercased']:.2f} on the test set"


def _translate(part: Path, corpus: DistilledCorpus, teachers: Sequence[Path], plan: Plan) -> list[str]:
    """The command that writes n-best translations of a part of the sources, by an ensemble of teachers."""
    return [
        *(sys.executable, "-m", "calque", "translate", str(teachers[0])),
        *(word for teacher in teachers[1:] for word in ("--ensemble", str(teacher))),
        *("--input", str(part.with_suffix(f".{LANGUAGES[0]}")), "--output", str(part.with_suffix(".tsv"))),
        *("--format", "tsv", "--beam", str(corpus.beam), "--nbest", str(corpus.nbest), "--device", plan.device),
        "batch_tokens=16000",
    ]


def _distil(step: str, name: str, number: int, plan: Plan) -> list[str]:
    corpus = plan.lists.corpora[name]
    source, target = plan.files("train")
    return [
        *(sys.executable, "-m", "recipes.runner.distilling", step, str(plan.distilled(name)[0].parent)),
        *("--source", str(source), "--target", str(target), "--parts", str(corpus.parts), "--part", str(number)),
        *("--by", corpus.select, "--languages", *LANGUAGES),
    ]
