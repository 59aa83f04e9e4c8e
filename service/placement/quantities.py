"""Kubernetes quantities as whole numbers: "1500m", "960Gi", "1e3", "0.5".

Source: kubernetes/apimachinery ``pkg/api/resource/quantity.go`` (grammar and rounding). Whatever is finer than the unit is
rounded up, as there; devices come in whole numbers only, since an extended resource cannot be split.
"""

import re
from typing import Final

from service.placement.cluster import CPU, PODS
from service.placement.errors import Unreadable

#: The largest amount that Kubernetes stores.
LARGEST: Final = 2**63 - 1
_LONGEST: Final = 64  # characters; 2^63 in nanos has 28
_LARGEST_EXPONENT: Final = 30

_QUANTITY: Final = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?", re.ASCII)
_BINARY: Final = {suffix: 1024**power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), start=1)}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_EXAMPLES: Final = 'write it as Kubernetes does: "8", "1500m", "960Gi", "1e3"'


def amount(resource: str, quantity: object) -> int:
    """How much of ``resource`` a quantity is: millicores for ``cpu``, bytes or pieces for all else.

    Raises:
        Unreadable: It is none, negative, larger than 2^63 − 1, or splits a device. The path is empty; the caller adds it.

    >>> amount("cpu", "1.5"), amount("cpu", "1500m"), amount("memory", "960Gi"), amount("nvidia.com/gpu", "8")
    (1500, 1500, 1030792151040, 8)
    """
    negative, numerator, denominator = _fraction(_text(quantity))
    if resource == CPU:
        numerator *= 1000
    if negative and numerator:
        raise Unreadable("", "an amount cannot be negative")
    if is_whole(resource) and numerator % denominator:
        raise Unreadable("", f"{resource} comes in whole numbers", "an extended resource cannot be split or overcommitted")
    rounded = -(-numerator // denominator)
    if rounded > LARGEST:
        raise Unreadable("", "it is more than Kubernetes can store (2^63 − 1)")
    return rounded


def is_whole(resource: str) -> bool:
    """Whether a resource comes in whole pieces: ``pods``, and what carries a domain (``nvidia.com/gpu``)."""
    return resource == PODS or "/" in resource


def _text(quantity: object) -> str:
    if isinstance(quantity, bool) or not isinstance(quantity, str | int | float):
        raise Unreadable("", f"a quantity is a text or a number, not {_kind(quantity)}", _EXAMPLES)
    if isinstance(quantity, str):
        return quantity
    if isinstance(quantity, float) and quantity.is_integer() and abs(quantity) <= LARGEST:
        return str(int(quantity))
    if isinstance(quantity, int) and abs(quantity) > LARGEST:
        raise Unreadable("", "it is more than Kubernetes can store (2^63 − 1)")
    return repr(quantity)


def _kind(value: object) -> str:
    names = {bool: "true or false", dict: "an object", list: "a list", tuple: "a list", type(None): "null"}
    return names.get(type(value), "something else")


def _fraction(text: str) -> tuple[bool, int, int]:
    """The quantity as sign, numerator and denominator."""
    if len(text) > _LONGEST:
        raise Unreadable("", f"a quantity of {len(text)} characters is longer than any ({_LONGEST})", _EXAMPLES)
    match = _QUANTITY.fullmatch(text)
    if match is None or not (match[2] or match[3]):
        raise Unreadable("", "this is no quantity", _EXAMPLES)
    sign, whole, part, suffix = match[1], match[2], match[3] or "", match[4] or ""
    digits = int(whole + part)
    if suffix in _BINARY:
        return sign == "-", digits * _BINARY[suffix], 10 ** len(part)
    power = _power(suffix) - len(part)
    return sign == "-", digits * 10 ** max(power, 0), 10 ** max(-power, 0)


def _power(suffix: str) -> int:
    if not suffix or suffix in _DECIMAL:
        return _DECIMAL.get(suffix, 0)
    exponent = int(suffix[1:])
    if abs(exponent) > _LARGEST_EXPONENT:
        raise Unreadable("", f"an exponent beyond ±{_LARGEST_EXPONENT} is no amount of anything", _EXAMPLES)
    return exponent
