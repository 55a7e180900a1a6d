"""`calque quickstart`."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calque.commands.data import LANGUAGES
from calque.commands.rendering import one_line
from calque.errors import ConfigError, Interrupted

if TYPE_CHECKING:
    from calque.engine import Translator
    from calque.evaluation.metrics import Scores
    from calque_phrasebook import Phrasebook

# Found by trying: a peak rate that a model this small stands, falling to zero at the last of few steps. One thread:
# two would be quicker on a quiet machine and half as quick on a busy one (docs/decisions/0008).
SETTINGS = (
    "text.vocabulary_size=2000",
    "training.batch.tokens=2048",
    "training.steps=900",
    "training.validate_every=300",
    "training.patience=0",
    "training.threads=1",
    "training.optimiser.learning_rate=0.003",
    "training.schedule.kind=linear",
    "training.schedule.warmup=120",
)
NAMES = {"model": "this model", "dictionary": "word by word", "nearest": "nearest training sentence"}


def quickstart(
    out: Annotated[Path, typer.Option(help="The folder for everything that is made.")] = Path("quickstart"),
    source: Annotated[str, typer.Option("--from", help="zh, en or de.")] = "zh",
    target: Annotated[str, typer.Option("--to", help="zh, en or de.")] = "en",
    pairs: Annotated[int, typer.Option(min=500, help="Training pairs.")] = 20_000,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings, e.g. training.steps=500")
    ] = None,
) -> None:
    """Train a small translator on the built-in phrasebook, try it and score it: a few minutes on two cores, offline.

    Test sentences hold combinations of words and clauses that training never had. Two baselines stand beside the
    score: a word-by-word dictionary, and the translation of the nearest training sentence.

    Examples:

        calque quickstart

        calque quickstart --from en --to de --out quickstart-de
    """
    from calque.commands.inputs import choice
    from calque.engine import load_translator
    from calque.evaluation.metrics import score_translations
    from calque.evaluation.plots import draw_scores
    from calque_phrasebook import baselines, phrasebook, write_phrasebook

    began = time.monotonic()
    one, other = choice(source, LANGUAGES, option="--from"), choice(target, LANGUAGES, option="--to")
    if one == other:
        raise ConfigError("--from and --to must be two different languages")
    _say(f"1/4  A phrasebook: {pairs:,} sentence pairs, {one} → {other}")
    book = phrasebook(source=one, target=other, pairs=pairs)
    write_phrasebook(book, out / "data", languages=(one, other))
    _say("2/4  Training a Transformer with 2+2 layers (Ctrl-C saves)")
    _interruptible(lambda: _train(out, languages=(one, other), overrides=overrides or []), out=out)
    _say("3/4  Translating sentences it has not seen")
    translator = load_translator(out / "run")
    sources, references = [pair.source for pair in book.test], [pair.target for pair in book.test]
    systems = {
        "model": [found.text for found in translator.stream(sources)],
        **baselines(book, source=one, target=other),
    }
    (out / f"test.hypothesis.{other}").write_text("".join(f"{line}\n" for line in systems["model"]), encoding="utf-8")
    scores = {NAMES[name]: score_translations(lines, references) for name, lines in systems.items()}
    _show(book, systems["model"])
    _say("4/4  Pictures")
    pictures = [out / "run" / "plots" / "training.png"]
    if draw_scores(out / "scores.png", scores):
        pictures.append(out / "scores.png")
    _summary(scores, translator=translator, seconds=time.monotonic() - began)
    _next(out, pictures=[path for path in pictures if path.exists()], example=book.test[0].source)


def _train(out: Path, *, languages: tuple[str, str], overrides: list[str]) -> None:
    """Trains in OUT/run, or goes on with the run that is there, if it is this one."""
    from calque import experiment
    from calque.commands.progress import preparing
    from calque.training.runs import CONFIG

    run = out / "run"
    values = experiment.experiment_values(
        config=None, system="tiny", corpora=_corpora(out / "data", languages), assignments=[*SETTINGS, *overrides]
    )
    if not (run / CONFIG).exists():
        experiment.train(values, run=run, preparing=preparing, origin="quickstart")
        return
    if other := experiment.differences(values, run=run):
        listed = "\n  ".join(other)
        raise ConfigError(f"{out}: holds another quickstart; choose another --out, or remove it:\n  {listed}")
    experiment.resume(run, preparing=preparing)


def _interruptible(training: Callable[[], None], *, out: Path) -> None:
    """Training, with a word for who stops it that leads back here and not to `calque train`."""
    try:
        training()
    except Interrupted:
        raise Interrupted(f"saved in {out}/run; the same command goes on") from None


def _corpora(folder: Path, languages: tuple[str, str]) -> dict[str, Any]:
    return {
        part: [
            {
                "kind": "files",
                **{
                    side: str(folder / f"{name}.{language}")
                    for side, language in zip(("source", "target"), languages, strict=True)
                },
            }
        ]
        for part, name in (("train", "train"), ("valid", "valid"))
    }


def _show(book: "Phrasebook", translations: list[str]) -> None:
    """Some translations, with the reference where they are wrong."""
    for pair, found in list(zip(book.test, translations, strict=True))[:6]:
        typer.echo(f"  {pair.source}\n    {one_line(found)}")
        if found != pair.target:
            typer.echo(f"    (expected: {pair.target})")


def _summary(scores: dict[str, "Scores"], *, translator: "Translator", seconds: float) -> None:
    width = max(map(len, scores))
    typer.echo("")
    typer.echo(f"{'held-out test':{width}}   BLEU   chrF   exact match")
    for name, found in scores.items():
        typer.echo(
            f"{name:{width}}  {found.bleu.value:5.1f}  {found.chrf.value:5.1f}  {found.exact_match.value:9.1f} %"
        )
    signature = next(iter(scores.values())).bleu.signature
    parameters = sum(one.numel() for one in translator.model.parameters() if one.requires_grad)
    typer.echo(f"BLEU {signature}; {parameters:,} parameters; {seconds:.0f} s in all")


def _next(out: Path, *, pictures: list[Path], example: str) -> None:
    typer.echo("")
    typer.echo(f"made     {out}/data (text files), {out}/run (the run; the model is in {out}/run/model)")
    if pictures:
        typer.echo(f"pictures {', '.join(map(str, pictures))}")
    typer.echo("try next")
    typer.echo(f"  echo '{example}' | calque translate {out}/run")
    typer.echo(f"  calque translate {out}/run                 # type sentences")
    typer.echo("  calque train --source YOUR.source --target YOUR.target")


def _say(text: str) -> None:
    typer.echo(text, err=True)
