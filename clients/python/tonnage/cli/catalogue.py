"""What ``accelerators``, ``models`` and ``nodes`` have in common: all entries, or one by its name."""

from typing import Any

import click

from tonnage.cli import names
from tonnage.cli.options import Decorator, grouped
from tonnage.client import Pager
from tonnage.methods import PageRequestT, PageT


def _name(words: tuple[str, ...]) -> str | None:
    """The entry to show. None for the list."""
    match words:
        case ():
            return None
        case ("show",):
            raise click.UsageError("show needs a name")
        case ("show", name) | (name,):
            return name
    raise click.UsageError(f"too many names: {' '.join(words)}")


def with_name(kind: names.Kind) -> Decorator:
    """The name of one entry of that kind, or none."""
    words = click.argument("words", nargs=-1, metavar="[show NAME]", shell_complete=names.of(kind))
    return grouped("name", _name, words)


def whole(pager: Pager[PageRequestT, PageT, Any]) -> PageT:
    """All pages as one response."""
    first, *others = pager.pages
    for page in others:
        first.MergeFromString(page.SerializeToString())
    first.ClearField("next_page_token")
    return first
