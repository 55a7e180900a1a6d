"""The kernels are compiled once into a folder that only the user can write to; without a compiler there are none."""

import os
import stat
import threading
from pathlib import Path

import pytest

from calque.folders.cache import private_cache
from calque.native import library
from calque.native.library import Compiled, compile_kernels, compiled

needs_compiler = pytest.mark.skipif(compiled().library is None, reason="the kernels are not compiled here")


def environment(folder: Path, **values: str) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(folder), "PATH": os.environ["PATH"], **values}


@needs_compiler
def test_compiled_once_and_found_again(tmp_path: Path) -> None:
    first = compile_kernels(environment(tmp_path))
    assert first.library is not None
    assert str(first).startswith("compiled with ")
    [path] = (tmp_path / "calque" / "native").iterdir()
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    made = path.stat().st_ino
    assert compile_kernels(environment(tmp_path)).library is not None
    assert path.stat().st_ino == made


@needs_compiler
def test_a_compiler_that_fails_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    compiler = tmp_path / "failing"
    compiler.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo "failing 1.0" && exit\necho "no such luck" >&2\nexit 1\n'
    )
    compiler.chmod(0o755)
    result = compile_kernels(environment(tmp_path, CC=str(compiler)))
    assert result.library is None
    assert "failing" in result.reason and "no such luck" in result.reason
    assert not list((tmp_path / "calque" / "native").iterdir())


@needs_compiler
@pytest.mark.parametrize("damage", ["cut", "emptied", "replaced", "writable by others"])
def test_a_damaged_library_is_compiled_again(tmp_path: Path, damage: str) -> None:
    compile_kernels(environment(tmp_path))
    [path] = (tmp_path / "calque" / "native").iterdir()
    content = path.read_bytes()
    path.unlink()  # it is loaded: what is mapped into this process must not change
    match damage:
        case "cut":
            path.write_bytes(content[: len(content) // 2])
        case "emptied":
            path.write_bytes(b"")
        case "replaced":
            path.write_bytes(content[::-1])
        case "writable by others":
            path.write_bytes(content)
            path.chmod(0o666)
    assert compile_kernels(environment(tmp_path)).library is not None
    [again] = (tmp_path / "calque" / "native").iterdir()
    assert len(again.read_bytes()) == len(content)
    assert stat.S_IMODE(again.stat().st_mode) == 0o600


@needs_compiler
def test_threads_that_compile_at_the_same_time(tmp_path: Path) -> None:
    results: list[Compiled] = []
    threads = [
        threading.Thread(target=lambda: results.append(compile_kernels(environment(tmp_path)))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(result.library is not None for result in results) and len(results) == 3
    assert all(path.suffix == ".so" for path in (tmp_path / "calque" / "native").iterdir())


@needs_compiler
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("printf 'caf\\351: kaputt' >&2; exit 1", "kaputt"),  # not UTF-8
        ("exec sleep 5", "took more than"),
        ('while [ "$1" != -o ]; do shift; done; printf x > "$2"', "cannot be used"),
    ],
)
def test_compilers_that_misbehave(tmp_path: Path, script: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "SECONDS", 1)
    compiler = tmp_path / "odd"
    compiler.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "odd 1.0" && exit\n{script}\n')
    compiler.chmod(0o755)
    result = compile_kernels(environment(tmp_path, CC=str(compiler)))
    assert result.library is None
    assert message in result.reason
    assert not list((tmp_path / "calque" / "native").iterdir())


def test_switched_off(tmp_path: Path) -> None:
    assert compile_kernels(environment(tmp_path, CALQUE_NATIVE="0")).library is None


@needs_compiler
def test_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = compile_kernels(environment(tmp_path))
    assert result.library is None
    assert "no C compiler" in result.reason


@needs_compiler
def test_a_folder_that_others_could_write_to_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "calque").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "calque" / "native").symlink_to(tmp_path / "elsewhere")
    assert private_cache("native", environment=environment(tmp_path)) is None
    assert "cache folder" in compile_kernels(environment(tmp_path)).reason
