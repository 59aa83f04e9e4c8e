"""Names of Kubernetes objects: made of a model's name, and checked where the request gives them."""

import re
from typing import Final

from service.planning.requests import ModelSpec

#: Labels of DNS, less what suffixes such as "-template" and those of pods take.
LONGEST: Final = 40
_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_OTHERS: Final = re.compile(r"[^a-z0-9]+", re.ASCII)
_UNNAMED: Final = "model"


def object_name(model: ModelSpec) -> str:
    """A DNS label made of a model's name: lower case, everything else than letters and digits as hyphens.

    >>> object_name(ModelSpec(name="meta-llama/Llama-3.1-70B"))
    'llama-3-1-70b'
    """
    last = (model.name or _UNNAMED).rpartition("/")[2].lower()
    name = _OTHERS.sub("-", last).strip("-")[:LONGEST].strip("-")
    return name if name and name[0].isalpha() else f"{_UNNAMED}-{name}".strip("-")[:LONGEST].strip("-")


def is_label(name: str) -> bool:
    """Whether it is a label of DNS that begins with a letter, as names of services must, and short enough for suffixes."""
    return len(name) <= LONGEST and name[:1].isalpha() and _LABEL.fullmatch(name) is not None


def is_namespace(name: str) -> bool:
    """Whether it is a label of DNS."""
    return len(name) <= 63 and _LABEL.fullmatch(name) is not None
