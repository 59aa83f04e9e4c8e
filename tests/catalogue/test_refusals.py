"""Every folder in ``bad`` breaks one rule; a comment ``# refused: field: reason`` stands on the line that breaks it."""

import re
from pathlib import Path

import pytest

from service.catalogue.loader import CatalogueError, load
from service.catalogue.sections import Violation

BAD = Path(__file__).parent / "bad"
MARK = re.compile(r"# refused: (\S+): (.*)$")


def marked(folder: Path, good: Path) -> list[Violation]:
    violations = []
    for path in sorted(each for each in folder.rglob("*") if each.is_file()):
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), start=1):
            if found := MARK.search(line):
                field = "" if found[1] == "(file)" else found[1]
                violations.append(Violation(str(path), number, field, found[2].replace("{good}", str(good))))
    return violations


@pytest.mark.parametrize("rule", sorted(each.name for each in BAD.iterdir()))
def test_a_broken_rule_is_refused_with_file_line_and_reason(rule: str, good: Path) -> None:
    expected = marked(BAD / rule, good)
    assert 1 == len(expected)

    with pytest.raises(CatalogueError) as caught:
        load(good, BAD / rule)

    assert expected == list(caught.value.violations)


def test_the_small_catalogue_is_good(good: Path) -> None:
    assert ["alpha"] == list(load(good).accelerators)


def test_every_violation_is_told_at_once(good: Path) -> None:
    folders = [each for each in sorted(BAD.iterdir()) if each.name.startswith(("peak", "link"))]
    expected = sorted(str(each) for folder in folders for each in marked(folder, good))

    with pytest.raises(CatalogueError) as caught:
        load(good, *folders)

    told = str(caught.value).splitlines()
    assert expected == sorted(each for each in told if "already names" not in each)
    assert len(folders) - 1 == sum("already names" in each for each in told)


def test_a_violation_reads_as_file_line_field_and_reason() -> None:
    assert "a.yaml:3: links[0].name: required and missing" == str(
        Violation("a.yaml", 3, "links[0].name", "required and missing")
    )
    assert "a.yaml:3: (file): the file is empty" == str(Violation("a.yaml", 3, "", "the file is empty"))


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CatalogueError, match="no such folder"):
        load(tmp_path / "nowhere")


def test_a_file_too_large_is_refused_unread(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "huge.yaml").write_text("a" * (1 << 20) + "a")

    with pytest.raises(CatalogueError, match="larger than 1048576 bytes"):
        load(tmp_path)


def test_nested_aliases_cost_nothing(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    (tmp_path / "sources.yaml").write_text("\n".join(lines))

    with pytest.raises(CatalogueError, match=r"sources.yaml:1: .* the anchor &a0 is refused"):
        load(tmp_path)


@pytest.mark.parametrize("text", ["\t- a", "a: [", "a: 'b", "[" * 5000, "\x00", "a: &", "- *", "? ", "%YAML 9.9\n---\na"])
def test_whatever_the_text_the_refusal_is_a_catalogue_error(text: str, tmp_path: Path) -> None:
    (tmp_path / "sources.yaml").write_text(text)

    with pytest.raises(CatalogueError):
        load(tmp_path)


def test_a_hidden_file_is_no_entry(good: Path, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / ".tiny.yaml.swp").write_text("half written")

    assert ["tiny"] == list(load(good, tmp_path).models)
