"""JSON schemas of tools without what says nothing: every host pays for each word of them, in every conversation."""

from typing import Any, Final

#: Fields of an answer that a program reads; what else it holds is for people.
_OUTLINED: Final = ("summary", "figures", "rows", "notes", "assumptions", "next")


def compact(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema without titles, without "or null" and without null defaults; what it accepts of what is given stays the same.

    >>> compact({"title": "A", "properties": {"n": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}}})
    {'properties': {'n': {'type': 'integer'}}}
    """
    kept = {
        key: value for key, value in schema.items() if key != "title" and not (key == "default" and value in (None, False, ""))
    }
    choices = [each for each in kept.get("anyOf", ()) if each != {"type": "null"}]
    if len(choices) == 1:
        del kept["anyOf"]
        kept = choices[0] | kept
    if "properties" in kept:
        kept["properties"] = {name: compact(each) for name, each in kept["properties"].items()}
    if isinstance(kept.get("items"), dict):
        kept["items"] = compact(kept["items"])
    kept.pop("title", None)
    return kept


def outline(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of an answer down to the types of its main fields, which is what it takes to read one.

    >>> rows = {"type": "array", "items": {"type": "object"}}
    >>> outline({"properties": {"rows": rows}, "required": ["rows"], "type": "object"})
    {'type': 'object', 'properties': {'rows': {'type': 'array'}}, 'required': ['rows']}
    """
    properties = {name: {"type": each["type"]} for name, each in schema["properties"].items() if name in _OUTLINED}
    return {"type": "object", "properties": properties, "required": schema["required"][:1]}
