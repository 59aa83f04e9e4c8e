"""What people call the things of the catalogue, found in running text: "H100", "H100-SXM5-80GB", "GB200 NVL72", "TSMC 4N"."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from service.catalogue.entries import Accelerator, Catalogue, NodeType
from service.catalogue.lookup import nearest_names
from service.planning.claims.claim import Kind, Mention, Name

#: A count may touch the name: "8xH100" is two words, "48xlarge" one.
_WORD: Final = re.compile(r"\d{1,3}x(?=[a-z]{1,4}\d)|[a-z0-9]+")
_GAP: Final = re.compile(r"[ \t\u00a0\u202f_/.()-]{0,2}")
_NOT_ALNUM: Final = re.compile(r"[^a-z0-9]+")
_MAX_WORDS: Final = 9
_VERSIONED_FORM: Final = re.compile(r"(?:SXM|OAM)\d?")
#: Words that make another product of the one before them.
_VARIANT: Final = re.compile(
    r"[ -](nvl\d+|ti|super|pro|ultra|plus|lite|mini|pcie(?!\W{0,2}(?:gen)?\d)|sxm\d?|nvl|cpx|oam)\b", re.I
)
_LIKE_A_PRODUCT: Final = re.compile(
    r"(?<![\w.])(?=[a-z0-9-]{0,30}[a-z])(?=[a-z0-9-]{0,30}\d)[a-z0-9][a-z0-9-]{1,29}(?![\w])", re.I
)
_NO_PRODUCT: Final = re.compile(
    r"(?:(?:nv|mx)?fp-?\d+|bf-?16|tf-?32|int-?\d+|float\d+|bfloat16|hbm\d\w?|gddr\d\w?|lpddr\d\w?|ddr\d|gen-?\d|pcie-?\d?|sxm\d?|l[123]|"
    r"x\d+|\d+x|q[1-4]|h[12]|\d+-?(?:gpu|gpus|way|bit|fold|chip|node|die|core|cores|nm|mm2?|gb|gib|tb|tib|mib|mb|w|kw|v|mhz|ghz|"
    r"[tpeg]flops|[tpeg]?ops|[tpe]f|gbps|tbps|st|nd|rd|th|b)|cuda\d*|c2c|nvlink-?\d|[fc]y-?\d{2,4}|h\d-\d{4})",
    re.I,
)
_EXPOSURE_WORDS: Final = ("reticle", "exposure field", "reticle field", "reticle limit")
_MAX_SUBJECT: Final = 100
_MAX_NEAREST: Final = 5


class Names:
    """Every spelling that names something in a catalogue."""

    def __init__(self, catalogue: Catalogue) -> None:
        spellings: dict[str, set[Name]] = defaultdict(set)
        for accelerator in catalogue.accelerators.values():
            for spelling in _accelerator_spellings(accelerator):
                spellings[_key(spelling)].add(Name(Kind.ACCELERATOR, accelerator.name))
        nodes: dict[str, set[Name]] = defaultdict(set)
        for node in catalogue.node_types.values():
            for spelling in _node_spellings(node):
                nodes[_key(spelling)].add(Name(Kind.NODE_TYPE, node.name))
        spellings |= nodes  # "Vera Rubin NVL72" is the rack, also where a GPU's title begins so
        spellings |= _manufacturing(catalogue)
        exact = {_key(name): {Name(Kind.ACCELERATOR, name)} for name in catalogue.accelerators}
        spellings |= exact
        self._names: Mapping[str, tuple[Name, ...]] = MappingProxyType(
            {key: tuple(sorted(names)) for key, names in spellings.items() if key}
        )
        self._spellings = MappingProxyType({key: key for key in self._names})
        self._longest = max(map(len, self._names), default=0)
        self._lookup_names = _lookup_names(catalogue)

    def mentions(self, text: str) -> Iterator[Mention]:
        """What a text names, in order; the longest spelling wins. A known name with an unknown variant names nothing."""
        folded = text.lower() if len(text.lower()) == len(text) else text
        words = list(_WORD.finditer(folded))
        position = 0
        while position < len(words):
            length, key = self._longest_at(folded, words, position)
            if not length or _is_article(text, words[position], length):
                position += 1
                continue
            start, end = words[position].start(), words[position + length - 1].end()
            variant = _VARIANT.match(text, end)
            position += length
            if variant:
                end = variant.end()
                yield Mention(start, end, text[start:end], ())
            else:
                yield Mention(start, end, text[start:end], self._names[key])

    def _longest_at(self, text: str, words: list[re.Match[str]], position: int) -> tuple[int, str]:
        key, best, best_key, end = "", 0, "", words[position].start()
        for length, word in enumerate(words[position : position + _MAX_WORDS], start=1):
            if not _GAP.fullmatch(text, end, word.start()):
                break
            key, end = key + word.group(), word.end()
            if len(key) > self._longest:
                break
            plural = key.removesuffix("s")  # "H100s"
            if key in self._names:
                best, best_key = length, key
            elif plural in self._names:
                best, best_key = length, plural
        return best, best_key

    def subject(self, text: str) -> tuple[Name, ...]:
        """What a subject that is given by itself means; empty where nothing has that name."""
        folded = text.strip().casefold()
        exact = self._lookup_names.get(folded)
        if exact is not None:
            return (exact,)
        found = list(self.mentions(text[:_MAX_SUBJECT]))
        return found[0].names if len(found) == 1 else ()

    def nearest(self, text: str) -> tuple[str, ...]:
        """Up to five names like it, best first."""
        keys = nearest_names(text, self._spellings)
        return tuple(dict.fromkeys(name.name for key in keys for name in self._names[key]))[:_MAX_NEAREST]


def like_products(text: str) -> Iterator[Mention]:
    """Words of letters and digits that look like a product's name and are no number format, unit or year."""
    for found in _LIKE_A_PRODUCT.finditer(text):
        if not _NO_PRODUCT.fullmatch(found.group()):
            yield Mention(found.start(), found.end(), found.group(), ())


@lru_cache(maxsize=4)
def names_of(catalogue: Catalogue) -> Names:
    """The names of a catalogue."""
    return Names(catalogue)


def _key(spelling: str) -> str:
    return _NOT_ALNUM.sub("", spelling.casefold())


def _is_article(text: str, word: re.Match[str], length: int) -> bool:
    """Whether what was found begins with a word of one letter: "a 16 GPU node" names no process A16."""
    return length > 1 and word.end() - word.start() == 1 and text[word.start()].isalpha()


def _accelerator_spellings(entry: Accelerator) -> Iterator[str]:
    vendor = entry.vendor.casefold()
    yield from (alias for alias in (entry.name, *entry.aliases) if not alias.casefold().startswith(vendor))
    yield from (label.casefold().removeprefix(vendor) for label in entry.gpu_product_labels)
    yield entry.title.partition("(")[0].removeprefix(entry.vendor)
    parts = entry.name.split("-")
    family = next((position for position, part in enumerate(parts, 1) if any(map(str.isdigit, part))), 0)
    if not family:
        return
    for length in range(family, len(parts)):
        yield "-".join(parts[:length])
    stem, memory = "-".join(parts[:family]), f"{entry.marketed_memory.printed_value:g}gb"
    versioned = _VERSIONED_FORM.match(entry.form_factor)
    forms = [part for part in parts[family:] if part.isalpha()][:1] + ([versioned.group()] if versioned else [])
    yield stem + memory
    for form in forms:
        yield from (stem + form, stem + form + memory, stem + memory + form)


def _node_spellings(node: NodeType) -> Iterator[str]:
    yield from (node.name, *node.aliases)
    yield node.title.partition(",")[0].removeprefix(node.provider)
    first, _, rest = node.name.partition("-")
    if first in {"dgx", "hgx"}:
        parts = rest.split("-")
        yield from (f"{first}-{'-'.join(parts[:length])}" for length in range(1, len(parts)))
    if node.provider.casefold().startswith(first) or first in {"aws", "gcp", "azure", "oci", "lambda", "coreweave"}:
        yield rest


def _manufacturing(catalogue: Catalogue) -> dict[str, set[Name]]:
    spellings: dict[str, set[Name]] = defaultdict(set)
    for process in catalogue.processes.values():
        for spelling in (process.name, *process.aliases, process.title.partition(",")[0]):
            spellings[_key(spelling)].add(Name(Kind.PROCESS, process.name))
        for die in process.dies:
            spellings[_key(die.name)].add(Name(Kind.DIE, die.name))
    for field in catalogue.exposure_fields.values():
        for spelling in (field.name, *field.aliases, field.title, *_EXPOSURE_WORDS):
            spellings[_key(spelling)].add(Name(Kind.EXPOSURE_FIELD, field.name))
    return spellings


def _lookup_names(catalogue: Catalogue) -> Mapping[str, Name]:
    names = {spelling: Name(Kind.PROCESS, name) for spelling, name in catalogue.process_names.items()}
    names |= {die.name: Name(Kind.DIE, die.name) for process in catalogue.processes.values() for die in process.dies}
    names |= {spelling: Name(Kind.NODE_TYPE, name) for spelling, name in catalogue.node_type_names.items()}
    names |= {label: Name(Kind.ACCELERATOR, name) for label, name in catalogue.accelerators_by_label.items()}
    names |= {spelling: Name(Kind.ACCELERATOR, name) for spelling, name in catalogue.accelerator_names.items()}
    return MappingProxyType(names)
