"""Writes the reference pages of specs/guides: api.md from clients/openapi.json, formulas.md from the registered formulas.

python protos/reference.py           writes both
python protos/reference.py --check   fails where what is committed differs from what would be written
"""

import argparse
import inspect
import json
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from service.formulas import REGISTRY, Formula

ROOT = Path(__file__).resolve().parents[1]
OPENAPI = ROOT / "clients" / "openapi.json"
GUIDES = ROOT / "specs" / "guides"
_BASE = "http://localhost:8080"
_REFERENCE = "#/components/schemas/"
_WIDTH = 132
_DOORS = (
    "Over gRPC the services are those of the package `tonnage.v1`, which reflection shows. A refusal is a [Status](#status): "
    "over REST the body under the HTTP code, over gRPC in the trailers."
)
_FORMULAS = (
    "Written by `make gen` from `service/formulas/`; not to be edited. [The model page](model.md) says what they are used for "
    "and how right they are. With `explain` an answer holds those that made it, under these names, with every input. "
    "All quantities are in base units."
)
_EXAMPLE_NAMES = {"accelerators": "h100-sxm", "nodes": "dgx-h100", "models": "llama-3.1-70b"}


# ---------------------------------------------------------------------------------------------------------------- api


def api_page(document: dict[str, Any]) -> str:
    """The reference of calls and messages, as Markdown."""
    schemas: dict[str, Any] = document["components"]["schemas"]
    lines = [
        "# API reference",
        "",
        "Written by `make gen` from `clients/openapi.json`, and so from the comments in `protos/`; not to be edited.",
        "",
        *_paragraph(document["info"]["description"]),
        "",
        *_paragraph(_DOORS),
        "",
        "## Calls",
        "",
        *_index(document),
    ]
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            lines += _call(path, verb, operation)
    lines += ["", "## Messages"]
    for name in sorted(schemas):
        lines += _message(name, schemas[name])
    return "\n".join(lines) + "\n"


def _index(document: dict[str, Any]) -> Iterator[str]:
    yield "| call | REST | |"
    yield "|---|---|---|"
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            name = operation["operationId"]
            yield f"| [{name}](#{name.lower()}) | `{verb.upper()} {path}` | {_cell(operation['summary'])} |"


def _call(path: str, verb: str, operation: dict[str, Any]) -> Iterator[str]:
    name = operation["operationId"]
    yield from ("", f"### {name}", "", f"`{verb.upper()} {path}` · gRPC `tonnage.v1.{operation['tags'][0]}/{name}`", "")
    yield from _paragraph(operation["description"])
    answered = [f"`{kind}`" for kind in operation["responses"]["200"].get("content", {})]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    asked = f"Asked with {_type(body['schema'])}; answered" if body else "Answered"
    answer = operation["responses"]["200"].get("content", {}).get("application/json", {}).get("schema", {})
    yield from ("", f"{asked} with {_type(answer) or 'a stream of parts'} as {', '.join(answered)}.")
    if parameters := operation.get("parameters"):
        yield from ("", "| parameter | in | type | meaning |", "|---|---|---|---|")
        for each in parameters:
            schema = each.get("schema", {})
            meaning = _cell(each.get("description", ""))
            yield f"| `{each['name']}` | {each['in']} | {_type(schema)}{_bounds(schema)} | {meaning} |"
    yield from ("", "```sh", *_curl(path, verb, body.get("example")), "```")


def _curl(path: str, verb: str, example: Any) -> Iterator[str]:
    """How one asks it in a shell."""
    kind = path.split("/")[2]
    address = shlex.quote(_BASE + path.replace("{name}", _EXAMPLE_NAMES.get(kind, "")))
    if verb == "get":
        yield f"curl -s {address}"
        return
    yield f"curl -s {address} -H 'content-type: application/json' -d @- <<'END'"
    yield from _wrapped_json(example)
    yield "END"


def _wrapped_json(value: Any) -> list[str]:
    """JSON on as few lines as the page is wide."""
    whole = json.dumps(value, ensure_ascii=False)
    if len(whole) <= _WIDTH or not isinstance(value, dict):
        return [whole] if len(whole) <= _WIDTH else json.dumps(value, ensure_ascii=False, indent=1).split("\n")
    fields = [f"  {json.dumps(key)}: {json.dumps(inner, ensure_ascii=False)}" for key, inner in value.items()]
    return ["{", *(f"{field}," for field in fields[:-1]), fields[-1], "}"]


def _message(name: str, schema: dict[str, Any]) -> Iterator[str]:
    yield from ("", f"### {name}", "")
    yield from _paragraph(schema.get("description", ""))
    required = set(schema.get("required", ())) if schema.get("additionalProperties") is False else set()
    if properties := schema.get("properties"):
        yield from ("", "| field | type | meaning |", "|---|---|---|")
        for field, about in properties.items():
            needed = ", required" if field in required else ""
            meaning = _cell(about.get("description", ""))
            yield f"| `{field}` | {_type(about)}{needed}{_bounds(about)} | {meaning} |"


def _type(schema: dict[str, Any]) -> str:
    """A type as one reads it; messages as links."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REFERENCE)
        return f"[{name}](#{name.lower().replace('.', '')})"
    if parts := [each for kind in ("anyOf", "oneOf", "allOf") for each in schema.get(kind, ()) if each.get("type") != "null"]:
        return " or ".join(map(_type, parts))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"] if value is not None)
    kinds = schema.get("type", "")
    kind = next((each for each in kinds if each != "null"), "") if isinstance(kinds, list) else kinds
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"map of {_type(schema['additionalProperties'])}"
    return str(kind)


def _bounds(schema: dict[str, Any]) -> str:
    """What is accepted of it, in words."""
    words = {
        "minimum": "from {}",
        "exclusiveMinimum": "above {}",
        "maximum": "to {}",
        "exclusiveMaximum": "below {}",
        "minLength": "at least {} characters",
        "maxLength": "at most {} characters",
        "minItems": "at least {}",
        "maxItems": "at most {}",
        "pattern": "like `{}`",
    }
    said = [text.format(_number(schema[key])) for key, text in words.items() if key in schema]
    return f", {' '.join(said)}" if said else ""


def _number(value: object) -> str:
    if isinstance(value, int | float):
        return f"{value:,g}" if abs(value) < 1e6 else f"{value:g}" if value != int(value) else f"{int(value):,}"
    return _cell(str(value))


def _paragraph(text: str) -> Iterator[str]:
    """The text in lines that fit the page."""
    line = ""
    for word in _cell(text).split():
        if line and len(line) + 1 + len(word) > _WIDTH:
            yield line
            line = word
        else:
            line = f"{line} {word}".strip()
    yield line


def _cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").strip()


# ----------------------------------------------------------------------------------------------------------- formulas


def formulas_page() -> str:
    """Every registered formula: what it is, where it holds, who printed it."""
    lines = [
        "# Formulas",
        "",
        *_paragraph(_FORMULAS),
    ]
    by_topic: dict[str, list[Formula]] = {}
    for each in REGISTRY.values():
        by_topic.setdefault(each.body.__module__, []).append(each)
    for module in sorted(by_topic):
        about = inspect.getdoc(sys.modules[module]) or ""
        lines += [
            "",
            f"## {module.rpartition('.')[2].replace('_', ' ').capitalize()}",
            "",
            *_paragraph(about.partition("\n\n")[0]),
        ]
        for each in by_topic[module]:
            lines += _formula(each)
    return "\n".join(lines) + "\n"


def _formula(each: Formula) -> Iterator[str]:
    yield from ("", f"### {each.name}", "", f"`{each.expression}` of {', '.join(f'`{name}`' for name in each.parameters)}", "")
    yield from _paragraph(each.meaning)
    rest = (inspect.getdoc(each.body) or "").partition("\n")[2]
    for paragraph in re.split(r"\n\s*\n", rest):
        # Examples are tests, and a sweep's argument is no part of the formula.
        if paragraph.strip() and not paragraph.lstrip().startswith((">>>", "A sweep passes")):
            yield from ("", *_paragraph(paragraph.replace("``", "`")))
    yield from ("", f"Source: {_cell(each.source)}.")


def pages() -> dict[Path, str]:
    """What is written, by its file."""
    document = json.loads(OPENAPI.read_text(encoding="utf-8"))
    return {GUIDES / "api.md": api_page(document), GUIDES / "formulas.md": formulas_page()}


def main() -> None:
    """Writes the pages, or checks that they are fresh."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a page is not fresh")
    is_check = parser.parse_args().check
    for file, text in pages().items():
        if not is_check:
            file.write_text(text, encoding="utf-8")
        elif not file.exists() or file.read_text(encoding="utf-8") != text:
            raise SystemExit(f"{file.relative_to(ROOT)} is not what would be written: make gen")


if __name__ == "__main__":
    main()
