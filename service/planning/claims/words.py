"""The words around a figure: number format, sparsity, what is counted, direction, and what a percentage is of."""

import re
from typing import Final

from service.planning.claims.requests import Quantity

_PRECISION: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:(nv|mx)?[ -]?fp[ -]?(4|6|8|16|32|64)|(bf)(?:loat)?[ -]?(16)|tf[ -]?(32)|int[ -]?(4|8)|"
    r"(half|single|double)[ -]precision|bfloat16|float(16|32|64))(?![0-9])",
    re.IGNORECASE,
)
_TENSOR: Final = re.compile(r"[ _-](?:tensor|matrix)", re.IGNORECASE)
_NAMED: Final = {"half": "fp16", "single": "fp32", "double": "fp64"}
_DENSE: Final = re.compile(
    r"\b(?:dense|without (?:structured )?sparsity|w/o sparsity|no sparsity|non[- ]?sparse)\b", re.IGNORECASE
)
_SPARSE: Final = re.compile(r"\b(?:sparse|sparsity|2:4|structured)\b", re.IGNORECASE)
_ONE_DEVICE: Final = re.compile(
    r"(?:\b(?:per|each|one|a single|every)[ -]|/)(?:gpu|chip|accelerator|device|package|card)\b", re.IGNORECASE
)
_SUPERCHIP: Final = re.compile(r"\bsuper[ -]?chips?\b", re.IGNORECASE)
_SYSTEM: Final = re.compile(
    r"\b(?:per|each|one|a single|every)[ -](rack|pod|board|node|tray|system|server|box)\b", re.IGNORECASE
)
_ONE_WAY: Final = re.compile(
    r"\b(?:one[- ]way|unidirectional|uni-directional|(?:per|each|in one|one) direction|simplex)\b", re.IGNORECASE
)
_BOTH_WAYS: Final = re.compile(
    r"\b(?:bi-?directional|bidirectionally|both (?:directions|ways)|two[- ]way|full[- ]duplex|duplex)\b", re.IGNORECASE
)
_LINK: Final = re.compile(
    r"\b(?:(nvlink)(?:-c2c)?|(pcie|pci express)|(infinity fabric)|(neuronlink)|(ici|inter-chip interconnect)|"
    r"(interconnect|links?|scale-up|gpu-to-gpu))\b",
    re.IGNORECASE,
)
_LINKS: Final = ("nvlink", "pcie", "infinity fabric", "neuronlink", "ici", "any")
_NETWORK: Final = re.compile(r"\b(?:network(?:ing)?|nics?|ethernet|infiniband|efa|rdma)\b", re.IGNORECASE)
_CACHE: Final = re.compile(r"\b(?:l2|cache)\b", re.IGNORECASE)
_USABLE: Final = re.compile(r"\b(?:usable|nvidia-smi|driver|reported|visible|available)\b", re.IGNORECASE)
_DIMENSION: Final = re.compile(
    r"\b(?:gates?|features?|pitch|transistors?|wide|width|lengths?|dimensions?|size|fins?)\b", re.IGNORECASE
)
_OF: Final = (
    (Quantity.MEMORY_BANDWIDTH, re.compile(r"\bbandwidths?\b|\bmemory speed\b", re.IGNORECASE)),
    (Quantity.MEMORY, re.compile(r"\b(?:memory|capacity|hbm|vram)\b", re.IGNORECASE)),
    (Quantity.PEAK, re.compile(r"\b(?:peaks?|flops|tflops|compute|performance|faster|throughput|math)\b", re.IGNORECASE)),
    (Quantity.POWER, re.compile(r"\b(?:power|tdp|watts?)\b", re.IGNORECASE)),
)
_PROCESS: Final = (
    (
        Quantity.PROCESS_EFFICIENCY,
        re.compile(r"\b(?:power efficiency|energy efficiency|efficien(?:t|cy)|per watt|perf/w)\b", re.IGNORECASE),
    ),
    (Quantity.PROCESS_DENSITY, re.compile(r"\b(?:densit(?:y|ies)|denser|more transistors)\b", re.IGNORECASE)),
    (Quantity.PROCESS_POWER, re.compile(r"\b(?:power|energy)\b", re.IGNORECASE)),
    (
        Quantity.PROCESS_SPEED,
        re.compile(r"\b(?:faster|speed|performance|perf|boost|quicker|frequency|clocks?)\b", re.IGNORECASE),
    ),
)
_QUANTITY: Final = re.compile(
    r"\b(?:memory|bandwidth|capacity|hbm\d?\w?|vram|peak|tensor|cores?|performance|flops|compute|power|tdp|clock|boost|l2|cache|"
    r"network|dense|sparse|sparsity|total|aggregate|per|gpus?|note|spec(?:ification)?s?|speed|density|area|size|each)\b",
    re.IGNORECASE,
)
#: What a process claim holds constant is no quantity that it claims: "18 % faster at the same power".
_HELD: Final = re.compile(
    r"\b(?:at|for|with) (?:the )?(?:same|iso|equal|constant|identical)[- ](?:power|speed|performance)\b", re.I
)
_HELD_OTHER: Final = re.compile(r"\b(?:iso|same)[- ](?:power|speed|performance)\b", re.I)


def precisions(text: str) -> tuple[str, ...]:
    """The number formats that a text names, in order; NVFP4 and MXFP4 are ``fp4``."""
    return tuple(dict.fromkeys(name for _, name in precision_spans(text)))


def precision_spans(text: str) -> list[tuple[int, str]]:
    """Where a text names a number format, and which."""
    return [(found.start(), _precision(found) + _of_tensor_units(found, text)) for found in _PRECISION.finditer(text)]


def _of_tensor_units(found: re.Match[str], text: str) -> str:
    """``_tensor`` where the words say that FP64 is of the tensor units, whose rate is another."""
    return "_tensor" if _precision(found) == "fp64" and _TENSOR.match(text, found.end()) else ""


def _precision(found: re.Match[str]) -> str:
    _, fp, brain, _, tf, integer, worded, floated = found.groups()
    if worded:
        return _NAMED[worded.lower()]
    if brain or found.group().lower() == "bfloat16":
        return "bf16"
    if tf:
        return "tf32"
    return f"int{integer}" if integer else f"fp{fp or floated}"


def sparsity(text: str) -> str:
    """``dense``, ``structured_2_4``, or empty where nothing is said."""
    if _DENSE.search(text):
        return "dense"
    return "structured_2_4" if _SPARSE.search(text) else ""


def direction(text: str) -> str:
    """``one_way``, ``both_ways``, or empty where nothing is said."""
    if _ONE_WAY.search(text):
        return "one_way"
    return "both_ways" if _BOTH_WAYS.search(text) else ""


def link(text: str) -> str:
    """Which link between devices a text is about: ``any`` where it only says that it is one; empty where it is of none."""
    found = _LINK.search(text)
    return "" if found is None else next(name for name, part in zip(_LINKS, found.groups(), strict=True) if part)


def is_one_device(text: str) -> bool:
    """Whether the words count one device."""
    return bool(_ONE_DEVICE.search(text))


def system(text: str) -> str:
    """The kind of system that the words count, "rack" or "board"; empty where they count none."""
    found = _SYSTEM.search(text)
    return found[1].casefold() if found else ""


def is_superchip(text: str) -> bool:
    """Whether the words count a superchip."""
    return bool(_SUPERCHIP.search(text))


def is_network(text: str) -> bool:
    """Whether the words are about a node's network."""
    return bool(_NETWORK.search(text))


def is_cache(text: str) -> bool:
    """Whether the words are about a cache."""
    return bool(_CACHE.search(text))


def is_usable_memory(text: str) -> bool:
    """Whether the words are about what the driver reports."""
    return bool(_USABLE.search(text))


def is_dimension(text: str) -> bool:
    """Whether the words take a node's name for a length on the chip."""
    return bool(_DIMENSION.search(text))


def ratio_of(text: str) -> Quantity | None:
    """What a factor between two accelerators, or a question without a figure, is about."""
    return next((quantity for quantity, pattern in _OF if pattern.search(text)), None)


def is_about_a_quantity(text: str) -> bool:
    """Whether words before a colon name a quantity, number format or link, and so no product."""
    return bool(_QUANTITY.search(text) or _PRECISION.search(text) or _LINK.search(text))


def process_quantity(before: str, after: str) -> Quantity | None:
    """What a percentage or factor of a process is of: by the words after the figure, else by those before it."""
    for words in (after, before):
        words = _HELD_OTHER.sub(" ", _HELD.sub(" ", words))
        for quantity, pattern in _PROCESS:
            if pattern.search(words):
                return quantity
    return None
