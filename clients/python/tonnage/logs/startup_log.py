"""What a start-up log says, and how an engine's dialect is described."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Outcome(StrEnum):
    """How the start ended. Those that the service predicts carry the names of ``EngineMemory.Outcome``."""

    UNKNOWN = "UNKNOWN"
    """The log ends before that is known."""
    STARTS = "STARTS"
    """A pool was allotted and nothing failed afterwards."""
    REFUSED_NO_KV = "REFUSED_NO_KV"
    """Nothing was left for the cache."""
    REFUSED_MAX_LEN = "REFUSED_MAX_LEN"
    """One sequence of the longest accepted length did not fit."""
    OUT_OF_MEMORY_LOADING_WEIGHTS = "OUT_OF_MEMORY_LOADING_WEIGHTS"
    """The weights did not fit."""
    OUT_OF_MEMORY_LATER = "OUT_OF_MEMORY_LATER"
    """The weights fitted; what came after them did not."""
    MEMORY_TAKEN_BY_OTHERS = "MEMORY_TAKEN_BY_OTHERS"
    """Less was free at the start than the fraction asks for."""


@dataclass(frozen=True, slots=True)
class StartupLog:
    """One start of an engine. What the log does not say is absent."""

    engine: str
    """vllm, sglang or tensorrt-llm."""
    version: str | None = None
    """Its release, without suffixes of development builds."""
    model: str | None = None
    """The model as it was started: a Hugging Face id or a path."""
    dtype: str | None = None
    """The number format that the model was loaded in."""
    quantization: str | None = None
    """The quantisation method."""
    flags: Mapping[str, object] = field(default_factory=dict)
    """Flags by their field in EngineSpec."""
    split: Mapping[str, int] = field(default_factory=dict)
    """Ways of parallelism above one: tensor, pipeline, expert, attention_data."""
    figures: Mapping[str, float] = field(default_factory=dict)
    """Memory lines by name. Names that end in _bytes are bytes on a device; of several ranks the tightest pool counts."""
    outcome: Outcome = Outcome.UNKNOWN
    complaint: str = ""
    """The line with which it refused. Empty where it did not."""


SIZE = r"-?\d+(?:\.\d+)? ?[KMG]i?B"
"""An amount of memory as engines print it. A pattern."""

Settings = dict[str, str]
"""Settings as the log writes them, by our names."""


@dataclass(frozen=True)
class Dialect:
    """How one engine writes its log.

    The named groups of ``patterns`` and of ``refusals`` are figures or settings; groups that differ only after a double
    underscore, such as K and V of one pool, are added up.
    """

    engine: str
    signs: re.Pattern[str]
    """What no other engine writes."""
    start: re.Pattern[str]
    """What a start begins with: of several starts in one log the last one counts."""
    settings_lines: re.Pattern[str]
    """Lines that hold settings as key and value."""
    keys: Mapping[str, str]
    """The engine's own keys and our names for them."""
    patterns: tuple[re.Pattern[str], ...]
    refusals: tuple[tuple[re.Pattern[str], Outcome], ...]
    split: Callable[[Settings], dict[str, int]]
    """The ways of parallelism from the settings."""
    tried_before: re.Pattern[str] | None = None
    """A line before which pools are only tried: what they held is forgotten at it."""
    negated: Mapping[str, str] = field(default_factory=dict)
    """Keys that switch off what our name switches on."""


def ways(settings: Settings, name: str) -> int:
    """A number of ranks; 1 where the log is silent or says nothing countable."""
    value = settings.get(name, "1")
    return max(1, int(value)) if value.isdecimal() else 1
