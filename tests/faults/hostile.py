"""Malformed command lines and damaged model folders, drawn at random from a seed.

Commands, options and settings are read from the program itself, so that a new option is tried as soon as it is there.
"""

import hashlib
import json
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import typer.main

from calque.commands.main import app
from calque.config import _paths, check, flat, to_values
from calque.experiment import Experiment
from calque.folders import writing
from calque.models.systems import system_model
from calque.search.settings import SearchConfig

COUNTS = ("0", "1", "2", "3", "7", "40", "1000", "65536", "3000000", "4294967296")
SHARES = ("0", "0.01", "0.3", "0.5", "0.9", "1", "1.5", "20", "1e-300", "1e300")
NUMBERS = (*COUNTS, "-1", "0.5", "1e3", "nan", "-inf", "1e999", "1e-30", "9" * 25, "9" * 400, "9" * 5000, "0x7f", "１")
TEXTS = ("", " ", "a b c", "-", "--", "-h", "=", "a=", "=a", "a=b", "%s{}$(id)`id`", "'\"\\", "\n", "\u2028", "\udcff")
LONG = ("[" * 3000, "{a=" * 500, ".".join("a" * 300), "x" * 100_000)
FILES = (
    "source",
    "target",
    "text",
    "words.txt",
    "terms.tsv",
    "empty",
    "binary",
    "packed.gz",
    "config.toml",
    "deep.toml",
    "users.txt",
    "audio/manifest.jsonl",
    "audio/0.wav",
    "images/manifest.jsonl",
    "images/0.png",
    "model.arpa",
)
RUNS = (
    "translation",
    "subwords",
    "language",
    "tagger",
    "embedding",
    "recommendation",
    "recognition",
    "captioning",
    "ngrams",
    "hidden-markov",
    "phrases",
    "translation/model",
    "missing",
    "empty-folder",
    "source",
)
PLACES = ("new", "source", "empty-folder", "missing/new", "/dev/null", "/dev/full", "/", ".", "link", "\udcff/new")
WORDS = {
    "device": ("auto", "cpu", "cuda", "tpu"),
    "precision": ("auto", "float32", "float64", "bfloat16", "int8", "int3"),
    "format": ("text", "tsv", "jsonl", "conllu", "columns", "xml"),
    "invalid": ("fail", "skip", "replace", "drop"),
    "long": ("cut", "split", "fold"),
    "system": ("tiny", "small", "sutskever2014", "kneser-ney", "brants2000", "koehn2003", "kang2018", "xu2015", "bert"),
    "columns": ("form,pos,chunk", "form", "form,form", ",", "1,2"),
    "label": ("pos", "chunk", "none"),
    "from": ("zh", "en", "xx"),
    "of": ("last", "best", "all"),
}
VALUES = ("true", "none", "beam", "sample", "risk", "[]", "[1, 2]", "{}", "{kind='x'}", "1979-05-27", '"a"', "auto")

_SMALL = "--scale 0.1 training.steps=2 training.validate_every=2 training.batch.workers=0 --run new"
SOUND = [
    line.split()
    for line in (
        "translate translation",
        "translate subwords --input source --output new",
        "translate translation --nbest 3 --format jsonl --attention",
        "translate translation --terms terms.tsv --forbid terms.tsv --long split",
        "translate translation --ensemble translation method=sample",
        "translate translation --reverse translation --replace-unknown",
        "translate subwords method=risk samples=4",
        "generate language --prompt a --maximum 9",
        "generate language --beam 3 --maximum 9 --nbest 2 --format jsonl",
        "tag tagger --format columns --input words.txt",
        "align --source source --target target --output new",
        "align --tsv terms.tsv --model ibm1 --iterations 1 1 --lexicon new",
        "score translation --source source --target target",
        "score language --target text --format jsonl",
        "evaluate translation --source source --reference target --beam 1",
        "evaluate language --text text",
        "evaluate tagger --conll words.txt --columns form,pos,chunk",
        "data check --source source --target target",
        "data prepare --source source --target target --out new text.kind=words",
        "data phrasebook --out new --pairs 60",
        f"train --source source --target target --system tiny text.kind=words text.joint=true {_SMALL}",
        f"train --source source --target target --system luong2015 {_SMALL}",
        f"train --text text text.kind=characters {_SMALL}",
        f"train --conll words.txt --columns form,pos,chunk {_SMALL}",
        "train --resume translation",
        "train --config config.toml",
        "train --text text --system kneser-ney text.kind=tokens --run new",
        "train --conll words.txt --columns form,pos,chunk --system brants2000 --run new",
        "train --source source --target target --system dictionary --run new",
        f"train --source source --target target --system sentences {_SMALL}",
        f"train --sequences users.txt {_SMALL}",
        f"train --audio audio/manifest.jsonl {_SMALL}",
        f"train --images images/manifest.jsonl {_SMALL}",
        "translate phrases --nbest 2 --format jsonl",
        "generate ngrams --prompt a --maximum 9",
        "tag hidden-markov --format columns --input words.txt",
        "recommend recommendation --input users.txt --top 3",
        "recommend recommendation --json --exclude-seen",
        "transcribe recognition audio/0.wav audio/1.wav --format tsv",
        "transcribe recognition audio/0.wav --timestamps --beam 3",
        "caption captioning images/0.png images/1.png --beam 2",
        "caption captioning images/0.png --json --attention new",
        "embed embedding --input source --output new.npy",
        "embed translation --pooling mean --normalise --jsonl",
        "embed embedding --input text --nearest target --top 2",
        "ngram export ngrams --output new.arpa",
        "ngram import model.arpa new",
        "evaluate ngrams --text text",
        "evaluate hidden-markov --conll words.txt --columns form,pos,chunk",
        "evaluate phrases --source source --reference target",
        "evaluate recommendation --sequences users.txt",
        "evaluate recognition --audio audio/manifest.jsonl --beam 2",
        "evaluate captioning --images images/manifest.jsonl",
        "evaluate embedding --source source --target target",
        "inspect translation --limit 2 --source source --format json",
        "inspect language a --output new.html",
        "inspect phrases a --format json",
        "inspect recommendation --source users.txt --limit 2",
        "inspect captioning --image images/0.png",
        "inspect embedding a b --output new.json",
        "inspect hidden-markov a --format text",
        "compare translation subwords --source source --reference target --bootstrap 20 --randomisation 20",
        "compare source target --reference target --metric chrf --bootstrap 20 --randomisation 20",
        "compare language ngrams --text text",
        "compare hidden-markov first=hidden-markov --conll words.txt --columns form,pos,chunk",
        "data check --sequences users.txt",
        "data check --audio audio/manifest.jsonl",
        "data check --images images/manifest.jsonl",
        "data scenes --out new --pairs 50 --pixels 32",
        "average translation --output new",
        "runs .",
        "systems",
        "systems tiny --scale 0.5",
        "init new.toml --source source --target target",
        "doctor",
        "quickstart --no-such-option",
    )
]
"""Lines without a mistake (but the last, which would train for minutes), each of which is then spoilt a little."""


class CommandLine(NamedTuple):
    """Arguments of `calque`, and the file that is its standard input."""

    arguments: list[str]
    input: str


def _commands() -> dict[tuple[str, ...], list[Any]]:
    """The options of each command."""
    group: Any = typer.main.get_command(app)
    listed: dict[tuple[str, ...], list[Any]] = {}
    for name, command in group.commands.items():
        inner = getattr(command, "commands", None)
        rows = {(name, part): inner[part] for part in inner} if inner else {(name,): command}
        for names, row in rows.items():
            listed[names] = [parameter for parameter in row.params if parameter.param_type_name == "option"]
    return listed


COMMANDS = _commands()
TAKES_SETTINGS = ("translate", "generate", "transcribe", "caption", "evaluate", "inspect", "train", "init", "data")
SEARCH = list(flat(to_values(SearchConfig())))
KEYS = sorted(set(_paths(Experiment)))
_CORPUS = {"train": [{"kind": "files", "source": "source", "target": "target"}]}
_WHOLE = check(Experiment, {"data": _CORPUS, "model": to_values(system_model("luong2015"))}, origin="")
EXPERIMENT = [(key, value) for key, value in flat(to_values(_WHOLE)) if not key.startswith("data.train")]


def command_line(generator: random.Random) -> CommandLine:
    """A sound command line after up to three changes, most of them plausible."""
    arguments = list(generator.choice(SOUND))
    names = tuple(arguments[: 2 if arguments[0] in ("data", "ngram") else 1])
    for _ in range(generator.choice((0, 1, 1, 1, 1, 2, 3))):
        draw, place = generator.random(), generator.randint(len(names), len(arguments))
        if draw < 0.3 and COMMANDS[names]:
            option = generator.choice(COMMANDS[names])
            is_bare = option.is_flag and generator.random() < 0.9
            arguments += [option.opts[0], *([] if is_bare else [_value(option, generator)])]
        elif draw < 0.75 and names[0] in TAKES_SETTINGS:
            arguments.append(_setting(names, generator))
        elif draw < 0.85 and place < len(arguments):
            arguments[place] = generator.choice((*RUNS, *FILES, *PLACES, *TEXTS, *NUMBERS, *LONG))
        elif draw < 0.9 and place < len(arguments):
            del arguments[place]
        elif draw < 0.95:
            arguments.insert(place, generator.choice((*TEXTS, *NUMBERS, *LONG)))
        else:
            generator.shuffle(arguments)
    return CommandLine(arguments, generator.choice(("text", "text", "text", "empty", "binary", "words.txt")))


def _value(option: Any, generator: random.Random) -> str:
    if generator.random() < 0.25:
        return generator.choice(generator.choice((NUMBERS, TEXTS, FILES, RUNS, PLACES, LONG)))
    if option.name in WORDS:
        return generator.choice(WORDS[option.name])
    if option.name in ("beam", "nbest", "maximum", "batch_tokens", "pairs", "seed", "count", "scale"):
        return generator.choice(COUNTS)
    if option.name in ("run", "output", "out"):
        return generator.choice(PLACES)
    if option.name in ("ensemble", "language", "reverse", "resume"):
        return generator.choice(RUNS)
    return generator.choice(("a", "b c", *TEXTS) if option.name in ("prompt", "stop") else FILES)


def _setting(names: tuple[str, ...], generator: random.Random) -> str:
    """A setting with a value of its kind, or one with any key and any value."""
    is_experiment = names[0] in ("train", "init", "data")
    if generator.random() < 0.8:
        key, value = generator.choice(EXPERIMENT if is_experiment else SEARCH)
        match value:
            case bool():
                return f"{key}={generator.choice(('true', 'false'))}"
            case int():
                return f"{key}={generator.choice(COUNTS[:6])}"
            case float():
                return f"{key}={generator.choice(SHARES)}"
            case str():
                return f"{key}={generator.choice(VALUES)}"
    key = generator.choice(KEYS if is_experiment else list(SearchConfig.model_fields))
    key = key if generator.random() < 0.9 else generator.choice(TEXTS + LONG)
    return f"{key}={generator.choice(generator.choice((COUNTS, NUMBERS, VALUES, (*TEXTS, *LONG))))}"


Damage = Callable[[Path, random.Random], None]


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def _flip(folder: Path, generator: random.Random) -> None:
    path = generator.choice(_files(folder))
    content = bytearray(path.read_bytes())
    content[generator.randrange(len(content))] ^= 1 << generator.randrange(8)
    path.write_bytes(content)


def _truncate(folder: Path, generator: random.Random) -> None:
    path = generator.choice(_files(folder))
    os.truncate(path, generator.randrange(path.stat().st_size))


def _lengthen(folder: Path, generator: random.Random) -> None:
    path = generator.choice(_files(folder))
    path.write_bytes(path.read_bytes() + generator.randbytes(generator.randint(1, 9)))


def _delete(folder: Path, generator: random.Random) -> None:
    generator.choice(_files(folder)).unlink()


def _add(folder: Path, generator: random.Random) -> None:
    name = generator.choice(("more.txt", "tokenizer/more", "code.py", ".hidden", "\udcff", "a" * 250, "config.toml~"))
    (folder / name).write_text(generator.choice(("", "import os\n")), encoding="utf-8")


def _rename(folder: Path, generator: random.Random) -> None:
    path = generator.choice(_files(folder))
    path.rename(path.with_name(generator.choice(("other", "weights.bin", "manifest.json", "config.yaml"))))


def _swap(folder: Path, generator: random.Random) -> None:
    first, second = generator.sample(_files(folder), 2)
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)


def _link(folder: Path, generator: random.Random) -> None:
    path = generator.choice(_files(folder))
    path.rename(folder.parent / "elsewhere")
    path.symlink_to(generator.choice((folder.parent / "elsewhere", Path("/dev/zero"), path, Path("missing"))))


def _replace_by_other_kind(folder: Path, generator: random.Random) -> None:
    path = generator.choice(_files(folder))
    path.unlink()
    generator.choice((path.mkdir, lambda: os.mkfifo(path)))()


def _forbid(folder: Path, generator: random.Random) -> None:
    generator.choice([folder, *_files(folder)]).chmod(0)


def _foreign(folder: Path, generator: random.Random) -> None:
    """A file of another model under its own name."""
    path = generator.choice(_files(folder))
    others = [other for other in folder.parent.glob(f"*/model/{path.relative_to(folder)}") if other != path]
    if others:
        shutil.copyfile(generator.choice(others), path)


UNSEALED: dict[str, Damage] = {
    "a flipped bit": _flip,
    "a truncated file": _truncate,
    "a longer file": _lengthen,
    "a missing file": _delete,
    "one file more": _add,
    "a renamed file": _rename,
    "two files swapped": _swap,
    "a link": _link,
    "a folder or a pipe for a file": _replace_by_other_kind,
    "no permission": _forbid,
    "a file of another model": _foreign,
}

_NUMBER = re.compile(r"(?<![\w.])-?\d+(\.\d+)?(e-?\d+)?(?![\w.])")


def _edit(folder: Path, generator: random.Random) -> None:
    """Changes a text file and makes everything that was computed from it fit again, as a hostile maker would."""
    texts = [path for path in _files(folder) if path.suffix in (".toml", ".json", ".vocabulary")]
    path = generator.choice([path for path in texts if path.name != "manifest.json"])
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    number = generator.randrange(len(lines))
    places = list(_NUMBER.finditer(text))
    change = generator.choice((0, 0, 0, 1, 2, 3, 4, 5, 6))
    if change == 0 and places:
        place = generator.choice(places)
        text = text[: place.start()] + generator.choice((*NUMBERS, "NaN", "[]", "null", '"a"')) + text[place.end() :]
    elif change == 1:
        del lines[number]
        text = "".join(lines)
    elif change == 2:
        lines.insert(number, generator.choice(lines))
        text = "".join(lines)
    elif change == 3:
        deep = generator.choice(("[" * 5000 + "]" * 5000, '{"a":' * 900 + "1" + "}" * 900))
        text = text.replace(lines[number], deep if path.suffix == ".json" else f"a = {deep}\n", 1)
    elif change == 4:
        lines[number] = lines[number].replace("=", "= [", 1).replace(":", ": {", 1)
        text = "".join(lines)
    elif change == 5:
        text = generator.choice(("", "null", "[]", "{}", '"a"', "1", "\ufeff" + text, text + "\0"))
    else:
        words = re.findall(r"[A-Za-z_]{3,}", text)
        text = text.replace(generator.choice(words), generator.choice((*words, "é", "")), 1) if words else ""
    path.write_text(text, encoding="utf-8")
    reseal(folder)


def _spoil_tokenizer(folder: Path, generator: random.Random) -> None:
    files = _files(folder / "tokenizer")
    path = generator.choice([path for path in files if path.name != "tokenizer.json"] or files)
    content = bytearray(path.read_bytes())
    place = generator.randrange(len(content))
    garbage = generator.randbytes(generator.randint(1, 8))
    ways = (content[:place], content[:place] + garbage + content[place:], bytearray(garbage), content + content[place:])
    content = generator.choice(ways)
    for _ in range(generator.choice((0, 3))):
        content[generator.randrange(len(content))] = generator.randrange(256) if content else 0
    path.write_bytes(content)
    reseal(folder)


def _spoil_weights(folder: Path, generator: random.Random) -> None:
    path = folder / "weights.safetensors"
    content = bytearray(path.read_bytes())
    header = 8 + int.from_bytes(content[:8], "little")
    for _ in range(generator.randint(1, 3)):
        content[generator.randrange(generator.choice((8, header, len(content))))] = generator.randrange(256)
    path.write_bytes(generator.choice((content, content, content[: generator.randrange(len(content))])))
    reseal(folder)


RESEALED: dict[str, Damage] = {
    "an edited file, resealed": _edit,
    "a spoilt tokenizer, resealed": _spoil_tokenizer,
    "spoilt weights, resealed": _spoil_weights,
}


def reseal(folder: Path) -> None:
    """Writes the hashes of tokenizer.json and the manifest again, so that they fit the files."""
    described = folder / "tokenizer" / "tokenizer.json"
    try:
        values = json.loads(described.read_bytes())
        for name in values["files"]:
            values["files"][name] = hashlib.sha256((described.parent / name).read_bytes()).hexdigest()
        described.write_text(json.dumps(values), encoding="utf-8")
    except (ValueError, KeyError, TypeError, OSError, RecursionError):
        pass  # it is itself what was edited
    manifest = json.loads((folder / "manifest.json").read_bytes())
    (folder / "manifest.json").unlink()
    writing._seal(folder, kind=manifest["kind"], format=manifest["format"], details=manifest["details"])
