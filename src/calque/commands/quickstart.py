"""The command `calque quickstart`, which trains and scores a small translator."""

import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from calque.commands.options import (
    LANGUAGES,
    choice_option,
    count_option,
    folder_option,
    settings_argument,
)
from calque.commands.rendering import one_line
from calque.errors import ConfigError, Interrupted, shell_path

if TYPE_CHECKING:
    from calque.engine import Translator
    from calque.evaluation.metrics import Scores
    from calque_phrasebook import Phrasebook

# Found by experiment: a peak learning rate that a model this small tolerates, decaying to zero over few steps. One
# thread: two would be faster on an idle machine and half as fast on a busy one (docs/decisions/0008).
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
    out: Annotated[Path, folder_option(help="Write all outputs to this folder.")] = Path("quickstart"),
    source: Annotated[str, choice_option("--from", choices=LANGUAGES, help="The source language.")] = "zh",
    target: Annotated[str, choice_option("--to", choices=LANGUAGES, help="The target language.")] = "en",
    pairs: Annotated[int, count_option(at_least=500, help="The number of training pairs.")] = 20_000,
    overrides: Annotated[list[str] | None, settings_argument(help="Settings, e.g. training.steps=500")] = None,
) -> None:
    """Train a small translator on the built-in phrasebook, try it and score it: a few minutes on two cores, offline.

    Test sentences contain combinations of words and clauses that do not occur in training. The scores are compared with
    two baselines: a word-by-word dictionary, and the translation of the nearest training sentence.

    Examples:

        calque quickstart

        calque quickstart --from en --to de --out quickstart-de
    """
    from calque.commands.inputs import choice
    from calque.engine import load_translator
    from calque.evaluation.metrics import score_translations
    from calque.evaluation.plots import draw_scores
    from calque_phrasebook import baselines, phrasebook, write_phrasebook

    start = time.monotonic()
    source_language = choice(source, LANGUAGES, option="--from")
    target_language = choice(target, LANGUAGES, option="--to")
    languages = source_language, target_language
    if source_language == target_language:
        raise ConfigError("--from and --to must be different languages")
    _print_step(f"1/4  A phrasebook: {pairs:,} sentence pairs, {source_language} → {target_language}")
    book = phrasebook(source=source_language, target=target_language, pairs=pairs)
    write_phrasebook(book, out / "data", languages=languages)
    _print_step("2/4  Training a Transformer with 2+2 layers (Ctrl-C saves)")
    _interruptible(lambda: _train(out, languages=languages, overrides=overrides or []), out=out)
    _print_step("3/4  Translating unseen sentences")
    translator = load_translator(out / "run")
    sources, references = [pair.source for pair in book.test], [pair.target for pair in book.test]
    systems = {
        "model": [translation.text for translation in translator.stream(sources)],
        **baselines(book, source=source_language, target=target_language),
    }
    hypotheses = out / f"test.hypothesis.{target_language}"
    hypotheses.write_text("".join(f"{line}\n" for line in systems["model"]), encoding="utf-8")
    scores = {NAMES[name]: score_translations(lines, references) for name, lines in systems.items()}
    _print_examples(book, systems["model"])
    _print_step("4/4  Plots")
    plots = [out / "run" / "plots" / "training.png"]
    if draw_scores(out / "scores.png", scores):
        plots.append(out / "scores.png")
    _print_summary(scores, translator=translator, seconds=time.monotonic() - start)
    _print_next_steps(out, plots=[path for path in plots if path.exists()], example=book.test[0].source)


def _train(out: Path, *, languages: tuple[str, str], overrides: list[str]) -> None:
    """Trains in OUT/run, or resumes the run there; raises a ConfigError if that run has other settings."""
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
    if differences := experiment.differences(values, run=run):
        listed = "\n  ".join(differences)
        raise ConfigError(
            f"{out} contains a quickstart with other settings; choose another --out, or remove the folder:\n  {listed}"
        )
    experiment.resume(run, preparing=preparing)


def _interruptible(training: Callable[[], None], *, out: Path) -> None:
    """Runs the training; if it is interrupted, raises Interrupted with a message on how to resume it."""
    try:
        training()
    except Interrupted:
        raise Interrupted(f"training was interrupted and saved in {out}/run; the same command resumes it") from None


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


def _print_examples(book: "Phrasebook", translations: list[str]) -> None:
    """Prints some translations, each with its reference if the two differ."""
    for pair, translation in list(zip(book.test, translations, strict=True))[:6]:
        typer.echo(f"  {pair.source}\n    {one_line(translation)}")
        if translation != pair.target:
            typer.echo(f"    (expected: {pair.target})")


def _print_summary(scores: dict[str, "Scores"], *, translator: "Translator", seconds: float) -> None:
    width = max(map(len, scores))
    typer.echo("")
    typer.echo(f"{'held-out test':{width}}   BLEU   chrF   exact match")
    for name, score in scores.items():
        typer.echo(
            f"{name:{width}}  {score.bleu.value:5.1f}  {score.chrf.value:5.1f}  {score.exact_match.value:9.1f} %"
        )
    signature = next(iter(scores.values())).bleu.signature
    size = sum(parameter.numel() for parameter in translator.model.parameters() if parameter.requires_grad)
    typer.echo(f"BLEU {signature}; {size:,} parameters; {seconds:.0f} s in total")


def _print_next_steps(out: Path, *, plots: list[Path], example: str) -> None:
    typer.echo("")
    typer.echo(f"output   {out}/data (text files), {out}/run (the run; the model is in {out}/run/model)")
    if plots:
        typer.echo(f"plots    {', '.join(map(str, plots))}")
    typer.echo("try next")
    typer.echo(f"  echo {shlex.quote(example)} | calque translate {shell_path(out / 'run')}")
    typer.echo(f"  calque translate {shell_path(out / 'run')}                 # type sentences")
    typer.echo("  calque train --source YOUR.source --target YOUR.target")


def _print_step(text: str) -> None:
    typer.echo(text, err=True)
