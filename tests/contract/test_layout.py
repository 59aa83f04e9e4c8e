"""The walls and habits that no linter checks: lengths, names of rooms, docstrings, what formulas may import."""

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60

#: A room named so says nothing of what is in it, and so collects everything.
ROOMS_NOT_HAD = re.compile(r"cores?|interfaces?|(.+_)?(util|utility|utilities|common|helper|manager)s?(_.+)?")
CODE = ("service", "clients", "tests", "protos")

#: Places and hosts of somebody's machine. Each is spelled in two parts here, so that this file does not hold it.
NOT_IN_FILES = [
    r"(?<![\w.~}])/wo" r"rk/",
    r"(?<![\w.~}])/ho" r"me/\w",
    r"(?<![\w.~}])/Use" r"rs/\w",
    r"(?<![\w.~}])/ro" r"ot/",
    r"/opt/(py" r"pi|whe" r"els)",
    r"py" r"pi\.org",
    r"pythonho" r"sted\.org",
    r"registry\.npm" r"js\.org",
    r"proxy\.gol" r"ang\.org",
    r"deb\.deb" r"ian\.org",
]  # fmt: skip

#: Besides NumPy and the units. Nothing here does I/O, reads a clock or draws a random number.
FORMULAS_MAY_IMPORT = {
    *("collections", "dataclasses", "enum", "functools", "inspect", "itertools", "operator", "types", "typing"),
    *("numpy", "service.formulas", "service.units"),
}

Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = Function | ast.ClassDef


def tracked_files() -> list[PurePosixPath]:
    """What git tracks or would add; outside a checkout every file that is not hidden."""
    command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):
        listed = [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*") if path.is_file()]
        listed = [path for path in listed if not any(part.startswith(".") for part in PurePosixPath(path).parts)]
    return [PurePosixPath(path) for path in sorted(set(listed)) if path and (ROOT / path).is_file()]


FILES = tracked_files()


def sources(*folders: str) -> list[PurePosixPath]:
    """The Python files in these folders, generated ones left out."""
    in_folders = [path for path in FILES if path.suffix == ".py" and path.parts[0] in folders]
    return [path for path in in_folders if not re.search(r"_pb2(_grpc)?$", path.stem)]


def tree(path: PurePosixPath) -> ast.Module:
    return ast.parse((ROOT / path).read_text(encoding="utf-8"), str(path))


def test_there_is_something_to_check() -> None:
    assert PurePosixPath("service/settings.py") in sources("service")
    assert PurePosixPath("tests/contract/test_layout.py") in sources("tests")


def test_no_file_is_longer_than_can_be_read() -> None:
    lengths = {str(path): len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in sources(*CODE)}
    assert {} == {path: length for path, length in lengths.items() if length > MAX_FILE_LINES}


def test_no_function_is_longer_than_a_screen() -> None:
    lengths = {
        f"{path}:{node.lineno} {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in sources(*CODE)
        for node in ast.walk(tree(path))
        if isinstance(node, Function)
    }
    assert {} == {name: length for name, length in lengths.items() if length > MAX_FUNCTION_LINES}


def test_every_room_is_named_for_what_is_in_it() -> None:
    in_code = [path for path in FILES if path.parts[0] in CODE]
    assert [] == [str(path) for path in in_code if any(map(is_no_name, (*path.parts[:-1], path.stem)))]


def is_no_name(part: str) -> bool:
    return ROOMS_NOT_HAD.fullmatch(part.removeprefix("test_")) is not None


def test_no_file_names_a_place_on_a_machine_or_a_registry_host() -> None:
    pattern = re.compile("|".join(NOT_IN_FILES))
    found = []
    for path in FILES:
        content = (ROOT / path).read_bytes()
        if b"\0" in content[:8192]:
            continue
        for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
            if match := pattern.search(line):
                found.append(f"{path}:{number} {match[0]}")
    assert [] == found


def test_whatever_is_public_in_the_service_says_what_it_is() -> None:
    missing = []
    for path in sources("service"):
        module = tree(path)
        if ast.get_docstring(module) is None:
            missing.append(str(path))
        missing += [f"{path}:{node.lineno} {node.name}" for node in public(module) if ast.get_docstring(node) is None]
    assert [] == missing


def public(scope: ast.Module | ast.ClassDef) -> Iterator[Documented]:
    """Public classes, functions and methods, less those that only repeat or override one that is documented."""
    for node in scope.body:
        if not isinstance(node, Documented) or node.name.startswith("_"):
            continue
        if not {"overload", "override", "setter"} & set(map(decorator_name, node.decorator_list)):
            yield node
        if isinstance(node, ast.ClassDef):
            yield from public(node)


def decorator_name(node: ast.expr) -> str:
    return ast.unparse(node).partition("(")[0].rpartition(".")[2]


@pytest.mark.parametrize("path", [path for path in FILES if path.match("service/formulas/*.py")], ids=str)
def test_formulas_import_nothing_but_mathematics(path: PurePosixPath) -> None:
    assert [] == [name for name in imports(tree(path)) if not may_import(name)]


def imports(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: say the whole name"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def may_import(name: str) -> bool:
    return any(f"{name}.".startswith(f"{allowed}.") for allowed in FORMULAS_MAY_IMPORT)


def test_client_and_server_have_one_version_and_one_list_of_what_the_client_needs() -> None:
    server, client = (
        tomllib.loads((ROOT / path).read_text(encoding="utf-8"))["project"]
        for path in ("pyproject.toml", "clients/python/pyproject.toml")
    )
    assert server["version"] == client["version"]
    assert set() == set(client["dependencies"]) - set(server["dependencies"])
    assert client["scripts"].items() <= server["scripts"].items()
    assert server["requires-python"] == client["requires-python"]
