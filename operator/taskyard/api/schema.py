"""From the JSON Schema that pydantic writes to the structural schema that a CustomResourceDefinition takes.

A CRD takes a dialect: every node has one type, and nothing points elsewhere. So:

- `$ref` is replaced by what it points to: a CRD has no section for definitions.
- `anyOf: [X, null]`, pydantic's way to say optional, becomes X: what is not required is optional already, and
  `null` is no type in a CRD (the API server drops nulls from fields that are not nullable).
- `anyOf: [integer, string]`, the client's way to say port, becomes `x-kubernetes-int-or-string`. Any other
  union has no structural form and is an error here, not a surprise in the cluster.
- `default: null` goes: it is the absence of a default. Real defaults stay: the API server fills them in. One that a
  definition may replace is a mark (`INHERITED`) instead, for those who tell of it, and is no part of a CRD.
- `additionalProperties: false` goes: next to `properties` a CRD forbids it, and does not need it. The API
  server refuses unknown fields by itself when asked for strict validation, which kubectl does; hence the path
  of a misspelt field.
- A node of any JSON has no type at all and says so (`ANY_JSON`).
- `title` goes: it repeats the name of the field.
"""

from collections.abc import Iterable, Mapping
from typing import Any

JSON = dict[str, Any]

INT_OR_STRING: JSON = {"x-kubernetes-int-or-string": True}
# The one node without a type: what a user's programs say to each other is theirs, `null` included.
ANY_JSON: JSON = {"x-kubernetes-preserve-unknown-fields": True, "nullable": True}
# A copy of what a user wrote elsewhere, under a schema that may have changed since.
ANY_OBJECT: JSON = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

# The mark of a field that a definition may have a default for: what it is without one, or None.
INHERITED = "inherited"


def structural(schema: JSON) -> JSON:
    """The same schema as one tree without references, fit for a CRD."""
    return _render(schema, schema.get("$defs", {}))


def without_descriptions(schema: JSON) -> JSON:
    """The same structural schema, silent. A field that is called `description` stays."""
    silent = {key: value for key, value in schema.items() if key != "description"}
    if "properties" in schema:
        silent["properties"] = {name: without_descriptions(sub) for name, sub in schema["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in schema:
            silent[key] = without_descriptions(schema[key])
    return silent


def mark_inherited(fields: JSON, names: Iterable[str], built_in: Mapping[str, Any]) -> None:
    """Mark those fields that are taken from elsewhere where they are silent; of an object with defaults, its fields."""
    for name in names:
        match built_in.get(name):
            case Mapping() as inner:
                mark_inherited(fields[name]["properties"], fields[name]["properties"], inner)
            case value:
                fields[name][INHERITED] = value


def with_defaults_told(schema: JSON) -> JSON:
    """The same structural schema without marks; each description ends with the field's default, which `kubectl
    explain` lacks."""
    told = {key: value for key, value in schema.items() if key != INHERITED}
    match schema.get("default", schema.get(INHERITED)):
        case None if INHERITED in schema:
            told["description"] += " Default: its definition's, if that has one."
        case None | dict():
            pass
        case value:
            unless = ", unless its definition has another" if INHERITED in schema else ""
            told["description"] += f" Default: `{in_json(value)}`{unless}."
    if "properties" in schema:
        told["properties"] = {name: with_defaults_told(sub) for name, sub in schema["properties"].items()}
    if "items" in schema:
        told["items"] = with_defaults_told(schema["items"])
    return told


def in_json(value: object) -> str:
    """A plain value as a manifest has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def rule(
    expression: str,
    message: str,
    *,
    field: str | None = None,
    forbidden: bool = False,
    missing: bool = False,
) -> JSON:
    """A CEL rule; `field` is the path to blame, below the node that carries the rule.

    `forbidden` is for what must not be there at all, or must not change, and `missing` for what must be there:
    `Forbidden` or `Required value` then stands before the message, where `Invalid value` would be a puzzle.
    """
    reason = "FieldValueForbidden" if forbidden else "FieldValueRequired" if missing else "FieldValueInvalid"
    return {
        "rule": expression,
        "message": message,
        "reason": reason,
        **({"fieldPath": field} if field else {}),
    }


def _render(node: JSON, definitions: JSON) -> JSON:
    node = _one_type(node, definitions)
    rendered: JSON = {}
    for key, value in node.items():
        match key:
            case "title" | "$defs":
                pass
            case "default" if value is None:
                pass
            case "additionalProperties" if value is False:
                pass
            case "properties":
                rendered[key] = {name: _render(sub, definitions) for name, sub in value.items()}
            case "items" | "additionalProperties":
                rendered[key] = _render(value, definitions)
            case _:
                rendered[key] = value
    return rendered


def _one_type(node: JSON, definitions: JSON) -> JSON:
    """The node with reference and union resolved; what stands beside them wins, being more specific."""
    while "$ref" in node or "anyOf" in node:
        beside = {key: value for key, value in node.items() if key not in ("$ref", "anyOf")}
        if "$ref" in node:
            node = {**definitions[node["$ref"].removeprefix("#/$defs/")], **beside}
            continue
        alternatives = [each for each in node["anyOf"] if each.get("type") != "null"]
        if len(alternatives) == 1:
            node = {**alternatives[0], **beside}
        elif sorted(str(each.get("type")) for each in alternatives) == ["integer", "string"]:
            node = {**INT_OR_STRING, **beside}
        else:
            raise ValueError(f"a union has no structural form: {node['anyOf']}")
    return node
