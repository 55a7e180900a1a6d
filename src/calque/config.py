"""Configs: frozen pydantic models, read from TOML, checked all at once, written back with every default visible."""

import difflib
import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo

from calque.errors import ConfigError


class Config(BaseModel):
    """The base of every config: keyword-only, frozen, and it refuses keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


C = TypeVar("C", bound=Config)
Values = dict[str, Any]


def refuse_idle(config: Config, uses: Mapping[str, tuple[bool, str]], info: ValidationInfo) -> None:
    """Raises a ValueError that names every key which was given, is not at its default, and which nothing reads.

    `uses` says of a key whether it is read, and with what it would be. Defaults pass, given or not: a config that was
    written out shows all of them.
    """
    if (info.context or {}).get("written"):
        return
    idle = []
    for key, (is_read, need) in uses.items():
        value, default = getattr(config, key), type(config).model_fields[key].default
        if not is_read and key in config.model_fields_set and value != default:
            usual = "" if default is None else f", or at {_value(default)}"
            idle.append(f"{key} = {_value(value)} is read only with {need}; leave it out{usual}")
    if idle:
        raise ValueError("; ".join(idle))


def refuse_unread(config: Config, readers: Mapping[str, tuple[str, ...]], *, kind: str, info: ValidationInfo) -> None:
    """`refuse_idle` for a config whose `kind` says which keys are read; `readers` are the kinds that read a key."""
    needs = {key: f"kind = {' or '.join(map(repr, kinds))}" for key, kinds in readers.items()}
    refuse_idle(config, {key: (kind in kinds, needs[key]) for key, kinds in readers.items()}, info)


def check(kind: type[C], values: Values, *, origin: str, written: bool = False) -> C:
    """The config that `values` describe; otherwise a ConfigError that lists every problem with its key.

    What a run has `written` was chosen when it began: there, keys that nothing reads pass.
    """
    try:
        return kind.model_validate(values, context={"written": written})
    except ValidationError as error:
        problems = [_explain(kind, problem) for problem in error.errors(include_url=False)]
        raise ConfigError("\n".join([f"{origin}: {_count(problems)}", *(f"  {line}" for line in problems)])) from None


def read_toml(path: Path) -> Values:
    """The values in a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:  # not TOML, not UTF-8, or a number with thousands of digits
        raise ConfigError(f"{path}: not valid TOML: {error}") from None


def override(values: Values, assignments: Sequence[str], *, of: type[Config] | None = None) -> Values:
    """`values` with `section.key=value` assignments laid over them; values are TOML, or plain strings.

    Another `kind` takes over from the one that was there what means the same in both; what else belonged to that one
    goes with it. `of` is the config that the values are for, which knows the kinds.
    """
    result, assigned = _copy(values), [_assigned(each) for each in assignments]
    kinds = {tuple(sections): value for (*sections, last), value in assigned if last == "kind"}
    for path, kind in kinds.items():
        table = _part(result, path)
        for key in table.keys() & (_lost(of, path, before=table.get("kind"), after=kind) if of else set()):
            del table[key]
    for (*sections, last), value in assigned:
        table = result
        for section in sections:
            table = table.setdefault(section, {})
            if not isinstance(table, dict):
                raise ConfigError(f"{'.'.join([*sections, last])}: {section} is a value, not a section")
        table[last] = value
    return result


def _part(values: Values, path: Sequence[str]) -> Values:
    """The table at a path; an empty one where there is none."""
    found: Any = values
    for section in path:
        found = found.get(section) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _assigned(assignment: str) -> tuple[list[str], object]:
    """The sections and the key of an assignment, and its value."""
    key, separator, text = assignment.partition("=")
    if not separator or not key.strip():
        raise ConfigError(f"{assignment!r} is not an override: write section.key=value, e.g. training.steps=500")
    return key.strip().split("."), _literal(text.strip())


def to_toml(config: Config, *, section: str = "", comments: bool = False) -> str:
    """The config as TOML, every default visible; with `comments`, each key's description above it."""
    head = [f"[{section}]"] if section else []
    return "\n".join([*head, *_table(config, name=section, comments=comments)]).strip() + "\n"


def values_to_toml(values: Values) -> str:
    """Plain values as TOML; None is left out."""
    return "\n".join(_plain_table(values, name="")).strip() + "\n"


def to_values(config: Config) -> Values:
    """The config as plain values: what its TOML would read back as."""
    values: Values = tomllib.loads(to_toml(config))
    return values


def flat(values: Any, *, name: str = "") -> Iterator[tuple[str, Any]]:
    """Every value with its dotted key."""
    match values:
        case dict():
            for key, value in values.items():
                yield from flat(value, name=_join(name, key))
        case list():
            for number, value in enumerate(values, start=1):
                yield from flat(value, name=f"{name}[{number}]")
        case _:
            yield name, values


def given_values(config: Config) -> Values:
    """The values that were given and not left to their defaults; of alternatives, always which one."""
    return {
        key: _given(getattr(config, key))
        for key in type(config).model_fields
        if key in config.model_fields_set or key == "kind"
    }


def _lost(root: type[BaseModel], path: Sequence[str], *, before: object, after: object) -> set[str]:
    """The keys of a kind (None: the usual one) of a part that another has not, or that mean something else there."""
    parts, usual = [root], None
    for section in path:
        fields = [part.model_fields[section] for part in parts if section in part.model_fields]
        parts = [config for field in fields for config in _configs(field.annotation)]
        usual = next((field.default.kind for field in fields if hasattr(field.default, "kind")), None)
    old, new = ([part for part in parts if kind in _tags(part)] for kind in (before or usual, after))
    if not old or not new:
        return set()  # a kind that is not known is told of later
    ways = [{key: field.annotation for key, field in part.model_fields.items()} for part in (old[0], new[0])]
    return {key for key, annotation in ways[0].items() if key != "kind" and ways[1].get(key) != annotation}


def _given(value: object) -> object:
    match value:
        case Config():
            return given_values(value)
        case tuple() | list():
            return [_given(item) for item in value]
        case Path():
            return str(value)
        case _:
            return value


def _table(config: Config, *, name: str, comments: bool, kinds: Sequence[str] = ()) -> Iterator[str]:
    """The lines of a table; `kinds` are the alternatives to this config where there are some."""
    tables: list[tuple[str, Config, list[str]]] = []
    fields = sorted(
        type(config).model_fields.items(), key=lambda item: item[0] != "kind"
    )  # kind first, then as declared
    for key, field in fields:
        value = getattr(config, key)
        alternatives = [tag for one in _configs(field.annotation) for tag in _tags(one)]
        if isinstance(value, Config):
            tables.append((f"[{_join(name, key)}]", value, alternatives))
        elif isinstance(value, tuple | list) and value and all(isinstance(item, Config) for item in value):
            tables.extend((f"[[{_join(name, key)}]]", item, alternatives) for item in value)
        else:
            told = field.description or (f"One of: {', '.join(kinds)}." if key == "kind" and len(kinds) > 1 else "")
            if comments and told:
                yield from (f"# {line}".rstrip() for line in told.strip().splitlines())
            yield f"# {key} =" if value is None else f"{key} = {_value(value)}"
    for header, table, alternatives in tables:
        inner = header.strip("[]")
        yield from ("", header, *_table(table, name=inner, comments=comments, kinds=alternatives))


def _plain_table(values: Values, *, name: str) -> Iterator[str]:
    tables = {key: value for key, value in values.items() if isinstance(value, dict)}
    for key, value in values.items():
        if key not in tables and value is not None:
            yield f"{key} = {_value(value)}"
    for key, table in tables.items():
        yield from ("", f"[{_join(name, key)}]", *_plain_table(table, name=_join(name, key)))


def _value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str() | Path():
            return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
        case tuple() | list():
            return "[" + ", ".join(map(_value, value)) + "]"
        case dict():
            return "{ " + ", ".join(f"{_value(key)} = {_value(item)}" for key, item in value.items()) + " }"
        case _:
            raise TypeError(f"no TOML form for {type(value).__name__}")


def _join(section: str, key: str) -> str:
    return f"{section}.{key}" if section else key


def _literal(text: str) -> object:
    try:
        found = tomllib.loads(f"value = {text}")
    except ValueError:
        return text
    return found["value"] if len(found) == 1 else text  # a text of several lines may hold more than one value


def _copy(values: Mapping[str, Any]) -> Values:
    return {key: _copy(value) if isinstance(value, dict) else value for key, value in values.items()}


def _count(problems: Sequence[str]) -> str:
    return "1 problem" if len(problems) == 1 else f"{len(problems)} problems"


def _explain(root: type[BaseModel], problem: Any) -> str:
    key, owner, siblings = _locate(root, problem["loc"])
    match problem["type"]:
        case "extra_forbidden":
            names = list(owner.model_fields) if owner else []
            if kinds := [tag for one in siblings if problem["loc"][-1] in one.model_fields for tag in _tags(one)]:
                return f"{key}: unknown key with this kind; it is one of kind = {', '.join(map(repr, kinds))}"
            close = difflib.get_close_matches(str(problem["loc"][-1]), names, n=1, cutoff=0.6)
            paths = [path for path in _paths(root) if path.endswith(f".{problem['loc'][-1]}")]
            close = close or sorted(paths, key=lambda path: -_shared(path, key))[:1]
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(names))}"
            return f"{key}: unknown key; {hint}"
        case "missing":
            return f"{key}: missing"
        case "union_tag_invalid":
            tag, expected = problem["ctx"]["tag"], problem["ctx"]["expected_tags"]
            return f"{key}.kind: {tag!r} is not one of {expected}{_suggest(tag, expected)}"
        case "union_tag_not_found":
            among = _kinds(owner, problem["loc"])
            fitting = [tag for tag, one in among.items() if set(problem["input"]) <= set(one.model_fields)]
            told = f"; {', '.join(map(repr, fitting))} has what is set" if 0 < len(fitting) < len(among) else ""
            return f"{key}.kind: missing; it is one of {', '.join(map(repr, among))}{told}"
        case "model_attributes_type" | "model_type":
            is_kind = isinstance(problem["input"], str) and problem["input"] in _kinds(owner, problem["loc"])
            meant = f"set {key}.kind = {problem['input']!r}" if is_kind else f"set {key}.KEY = VALUE"
            return f"{key}: a section, not a value, found {problem['input']!r}; {meant}"
        case "literal_error":
            expected = problem["ctx"]["expected"]
            return f"{key}: {problem['input']!r} is not one of {expected}{_suggest(problem['input'], expected)}"
        case "value_error":
            return f"{key}: {problem['ctx']['error']}" if key else str(problem["ctx"]["error"])
        case _:
            message = problem["msg"][:1].lower() + problem["msg"][1:]
            return f"{key}: {message}, found {problem['input']!r}"


def _shared(one: str, other: str) -> int:
    """How many sections two keys begin with together."""
    pairs = zip(one.split("."), other.split("."), strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))


def _suggest(found: object, expected: str) -> str:
    names = [name.strip("'\" ") for name in expected.replace(" or ", ",").split(",")]
    close = difflib.get_close_matches(str(found), names, n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def _kinds(owner: type[BaseModel] | None, location: Sequence[str | int]) -> dict[Any, type[BaseModel]]:
    """The alternatives of the union that a key of its owner is, by their tags."""
    name = next((part for part in reversed(location) if isinstance(part, str)), "")
    field = owner.model_fields.get(name) if owner else None
    return {tag: one for one in _configs(field.annotation) for tag in _tags(one)} if field else {}


def _locate(
    root: type[BaseModel], location: Sequence[str | int]
) -> tuple[str, type[BaseModel] | None, list[type[BaseModel]]]:
    """The dotted key of an error (without the union tags pydantic puts in), the config that owns the key, and the
    alternatives to that config where it is one of a union."""
    key, owner = "", root
    alternatives: list[type[BaseModel]] = [root]
    union: list[type[BaseModel]] = []
    siblings: list[type[BaseModel]] = []
    for part in location:
        tagged = [one for one in alternatives if part in _tags(one)]
        if isinstance(part, int):
            key += f"[{part + 1}]"
        elif tagged and not any(part in one.model_fields for one in alternatives):
            union, alternatives = alternatives, tagged
        else:
            siblings, union = union, []
            key = _join(key, str(part))
            owners = [one for one in alternatives if part in one.model_fields]
            owner = (owners or alternatives or [owner])[0]
            alternatives = _configs(owner.model_fields[part].annotation) if owners else alternatives
    return key, owner, siblings


def _paths(config: type[BaseModel], *, name: str = "") -> Iterator[str]:
    """Every dotted key of a config, of all alternatives."""
    for key, field in config.model_fields.items():
        yield _join(name, key)
        for part in _configs(field.annotation):
            yield from _paths(part, name=_join(name, key))


def _tags(config: type[BaseModel]) -> tuple[Any, ...]:
    field = config.model_fields.get("kind")
    return get_args(field.annotation) if field else ()


def _configs(annotation: object) -> list[type[BaseModel]]:
    """Every config class an annotation mentions."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for part in get_args(annotation) for found in _configs(part)]
