"""Which modules a list of names in a quantisation block means.

Checkpoints name modules in several dialects: full paths ("model.layers.0.mlp.gate"), bare names ("lm_head", "gate"),
globs ("model.layers.3.self_attn*", "*.attn.*") and, in compressed-tensors, regular expressions ("re:.*self_attn.*").
Names of layers are filed by layer, so that a list of thousands is read once and asked cheaply. Regular expressions come
from outside and are never run: the subset that occurs is turned into globs, which match in bounded time.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import product
from math import prod
from typing import Final

from service.architectures.refusal import UnreadableConfig

MAX_PATTERNS: Final = 400_000
MAX_PATTERN_LENGTH: Final = 500
MAX_GLOBS: Final = 2_000

MAX_ALTERNATIVES: Final = 256

_LAYER: Final = re.compile(r"^(.*?)(?:^|[.*])(?:layers|h|blocks)\.(\d{1,4})(?=$|[.*])(.*)$")
_ANY_LAYER: Final = re.compile(r"^(?:.*?\.)?(?:layers|h|blocks)\.\*\.?(.*)$")
_EXPERT_INDEX: Final = re.compile(r"(^|\.)experts\.(?:\d+|\*)(?=$|\.)")
_EXPERTS: Final = re.compile(r"(^|\.)experts(?=$|\.)")
_PREFIX: Final = re.compile(r"^(?:(?:model|language_model|text_model|backbone|transformer)\.)+")
_OTHER_TOWERS: Final = re.compile(
    r"vision|visual|image|audio|mtp|aligner|multi_modal|mm_projector|talker|(?:^|[._*])vit(?:$|[._*])"
)
_VISION: Final = re.compile(r"vision|visual|image|multi_modal|mm_projector|(?:^|[._*])vit(?:$|[._*])")
#: Ends of names that no scheme quantises: lists of them are long and say nothing here.
_NEVER_QUANTIZED: Final = ("norm", "_bias", ".bias", "conv1d")

#: What engines call projections that they fuse; lists written from such an engine name the fused one.
_FUSED: Final = {
    "q_proj": "qkv_proj", "k_proj": "qkv_proj", "v_proj": "qkv_proj",
    "gate_proj": "gate_up_proj", "up_proj": "gate_up_proj",
    "in_proj_qkv": "in_proj_qkvz", "in_proj_z": "in_proj_qkvz", "in_proj_b": "in_proj_ba", "in_proj_a": "in_proj_ba",
}  # fmt: skip

_TOKEN: Final = re.compile(
    r"\\\.|\\d[+*]?|\\w[+*]|\[0-9\][+*]?|\.[*+]\??|\.|\((?:\?:)?([^()?*+\[\]]*)\)|\^|\$|[\w\-:/*]|\\[_\-/:]"
)


def globs_of_expression(expression: str, place: str) -> list[str]:
    r"""A regular expression of the kinds that quantisation tools write, as equivalent globs.

    >>> globs_of_expression(r".*mlp\.(gate|up)_proj.*", "ignore[0]")
    ['*mlp.gate_proj*', '*mlp.up_proj*']
    """
    choices: list[list[str]] = []
    position = 0
    while position < len(expression):
        token = _TOKEN.match(expression, position)
        if token is None or token.group() == "*":
            raise UnreadableConfig(
                place, f"The expression cannot be read from its character {position} on.", "Write it as plain names."
            )
        choices.append(_glob_parts(token, place))
        position = token.end()
    if prod(len(parts) for parts in choices) > MAX_ALTERNATIVES:
        raise UnreadableConfig(place, "The expression has too many alternatives.", "Write it as plain names.")
    tail = "" if expression.endswith("$") else "*"  # such tools match at the beginning, not to the end
    return [re.sub(r"\*+", "*", "".join(parts) + tail) for parts in product(*choices)]


def _glob_parts(token: re.Match[str], place: str) -> list[str]:
    text = token.group()
    if text in ("^", "$"):
        return [""]
    if text == ".":
        return ["?"]
    if text.startswith("("):
        return [part for name in token.group(1).split("|") for part in globs_of_expression(name + "$", place)]
    if text[-1] in "+*?" and text != "*":
        return ["*"]
    if text in ("\\d", "[0-9]"):
        return ["?"]
    return [text[-1]]


class Modules:
    """A set of modules given by names, globs and expressions."""

    __slots__ = ("_anywhere", "_by_digits", "_by_layer", "_globs", "_names", "_num_layer_globs", "mentions_vision")

    def __init__(self, patterns: Iterable[str], place: str = "ignore") -> None:
        self._names: set[str] = set()
        self._globs: list[str] = []
        self._by_layer: dict[str, set[str]] = {}
        self._by_digits: dict[str, set[str]] = {}
        self._anywhere: dict[str, bool] = {}  # answers that hold for every layer, by module
        self._num_layer_globs = 0
        self.mentions_vision = False
        for pattern in patterns:
            if len(pattern) > MAX_PATTERN_LENGTH:
                raise UnreadableConfig(
                    place, "A name in it is too long.", f"Give names of at most {MAX_PATTERN_LENGTH} characters."
                )
            if pattern.startswith("re:"):
                for glob in globs_of_expression(pattern[3:], place):
                    self._add(glob)
            else:
                self._add(pattern.removesuffix(".weight"))
        if len(self._globs) + self._num_layer_globs > MAX_GLOBS:
            raise UnreadableConfig(place, "It has too many wildcards.", f"Give at most {MAX_GLOBS:,} of them.")

    def _add(self, pattern: str) -> None:
        if pattern.endswith(_NEVER_QUANTIZED):
            return
        in_layer = _LAYER.match(pattern)
        prefix = in_layer.group(1) if in_layer else pattern
        if prefix not in ("model", "") and _OTHER_TOWERS.search(prefix):
            self.mentions_vision |= _VISION.search(prefix) is not None
            return
        if in_layer:
            self._add_of_layer(in_layer.group(2), in_layer.group(3))
            return
        rest = _PREFIX.sub("", pattern)
        any_layer = _ANY_LAYER.match(rest)
        rest = any_layer.group(1) if any_layer else rest
        if _is_glob(rest):
            self._globs.append(rest)
        else:
            self._names.add(_EXPERT_INDEX.sub(r"\1experts", rest))

    def _add_of_layer(self, digits: str, rest: str) -> None:
        filed = self._by_digits if rest.startswith("*") else self._by_layer
        rest = rest.lstrip("*").removeprefix(".")
        if "experts" in rest:
            rest = _EXPERT_INDEX.sub(r"\1experts", rest)
        self._num_layer_globs += _is_glob(rest[:-1])
        filed.setdefault(digits, set()).add(rest)

    def __bool__(self) -> bool:
        return bool(self._names or self._globs or self._by_layer or self._by_digits)

    def of_layer(self, index: int) -> frozenset[str]:
        """What the list says of one layer in particular: layers that share it are treated alike.

        A digit string followed by a wildcard ("layers.1*") also means the layers that begin with those digits.
        """
        number = str(index)
        found = set(self._by_layer.get(number, ()))
        for end in range(1, len(number) + 1):
            found |= self._by_digits.get(number[:end], set())
        return frozenset(found)

    def __contains__(self, module: str) -> bool:
        """Whether a module outside the layers, or of whatever layer, is meant by name alone."""
        return self.contains(module, frozenset())

    def contains(self, module: str, said_of_layer: frozenset[str]) -> bool:
        """Whether ``module`` (its path below the layer) is meant, ``said_of_layer`` being ``of_layer`` of its layer."""
        if module not in self._anywhere:
            self._anywhere[module] = self._contains_anywhere(module)
        if self._anywhere[module] or "" in said_of_layer:
            return True
        if not said_of_layer:
            return False
        if not said_of_layer.isdisjoint(_ends(module)):
            return True
        return any(_matches(module, rest) for rest in said_of_layer if _is_glob(rest))

    def _contains_anywhere(self, module: str) -> bool:
        if not self._names.isdisjoint(_ends(module)):
            return True
        numbered = _EXPERTS.sub(r"\1experts.0", module)
        paths = (module, numbered, f"model.layers.0.{numbered}", f"model.layers.0.{_fused(numbered)}")
        return any(_matches(path, glob) for glob in self._globs for path in paths)


def _is_glob(text: str) -> bool:
    return "*" in text or "?" in text


def _matches(path: str, glob: str) -> bool:
    if glob.endswith("*") and not _is_glob(glob[:-1]):
        return path.startswith(glob[:-1])
    return fnmatchcase(path, glob)


def _fused(module: str) -> str:
    head, _, last = module.rpartition(".")
    return f"{head}.{_FUSED.get(last, last)}" if head else _FUSED.get(last, last)


@lru_cache(maxsize=4096)
def _ends(module: str) -> tuple[str, ...]:
    """Every run of whole components of the path: a name means a module, all inside it, and wherever it ends so."""
    found: list[str] = []
    for path in dict.fromkeys((module, _fused(module))):
        parts = path.split(".")
        found += [".".join(parts[start:end]) for start in range(len(parts)) for end in range(start + 1, len(parts) + 1)]
    return tuple(found)
