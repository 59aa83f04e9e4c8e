"""The words in which a scaled deployment is described: one table for KEDA's trigger metadata and for the deployments file.

The file spells them as they stand here (``tpot_seconds``), metadata as KEDA's own triggers do (``tpotSeconds``); metadata holds
nothing but text.
"""

import difflib
import math
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal

from msgspec import Struct

from service.planning.fleet.requests import Certainty, Percentile
from service.planning.replicas import MOST_REPLICAS, MOST_REQUESTS_PER_SECOND, MOST_TOKENS

Kind = Literal["text", "whole", "number", "flag", "labels"]
Where = Literal["both", "metadata", "file"]

_MOST_CHARACTERS: Final = 8192
_MOST_LABELS: Final = 32
_WHOLE: Final = re.compile(r"[-+]?[0-9]{1,12}", re.ASCII)
_NUMBER: Final = re.compile(r"[-+]?[0-9]*\.?[0-9]+([eE][-+]?[0-9]{1,3})?", re.ASCII)
_FLAGS: Final = MappingProxyType({"true": True, "false": False})
_EXPECTED: Final = {
    "text": "text",
    "whole": "a whole number",
    "number": "a number",
    "flag": "true or false",
    "labels": "a mapping of labels to values",
}


class Refusal(Exception):
    """Why a value is not taken, and what would be."""

    def __init__(self, reason: str, accepted: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.accepted = accepted


class Key(Struct, frozen=True):
    """One word. ``least`` and ``most``: what a number may be; ``is_open``: not ``least`` itself."""

    name: str
    kind: Kind
    least: float = 0.0
    most: float = math.inf
    is_open: bool = False
    choices: tuple[str, ...] = ()
    where: Where = "both"

    @property
    def camel(self) -> str:
        """The word as metadata spells it."""
        first, *rest = self.name.split("_")
        return first + "".join(map(str.capitalize, rest))

    @property
    def accepted(self) -> str:
        """What it takes, in words."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        if self.kind not in ("whole", "number"):
            return _EXPECTED[self.kind]
        low = f"above {self.least:g}" if self.is_open else f"from {self.least:g}"
        return f"{_EXPECTED[self.kind]} {low}" + ("" if math.isinf(self.most) else f" to {self.most:g}")

    def of_text(self, text: str) -> Any:
        """The value of a text as metadata has it. Refusal where it can be none."""
        text = text.strip()
        if self.kind == "whole" and _WHOLE.fullmatch(text):
            return self.of_value(int(text))
        if self.kind == "number" and _NUMBER.fullmatch(text):
            return self.of_value(float(text))
        if self.kind == "flag" and text.casefold() in _FLAGS:
            return _FLAGS[text.casefold()]
        if self.kind == "text":
            return self.of_value(text)
        raise Refusal(f"{_shown(text)} is not {_EXPECTED[self.kind]}", self.accepted)

    def of_value(self, value: object) -> Any:
        """The value as it stands in a file. Refusal where it is of another kind or out of bounds."""
        if self.kind == "labels":
            return self._labels(value)
        if self.kind == "flag":
            if isinstance(value, bool):
                return value
        elif self.kind == "text":
            if isinstance(value, str):
                return self._chosen(value)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            return self._bounded(value)
        raise Refusal(f"{_shown(str(value))} is not {_EXPECTED[self.kind]}", self.accepted)

    def _bounded(self, value: float) -> float:
        if self.kind == "whole" and not isinstance(value, int):
            raise Refusal(f"{value:g} is not a whole number", self.accepted)
        is_low = value <= self.least if self.is_open else value < self.least
        if is_low or not value <= self.most or not math.isfinite(value):
            raise Refusal(f"{value:g} is out of bounds", self.accepted)
        return value if self.kind == "whole" else float(value)

    def _chosen(self, text: str) -> str:
        if self.choices:
            for choice in self.choices:
                if choice.casefold() == text.casefold():
                    return choice
            raise Refusal(f"{_shown(text)} is not known", self.accepted)
        if not text or len(text) > _MOST_CHARACTERS:
            what = f"longer than {_MOST_CHARACTERS} characters" if text else "empty"
            raise Refusal(f"it is {what}", self.accepted)
        return text

    def _labels(self, value: object) -> dict[str, str]:
        if not isinstance(value, Mapping) or len(value) > _MOST_LABELS:
            raise Refusal("it is no short mapping", self.accepted)
        for each in value.values():
            if not isinstance(each, str):
                raise Refusal(f"{_shown(str(each))} is not text", "texts; in quotes what could be a number or a word of YAML")
        return {str(key): each for key, each in value.items()}


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:59]}…")


_MANY: Final = 1e15

KEYS: Final = (
    # What a replica is.
    Key("model", "text"),
    Key("accelerator", "text"),
    Key("engine", "text"),
    Key("engine_version", "text"),
    Key("tensor", "whole", 1, 1024),
    Key("pipeline", "whole", 1, 1024),
    Key("expert", "whole", 1, 1024),
    Key("attention_data", "whole", 1, 1024),
    Key("weights", "text"),
    Key("kv_cache", "text"),
    Key("compute", "text"),
    Key("max_num_seqs", "whole", 1, 1e6),
    Key("max_num_batched_tokens", "whole", 1, 1e7),
    Key("memory_utilization_ratio", "number", 0, 1, is_open=True),
    Key("transfer_bytes_per_second", "number", 0, _MANY, is_open=True),
    Key("role", "text", choices=("prefill", "decode"), where="metadata"),
    Key("disaggregated", "flag", where="file"),
    # What its requests are to see.
    Key("ttft_seconds", "number", 0, 86_400, is_open=True),
    Key("tpot_seconds", "number", 0, 3_600, is_open=True),
    Key("percentile", "text", choices=tuple(Percentile)),
    Key("certainty", "text", choices=tuple(Certainty)),
    # What is asked of all replicas together.
    Key("requests_per_second", "number", 0, MOST_REQUESTS_PER_SECOND),
    Key("prometheus_server", "text"),
    Key("query", "text"),
    Key("input_tokens", "number", 0, MOST_TOKENS, is_open=True),
    Key("output_tokens", "number", 0, MOST_TOKENS, is_open=True),
    Key("input_tokens_query", "text"),
    Key("output_tokens_query", "text"),
    Key("prefix_cache_hit_ratio", "number", 0, 0.99),
    # How that becomes a number of replicas.
    Key("headroom_ratio", "number", 0, 10),
    Key("min_replicas", "whole", 1, MOST_REPLICAS),
    Key("max_replicas", "whole", 1, MOST_REPLICAS),
    Key("scale_to_zero", "flag"),
    Key("downscale_ratio", "number", 0.1, 1),
    Key("downscale_window_seconds", "number", 0, 86_400),
    # What only a file says.
    Key("observe", "flag", where="file"),
    Key("observe_labels", "labels", where="file"),
    Key("observe_window_seconds", "whole", 10, 86_400, where="file"),
    Key("observe_metric_prefix", "text", where="file"),
    Key("dynamo_port", "whole", 0, 65_535, where="file"),
)

IN_METADATA: Final = MappingProxyType({key.camel: key for key in KEYS if key.where != "file"})
IN_FILE: Final = MappingProxyType({key.name: key for key in KEYS if key.where != "metadata"})


def unknown(word: str, known: Iterable[str]) -> tuple[str, str]:
    """Reason and remedy for a word that is none: the nearest, and all of them."""
    words = sorted(known)
    near = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    hint = f"did you mean {near[0]}? " if near else ""
    return "no such key", f"{hint}known are {', '.join(words)}"
