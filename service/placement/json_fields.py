"""Reads fields of JSON objects that come from anybody: each is of the kind that it should be, or its path is named."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct

from service.placement.errors import Unreadable
from service.placement.quantities import amount

_LONGEST_TEXT: Final = 4096
_LONGEST_NAME: Final = 253  # as in Kubernetes
_NAMES: Final = {bool: "true or false", str: "a text", int: "a number", float: "a number", list: "a list", type(None): "null"}


class Fields(Struct, frozen=True):
    """A JSON object and where it lies. What is null counts as missing. Every method raises Unreadable with the path."""

    values: Mapping[str, object]
    path: str

    def at(self, key: str) -> str:
        """The path of a key; a long key is cut."""
        return f"{self.path}.{key[:80]}" if self.path else key[:80]

    def inner(self, key: str) -> "Fields":
        """The object under a key; an empty one where there is none."""
        value = self.values.get(key)
        return Fields(_mapping(value, self.at(key)) if value is not None else {}, self.at(key))

    def has(self, key: str) -> bool:
        """Whether there is anything under a key."""
        return self.values.get(key) is not None

    def objects(self, key: str) -> Iterator["Fields"]:
        """The objects of the list under a key."""
        for place, item in enumerate(self._list(key)):
            path = f"{self.at(key)}[{place}]"
            yield Fields(_mapping(item, path), path)

    def text(self, key: str) -> str:
        """The text under a key; empty where there is none."""
        value = self.values.get(key)
        return "" if value is None else _text(value, self.at(key))

    def texts(self, key: str) -> tuple[str, ...]:
        """The texts of the list under a key."""
        return tuple(_text(item, f"{self.at(key)}[{place}]") for place, item in enumerate(self._list(key)))

    def text_map(self, key: str) -> dict[str, str]:
        """The texts by key under a key, as labels are."""
        inner = self.inner(key)
        return {name: _text(value, inner.at(name)) for name, value in inner.values.items()}

    def flag(self, key: str) -> bool:
        """Whether the flag under a key is set."""
        value = self.values.get(key)
        if value is not None and not isinstance(value, bool):
            raise Unreadable(self.at(key), f"this should be true or false, not {_kind(value)}")
        return bool(value)

    def whole(self, key: str) -> int:
        """The whole number of 32 bits under a key; 0 where there is none."""
        value = self.values.get(key)
        if value is None:
            return 0
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 2**31 or value != int(value):
            raise Unreadable(self.at(key), "this should be a whole number of 32 bits")
        return int(value)

    def amounts(self, key: str) -> dict[str, int]:
        """Amounts by resource under a key, as allocatable and requests are."""
        amounts, inner = {}, self.inner(key)
        for resource, quantity in inner.values.items():
            try:
                amounts[resource] = amount(resource, quantity)
            except Unreadable as error:
                raise error.under(inner.at(resource)) from None
        return amounts

    def name(self) -> str:
        """``metadata.name``, which no object may lack."""
        metadata = self.inner("metadata")
        name = metadata.text("name")
        if not name:
            raise Unreadable(metadata.at("name"), "it is missing", "send the object as kubectl prints it")
        if len(name) > _LONGEST_NAME:
            reason = f"a name of {len(name)} characters is longer than Kubernetes allows ({_LONGEST_NAME})"
            raise Unreadable(metadata.at("name"), reason)
        return name

    def _list(self, key: str) -> Sequence[object]:
        value = self.values.get(key)
        if value is None:
            return ()
        if not isinstance(value, list | tuple):
            raise Unreadable(self.at(key), f"this should be a list, not {_kind(value)}")
        return value


def _mapping(value: object, path: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise Unreadable(path, f"this should be an object, not {_kind(value)}")
    return value


def _text(value: object, path: str) -> str:
    if not isinstance(value, str):
        raise Unreadable(path, f"this should be a text, not {_kind(value)}")
    if len(value) > _LONGEST_TEXT:
        raise Unreadable(path, f"a text of {len(value)} characters is longer than any here ({_LONGEST_TEXT})")
    return value


def _kind(value: object) -> str:
    return _NAMES.get(type(value), "an object")
