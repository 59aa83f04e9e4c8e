"""Names that a shell proposes: of the catalogue installed here, else of a server that answers at once, else none.

Nobody waits for a proposal, and nobody reads its complaints: whatever goes wrong, nothing is proposed.
"""

import importlib.util
import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import click
from click.shell_completion import CompletionItem

from tonnage.cli.connection import connection
from tonnage.cli.options import Decorator
from tonnage.client import Client

_PATIENCE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of entry: the folder that holds a file of each, and how a server is asked for them."""

    folder: str
    listed: Callable[[Client], Iterable[str]]


MODELS = Kind("models", lambda client: (each.name for each in client.list_models()))
ACCELERATORS = Kind("accelerators", lambda client: (each.name for each in client.list_accelerators()))
NODE_TYPES = Kind("nodes", lambda client: (each.name for each in client.list_node_types()))
ENGINES = Kind("engines", lambda _: ())  # no call lists them

Proposing: TypeAlias = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
"""What click asks for the values of an option or argument, with what is typed already."""


IN_LIST = "(?:.*,)?"
COUNTED = r"\d+x"
"""What may stand before a name, as in "h100-sxm,b200", and what has to, as in "3xdgx-h100"."""


def of(kind: Kind, behind: str = "") -> Proposing:
    """Proposes names of that kind; behind what stands before them, where something does."""

    def propose(context: click.Context, _: click.Parameter, typed: str) -> list[CompletionItem]:
        found = re.match(behind, typed)
        return _proposed(context, kind, found[0], typed[found.end() :]) if found else []

    return propose


def option(kind: Kind, *declarations: str, **attributes: Any) -> Decorator:
    """An option that takes a name of that kind; the rest is click's."""
    return click.option(*declarations, metavar="NAME", shell_complete=of(kind), **attributes)


def in_order(*kinds: Kind) -> Proposing:
    """Proposes names for arguments of which the first is of the first kind, and so on; of the last kind from there on.

    A kind is passed over where an option says what it is about: ``--model`` leaves the first name for the hardware.
    """

    def propose(context: click.Context, argument: click.Parameter, typed: str) -> list[CompletionItem]:
        given = context.params.get(argument.name or "") or ()
        left = [kind for kind in kinds if not any(context.params.get(option) for option in _SAID_BY.get(kind.folder, ()))]
        if len(given) >= len(left):
            return []
        return _proposed(context, left[len(given)], "", typed)

    return propose


_SAID_BY = {
    MODELS.folder: ("model", "config", "num_parameters"),
    ACCELERATORS.folder: ("accelerator", "accelerator_file"),
    NODE_TYPES.folder: ("node", "accelerator", "accelerator_file"),
}


def _proposed(context: click.Context, kind: Kind, before: str, typed: str) -> list[CompletionItem]:
    try:
        known = _installed(kind) or _served(context, kind)
    except Exception:  # a shell would print it into the line that somebody is typing
        return []
    return [CompletionItem(before + name) for name in known if name.startswith(typed.lower())]


def _installed(kind: Kind) -> list[str]:
    """By the files of the service's own catalogue; none where only the client is installed. Nothing of it is loaded."""
    found = importlib.util.find_spec("service")
    folders = found.submodule_search_locations if found else None
    for package in map(Path, folders or ()):
        for specs in (package / "specs", package.parent / "specs"):
            if names := sorted(file.stem for file in (specs / kind.folder).glob("*.yaml")):
                return names
    return []


def _served(context: click.Context, kind: Kind) -> list[str]:
    """By the server that the command would ask. Never one that would first have to be started."""
    given: dict[str, Any] = {name: context.params.get(name) for name in inspect.signature(connection).parameters}
    with context:
        where = connection(**given)
    if where.is_local:
        return []
    with where.client(_PATIENCE_SECONDS) as client:
        return sorted(kind.listed(client))
