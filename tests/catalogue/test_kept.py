"""What was parsed is kept for the next start; whatever lies there instead, the catalogue is the one that the files hold."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from service.catalogue import kept, loader
from service.catalogue.documents import Located, parse
from service.catalogue.entries import Catalogue
from service.catalogue.kept import KeptDocuments
from service.catalogue.loader import CatalogueError, load
from tests.api.test_full_disk import files_of_at_most

Damage = Callable[[Path], object]


@pytest.fixture
def folder(good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    return Path(shutil.copytree(good, tmp_path / "specs"))


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were parsed since."""
    texts: list[str] = []

    def recording(text: str) -> Located:
        texts.append(text)
        return parse(text)

    monkeypatch.setattr(loader, "parse", recording)
    return texts


def start(folder: Path, *further: Path) -> Catalogue:
    return load(folder, *further, kept=KeptDocuments(folder))


def num_files(folder: Path) -> int:
    return len(list(folder.rglob("*.yaml")))


def test_the_next_start_parses_nothing_and_has_the_same_catalogue(folder: Path, parsed: list[str]) -> None:
    first = start(folder)
    assert num_files(folder) == len(parsed)
    parsed.clear()
    second = start(folder)
    assert [] == parsed
    assert repr(load(folder)) == repr(first) == repr(second)


def test_the_catalogue_that_ships_is_the_same_kept_and_parsed(
    repository_root: Path, tmp_path: Path, catalogue: Catalogue, monkeypatch: pytest.MonkeyPatch, parsed: list[str]
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    start(repository_root / "specs")
    parsed.clear()
    assert repr(catalogue) == repr(start(repository_root / "specs"))
    assert [] == [text for text in parsed if ".inf" not in text]  # which JSON does not have
    assert 5 > len(parsed)


def test_only_a_file_that_changed_is_parsed_whatever_its_times_say(folder: Path, parsed: list[str]) -> None:
    before = start(folder)
    parsed.clear()
    path = folder / "models/tiny.yaml"
    times, text = path.stat(), path.read_text()
    changed = text.replace("64", "65", 1)
    assert len(changed) == len(text)
    assert changed != text
    path.write_text(changed)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    after = start(folder)
    assert [changed] == parsed
    assert before.revision != after.revision
    assert repr(load(folder)) == repr(after)
    parsed.clear()
    start(folder)
    assert [] == parsed


def test_a_broken_file_is_refused_at_every_start_with_its_line(folder: Path) -> None:
    start(folder)
    with (folder / "models/tiny.yaml").open("a") as file:
        file.write("unknown: 1\nunknown: 2\n")
    refusals = []
    for _ in range(2):
        with pytest.raises(CatalogueError) as refused:
            start(folder)
        refusals.append(str(refused.value))
    with pytest.raises(CatalogueError) as plainly:
        load(folder)
    assert [str(plainly.value)] * 2 == refusals


def test_further_folders_are_not_kept(folder: Path, tmp_path: Path, parsed: list[str]) -> None:
    (tmp_path / "extra/models").mkdir(parents=True)
    text = (folder / "models/tiny.yaml").read_text().replace("tiny", "other")
    (tmp_path / "extra/models/other.yaml").write_text(text)
    start(folder, tmp_path / "extra")
    parsed.clear()
    assert "other" in start(folder, tmp_path / "extra").models
    assert [text] == parsed
    assert not list((tmp_path / "extra").rglob("*.jsonl"))


def replace(content: bytes) -> Damage:
    return lambda path: path.write_bytes(content)


def flip_the_last_figure(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:-20] + bytes([content[-20] ^ 1]) + content[-19:])


def check_it_is_parsed_anew_and_replaced(damage: Damage, folder: Path, parsed: list[str]) -> None:
    expected = repr(start(folder))
    damage(KeptDocuments(folder).path)
    parsed.clear()
    assert expected == repr(start(folder))
    assert num_files(folder) == len(parsed)
    parsed.clear()
    assert expected == repr(start(folder))
    assert [] == parsed


@pytest.mark.parametrize(
    "damage",
    [
        replace(b""),
        replace(b"no line that it begins with"),
        replace(b"0" * 64 + b"\n{}"),
        replace(b"\xff" * 200),
        replace(kept._seal(b"[1]") + b"[1]"),
        replace(kept._seal(b"a b\n\n") + b"a b\n\n"),
        lambda path: path.write_bytes(path.read_bytes()[:-1]),
        lambda path: path.write_bytes(path.read_bytes()[:40]),
        lambda path: path.write_bytes(path.read_bytes() + b" "),
        flip_the_last_figure,
    ],
    ids=[
        "empty",
        "foreign",
        "unsealed",
        "binary",
        "no key",
        "an empty line",
        "truncated",
        "cut in the seal",
        "longer",
        "one bit",
    ],
)
def test_what_is_not_as_it_was_written_is_parsed_anew_and_replaced(damage: Damage, folder: Path, parsed: list[str]) -> None:
    check_it_is_parsed_anew_and_replaced(damage, folder, parsed)


def forge(path: Path) -> None:
    """Other figures under the same keys, rightly sealed, as anybody can who has read the code."""
    body = path.read_bytes().partition(b"\n")[2].replace(b"[64,", b"[65,")
    path.write_bytes(kept._seal(body) + b"\n" + body)


def forge_as_others_may(path: Path) -> None:
    forge(path)
    path.chmod(0o646)


def forge_as_the_group_may(path: Path) -> None:
    forge(path)
    path.chmod(0o664)


def forge_elsewhere(path: Path) -> None:
    forge(path)
    path.symlink_to(path.rename(path.with_name("elsewhere")))


def link_to_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("damage", [forge_as_others_may, forge_as_the_group_may, forge_elsewhere, link_to_itself, pipe])
def test_what_others_may_have_put_there_is_parsed_anew_and_replaced(damage: Damage, folder: Path, parsed: list[str]) -> None:
    check_it_is_parsed_anew_and_replaced(damage, folder, parsed)
    assert not KeptDocuments(folder).path.is_symlink()


OTHER_USER = 12345


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_another_user_wrote_is_used_only_where_the_folder_is_theirs(folder: Path, parsed: list[str]) -> None:
    expected = repr(start(folder))
    path = KeptDocuments(folder).path
    os.chown(path, OTHER_USER, -1)
    os.chown(folder, OTHER_USER, -1)  # as of an image that another user built
    parsed.clear()
    assert expected == repr(start(folder))
    assert [] == parsed
    os.chown(folder, os.geteuid(), -1)
    forge(path)
    assert expected == repr(start(folder))
    assert num_files(folder) == len(parsed)
    assert os.geteuid() == path.stat().st_uid


def test_what_is_written_no_other_user_may_write_whatever_the_umask(folder: Path) -> None:
    before = os.umask(0)
    try:
        start(folder)
    finally:
        os.umask(before)
    assert 0o644 == KeptDocuments(folder).path.stat().st_mode & 0o777


def test_what_a_link_in_its_place_names_is_not_written(folder: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("precious")
    path = KeptDocuments(folder).path
    path.parent.mkdir()
    path.symlink_to(precious)
    start(folder)
    assert ("precious", False) == (precious.read_text(), path.is_symlink())


def test_on_a_full_disk_nothing_is_kept_and_nothing_stays_unfinished(folder: Path, parsed: list[str]) -> None:
    expected = repr(load(folder))
    with files_of_at_most(100):
        assert expected == repr(start(folder))
    assert [] == list((folder / "__pycache__").iterdir())
    start(folder)
    parsed.clear()
    assert expected == repr(start(folder))
    assert [] == parsed


def test_what_other_code_parsed_is_not_used(folder: Path, parsed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    start(folder)
    parsed.clear()
    monkeypatch.setattr(yaml, "__version__", "another")
    start(folder)
    assert num_files(folder) == len(parsed)


@pytest.mark.parametrize("document", [b"3", b"[1]", b'["name", 1, 2]', b"null", b"{", b""])
def test_a_document_of_another_form_is_parsed(document: bytes, folder: Path) -> None:
    content = (folder / "models/tiny.yaml").read_bytes()
    path = KeptDocuments(folder).path
    path.parent.mkdir()
    body = hashlib.sha256(content).hexdigest().encode() + b" " + document
    path.write_bytes(kept._seal(body) + body)
    assert KeptDocuments(folder).document(content) is None
    assert repr(load(folder)) == repr(start(folder))


@pytest.mark.parametrize("value", [".nan", ".inf", str(2**70)])
def test_what_json_would_change_is_parsed_each_time(value: str, folder: Path) -> None:
    text = f"name: {value}\n"
    keeper = KeptDocuments(folder)
    keeper.add(text.encode(), parse(text))
    keeper.add(b"name: 1\n", parse("name: 1\n"))
    keeper.write()
    assert KeptDocuments(folder).document(text.encode()) is None
    assert parse("name: 1\n") == KeptDocuments(folder).document(b"name: 1\n")


def test_where_nothing_can_be_written_it_starts_all_the_same(folder: Path, parsed: list[str]) -> None:
    (folder / "__pycache__").write_text("a file where the folder should be")
    expected = repr(load(folder))
    for _ in range(2):
        parsed.clear()
        assert expected == repr(start(folder))
        assert num_files(folder) == len(parsed)


def test_what_cannot_be_replaced_leaves_nothing_unfinished(folder: Path) -> None:
    path = KeptDocuments(folder).path
    path.mkdir(parents=True)
    assert repr(load(folder)) == repr(start(folder))
    assert [path] == list(path.parent.iterdir())


def test_nothing_is_written_where_python_is_told_to_write_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    start(folder)
    assert not (folder / "__pycache__").exists()


def test_many_at_once_find_a_whole_file_or_none(folder: Path, parsed: list[str]) -> None:
    expected = repr(load(folder))
    script = (
        "import sys; sys.dont_write_bytecode = False; sys.pycache_prefix = None\n"
        "from pathlib import Path\n"
        "from service.catalogue.kept import KeptDocuments\n"
        "from service.catalogue.loader import load\n"
        "folder = Path(sys.argv[1])\n"
        "for _ in range(20):\n"
        "    kept = KeptDocuments(folder)\n"
        "    found = repr(load(folder, kept=kept))\n"
        "    assert found == sys.argv[2], found\n"
        "    kept.path.unlink(missing_ok=True)\n"
    )
    with ThreadPoolExecutor(3) as threads:
        ran = list(
            threads.map(
                lambda _: subprocess.run(
                    [sys.executable, "-c", script, folder, expected], capture_output=True, text=True, cwd=Path.cwd()
                ),
                range(3),
            )
        )
    assert [(0, "")] * 3 == [(each.returncode, each.stderr) for each in ran]
    start(folder)
    assert ["documents.jsonl"] == [each.name for each in (folder / "__pycache__").iterdir()]
    parsed.clear()
    assert expected == repr(start(folder))
    assert [] == parsed
