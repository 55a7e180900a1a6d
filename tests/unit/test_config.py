"""Configs: all problems at once with their keys, TOML round trips, overrides."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import Field, ValidationError
from pydantic._internal._docs_extraction import extract_docstrings_from_cls

from calque.config import Config, _configs, check, descriptions, override, read_toml, to_toml, to_values
from calque.errors import ConfigError
from calque.experiment import Experiment


class Constant(Config):
    """A constant rate."""

    kind: Literal["constant"] = "constant"
    rate: float = Field(default=0.1, gt=0)
    """The learning rate.

    In two paragraphs."""


class Warmup(Config):
    """A rate that increases."""

    kind: Literal["warmup"] = "warmup"
    steps: int = 10
    peak: Constant = Constant()


Schedule = Annotated[Constant | Warmup, Field(discriminator="kind")]


class Corpus(Config):
    """Two files."""

    source: Path
    weights: dict[str, float] = Field(default_factory=dict)


class Root(Config):
    """A field of every type."""

    name: str = "run"
    """The name of the run."""
    width: int = 5
    rate: float = 0.5
    quiet: bool = False
    level: Literal["low", "high"] = "low"
    limit: int | None = None
    words: tuple[str, ...] = ()
    schedule: Schedule = Constant()
    corpora: tuple[Corpus, ...] = ()
    schedules: tuple[Schedule, ...] = ()


def problems(values: dict[str, object]) -> list[str]:
    """The lines of the error message after the first."""
    with pytest.raises(ConfigError) as caught:
        check(Root, values, origin="run.toml")
    first, *lines = str(caught.value).split("\n")
    assert first == f"run.toml: {len(lines)} problem{'s' if len(lines) > 1 else ''}"
    return [line.strip() for line in lines]


# Problems and their keys


def test_a_config_is_frozen_and_keyword_only() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Root().width = 6
    with pytest.raises(TypeError):
        Root("run")


def test_all_problems_are_reported_at_once() -> None:
    lines = problems(
        {"width": "wide", "quiet": 7, "corpora": [{}], "nonsense": 1, "schedule": {"kind": "constant", "rate": 0}}
    )
    assert sorted(line.split(":")[0] for line in lines) == [
        "corpora[1].source",
        "nonsense",
        "quiet",
        "schedule.rate",
        "width",
    ]


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"widht": 3}, "widht: unknown key; did you mean 'width'?"),
        ({"schedule": {"kind": "warmup", "stesp": 1}}, "schedule.stesp: unknown key; did you mean 'schedule.steps'?"),
        ({"schedule": {"kind": "constant", "qqq": 1}}, "schedule.qqq: unknown key; known: kind, rate"),
        (
            {"schedule": {"kind": "constant", "peak": {}}},
            "schedule.peak: unknown key for this kind; it belongs to kind = 'warmup'",
        ),
        ({"level": "hihg"}, "level: 'hihg' is not one of 'low' or 'high'; did you mean 'high'?"),
        ({"level": "other"}, "level: 'other' is not one of 'low' or 'high'"),
        (
            {"schedule": {"kind": "warmpu"}},
            "schedule.kind: 'warmpu' is not one of 'constant', 'warmup'; did you mean 'warmup'?",
        ),
        (
            {"schedule": {"rate": 1}},
            "schedule.kind: missing; expected one of 'constant', 'warmup'; the keys that are set match 'constant'",
        ),
        ({"schedules": [{"qqq": 1}]}, "schedules[1].kind: missing; expected one of 'constant', 'warmup'"),
        (
            {"schedule": "warmup"},
            "schedule: expected a section, found the value 'warmup'; set schedule.kind = 'warmup'",
        ),
        ({"schedule": 3}, "schedule: expected a section, found the value 3; set schedule.KEY = VALUE"),
        ({"schedule": [1]}, "schedule: expected a section, found the value [1]; set schedule.KEY = VALUE"),
        ({"corpora": [{"source": "a"}, {}]}, "corpora[2].source: missing"),
    ],
)
def test_a_problem_says_what_to_do(values: dict[str, object], line: str) -> None:
    assert problems(values) == [line]


@pytest.mark.parametrize(
    ("values", "key"),
    [
        ({"schedule": {"kind": "warmup", "peak": {"rate": -1}}}, "schedule.peak.rate"),
        ({"schedule": {"kind": "warmup", "peak": {"raet": 1}}}, "schedule.peak.raet"),
        ({"schedules": [{"kind": "constant"}, {"kind": "warmup", "steps": "x"}]}, "schedules[2].steps"),
        ({"schedules": [{"kind": "warmup", "peak": {"rate": 0}}]}, "schedules[1].peak.rate"),
        ({"schedules": [{"kind": "neither"}]}, "schedules[1].kind"),
        ({"corpora": [{"source": "a", "weights": {"b": "c"}}]}, "corpora[1].weights.b"),
        ({"rate": float("inf")}, "rate"),
    ],
)
def test_keys_are_reported_without_union_tags(values: dict[str, object], key: str) -> None:
    assert [line.split(":")[0] for line in problems(values)] == [key]


# TOML round trips

texts = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    ['"', "\\", '"""', "a\nb", "\r\n", "\t", "\x00", "\x1f", "\x7f", "\x85", "\u2028", "🙂", "no", "# x", "[a]", " "]
)
quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
numbers = st.floats(allow_nan=False, allow_infinity=False)
constants = st.builds(Constant, rate=st.floats(min_value=0, exclude_min=True, allow_infinity=False))
schedules = constants | st.builds(Warmup, steps=st.integers(), peak=constants)
corpora = st.builds(Corpus, source=texts.map(Path), weights=st.dictionaries(texts, numbers, max_size=3))
roots = st.builds(
    Root,
    name=texts,
    width=st.integers(),
    rate=numbers,
    quiet=st.booleans(),
    level=st.sampled_from(["low", "high"]),
    limit=st.none() | st.integers(),
    words=st.lists(texts, max_size=3).map(tuple),
    schedule=schedules,
    corpora=st.lists(corpora, max_size=2).map(tuple),
    schedules=st.lists(schedules, max_size=3).map(tuple),
)


@quick
@given(root=roots, comments=st.booleans())
def test_a_config_survives_toml(root: Root, comments: bool, tmp_path_factory) -> None:
    path = tmp_path_factory.getbasetemp() / "config.toml"
    path.write_text(to_toml(root, comments=comments), encoding="utf-8", newline="")
    assert check(Root, read_toml(path), origin="") == root


@quick
@given(root=roots)
def test_values_are_what_the_toml_parses_to(root: Root) -> None:
    assert check(Root, to_values(root), origin="") == root


def test_defaults_are_shown_and_comments_describe_each_key() -> None:
    lines = to_toml(Root(), comments=True).split("\n")
    assert lines[:2] == ["# The name of the run.", 'name = "run"']
    assert "# limit =" in lines
    assert "words = []" in lines
    place = lines.index("[schedule]")
    assert lines[place + 1 : place + 3] == ["# One of: constant, warmup.", 'kind = "constant"']
    assert lines[place + 3 : place + 7] == ["# The learning rate.", "#", "# In two paragraphs.", "rate = 0.1"]


# Files


@pytest.mark.parametrize("content", [b"a = ", b"a = 1\na = 2", b"\xff", b"a = " + b"9" * 5000])
def test_invalid_toml_is_reported_with_its_file(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"run\.toml: not valid TOML"):
        read_toml(path)


def test_an_unreadable_file_is_reported_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.toml: no such file"):
        read_toml(tmp_path / "absent.toml")
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        read_toml(tmp_path)


# Overrides


@pytest.mark.parametrize(
    ("assignment", "values"),
    [
        ("width=7", {"width": 7}),
        (" width = 7 ", {"width": 7}),
        ("name=plain text", {"name": "plain text"}),
        ('name="7"', {"name": "7"}),
        ("name=a=b", {"name": "a=b"}),
        ("name=", {"name": ""}),
        ("name=no", {"name": "no"}),
        ("quiet=true", {"quiet": True}),
        ('words=["a", "b"]', {"words": ["a", "b"]}),
        ('schedule={ kind = "warmup" }', {"schedule": {"kind": "warmup"}}),
        ("schedule.peak.rate=1e-3", {"schedule": {"peak": {"rate": 1e-3}}}),
        ("name=1\nwidth = 2", {"name": "1\nwidth = 2"}),
    ],
)
def test_an_override_is_toml_or_plain_text(assignment: str, values: dict[str, object]) -> None:
    assert override({}, [assignment]) == values


def test_overrides_take_precedence_over_the_file_and_the_last_one_wins() -> None:
    values = {"width": 1, "schedule": {"kind": "warmup", "steps": 3}}
    overridden = override(values, ["schedule.steps=4", "schedule.steps=5", "width=2"])
    assert overridden == {"width": 2, "schedule": {"kind": "warmup", "steps": 5}}
    assert values == {"width": 1, "schedule": {"kind": "warmup", "steps": 3}}


class Circle(Config):
    kind: Literal["circle"] = "circle"
    size: int = 1
    radius: float = 1.0
    inner: Constant = Constant()


class Square(Config):
    kind: Literal["square", "rectangle"] = "square"
    size: int = 2
    radius: str = ""
    sides: int = 4


class Drawing(Config):
    shape: Annotated[Circle | Square, Field(discriminator="kind")] = Circle()


ROUND = {"kind": "circle", "size": 7, "radius": 2.0, "inner": {"rate": 0.5}}


@pytest.mark.parametrize(
    ("assignments", "shape"),
    [
        (["shape.kind=square"], {"kind": "square", "size": 7}),
        (["shape.kind=square", "shape.sides=5"], {"kind": "square", "size": 7, "sides": 5}),
        (["shape.radius=3", "shape.kind=square"], {"kind": "square", "size": 7, "radius": 3}),
        (["shape={kind = 'circle', radius = 2}", "shape.kind=square"], {"kind": "square", "radius": 2}),
        (["shape.inner.kind=x", "shape.kind=square"], {"kind": "square", "size": 7, "inner": {"kind": "x"}}),
        (["shape.kind=square", "shape.inner.kind=x"], {"kind": "square", "size": 7, "inner": {"kind": "x"}}),
        (["shape.kind=square", "shape.kind=circle"], ROUND),
        (["shape.kind=circle"], ROUND),
        (["shape.kind=hexagon"], {**ROUND, "kind": "hexagon"}),
    ],
)
def test_a_new_kind_keeps_the_keys_that_both_kinds_share(assignments: list[str], shape: dict[str, object]) -> None:
    """Assigned keys are kept, to be rejected later where they are wrong; so is an unknown kind."""
    assert override({"shape": ROUND}, assignments, of=Drawing) == {"shape": shape}


def test_the_default_kind_may_be_omitted() -> None:
    assert override({"shape": {"size": 7, "radius": 2.0}}, ["shape.kind=square"], of=Drawing) == {
        "shape": {"kind": "square", "size": 7}
    }


def test_an_absent_section_loses_no_keys() -> None:
    assert override({}, ["shape.kind=square"], of=Drawing) == {"shape": {"kind": "square"}}
    with pytest.raises(ConfigError, match="shape is a value, not a section"):
        override({"shape": 3}, ["shape.kind=square"], of=Drawing)


def test_keys_of_no_kind_are_kept_to_be_rejected() -> None:
    assert override({"shape": {**ROUND, "szie": 3}}, ["shape.kind=square"], of=Drawing)["shape"]["szie"] == 3


def test_kinds_of_one_config_share_all_keys() -> None:
    overridden = override({"shape": {"kind": "square", "sides": 3}}, ["shape.kind=rectangle"], of=Drawing)
    assert overridden == {"shape": {"kind": "rectangle", "sides": 3}}


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("width", "is not an override"),
        ("=3", "is not an override"),
        ("width.x=3", "width.x: width is a value, not a section"),
    ],
)
def test_an_invalid_override_is_rejected(assignment: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        override({"width": 1}, [assignment])


@given(text=texts)
def test_a_quoted_override_gives_its_text(text: str) -> None:
    line = to_toml(Root(name=text)).split("\n")[0]
    assert override({}, [line])["name"] == text


def test_the_nearest_of_several_sections_is_suggested() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'training\.objective\.method\.kind'\?"):
        check(Experiment, {"training": {"objective": {"kind": "r-drop"}}}, origin="test")


def test_a_key_of_another_section_is_suggested_with_its_section() -> None:
    with pytest.raises(ConfigError, match=r"steps: unknown key; did you mean 'schedule\.steps'\?"):
        check(Root, {"steps": 3}, origin="test")


def calls_to_check(count: int) -> int:
    """How many Python functions are called to check a config with that many unknown keys in each of two sections."""
    values = {
        **{f"unknown{number}": number for number in range(count)},
        "training": {f"stepz{number}": number for number in range(count)},
    }
    calls = 0

    def seen(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        with pytest.raises(ConfigError) as caught:
            check(Experiment, values, origin="many")
    finally:
        sys.setprofile(None)
    lines = str(caught.value).splitlines()
    assert lines[0] == f"many: {2 * count + 1:,} problems"
    assert lines[-1] == f"  ... and {2 * count + 1 - 50:,} more"
    assert len(lines) == 52
    return calls


def test_thousands_of_unknown_keys_are_counted_not_explained() -> None:
    """The work grows no faster than the number of keys; before, every key went through all keys of all sections."""
    calls_to_check(100)  # what is computed once
    few, many = calls_to_check(500), calls_to_check(5000)
    assert many <= 10 * few
    assert many < 100_000


def test_values_in_messages_are_short() -> None:
    for value in ("x" * 100_000, [1] * 100_000, 1 << 100_000):
        (problem,) = problems({"level": value})
        assert len(problem) < 500
    (problem,) = problems({"x" * 100_000: 1})
    assert len(problem) < 500


def test_a_path_that_is_not_utf8_cannot_be_written() -> None:
    with pytest.raises(ConfigError, match=r"/a/\\udcff: its name is not UTF-8"):
        to_toml(Root(corpora=(Corpus(source=Path("/a/\udcff")),)))


class Base(Config):
    kept: int = 1
    """Kept."""
    declared_again: int = 2
    """Lost."""
    plain: int = 3

    def method(self) -> str:
        """Of no field."""
        return ""


class Derived(Base):
    declared_again: int = 4
    new: str = "x"
    """Several
    lines."""


def test_descriptions_are_those_that_pydantic_would_read() -> None:
    """Pydantic's own reader is the oracle, over every config of an experiment and over inherited fields."""
    every = {Experiment, Base, Derived, Constant}
    while found := {field for kind in every for field in nested(kind)} - every:
        every |= found
    assert len(every) > 50
    for kind in every:
        expected: dict[str, str] = {}
        for base in reversed(kind.__mro__):
            if issubclass(base, Config) and base is not Config:
                declared = vars(base).get("__annotations__", {})
                expected = {key: text for key, text in expected.items() if key not in declared}
                expected |= extract_docstrings_from_cls(base, use_inspect=True)
        assert descriptions(kind) == expected, kind
    assert descriptions(Derived) == {"kept": "Kept.", "new": "Several\nlines."}


def nested(kind: type[Config]) -> set[type[Config]]:
    return {config for field in kind.model_fields.values() for config in _configs(field.annotation)}


def test_the_schema_has_the_descriptions() -> None:
    schema = Experiment.model_json_schema()
    assert schema["properties"]["seed"]["description"] == descriptions(Experiment)["seed"]
    assert schema["$defs"]["DataConfig"]["properties"]["shifted"]["description"].startswith("What to do if line")
