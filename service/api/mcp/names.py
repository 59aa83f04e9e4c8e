"""Names as people write them: "H100", "8x H100", "DGX H100", "Llama 70B", "7B".

The catalogue takes exact names alone, since "h100" is three products. A chatbot's users say "H100" and mean one of them, so
here such a name is read as the product that is most often meant, and the answer says which, and which others there are.
Where that would be a guess between different things, the name goes on as it is, and the catalogue refuses it with its nearest.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import Struct

from service.api.errors import FieldViolation, MalformedRequest, shortened
from service.catalogue.entries import Accelerator, Catalogue
from service.catalogue.lookup import UnknownName, accelerator_by_any_name, model, node_type
from service.planning.errors import NotFound

_TOKEN: Final = re.compile(r"\d+(?:\.\d+)?b\b|[a-z]+|\d+(?:\.\d+)?")
_COUNT: Final = re.compile(r"\s*(\d{1,6})\s*(?:[x×*]\s*|\s(?=[a-z]))(.+)", re.IGNORECASE | re.DOTALL)
_PARAMETERS: Final = re.compile(
    r"\s*(\d+(?:\.\d+)?(?:e\d{1,2})?)\s*(b|bn|billion|m|million|t|trillion)?\s*(?:parameters?|params|models?)?\s*",
    re.IGNORECASE,
)
_MULTIPLES: Final = {"b": 1e9, "bn": 1e9, "billion": 1e9, "m": 1e6, "million": 1e6, "t": 1e12, "trillion": 1e12}
_MAKERS: Final = frozenset(
    {"nvidia", "amd", "intel", "google", "aws", "gpu", "gpus", "accelerator", "accelerators", "the", "s"}
)
_SUFFIXES: Final = frozenset({"model", "instruct", "chat", "base", "the", "hf"})
#: An A100 has 40 or 80 GB, a TPU v5 16 or 95.
_ALIKE_RATIO: Final = 3.0
_SYSTEMS: Final = frozenset({"dgx", "hgx", "nvl", "rack", "node", "server"})


class Hardware(Struct, frozen=True):
    """An accelerator, and how many where that was said; ``node_type`` where a node was named. ``note`` says how it was read."""

    accelerator: str
    num_devices: int | None = None
    node_type: str | None = None
    note: str = ""


class NamedModel(Struct, frozen=True):
    """A model as requests take it, and what to call it in a sentence."""

    spec: dict[str, Any]
    title: str
    note: str = ""


class Names:
    """Reads names against one catalogue."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue
        self._accelerators = _tokens_by_name(
            ((each.name, each.aliases, f"{each.title} {each.form_factor}") for each in catalogue.accelerators.values()), _MAKERS
        )
        self._node_types = _tokens_by_name(((n.name, n.aliases, n.title) for n in catalogue.node_types.values()), _MAKERS)
        self._models = _tokens_by_name(((m.name, m.aliases, m.title) for m in catalogue.models.values()), _SUFFIXES)

    # -- hardware -----------------------------------------------------------------------------------------------------

    def hardware(self, text: str) -> Hardware:
        """The hardware that the text means.

        Raises:
            NotFound: nothing is called so; with the nearest names of accelerators and nodes.
        """
        count, text = counted(text)
        if count == 0:
            raise MalformedRequest(
                [FieldViolation("hardware", f"none of {shortened(text, 60)!r} carries nothing; give a count")]
            )
        found = self._exactly(text) or self._loosely(text)
        if found is None:
            raise self._unknown(text)
        if count is None:
            return found
        devices = count * (found.num_devices or 1)
        return Hardware(found.accelerator, devices, found.node_type if count == 1 else None, found.note)

    def several(self, text: str) -> list[Hardware]:
        """The hardware of a list: "H100, MI300X", "V100 vs GB300"."""
        parts = re.split(r"\s*(?:,|;|\bvs\.?\b|\bversus\b|\band\b|\bor\b|→|->)\s*", text)
        return [self.hardware(part) for part in parts if part.strip()]

    def _exactly(self, text: str) -> Hardware | None:
        for name in (text, "-".join(text.split())):
            try:
                return Hardware(accelerator_by_any_name(self._catalogue, name).name)
            except UnknownName:
                pass
            try:
                return self._node(node_type(self._catalogue, name).name)
            except UnknownName:
                pass
        return None

    def _node(self, name: str, note: str = "") -> Hardware:
        node = self._catalogue.node_types[name]
        return Hardware(node.accelerator, node.num_devices, node.name, note)

    def _loosely(self, text: str) -> Hardware | None:
        asked = _tokens(text, _MAKERS)
        if not asked:
            return None
        if asked & _SYSTEMS:
            return self._loose_node(text, asked) or self._loose_accelerator(text, asked)
        return self._loose_accelerator(text, asked) or self._loose_node(text, asked)

    def _loose_accelerator(self, text: str, asked: frozenset[str]) -> Hardware | None:
        entries = [self._catalogue.accelerators[name] for name in _matches(asked, self._accelerators)]
        if not entries or not any(token[0].isdigit() for token in asked) or _differ(entries):
            return None
        first, *others = sorted(entries, key=_usual)
        return Hardware(first.name, note=_note(text, first.name, first.title, [each.name for each in others]))

    def _loose_node(self, text: str, asked: frozenset[str]) -> Hardware | None:
        found = _matches(asked, self._node_types)
        if not found:
            return None
        fewest = min(found.values())
        first, *others = [name for name, extra in found.items() if extra == fewest]
        return None if others else self._node(first, _note(text, first, self._catalogue.node_types[first].title, []))

    def _unknown(self, text: str) -> NotFound:
        nearest: list[str] = []
        for look_up in (accelerator_by_any_name, node_type):
            try:
                look_up(self._catalogue, text)
            except UnknownName as unknown:
                nearest += unknown.nearest
        like = _matches(_tokens(text, _MAKERS), self._accelerators) if not nearest else ()
        return NotFound("hardware", "accelerator or node type", shortened(text), tuple(dict.fromkeys([*nearest, *like]))[:5])

    def vendor(self, accelerator: str) -> str:
        """Who makes the accelerator of that name of the catalogue."""
        return self._catalogue.accelerators[accelerator].vendor

    # -- models -------------------------------------------------------------------------------------------------------

    def model(self, text: str, shape: Mapping[str, int | None] | None = None) -> NamedModel:
        """The model that the text means: a name, "7B", or a Hugging Face config.json.

        Args:
            text: what was written.
            shape: layers and heads of a model that is given by its size.

        Raises:
            NotFound: nothing is called so, or too much is; with the nearest names.
            MalformedRequest: a size and a name together, or text that is no config.json.
        """
        given = {name: value for name, value in (shape or {}).items() if value is not None}
        parameters = _PARAMETERS.fullmatch(text)
        if parameters is not None:
            size = float(parameters[1]) * _MULTIPLES.get((parameters[2] or "").lower(), 1.0)
            return NamedModel({"dense": {"num_parameters": size, **given}}, f"{size / 1e9:.4g} billion parameters")
        if given:
            problem = f"only a model given by its size, such as '7B', takes it; leave it out for {shortened(text, 60)!r}"
            raise MalformedRequest(FieldViolation(name, problem) for name in given)
        if text.lstrip().startswith("{"):
            return NamedModel({"hf_config": _config(text)}, "the model of this config.json")
        return self._named(text)

    def _named(self, text: str) -> NamedModel:
        try:
            name = model(self._catalogue, text.strip()).name
        except UnknownName as unknown:
            asked = _tokens(text, _SUFFIXES)
            # A size alone ("a 7B?") is no name: many have it.
            found = _matches(asked, self._models) if any(map(str.isalpha, asked)) else {}
            fewest = min(found.values(), default=0)
            best = [name for name, extra in found.items() if extra == fewest]
            if not best or (len(best) > 1 and not any(token.endswith("b") and token[0].isdigit() for token in asked)):
                nearest = tuple(dict.fromkeys([*best, *unknown.nearest]))[:8]
                raise NotFound("model", "model", shortened(text), nearest) from None
            name, *_ = sorted(best, key=_version, reverse=True)
            others = [each for each in found if each != name]
            return NamedModel({"name": name}, name, _note(text, name, self._catalogue.models[name].title, others))
        return NamedModel({"name": name}, name)


def _differ(entries: list[Accelerator]) -> bool:
    """Whether they are too far apart for one to stand for the others: another generation, or a class of its own by memory."""
    memories = [each.marketed_memory.value for each in entries]
    return len({each.architecture for each in entries}) > 1 or max(memories) > _ALIKE_RATIO * min(memories)


def _usual(entry: Accelerator) -> tuple[bool, float, str]:
    """The module of servers before cards, the larger memory before the smaller."""
    return "sxm" not in entry.name, -entry.marketed_memory.value, entry.name


def _version(name: str) -> tuple[float, ...]:
    return tuple(float(token) for token in _TOKEN.findall(name) if not token.isalpha() and not token.endswith("b"))


def _note(text: str, name: str, title: str, others: list[str]) -> str:
    also = f"; there is also {', '.join(sorted(others)[:5])}" if others else ""
    return f"{shortened(text.strip(), 60)!r} is read as {name} ({title}){also}"


def counted(text: str) -> tuple[int | None, str]:
    """A count in front of a name, and the name.

    >>> counted("8x H100"), counted("8 H100s"), counted("4090"), counted("RTX 4090")
    ((8, 'H100'), (8, 'H100s'), (None, '4090'), (None, 'RTX 4090'))
    """
    found = _COUNT.fullmatch(text)
    return (None, text.strip()) if found is None else (int(found[1]), found[2].strip())


def _tokens(text: str, noise: frozenset[str]) -> frozenset[str]:
    """What a text is made of, for comparison.

    >>> sorted(_tokens("NVIDIA H100 SXM5 80GB", _MAKERS))
    ['100', '5', '80', 'gb', 'h', 'sxm']
    """
    return frozenset(_TOKEN.findall(text[:200].casefold())) - noise


_Spellings = dict[str, list[frozenset[str]]]


def _tokens_by_name(entries: Iterable[tuple[str, tuple[str, ...], str]], noise: frozenset[str]) -> _Spellings:
    return {
        name: [_tokens(spelling.rpartition("/")[2], noise) for spelling in (name, *aliases)]
        + [_tokens(title, noise) | _tokens(name, noise)]
        for name, aliases, title in entries
    }


def _matches(asked: frozenset[str], spellings: _Spellings) -> dict[str, int]:
    """Names of which some spelling has all that was asked, with how much more it has."""
    found: dict[str, int] = {}
    for name, variants in spellings.items():
        extra = [len(variant - asked) for variant in variants if asked <= variant]
        if extra:
            found[name] = min(extra)
    return found


def _config(text: str) -> dict[str, Any]:
    try:
        config = json.loads(text)
    except (ValueError, RecursionError):
        raise MalformedRequest([FieldViolation("model", "it begins like a config.json and is no JSON")]) from None
    assert isinstance(config, dict)  # it begins with a brace
    return config
