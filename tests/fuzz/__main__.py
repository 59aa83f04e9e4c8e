"""Looks for inputs that break something: python -m tests.fuzz configs|compat|requests|rest --seconds 60. `make fuzz` runs all.

The first three are guided by coverage (libFuzzer over bytes, in this process); ``rest`` sends what the OpenAPI document allows
and forbids to a running service. A finding is an exception that no row of the error table names, an answer that the document
does not know, or an input that takes long. The fuzzer prints it and keeps it in the folder ``run/fuzz``; once mended, its input
belongs into ``tests/fuzz/corpus``, which every run starts from and every `make test` replays.

``--keep`` does not search: it adds what the runs so far have found worth keeping to that corpus, as few as reach the same code.
"""

import argparse
import sys
from pathlib import Path
from typing import Final

CORPUS: Final = Path(__file__).parent / "corpus"
BYTES: Final = ("compat", "configs", "requests")
REST: Final = "rest"
#: An input that takes longer than this on its own is a finding too.
_LONGEST_SECONDS: Final = 20
_LONGEST_BYTES: Final = 65_536
#: The instrumented code keeps some kB of each run; the same inputs without it leave memory as it was.
_MOST_MEGABYTES: Final = 4_096
#: What is kept in the repository is small.
_LONGEST_KEPT_BYTES: Final = 1_024


def main() -> None:
    """Fuzzes one target for so long; ends with an exit code other than 0 where something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("target", choices=[*BYTES, REST])
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--folder", type=Path, default=Path("run/fuzz"), help="where inputs are kept from run to run")
    parser.add_argument("--keep", action="store_true", help="add what was found to tests/fuzz/corpus instead of searching")
    parser.add_argument("options", nargs="*", help="of libFuzzer, after --, in place of ours")
    given = parser.parse_args()
    if given.target == REST:
        from tests.fuzz.rest import search

        search(given.seconds)
    else:
        folder: Path = given.folder / given.target
        for each in (folder, CORPUS / given.target):
            each.mkdir(parents=True, exist_ok=True)
        if given.options:
            _fuzz(given.target, [sys.argv[0], *given.options])
        elif given.keep:
            _fuzz(given.target, [str(_itself(given.target, given.folder)), *_keep_options(given.target, folder)])
        else:
            _fuzz(given.target, [sys.argv[0], *_search_options(given.target, folder, given.seconds)], seeds_into=folder)


def _fuzz(name: str, arguments: list[str], seeds_into: Path | None = None) -> None:
    import atheris

    with atheris.instrument_imports(include=["service"]):
        from tests.fuzz.targets import TARGETS, seeds
    if seeds_into is not None:
        for number, seed in enumerate(seeds(name)):
            (seeds_into / f"seed-{number}").write_bytes(seed)
    atheris.Setup(arguments, TARGETS[name]())
    atheris.Fuzz()


def _search_options(name: str, folder: Path, seconds: int) -> list[str]:
    return [
        f"-max_total_time={seconds}",
        f"-timeout={_LONGEST_SECONDS}",
        f"-max_len={_LONGEST_BYTES}",
        f"-rss_limit_mb={_MOST_MEGABYTES}",
        "-seed=1",
        "-print_final_stats=1",
        f"-artifact_prefix={folder}-found-",
        str(folder),
        str(CORPUS / name),
    ]


def _keep_options(name: str, folder: Path) -> list[str]:
    return ["-set_cover_merge=1", f"-max_len={_LONGEST_KEPT_BYTES}", str(CORPUS / name), str(folder)]


def _itself(name: str, folder: Path) -> Path:
    """A program that is this one: libFuzzer starts itself again to put inputs together."""
    path = folder / f"{name}.sh"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tests.fuzz {name} -- "$@"\n')
    path.chmod(0o755)
    return path


if __name__ == "__main__":
    main()
