"""Whether an object fits a structural schema, as far as the API server would look: no more than our CRDs use."""

import re
from collections.abc import Iterator
from typing import Any

from taskyard.api.generate import task_crd

Json = dict[str, Any]

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}


def status_schema() -> Json:
    schema: Json = task_crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    return schema


def complaints(value: Any, schema: Json, path: str) -> Iterator[str]:
    """What the API server would say against it."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    if not isinstance(value, TYPES[schema["type"]]) or (
        isinstance(value, bool) != (schema["type"] == "boolean")
    ):
        yield f"{path} must be of type {schema['type']}, not {value!r}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{path} must be one of {schema['enum']}, not {value!r}"
    match value:
        case dict():
            yield from _of_object(value, schema, path)
        case list():
            yield from _of_list(value, schema, path)
        case str():
            yield from _of_text(value, schema, path)
        case int() | float():
            if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
                yield f"{path} is out of bounds: {value}"


def _of_object(value: Json, schema: Json, path: str) -> Iterator[str]:
    properties = schema.get("properties", {})
    yield from (f"{path}.{name} is required" for name in schema.get("required", ()) if name not in value)
    for name, each in value.items():
        if name not in properties:
            yield f"{path}.{name} is unknown"
        else:
            yield from complaints(each, properties[name], f"{path}.{name}")


def _of_list(value: list[Any], schema: Json, path: str) -> Iterator[str]:
    if len(value) > schema.get("maxItems", len(value)):
        yield f"{path} has {len(value)} items"
    keys = schema.get("x-kubernetes-list-map-keys")
    marks = [tuple(each.get(key) for key in keys) for each in value] if keys else []
    if len(set(marks)) < len(marks):
        yield f"{path} has two items of one key"
    for number, each in enumerate(value):
        yield from complaints(each, schema["items"], f"{path}[{number}]")


def _of_text(value: str, schema: Json, path: str) -> Iterator[str]:
    if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
        yield f"{path} has {len(value)} characters"
    if "pattern" in schema and re.search(schema["pattern"], value) is None:
        yield f"{path} does not match {schema['pattern']}: {value!r}"
    if schema.get("format") == "date-time" and not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", value):
        yield f"{path} is not a time: {value!r}"
