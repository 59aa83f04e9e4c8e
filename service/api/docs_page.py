"""The page at /docs: the OpenAPI document for people, in one file that loads nothing from elsewhere."""

from html import escape
from typing import Any, Final
from urllib.parse import quote

import orjson

_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --accent: #0a7a5c }
@media (prefers-color-scheme: dark) { :root { --accent: #4fd1a5 } }
* { box-sizing: border-box }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 70rem; padding: 1.5rem }
h1 { margin: 0 } h2 { border-top: 1px solid var(--line); margin: 2.5rem 0 0.5rem; padding-top: 1.5rem }
h3 { margin: 1.5rem 0 0.5rem }
code, pre { font: 13px/1.5 ui-monospace, monospace }
pre { background: var(--soft); border-radius: 6px; overflow-x: auto; padding: 0.75rem }
table { border-collapse: collapse; width: 100% }
td, th { border-bottom: 1px solid var(--line); padding: 0.35rem 0.75rem 0.35rem 0; text-align: left; vertical-align: top }
td:first-child { white-space: nowrap }
a { color: var(--accent) }
.method { background: var(--accent); border-radius: 4px; color: Canvas; font-size: 12px; padding: 0.15rem 0.4rem }
.type { opacity: 0.75; white-space: nowrap }
details { margin: 0.5rem 0 } summary { cursor: pointer }
nav li { margin: 0.15rem 0 }
"""

_BOUNDS: Final = {"exclusiveMinimum": "&gt; ", "minimum": "≥ ", "maximum": "≤ ", "maxLength": "length ≤ "}
#: What an int32 field holds anyway is not worth a word.
_WIDEST: Final = (2**31 - 1, 2**31)


def docs_page(document: dict[str, Any]) -> str:
    """The page, as HTML."""
    operations = [
        (path, method, operation) for path, methods in document["paths"].items() for method, operation in methods.items()
    ]
    schemas = document["components"]["schemas"]
    index = "".join(
        f'<li><a href="#{operation["operationId"]}">{operation["operationId"]}</a> — {escape(operation["summary"])}</li>'
        for _, _, operation in operations
    )
    body = "".join(_operation(path, method, operation) for path, method, operation in operations)
    nouns = "".join(_schema(name, schema) for name, schema in schemas.items())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Tonnage API</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head><body>'
        f"<h1>Tonnage API</h1><p>{escape(document['info']['description'])}</p>"
        '<p>Machine-readable: <a href="/openapi.json">/openapi.json</a>. The same calls over gRPC, with reflection.</p>'
        f"<nav><ul>{index}</ul></nav>{body}<h2>Messages</h2>{nouns}</body></html>"
    )


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    statuses = "".join(
        f"<tr><td><code>{status}</code></td><td>{escape(response['description'])}</td></tr>"
        for status, response in operation["responses"].items()
    )
    usual = next(iter(operation["responses"]["200"]["content"].values()))  # the form that is sent where none is asked for
    answer = usual["schema"]
    return (
        f'<h2 id="{operation["operationId"]}">{operation["operationId"]}</h2>'
        f'<p><span class="method">{method.upper()}</span> <code>{escape(path)}</code></p>'
        f"<p>{escape(operation['description'])}</p>{_input(path, operation)}"
        f"<p>Answers {_type(answer)}.</p>"
        f"<details><summary>Statuses</summary><table>{statuses}</table></details>"
    )


def _input(path: str, operation: dict[str, Any]) -> str:
    if "requestBody" in operation:
        content = operation["requestBody"]["content"]["application/json"]
        text = orjson.dumps(content["example"], option=orjson.OPT_INDENT_2).decode()
        curl = f"curl -s $TONNAGE{path} -H 'content-type: application/json' -d '{text}'"
        return f"<p>Takes {_type(content['schema'])}.</p><pre>{escape(curl)}</pre>"
    query = []
    for each in operation["parameters"]:
        if "example" not in each:
            continue
        if each["in"] == "path":
            path = path.replace(f"{{{each['name']}}}", quote(str(each["example"])))
        else:
            query.append(f"{each['name']}={quote(str(each['example']))}")
    url = path + ("?" + "&".join(query) if query else "")
    rows = (_row(each["name"], each["schema"], each["description"], each["required"]) for each in operation["parameters"])
    curl = f'curl -s "$TONNAGE{url}"'
    return f"<table>{''.join(rows)}</table><pre>{escape(curl)}</pre>"


def _schema(name: str, schema: dict[str, Any]) -> str:
    rows = "".join(
        _row(field, each, each.get("description", ""), field in schema.get("required", ()))
        for field, each in schema["properties"].items()
    )
    choice = ""
    if "oneOf" in schema:
        members = ", ".join(f"<code>{member}</code>" for each in schema["oneOf"] for member in each["required"])
        choice = f"<p>Exactly one of {members}.</p>"
    return f'<h3 id="m-{name}">{name}</h3><p>{escape(schema["description"])}</p>{choice}<table>{rows}</table>'


def _row(name: str, schema: dict[str, Any], description: str, required: bool) -> str:
    values = schema.get("x-values", schema.get("items", {}).get("x-values", ""))
    listed = "".join(f"<br>{escape(line).replace('`', '')}" for line in values.splitlines())
    mark = " *" if required else ""
    return (
        f"<tr><td><code>{escape(name)}</code>{mark}</td><td class='type'>{_type(schema)}</td>"
        f"<td>{escape(description)}{listed}</td></tr>"
    )


def _type(schema: dict[str, Any]) -> str:
    """The type of a value, and its bounds, in a few words of HTML."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f'<a href="#m-{name}">{name}</a>'
    schema = _without_null(schema)
    if "$ref" in schema:
        return _type(schema)
    if schema.get("type") == "array":
        return f"{_type(schema['items'])} …"
    if "additionalProperties" in schema and isinstance(schema["additionalProperties"], dict):
        return f"{{name: {_type(schema['additionalProperties'])}}}"
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    words = [escape(str(schema.get("const", schema.get("type", ""))))]
    if "enum" in schema and "x-values" not in schema:
        words = [" ".join(map(escape, schema["enum"]))]
    words += [f"{sign}{schema[key]:g}" for key, sign in _BOUNDS.items() if key in schema and abs(schema[key]) not in _WIDEST]
    return ", ".join(words)


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """What it is where it is given: that null is taken for "not given" is not worth a word in every row."""
    if isinstance(schema.get("type"), list):
        schema = schema | {"type": schema["type"][0]}
    if "enum" in schema:
        schema = schema | {"enum": [value for value in schema["enum"] if value is not None]}
    if "anyOf" in schema and {"type": "null"} in schema["anyOf"]:
        return dict(schema["anyOf"][0])
    return schema
