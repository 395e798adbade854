"""The API conventions, Kubernetes' own and ours, checked on every field of ours in the generated CRDs.

The interior of a pod template is Kubernetes' own API and follows its own rules: the walk stops there.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from taskyard.api.generate import crds
from taskyard.core.defaults import BUILT_IN, DEFAULTABLE

CAMEL_CASE = re.compile(r"[a-z][a-zA-Z0-9]*")
PASCAL_CASE = re.compile(r"[A-Z][a-zA-Z0-9]*")
DURATION_WORDS = re.compile(r"(?:timeout|delay|duration|interval|ttl|period|backoff)s?$", re.IGNORECASE)
FIELDS_OF_EVERY_OBJECT = ("apiVersion", "kind", "metadata")
ANY_JSON = ("Task.spec.input", "Task.status.result.ok")


@dataclass(frozen=True)
class FieldOfOurs:
    """One node of the schema that we named, and where it stands."""

    path: str
    name: str
    schema: dict[str, Any]
    is_item: bool = False

    @property
    def type(self) -> str | None:
        """None for what may be any JSON."""
        return self.schema.get("type")


def fields(schema: dict[str, Any], path: str) -> Iterator[FieldOfOurs]:
    for name, sub in schema.get("properties", {}).items():
        if not ("." not in path and name in FIELDS_OF_EVERY_OBJECT):
            yield from field_and_below(FieldOfOurs(f"{path}.{name}", name, sub))


def field_and_below(field: FieldOfOurs) -> Iterator[FieldOfOurs]:
    yield field
    if field.name == "template":
        return
    yield from fields(field.schema, field.path)
    if "items" in field.schema:
        yield from field_and_below(
            FieldOfOurs(f"{field.path}[]", field.name, field.schema["items"], is_item=True)
        )


def fields_of(crd: dict[str, Any]) -> Iterator[FieldOfOurs]:
    """The whole comes first: it carries rules too."""
    names, version = crd["spec"]["names"], crd["spec"]["versions"][0]
    yield FieldOfOurs(
        names["kind"], names["kind"][0].lower() + names["kind"][1:], version["schema"]["openAPIV3Schema"]
    )
    yield from fields(version["schema"]["openAPIV3Schema"], names["kind"])


FIELDS = [field for crd in crds() for field in fields_of(crd)]


def is_camel_case(field: FieldOfOurs) -> bool:
    return CAMEL_CASE.fullmatch(field.name) is not None


def has_a_description(field: FieldOfOurs) -> bool:
    return field.is_item or field.schema.get("description", "").endswith(".")


def has_a_type(field: FieldOfOurs) -> bool:
    """Any JSON is for what the user's programs say to each other, and for nothing of ours."""
    return (field.type is None) == (field.path in ANY_JSON)


def is_bounded(field: FieldOfOurs) -> bool:
    schema = field.schema
    match field.type:
        case "string":
            return "maxLength" in schema or "enum" in schema or schema.get("format") == "date-time"
        case "integer" | "number":
            return "minimum" in schema and "maximum" in schema
        case "array":
            return "maxItems" in schema
        case "object":
            # No map of ours; an object is as large as its fields.
            return "additionalProperties" not in schema
        case _:
            return True


def declares_its_list_type(field: FieldOfOurs) -> bool:
    if field.type != "array":
        return True
    kind = field.schema.get("x-kubernetes-list-type")
    keys = field.schema.get("x-kubernetes-list-map-keys", [])
    return kind in ("atomic", "set") or (
        kind == "map" and set(keys) <= set(field.schema["items"]["required"])
    )


def has_an_enum_in_pascal_case(field: FieldOfOurs) -> bool:
    return all(PASCAL_CASE.fullmatch(value) for value in field.schema.get("enum", []))


def names_its_unit_if_it_is_a_duration(field: FieldOfOurs) -> bool:
    kind = field.schema["items"]["type"] if field.type == "array" else field.type
    if field.name.endswith("Seconds"):
        return bool(kind == "integer")
    return kind not in ("integer", "number") or not DURATION_WORDS.search(field.name)


def is_an_instant_if_it_says_at(field: FieldOfOurs) -> bool:
    return not re.search(r"[a-z]At$", field.name) or field.schema.get("format") == "date-time"


def is_a_strict_time_if_a_user_writes_it(field: FieldOfOurs) -> bool:
    """What the API server takes for a date-time is more than Python reads."""
    if ".spec." not in field.path or field.schema.get("format") != "date-time":
        return True
    return "pattern" in field.schema


def has_a_default_that_is_told(field: FieldOfOurs) -> bool:
    default = field.schema.get("default")
    return default is None or isinstance(default, dict) or " Default: `" in field.schema["description"]


def tells_what_it_inherits(field: FieldOfOurs) -> bool:
    """What a definition may have a default for, and what it is without one."""
    parent, _, name = field.path.rpartition(".")
    if parent == "Task.spec" and name in DEFAULTABLE and name not in BUILT_IN:
        return "Default: its definition's" in field.schema["description"]
    built_in = {"Task.spec": BUILT_IN, "Task.spec.retry": BUILT_IN["retry"]}.get(parent, {}).get(name)
    if built_in is None or isinstance(built_in, dict):
        return True
    return f" Default: `{built_in}`, unless its definition has another." in field.schema["description"]


def has_no_default_in_the_status(field: FieldOfOurs) -> bool:
    """But for the state of a Task that nobody has looked at yet, a default of the status as a whole."""
    return ".status." not in field.path or "default" not in field.schema


def requires_nothing_in_the_status(field: FieldOfOurs) -> bool:
    """Keys of list maps have to be required, and a condition is as `meta/v1` has it; nothing else."""
    if ".status" not in field.path or field.path.endswith(".status.conditions[]"):
        return True
    if field.is_item:
        parent = next(each for each in FIELDS if f"{each.path}[]" == field.path)
        keys: list[str] = parent.schema.get("x-kubernetes-list-map-keys", [])
        required: list[str] = field.schema.get("required", [])
        return required == keys
    return "required" not in field.schema


def has_rules_that_name_a_field_in_backquotes(field: FieldOfOurs) -> bool:
    rules = field.schema.get("x-kubernetes-validations", [])
    return all(re.search(r"`\w+`.* must ", each["message"]) for each in rules)


CONVENTIONS: list[Callable[[FieldOfOurs], bool]] = [
    is_camel_case,
    has_a_description,
    has_a_type,
    is_bounded,
    declares_its_list_type,
    has_an_enum_in_pascal_case,
    names_its_unit_if_it_is_a_duration,
    is_an_instant_if_it_says_at,
    is_a_strict_time_if_a_user_writes_it,
    has_a_default_that_is_told,
    tells_what_it_inherits,
    has_no_default_in_the_status,
    requires_nothing_in_the_status,
    has_rules_that_name_a_field_in_backquotes,
]


@pytest.mark.parametrize("convention", [pytest.param(each, id=each.__name__) for each in CONVENTIONS])
def test_every_field(convention: Callable[[FieldOfOurs], bool]) -> None:
    """Every field of ours keeps the convention; a failure lists those that do not."""
    assert [field.path for field in FIELDS if not convention(field)] == []


def test_the_walk_reaches_every_corner() -> None:
    """A walk that stops early would find no fault."""
    paths = {field.path for field in FIELDS}
    assert {
        "Task.spec.template",
        "Task.spec.retry.expected.exitCodes[]",
        "Task.status.result.error.code",
        "Task.status.runs[].exitCode",
        "TaskDefinition.spec.versions[].defaults.retry.expected.exitCodes[]",
        "ClusterTaskDefinition.spec.retired[]",
    } <= paths
    assert not any(".template." in path for path in paths)


def broken(name: str, **schema: Any) -> FieldOfOurs:
    return FieldOfOurs(f"Task.status.{name}", name, schema)


@pytest.mark.parametrize(
    ("convention", "field"),
    [
        pytest.param(is_camel_case, broken("snake_case", type="string"), id="snake case"),
        pytest.param(is_camel_case, broken("Pascal", type="string"), id="a capital first"),
        pytest.param(has_a_description, broken("silent", type="string"), id="no description"),
        pytest.param(has_a_type, broken("anything"), id="any JSON"),
        pytest.param(is_bounded, broken("text", type="string"), id="a string of any length"),
        pytest.param(is_bounded, broken("many", type="array"), id="a list of any length"),
        pytest.param(is_bounded, broken("count", type="integer", minimum=0), id="a number without a maximum"),
        pytest.param(
            is_bounded, broken("labels", type="object", additionalProperties={}), id="a map of any size"
        ),
        pytest.param(declares_its_list_type, broken("many", type="array"), id="a list without a type"),
        pytest.param(
            declares_its_list_type,
            broken(
                "many",
                type="array",
                items={"required": []},
                **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
            ),
            id="a list map whose key is optional",
        ),
        pytest.param(
            has_an_enum_in_pascal_case, broken("mode", type="string", enum=["on_failure"]), id="an enum"
        ),
        pytest.param(
            names_its_unit_if_it_is_a_duration, broken("timeout", type="integer"), id="a bare timeout"
        ),
        pytest.param(
            names_its_unit_if_it_is_a_duration, broken("waitSeconds", type="string"), id="text seconds"
        ),
        pytest.param(
            is_an_instant_if_it_says_at, broken("startedAt", type="string"), id="a time in plain text"
        ),
        pytest.param(
            names_its_unit_if_it_is_a_duration,
            broken("delays", type="array", items={"type": "integer"}),
            id="a list of bare delays",
        ),
        pytest.param(
            is_a_strict_time_if_a_user_writes_it,
            FieldOfOurs("Task.spec.until", "until", {"type": "string", "format": "date-time"}),
            id="a time as Go has it",
        ),
        pytest.param(
            has_a_default_that_is_told,
            broken("limit", type="integer", default=3, description="How many."),
            id="a default that is kept secret",
        ),
        pytest.param(
            tells_what_it_inherits,
            FieldOfOurs("Task.spec.retry.limit", "limit", {"description": "How many."}),
            id="a default of the operator's that is kept secret",
        ),
        pytest.param(
            tells_what_it_inherits,
            FieldOfOurs("Task.spec.timeoutSeconds", "timeoutSeconds", {"description": "How long."}),
            id="a definition that may have a word, and is not named",
        ),
        pytest.param(
            has_no_default_in_the_status, broken("run", type="integer", default=0), id="a made-up status"
        ),
        pytest.param(
            requires_nothing_in_the_status,
            broken("result", type="object", required=["x"]),
            id="a required status",
        ),
        pytest.param(
            has_rules_that_name_a_field_in_backquotes,
            broken(
                "result", type="object", **{"x-kubernetes-validations": [{"message": "field is immutable"}]}
            ),
            id="a rule that does not say what must hold",
        ),
    ],
)
def test_a_breach_is_found(convention: Callable[[FieldOfOurs], bool], field: FieldOfOurs) -> None:
    """Each convention refuses what it is there to refuse."""
    assert not convention(field)
