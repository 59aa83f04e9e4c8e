"""Typed access to the keys of a config.json: every value is checked where it is read.

A key that is missing or null falls to the family's class default, where there is one, and the fall is recorded, since a
default can decide the size of a model. Everything that is wrong raises ``UnreadableConfig`` with the path of the key.
"""

import math
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, TypeVar, cast

from service.architectures.refusal import UnreadableConfig

#: Largest accepted values. The largest published models have 126 layers, 768 experts, a hidden size of 18,432 and a
#: vocabulary of 262,208; the limits leave room above that and keep memory and time bounded for any input.
MAX_LAYERS: Final = 1_000
MAX_SIZE: Final = 10_000_000
MAX_EXPERTS: Final = 100_000
MAX_HEADS: Final = 100_000
MAX_TOKENS: Final = 1_000_000_000

#: Names that different families give to one quantity; the first that is present is read.
ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "hidden_size": ("hidden_size", "n_embd", "n_embed", "d_model", "model_dim"),
    "first_k_dense_replace": ("first_k_dense_replace", "num_dense_layers"),
    "num_hidden_layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "num_attention_heads": ("num_attention_heads", "n_head", "n_heads"),
    "num_key_value_heads": (
        "num_key_value_heads", "num_kv_heads", "n_head_kv", "n_kv_heads", "num_attention_groups"
    ),
    "intermediate_size": ("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "ffn_intermediate_size"),
    "vocab_size": ("vocab_size", "padded_vocab_size"),
    "max_position_embeddings": (
        "max_position_embeddings", "n_positions", "seq_length", "max_seq_len", "model_max_length", "max_sequence_length"
    ),
    "num_experts": ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"),
    "num_experts_per_tok": (
        "num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_top_k", "moe_topk", "moe_k",
        "top_k_experts",
    ),
    "moe_intermediate_size": ("moe_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size"),
    "n_shared_experts": ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert"),
    "num_nextn_predict_layers": ("num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_layers"),
    "layer_types": ("layer_types", "layers_block_type"),
}  # fmt: skip

Values: TypeAlias = Mapping[str, object]
_T = TypeVar("_T")


class _Required:
    """Marks a key without default."""


REQUIRED: Final = _Required()


class Fields:
    """The keys of one section of a configuration, with its class defaults and a log of what fell to them."""

    __slots__ = ("_aliases", "_aliases_given", "_defaults", "defaulted", "path", "values")

    def __init__(
        self,
        values: Values,
        *,
        path: str = "",
        defaults: Values | None = None,
        aliases: Mapping[str, tuple[str, ...]] | None = None,
    ) -> None:
        self.values = values
        self.path = path
        self._defaults: Values = defaults or {}
        self._aliases_given = aliases
        self._aliases = {**ALIASES, **aliases} if aliases else ALIASES
        self.defaulted: dict[str, object] = {}

    def with_defaults(self, defaults: Values, aliases: Mapping[str, tuple[str, ...]] | None = None) -> "Fields":
        """The same keys seen through a family's class defaults and names."""
        return Fields(self.values, path=self.path, defaults=defaults, aliases=aliases)

    def with_values(self, values: Values) -> "Fields":
        """The same section with further keys, or other values for some."""
        return Fields({**self.values, **values}, path=self.path, defaults=self._defaults, aliases=self._aliases_given)

    def place(self, name: str) -> str:
        """The full path of a key as the caller wrote it."""
        for alias in self._aliases.get(name, (name,)):
            if self.values.get(alias) is not None:
                return self.path + alias
        return self.path + name

    def given(self, name: str) -> object | None:
        """The value as it stands in the configuration, under any of its names; None when absent or null."""
        for alias in self._aliases.get(name, (name,)):
            value = self.values.get(alias)
            if value is not None:
                return value
        return None

    def _is_null(self, name: str) -> bool:
        return any(alias in self.values for alias in self._aliases.get(name, (name,)))

    def has(self, name: str) -> bool:
        """Whether the configuration itself has a value, defaults aside."""
        return self.given(name) is not None

    def refuse(self, name: str, reason: str, remedy: str) -> UnreadableConfig:
        """The refusal of a key of this section, to be raised."""
        return UnreadableConfig(self.place(name), reason, remedy)

    def _read(self, name: str, default: object, parse: Callable[[str, object], _T]) -> _T | None:
        value = self.given(name)
        if value is not None:
            return parse(self.place(name), value)
        fallback = self._defaults.get(name)
        # An explicit null says "none", so it outranks the class default of a key that may be absent.
        if fallback is not None and (default is REQUIRED or not self._is_null(name)):
            self.defaulted[name] = fallback
            return cast("_T", fallback)
        if default is REQUIRED:
            raise self.refuse(name, "This key is missing.", f"Add {name} to the configuration.")
        return cast("_T | None", default)

    def maybe_count(self, name: str, *, at_least: int = 1, at_most: int = MAX_SIZE) -> int | None:
        """A whole number, or None when it is absent and has no class default."""
        return self._read(name, None, lambda place, value: whole(place, value, at_least, at_most))

    def count(self, name: str, default: int | _Required = REQUIRED, *, at_least: int = 1, at_most: int = MAX_SIZE) -> int:
        """A whole number between the bounds."""
        found = self._read(name, default, lambda place, value: whole(place, value, at_least, at_most))
        return cast("int", found)

    def number(self, name: str, default: float | _Required = REQUIRED) -> float:
        """A finite number from 0 to 10,000 (a multiple or a ratio)."""
        return cast("float", self._read(name, default, _ratio))

    def uniform(self, name: str, *, at_least: int = 0, at_most: int = MAX_SIZE) -> int | None:
        """A whole number given once or as a list of one a layer that are all alike; None when it is absent."""
        if not isinstance(self.given(name), list | tuple):
            return self.maybe_count(name, at_least=at_least, at_most=at_most)
        found = set(self.counts(name, at_least=at_least, at_most=at_most) or [])
        if len(found) != 1:
            raise self.refuse(name, "Its entries differ, or there are none.", "Give one number for all layers.")
        return found.pop()

    def flag(self, name: str, default: bool = False) -> bool:
        """A boolean."""
        return bool(self._read(name, default, _flag))

    def text(self, name: str, default: str | _Required = REQUIRED) -> str:
        """A string."""
        return cast("str", self._read(name, default, _text))

    def section(self, name: str) -> "Fields | None":
        """A nested object, or None when it is absent."""
        value = self.given(name)
        if value is None:
            return None
        return Fields(mapping(self.path + name, value), path=f"{self.path}{name}.")

    def items(self, name: str, *, length: int | None = None, at_most: int = MAX_LAYERS) -> list[object] | None:
        """A list (of ``length`` entries where given), or None when it is absent.

        Some checkpoints append the entries of their multi-token-prediction layers; those are left out.
        """
        value = self.given(name)
        if value is None:
            return None
        if not isinstance(value, list | tuple):
            raise self.refuse(name, f"A list is expected, not {kind(value)}.", "Give a list.")
        if length is not None and length < len(value) <= length + self._num_prediction_layers():
            value = value[:length]
        if length is not None and len(value) != length:
            raise self.refuse(
                name, f"It has {len(value)} entries for {length} layers.", "Give one entry a layer, or leave it out."
            )
        if len(value) > at_most:
            raise self.refuse(name, f"It has {len(value)} entries.", f"Give at most {at_most:,}.")
        return list(value)

    def _num_prediction_layers(self) -> int:
        number = self.given("num_nextn_predict_layers")
        return number if isinstance(number, int) and 0 < number <= MAX_LAYERS else 0

    def texts(self, name: str, *, length: int | None = None) -> list[str] | None:
        """A list of strings, or None when it is absent."""
        found = self.items(name, length=length)
        place = self.place(name)
        return None if found is None else [_text(f"{place}[{i}]", value) for i, value in enumerate(found)]

    def counts(self, name: str, *, length: int | None = None, at_least: int = 0, at_most: int = MAX_SIZE) -> list[int] | None:
        """A list of whole numbers, or None when it is absent."""
        found = self.items(name, length=length)
        place = self.place(name)
        if found is None:
            return None
        return [whole(f"{place}[{i}]", value, at_least, at_most) for i, value in enumerate(found)]


def kind(value: object) -> str:
    """What a JSON value is, in words."""
    names = {bool: "a boolean", str: "a string", list: "a list", dict: "an object", int: "a number", float: "a number"}
    return "null" if value is None else names.get(type(value), type(value).__name__)


def mapping(place: str, value: object) -> Values:
    """The value as an object with string keys."""
    if not isinstance(value, Mapping):
        raise UnreadableConfig(place, f"An object is expected, not {kind(value)}.", "Give a JSON object.")
    if not all(isinstance(key, str) for key in value):
        raise UnreadableConfig(place, "Its keys are not all strings.", "Give a JSON object.")
    return value


def whole(place: str, value: object, at_least: int, at_most: int) -> int:
    """The value as a whole number; 4096.0 counts as one, since some callers' JSON knows only doubles."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnreadableConfig(place, f"A whole number is expected, not {kind(value)}.", "Give a whole number.")
    if isinstance(value, float) and not (math.isfinite(value) and value.is_integer()):
        raise UnreadableConfig(place, f"A whole number is expected, not {value}.", "Give a whole number.")
    if not at_least <= value <= at_most:
        shown = f"{value:,}" if abs(value) < 1e15 else "This number"
        raise UnreadableConfig(place, f"{shown} is out of range.", f"Give a whole number from {at_least:,} to {at_most:,}.")
    return int(value)


def _ratio(place: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UnreadableConfig(place, f"A number is expected, not {kind(value)}.", "Give a number.")
    if isinstance(value, float) and not math.isfinite(value):
        raise UnreadableConfig(place, f"A finite number is expected, not {value}.", "Give a number from 0 to 10,000.")
    if not 0 <= value <= 10_000:
        raise UnreadableConfig(place, "This number is out of range.", "Give a number from 0 to 10,000.")
    return float(value)


def _flag(place: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise UnreadableConfig(place, f"true or false is expected, not {kind(value)}.", "Give true or false.")
    return value


def _text(place: str, value: object) -> str:
    if not isinstance(value, str):
        raise UnreadableConfig(place, f"A string is expected, not {kind(value)}.", "Give a string.")
    return value
