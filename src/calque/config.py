"""Configs: frozen pydantic models that are read from TOML, validated in one pass, and written with all defaults."""

import ast
import difflib
import inspect
import json
import textwrap
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, ValidationError, ValidationInfo
from pydantic_core import CoreSchema

from calque.errors import ConfigError
from calque.parsing import DEEPEST, parse_toml


class Config(BaseModel):
    """The base class of all configs. They are keyword-only and frozen, and unknown keys are rejected."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        described = handler(schema)
        properties = handler.resolve_ref_schema(described).get("properties", {})
        for key, description in descriptions(cls).items():
            properties[key].setdefault("description", description)
        return described


@lru_cache
def descriptions(kind: type[Config]) -> dict[str, str]:
    """The docstring below each field of a config, by its key.

    They are read from the source code only when they are shown; pydantic would read all of them at every start.
    """
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if not issubclass(base, Config) or base is Config:
            continue
        (declared,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        assert isinstance(declared, ast.ClassDef)
        for field, below in zip(declared.body, [*declared.body[1:], None], strict=True):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=key)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[key] = inspect.cleandoc(text)
                case ast.AnnAssign(target=ast.Name(id=key)), _:
                    found.pop(key, None)
    return {key: found[key] for key in kind.model_fields if key in found}


EXPLAINED = 50
"""The number of problems per config that are described; the remaining ones are only counted."""

_SHOWN = 200  # characters of a key or a value in a message

C = TypeVar("C", bound=Config)
Values = dict[str, Any]


def refuse_unused(config: Config, uses: Mapping[str, tuple[bool, str]], info: ValidationInfo) -> None:
    """Raises a ValueError that names every key that is set but has no effect, unless its value is the default.

    `uses` maps each key to two values: whether the key has an effect, and the setting with which it would have one.
    Default values are accepted even if set explicitly, because a config that was written to a file lists all of them.
    """
    if (info.context or {}).get("written"):
        return
    unused = []
    for key, (is_read, requirement) in uses.items():
        value, default = getattr(config, key), type(config).model_fields[key].default
        if not is_read and key in config.model_fields_set and value != default:
            alternative = "" if default is None else f", or set it to {_value(default)}"
            unused.append(f"{key} = {_value(value)} is used only with {requirement}; leave it out{alternative}")
    if unused:
        raise ValueError("; ".join(unused))


def refuse_unused_by_kind(
    config: Config, readers: Mapping[str, tuple[str, ...]], *, kind: str, info: ValidationInfo
) -> None:
    """`refuse_unused` for keys that only some kinds of a config use; `readers` maps each key to these kinds."""
    requirements = {key: f"kind = {' or '.join(map(repr, kinds))}" for key, kinds in readers.items()}
    refuse_unused(config, {key: (kind in kinds, requirements[key]) for key, kinds in readers.items()}, info)


def check(kind: type[C], values: Values, *, origin: str, written: bool = False) -> C:
    """The config that `values` describe. Raises a ConfigError that lists every problem with its key.

    A config `written` by a run was validated when the run started, so unused keys are accepted in it.
    """
    try:
        return kind.model_validate(values, context={"written": written})
    except ValidationError as error:
        problems = error.errors(include_url=False)
        explained = [_explain(kind, problem) for problem in problems[:EXPLAINED]]
        if len(problems) > EXPLAINED:
            explained.append(f"... and {len(problems) - EXPLAINED:,} more")
        raise ConfigError("\n".join([f"{origin}: {_count(problems)}", *(f"  {line}" for line in explained)])) from None


def read_toml(path: Path) -> Values:
    """The values in a TOML file."""
    try:
        return parse_toml(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:  # not TOML, not UTF-8, nested too deeply, or a number with thousands of digits
        raise ConfigError(f"{path}: not valid TOML: {error}") from None


def override(values: Values, assignments: Sequence[str], *, of: type[Config] | None = None) -> Values:
    """`values` overridden by `section.key=value` assignments; assigned values are TOML or plain strings.

    When a `kind` is replaced, keys that mean the same in both kinds are kept and the other keys of the old kind are
    dropped. `of` is the config class that declares the kinds; without it, no keys are dropped.
    """
    result, overrides = _copy(values), [_parse_assignment(assignment) for assignment in assignments]
    kinds = {tuple(sections): value for (*sections, last), value in overrides if last == "kind"}
    for path, kind in kinds.items():
        table = _table_at(result, path)
        for key in table.keys() & (_dropped_keys(of, path, before=table.get("kind"), after=kind) if of else set()):
            del table[key]
    for (*sections, last), value in overrides:
        table = result
        for section in sections:
            table = table.setdefault(section, {})
            if not isinstance(table, dict):
                raise ConfigError(f"{'.'.join([*sections, last])}: {section} is a value, not a section")
        table[last] = value
    return result


def _table_at(values: Values, path: Sequence[str]) -> Values:
    """The nested table of `values` at a path of section names; an empty table if there is none."""
    table: Any = values
    for section in path:
        table = table.get(section) if isinstance(table, dict) else None
    return table if isinstance(table, dict) else {}


def _parse_assignment(assignment: str) -> tuple[list[str], object]:
    """The parts of the dotted key, and the value, of an assignment such as training.steps=500."""
    key, separator, text = assignment.partition("=")
    if not separator or not key.strip():
        raise ConfigError(f"{assignment!r} is not an override: write section.key=value, e.g. training.steps=500")
    sections = key.strip().split(".")
    if len(sections) > DEEPEST:
        raise ConfigError(
            f"{key[:40]}...: the key has {len(sections):,} sections, which is too many; write section.key=value"
        )
    return sections, _literal(text.strip())


def to_toml(config: Config, *, section: str = "", comments: bool = False) -> str:
    """The config as TOML with every default shown; with `comments`, each key is preceded by its description."""
    head = [f"[{section}]"] if section else []
    return "\n".join([*head, *_table(config, name=section, comments=comments)]).strip() + "\n"


def values_to_toml(values: Values) -> str:
    """Plain values as TOML; None values are left out."""
    return "\n".join(_plain_table(values, name="")).strip() + "\n"


def to_values(config: Config) -> Values:
    """The config as the plain values that its TOML would parse to."""
    values: Values = tomllib.loads(to_toml(config))
    return values


def flat(values: Any, *, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yields every value with its dotted key."""
    match values:
        case dict():
            for key, value in values.items():
                yield from flat(value, name=_join(name, key))
        case list():
            for number, value in enumerate(values, start=1):
                yield from flat(value, name=f"{name}[{number}]")
        case _:
            yield name, values


def explicit_values(config: Config) -> Values:
    """The values that were set explicitly rather than left at their defaults; `kind` is always included."""
    return {
        key: _explicit(getattr(config, key))
        for key in type(config).model_fields
        if key in config.model_fields_set or key == "kind"
    }


def _dropped_keys(root: type[BaseModel], path: Sequence[str], *, before: object, after: object) -> set[str]:
    """The keys of a section of kind `before` (None: the default) that kind `after` lacks or has with another type."""
    configs, default = [root], None
    for section in path:
        fields = [config.model_fields[section] for config in configs if section in config.model_fields]
        configs = [config for field in fields for config in _configs(field.annotation)]
        default = next((field.default.kind for field in fields if hasattr(field.default, "kind")), None)
    old, new = ([config for config in configs if kind in _tags(config)] for kind in (before or default, after))
    if not old or not new:
        return set()  # an unknown kind is reported later, by `check`
    old_types, new_types = (
        {key: field.annotation for key, field in config.model_fields.items()} for config in (old[0], new[0])
    )
    return {key for key, type_ in old_types.items() if key != "kind" and new_types.get(key) != type_}


def _explicit(value: object) -> object:
    match value:
        case Config():
            return explicit_values(value)
        case tuple() | list():
            return [_explicit(item) for item in value]
        case Path():
            return str(value)
        case _:
            return value


def _table(config: Config, *, name: str, comments: bool, kinds: Sequence[str] = ()) -> Iterator[str]:
    """Yields the lines of a config as a TOML table; `kinds` are the possible values of its key `kind`, if any."""
    tables: list[tuple[str, Config, list[str]]] = []
    fields = sorted(
        type(config).model_fields.items(), key=lambda item: item[0] != "kind"
    )  # kind first, then as declared
    for key, field in fields:
        value = getattr(config, key)
        alternatives = [tag for config_type in _configs(field.annotation) for tag in _tags(config_type)]
        if isinstance(value, Config):
            tables.append((f"[{_join(name, key)}]", value, alternatives))
        elif isinstance(value, tuple | list) and value and all(isinstance(item, Config) for item in value):
            tables.extend((f"[[{_join(name, key)}]]", item, alternatives) for item in value)
        else:
            choices = f"One of: {', '.join(kinds)}." if key == "kind" and len(kinds) > 1 else ""
            description = (descriptions(type(config)).get(key) if comments else "") or choices
            if comments and description:
                yield from (f"# {line}".rstrip() for line in description.strip().splitlines())
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
        case int() if value.bit_length() > 64 * 16:
            raise ConfigError(f"{_shown(value)}: the number is too large for a config; at most 1,024 bits are allowed")
        case int() | float():
            return repr(value)
        case str() | Path():
            return json.dumps(_utf8(str(value)), ensure_ascii=False).replace("\x7f", "\\u007f")
        case tuple() | list():
            return "[" + ", ".join(map(_value, value)) + "]"
        case dict():
            return "{ " + ", ".join(f"{_value(key)} = {_value(item)}" for key, item in value.items()) + " }"
        case _:
            raise TypeError(f"a value of type {type(value).__name__} cannot be written as TOML")


def _utf8(text: str) -> str:
    """Returns `text` unchanged; raises a ConfigError for a path that is not UTF-8, which contains surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        shown = text.encode(errors="backslashreplace").decode()
        raise ConfigError(
            f"{shown}: its name is not UTF-8, so it cannot be in a config; rename it, or link to it under another name"
        ) from None
    return text


def _join(section: str, key: str) -> str:
    return f"{section}.{key}" if section else key


def _literal(text: str) -> object:
    try:
        table = parse_toml(f"value = {text}")
    except ValueError:
        return text
    return table["value"] if len(table) == 1 else text  # text with line breaks may parse as several keys


def _copy(values: Mapping[str, Any]) -> Values:
    return {key: _copy(value) if isinstance(value, dict) else value for key, value in values.items()}


def _count(problems: Sequence[object]) -> str:
    return "1 problem" if len(problems) == 1 else f"{len(problems):,} problems"


def _explain(root: type[BaseModel], problem: Any) -> str:
    key, owner, siblings = _locate(root, problem["loc"])
    key = _shortened(key)
    match problem["type"]:
        case "extra_forbidden":
            name, names = str(problem["loc"][-1]), list(owner.model_fields) if owner else []
            if kinds := [tag for config in siblings if name in config.model_fields for tag in _tags(config)]:
                return f"{key}: unknown key for this kind; it belongs to kind = {', '.join(map(repr, kinds))}"
            close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
            section = key.rpartition(".")[0]
            close = [f"{section}.{match}" if section else match for match in close]
            paths = [] if close else _paths_ending(root).get(name, ())
            close = close or sorted(paths, key=lambda path: -_common_sections(path, key))[:1]
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(names))}"
            return f"{key}: unknown key; {hint}"
        case "missing":
            return f"{key}: missing"
        case "union_tag_invalid":
            tag, expected = problem["ctx"]["tag"], problem["ctx"]["expected_tags"]
            return f"{key}.kind: {_shown(tag)} is not one of {expected}{_suggest(tag, expected)}"
        case "union_tag_not_found":
            alternatives = _kinds(owner, problem["loc"])
            matching = [
                tag for tag, config in alternatives.items() if set(problem["input"]) <= set(config.model_fields)
            ]
            is_hint = 0 < len(matching) < len(alternatives)
            hint = f"; the keys that are set match {', '.join(map(repr, matching))}" if is_hint else ""
            return f"{key}.kind: missing; expected one of {', '.join(map(repr, alternatives))}{hint}"
        case "model_attributes_type" | "model_type":
            is_kind = isinstance(problem["input"], str) and problem["input"] in _kinds(owner, problem["loc"])
            correction = f"set {key}.kind = {_shown(problem['input'])}" if is_kind else f"set {key}.KEY = VALUE"
            return f"{key}: expected a section, found the value {_shown(problem['input'])}; {correction}"
        case "literal_error":
            expected = problem["ctx"]["expected"]
            return f"{key}: {_shown(problem['input'])} is not one of {expected}{_suggest(problem['input'], expected)}"
        case "value_error":
            return f"{key}: {problem['ctx']['error']}" if key else str(problem["ctx"]["error"])
        case _:
            message = problem["msg"][:1].lower() + problem["msg"][1:]
            return f"{key}: {message}, found {_shown(problem['input'])}"


def _shown(value: object) -> str:
    """A value as error messages show it: its repr, shortened if it is long."""
    try:
        return _shortened(repr(value))
    except ValueError:  # Python does not convert integers of more than a few thousand digits to text
        return "a number with thousands of digits"


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _common_sections(first: str, second: str) -> int:
    """The number of leading parts that two dotted keys have in common: 2 for a.b.c and a.b.d."""
    pairs = zip(first.split("."), second.split("."), strict=False)
    return len(list(takewhile(lambda pair: pair[0] == pair[1], pairs)))


def _suggest(value: object, expected: str) -> str:
    names = [name.strip("'\" ") for name in expected.replace(" or ", ",").split(",")]
    close = difflib.get_close_matches(value, names, n=1, cutoff=0.6) if isinstance(value, str) else []
    return f"; did you mean {close[0]!r}?" if close else ""


def _kinds(owner: type[BaseModel] | None, location: Sequence[str | int]) -> dict[Any, type[BaseModel]]:
    """The config classes, by their `kind`, allowed as the value of the last key in `location`, a field of `owner`."""
    name = next((part for part in reversed(location) if isinstance(part, str)), "")
    field = owner.model_fields.get(name) if owner else None
    return {tag: config for config in _configs(field.annotation) for tag in _tags(config)} if field else {}


def _locate(
    root: type[BaseModel], location: Sequence[str | int]
) -> tuple[str, type[BaseModel] | None, list[type[BaseModel]]]:
    """The dotted key of a pydantic error's `location`, the config class with that key, and the members of its union.

    The key omits the union tags that pydantic inserts; there are no members if the class belongs to no union.
    """
    key, owner = "", root
    alternatives: list[type[BaseModel]] = [root]
    union: list[type[BaseModel]] = []
    siblings: list[type[BaseModel]] = []
    for part in location:
        tagged = [config for config in alternatives if part in _tags(config)]
        if isinstance(part, int):
            key += f"[{part + 1}]"
        elif tagged and not any(part in config.model_fields for config in alternatives):
            union, alternatives = alternatives, tagged
        else:
            siblings, union = union, []
            key = _join(key, str(part))
            owners = [config for config in alternatives if part in config.model_fields]
            owner = (owners or alternatives or [owner])[0]
            alternatives = _configs(owner.model_fields[part].annotation) if owners else alternatives
    return key, owner, siblings


@lru_cache(maxsize=8)
def _paths_ending(root: type[BaseModel]) -> dict[str, tuple[str, ...]]:
    """Maps a key's last part to all dotted keys of a config that end in it; top-level keys are left out."""
    paths: dict[str, tuple[str, ...]] = {}
    for path in _paths(root):
        sections, _, last = path.rpartition(".")
        if sections:
            paths[last] = (*paths.get(last, ()), path)
    return paths


def _paths(config: type[BaseModel], *, name: str = "") -> Iterator[str]:
    """Yields every dotted key of a config class, in every alternative of its unions; `name` is put in front."""
    for key, field in config.model_fields.items():
        yield _join(name, key)
        for section in _configs(field.annotation):
            yield from _paths(section, name=_join(name, key))


def _tags(config: type[BaseModel]) -> tuple[Any, ...]:
    field = config.model_fields.get("kind")
    return get_args(field.annotation) if field else ()


def _configs(annotation: object) -> list[type[BaseModel]]:
    """Every config class that occurs in a type annotation."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [config for part in get_args(annotation) for config in _configs(part)]
