"""SQL that a model wrote can read, and nothing else: it cannot write, look elsewhere, or run for ever."""

import sqlite3
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from recipes.parsing.sql import COLUMNS, RESULT_BYTES, ROWS, VALUE_BYTES, Database, Denotation


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "states of mind?.sqlite"  # a name that a URI must escape
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE state (state_name text, population int)")
        connection.executemany("INSERT INTO state VALUES (?, ?)", [("ohio", 3), ("texas", 9), ("utah", 3)])
    connection.close()
    return path


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    with Database(path, seconds=0.5) as database:
        yield database


def test_queries_return_rows(database: Database) -> None:
    denotation = database.execute('SELECT state_name FROM state WHERE state_name = "texas" ;')
    assert denotation.rows == (("texas",),) and not denotation.error and not denotation.is_empty


@pytest.mark.parametrize(
    "query",
    [
        "INSERT INTO state VALUES ('oz', 1)",
        "DELETE FROM state",
        "UPDATE state SET population = 0",
        "DROP TABLE state",
        "CREATE TABLE other (x)",
        "CREATE TEMP TABLE other (x)",
        "ATTACH DATABASE '{folder}/other.sqlite' AS other",
        "VACUUM INTO '{folder}/other.sqlite'",
        "PRAGMA writable_schema = 1",
        "PRAGMA journal_mode = wal",
        "BEGIN EXCLUSIVE",
        "SELECT load_extension('x')",
        "SELECT 1; DELETE FROM state",
        "EXPLAIN DELETE FROM state",
    ],
)
def test_nothing_but_reading_is_allowed(query: str, path: Path, database: Database) -> None:
    before = path.read_bytes()
    assert database.execute(query.format(folder=path.parent)).error
    assert path.read_bytes() == before
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name]


@pytest.mark.parametrize(
    "query",
    [
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT COUNT(*) FROM n",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i < 0",
        "SELECT COUNT(*) FROM " + ", ".join(f"state AS s{number}" for number in range(30)),
    ],
)
def test_endless_queries_are_stopped(query: str, database: Database) -> None:
    started = time.monotonic()
    denotation = database.execute(query)
    assert "interrupted" in denotation.error
    assert time.monotonic() - started < 10
    assert database.execute("SELECT 1").rows == ((1,),)  # the next query has its own time


def test_large_values_and_many_rows_are_errors(database: Database) -> None:
    assert database.execute("SELECT hex(zeroblob(100000000))").error
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    assert database.execute(endless).error == f"more than {ROWS} rows"


@pytest.mark.parametrize(
    ("query", "error"),
    [
        (
            f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 5000) "
            f"SELECT hex(zeroblob({VALUE_BYTES // 2 - 9})) FROM n",
            f"more than {RESULT_BYTES} bytes",
        ),
        (f"SELECT {', '.join([f'hex(zeroblob({VALUE_BYTES // 2 - 9}))'] * 2000)}", "too many columns"),
        (f"SELECT hex(zeroblob({VALUE_BYTES}))", "too big"),
    ],
)
def test_results_have_a_limit_of_memory(query: str, error: str, path: Path) -> None:
    tracemalloc.start()
    try:
        with Database(path, seconds=60) as database:
            assert error in database.execute(query).error
            assert tracemalloc.get_traced_memory()[1] < 3 * RESULT_BYTES
            wide = database.execute(f"SELECT {', '.join(['1'] * COLUMNS)}")
            assert wide.rows == ((1,) * COLUMNS,)  # the next query has its own limit
    finally:
        tracemalloc.stop()


def test_a_query_without_enough_memory_fails(database: Database) -> None:
    def allocate(_value: bytes) -> str:
        raise MemoryError

    database._connection.text_factory = allocate
    assert "MemoryError" in database.execute("SELECT 'text'").error


@pytest.mark.parametrize("query", ["", "SELECT", "SELECT x FROM nowhere", "select \x00", "'" * 3, "SELECT 1 +" * 5000])
def test_what_is_no_query_is_an_error_or_nothing(query: str, database: Database) -> None:
    denotation = database.execute(query)
    assert denotation.error or denotation.is_empty


def test_a_missing_database_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.Error):
        Database(tmp_path / "none.sqlite").execute("SELECT 1")
    assert not list(tmp_path.iterdir())


def test_denotations_are_multisets_of_rows() -> None:
    first = Denotation((("a", 1), ("b", 2), ("b", 2)))
    assert first.equals(Denotation((("b", 2), ("a", 1), ("b", 2))))
    assert not first.equals(Denotation((("b", 2), ("a", 1))))
    assert not Denotation(error="x").equals(Denotation(error="x"))
    assert Denotation(((None,),)).is_empty and Denotation().is_empty and not Denotation(((0,),)).is_empty
