"""What JSON holds, as YAML that every reader takes alike: texts in quotes wherever they could be something else."""

import json
import re
from collections.abc import Iterator
from typing import Any

_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_OTHER_MEANING = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


def yaml_text(body: Any) -> str:
    """The content in block style, with a line's end.

    >>> print(yaml_text({"fits": True, "step_seconds": 1e-05, "on": [1, {"name": "no", "cures": []}]}), end="")
    fits: true
    step_seconds: 1.0e-05
    "on":
      - 1
      - name: "no"
        cures: []
    """
    return "\n".join(_lines(body)) + "\n"


def _lines(value: Any) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _entry(f"{_key(str(key))}:", inner)
    elif isinstance(value, list) and value:
        for inner in value:
            first, *others = _lines(inner)
            yield f"- {first}"
            yield from (f"  {line}" for line in others)
    else:
        yield _scalar(value)


def _entry(head: str, value: Any) -> Iterator[str]:
    if isinstance(value, dict | list) and value:
        yield head
        yield from (f"  {line}" for line in _lines(value))
    else:
        yield f"{head} {_scalar(value)}"


def _key(name: str) -> str:
    return name if _KEY.fullmatch(name) and name.lower() not in _OTHER_MEANING else _quoted(name)


def _scalar(value: Any) -> str:
    if isinstance(value, float):
        mantissa, _, exponent = repr(value).partition("e")
        # YAML 1.1 takes 1e-05 for a text.
        return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{exponent}" if exponent else mantissa
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=not text.isprintable())
