"""Which GPU a log is about: by the product's name, which engines, nvidia-smi and bug reports all write alike."""

import re
from collections.abc import Iterable, Mapping


def named_gpu(text: str, labels: Mapping[str, Iterable[str]]) -> str | None:
    """The accelerator of which a label stands in the text; of several the one with the longest label.

    Labels are those of GPU feature discovery, the product's name with hyphens for blanks.

    >>> named_gpu("GPU 0: NVIDIA H100 80GB HBM3", {"h100-sxm": ["NVIDIA-H100-80GB-HBM3"], "h100-pcie": ["NVIDIA-H100-PCIe"]})
    'h100-sxm'
    >>> named_gpu("NVIDIA A100-SXM4-80GB", {"a10": ["NVIDIA-A10"]})
    """
    written = f"-{_plain(text)}-"
    found = [
        (len(label), accelerator) for accelerator, own in labels.items() for label in own if f"-{_plain(label)}-" in written
    ]
    return max(found)[1] if found else None


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
