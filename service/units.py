"""Units and number formats: what a figure's unit string means in base units.

Base units are bytes, seconds, FLOP, watts and their quotients. Prefixes appear only here, in the catalogue's YAML
(as the vendor printed them) and in what a person reads. GB is 10^9 bytes and GiB is 2^30 bytes, nothing else.
This module imports nothing of ours.
"""

from types import MappingProxyType
from typing import Final

_DECIMAL: Final = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_BINARY: Final = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}


#: Currencies that a figure may be in, by their ISO 4217 codes. Each is a base unit of its own: none is turned into another.
CURRENCIES: Final = ("USD", "EUR", "GBP", "JPY", "CNY", "CHF", "CAD", "AUD", "INR", "KRW", "SEK", "NOK", "DKK", "SGD")


def _units() -> dict[str, tuple[str, float]]:
    units: dict[str, tuple[str, float]] = {"1": ("1", 1.0), "MHz": ("Hz", 1e6), "GHz": ("Hz", 1e9)}
    for prefix, factor in (_DECIMAL | _BINARY).items():
        units[f"{prefix}B"] = ("B", factor)
        units[f"{prefix}B/s"] = ("B/s", factor)
    for prefix, factor in _DECIMAL.items():
        units[f"{prefix}b/s"] = ("B/s", factor / 8)
        units[f"{prefix}FLOPS"] = ("FLOP/s", factor)
        units[f"{prefix}OPS"] = ("FLOP/s", factor)
    units |= {"million": ("1", 1e6), "billion": ("1", 1e9), "trillion": ("1", 1e12)}
    units |= {"W": ("W", 1.0), "kW": ("W", 1e3), "mm": ("mm", 1.0), "mm2": ("mm2", 1.0), "percent": ("1", 0.01)}
    units |= {f"{currency}/h": (f"{currency}/h", 1.0) for currency in CURRENCIES}
    return units


#: unit string → (base unit, factor to it). ``b/s`` counts bits, ``B/s`` bytes; OPS are integer operations.
UNITS: Final = MappingProxyType(_units())


def in_base_units(value: float, unit: str) -> float:
    """The value in base units; KeyError when the unit string is not one of ``UNITS``.

    >>> in_base_units(81559, "MiB")
    85520809984.0
    >>> in_base_units(989.4, "TFLOPS")
    989400000000000.0
    """
    return value * UNITS[unit][1]


#: Bytes that one element of a number format takes in memory, block scales included.
#: mxfp4: 4 bits and one 8-bit scale per 32 elements (OCP MX 1.0). nvfp4: 4 bits and one fp8 scale per 16.
#: int4: 4 bits, one 16-bit scale and one 4-bit zero point per group of 128 (the AWQ and GPTQ default).
BYTES_PER_ELEMENT: Final = MappingProxyType(
    {
        "fp32": 4.0,
        "bf16": 2.0,
        "fp16": 2.0,
        "fp8": 1.0,
        "int8": 1.0,
        "int4": 0.5 + 2.5 / 128,
        "fp4": 0.5,
        "mxfp4": 0.5 + 1 / 32,
        "nvfp4": 0.5 + 1 / 16,
    }
)
