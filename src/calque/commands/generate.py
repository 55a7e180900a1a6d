"""The command `calque generate`, which generates text with a language model."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from calque.commands.inputs import choice, device_and_precision, input_lines, refuse_unreadable, warn_unknown
from calque.commands.options import (
    Device,
    Precision,
    choice_option,
    count_option,
    file_option,
    model_argument,
    search_argument,
)
from calque.commands.rendering import json_line, one_line
from calque.errors import ConfigError, DataError

if TYPE_CHECKING:
    from calque.engine import Candidate, TextGenerator
    from calque.search.settings import SearchConfig

FORMATS = ("text", "jsonl")

_SAMPLING = frozenset({"temperature", "top_k", "top_p", "min_p", "seed"})
_BEAM = frozenset({"beam", "length_penalty", "normalisation", "reward", "stopping", "patience", "groups", "diversity"})
_TRANSLATION = frozenset(
    {"coverage", "end_normalisation", "ensemble", "language_weight", "channel_weight", "prior_weight", "samples"}
    | {"shortlist", "shortlist_threshold"}
    | {"utility", "maximum_ratio", "maximum_extra", "learnt_maximum", "minimum_ratio", "source_limit", "batch_tokens"}
)


def generate(
    model: Annotated[Path, model_argument(help="A run or model folder of a language model.")],
    settings: Annotated[
        list[str] | None,
        search_argument(help="Search settings, e.g. temperature=0.7 top_p=0.9 seed=3"),
    ] = None,
    prompt: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Continue this text; by default, each line of standard input."),
    ] = None,
    input: Annotated[Path | None, file_option(help="Prompts, one per line (plain or compressed).")] = None,
    maximum: Annotated[int, count_option(help="The maximum number of pieces after the prompt.")] = 100,
    nbest: Annotated[int, count_option(help="Generate this many texts per prompt.")] = 1,
    beam: Annotated[int | None, count_option(help="Use beam search with this beam size instead of sampling.")] = None,
    stop: Annotated[
        list[str] | None,
        typer.Option(metavar="STRING", help="End the text before this string. Repeat the option for several."),
    ] = None,
    format: Annotated[str, choice_option(choices=FORMATS, help="The output format; jsonl includes scores.")] = "text",
    device: Device = "auto",
    precision: Precision = "auto",
) -> None:
    """Generate text with a language model, by sampling or by beam search.

    A single sampled text is printed as it is generated. Without a prompt, the text starts as a new line. Settings are
    those of the config's search section. The same seed generates the same text for the same prompt at the same line
    number. Settings that have no effect are rejected.

    Examples:

        calque generate runs/english --prompt "The weather"

        calque generate runs/english --prompt "The weather" temperature=0.7 top_k=40 --nbest 5

        calque generate runs/english --beam 5 --maximum 30 --stop "." < prompts.txt
    """
    from calque.commands.loading import search_of
    from calque.engine.folder import load_text_generator

    format_name = choice(format, FORMATS, option="--format")
    device_name, precision_name = device_and_precision(device, precision)
    if prompt is not None and input is not None:
        raise ConfigError("--prompt and --input both name prompts; give only one of them")
    if any(not string for string in stop or []):
        raise ConfigError(
            "--stop is an empty string, which would end every text before it begins; give at least one character"
        )
    refuse_unreadable(input)
    generator = load_text_generator(model, device=device_name, precision=precision_name)
    given = [*_method(settings or [], beam=beam), *(settings or [])]
    search = search_of(generator.search, given, beam=beam, nbest=nbest, batch_tokens=None)
    _refuse_idle_settings(settings or [], search=search, beam=beam)
    prompts = iter([prompt]) if prompt is not None else _prompts(input)
    for number, text in enumerate(prompts):
        warn_unknown(text, encode=generator.prompt_ids, name=f"prompt {number + 1}")
        if format_name == "text" and _is_streamable(search, nbest=nbest):
            _stream(generator, text, search=search, maximum=maximum, stops=stop or [], number=number)
            continue
        (candidates,) = generator.candidates([text], maximum=maximum, search=search, nbest=nbest, first=number)
        _write(candidates, prompt=text, stops=stop or [], format=format_name)


def _keys(settings: Sequence[str]) -> list[str]:
    return [text.partition("=")[0].strip().removeprefix("search.") for text in settings]


def _method(settings: Sequence[str], *, beam: int | None) -> list[str]:
    """The setting to add if `settings` names no search method: beam search if a beam size is given, else sampling."""
    keys = _keys(settings)
    if "method" in keys:
        return []
    return ["method=beam" if beam is not None or "beam" in keys else "method=sample"]


def _refuse_idle_settings(settings: Sequence[str], *, search: "SearchConfig", beam: int | None) -> None:
    """Raises a ConfigError for settings that have no effect on generation, unless they have their default values."""
    from calque.search.settings import SearchConfig

    problems = [
        f"{key}={getattr(search, key)} has no effect: {reason}"
        for key in dict.fromkeys(_keys(settings))
        if (reason := _why_idle(key, search)) and getattr(search, key) != SearchConfig.model_fields[key].default
    ]
    if beam is not None and search.method != "beam":
        problems.append(f"--beam {beam} has no effect: it is used only with method=beam")
    if problems:
        raise ConfigError("\n".join(problems))


def _why_idle(key: str, search: "SearchConfig") -> str | None:
    """The reason why the search setting `key` has no effect on generation; None if it has an effect."""
    if key == "maximum":
        return "use --maximum N"
    if key in _TRANSLATION:
        return "it is not supported for language models"
    if key in _SAMPLING and search.method != "sample":
        return "it is used only in sampling, without --beam"
    if key in _BEAM and search.method != "beam":
        return "it is used only in beam search, with --beam N"
    if key == "diversity" and search.groups == 1:
        return "it is used only with groups=2 or more"
    if key == "patience" and search.stopping != "patience":
        return "it is used only with stopping=patience"
    return None


def _is_streamable(search: "SearchConfig", *, nbest: int) -> bool:
    """Whether a text can be printed while it is generated: if search follows one candidate and cannot discard it.

    Search discards a text only if `no_repeat` allows no further piece before the minimum length.
    """
    is_alone = nbest == 1 and (search.method == "sample" or search.is_greedy)
    return is_alone and not (search.no_repeat and search.minimum)


def _prompts(path: Path | None) -> Iterator[str]:
    if path is None and sys.stdin.isatty():
        yield ""
        return
    is_empty = True
    for line in input_lines(path, invalid="fail"):
        is_empty = False
        yield line.text
    if is_empty and path is not None:
        raise DataError(f"{path}: the file is empty; expected one prompt per line")
    if is_empty:
        yield ""


def _stream(
    generator: "TextGenerator",
    prompt: str,
    *,
    search: "SearchConfig",
    maximum: int,
    stops: Sequence[str],
    number: int,
) -> None:
    """Prints pieces as they are generated, but holds back text that may be the beginning of a stop string."""
    text, shown = "", 0
    longest = max(map(len, stops), default=1) - 1
    for piece in generator.stream(prompt, maximum=maximum, search=search, number=number):
        text += piece
        end = cut(text, stops, behind=len(prompt))
        if end < len(text):
            typer.echo(one_line(text[shown:end]), nl=False)
            shown = end
            break
        ready = max(shown, len(text) - longest)
        typer.echo(one_line(text[shown:ready]), nl=False)
        sys.stdout.flush()
        shown = ready
    else:
        typer.echo(one_line(text[shown:]), nl=False)
    typer.echo()


def _write(candidates: Sequence["Candidate"], *, prompt: str, stops: Sequence[str], format: str) -> None:
    for candidate in candidates:
        text = candidate.text[: cut(candidate.text, stops, behind=len(prompt))]
        if format == "text":
            typer.echo(one_line(text))
        else:
            values = {"prompt": prompt, "text": text, "score": candidate.score, "log_prob": candidate.log_prob}
            typer.echo(json_line({**values, "cut": candidate.cut}), nl=False)


def cut(text: str, stops: Sequence[str], *, behind: int) -> int:
    """The position of the first stop string after the prompt, which has length `behind`; if none, the text's length."""
    places = [place for string in stops if (place := text.find(string, behind)) >= 0]
    return min(places, default=len(text))
