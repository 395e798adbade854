"""The generated CRDs: the files are what the models say, and the API server can take them."""

import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, Field

from taskyard.api import generate
from taskyard.api.fields import INSTANT
from taskyard.api.rules import MUTABLE, MUTABLE_WITH_A_RERUN
from taskyard.api.schema import (
    ANY_JSON,
    ANY_OBJECT,
    INHERITED,
    mark_inherited,
    structural,
    with_defaults_told,
    without_descriptions,
)
from taskyard.core.defaults import BUILT_IN, DEFAULTABLE, DELAYS
from taskyard.core.record import status_json
from taskyard.core.words import DefinitionKind, ErrorCode, Flaw, Phase, Reason, State, StopReason
from tests.unit.test_parse import EVERYTHING

ROOT = Path(__file__).parents[2]
CRDS = {crd["spec"]["names"]["kind"]: crd for crd in generate.crds()}
SCHEMAS = {kind: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for kind, crd in CRDS.items()}
SCHEMA = SCHEMAS["Task"]

# `kubectl apply` keeps a copy of the object in an annotation, and all annotations together may have 256 KiB.
LARGEST_THAT_KUBECTL_APPLIES = 256 * 1024
LARGEST_WE_WANT = 80 * 1024


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, sub in schema.get("properties", {}).items():
        yield from nodes(sub, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield from nodes(schema[key], f"{path}[]")


NODES = dict(nodes(SCHEMA))
DEFINITION_NODES = dict(nodes(SCHEMAS["TaskDefinition"]))
ALL_NODES = {f"{kind}{path}": node for kind, schema in SCHEMAS.items() for path, node in nodes(schema)}
# What a user's programs say to each other: any JSON.
UNTYPED = ["Task.spec.input", "Task.status.result.ok"]
# A copy of what a definition said.
COPIES = ["Task.status.definition.defaults"]


@pytest.mark.parametrize(
    "folder", [pytest.param(Path("crds"), id="crds"), pytest.param(generate.CHART_FOLDER, id="the chart")]
)
def test_the_files_are_what_the_models_say(folder: Path) -> None:
    """Whoever changes a model runs `make manifests`; nobody edits a generated file, and none stays behind."""
    found = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / folder).iterdir()}
    assert found == generate.files()


@pytest.mark.parametrize("name", generate.pages())
def test_the_page_is_what_the_code_says(name: str) -> None:
    """Pages are generated too, and say nothing of the machine that they were made on."""
    text = (ROOT / generate.DOCS / name).read_text(encoding="utf-8")
    assert text == generate.pages()[name]
    assert str(ROOT) not in text


def test_the_page_lists_every_word_and_every_field_of_ours() -> None:
    """Whoever adds a state, an error code or a field has documented it."""
    page = generate.pages()["api.md"]
    words = [*State, *ErrorCode, *Reason, *StopReason, *Flaw]
    fields = [
        path.rsplit(".", 1)[-1]
        for path in [*NODES, *DEFINITION_NODES]
        if path.startswith((".spec.", ".status.")) and ".template." not in path
    ]
    assert [each for each in [*words, *fields] if f"`{each}`" not in page and not each.endswith("[]")] == []
    assert all(code.meaning in page for code in ErrorCode)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        pytest.param("queueName", "`default`", id="one that the API server fills in"),
        pytest.param("scheduleTimeoutSeconds", "`900`, or its definition's", id="one of the operator's"),
        pytest.param("infrastructureLimit", "`5`, or its definition's", id="one within another"),
        pytest.param("timeoutSeconds", "its definition's", id="one that only a definition may have"),
        pytest.param("runAt", "", id="none"),
    ],
)
def test_the_page_has_a_column_of_defaults(row: str, expected: str) -> None:
    """A reader of the page need not know who fills in what."""
    line = next(each for each in generate.pages()["api.md"].splitlines() if each.startswith(f"| `{row}` |"))
    assert line.split(" | ")[2].strip() == expected


def test_what_is_written_is_what_was_meant(tmp_path: Path) -> None:
    """Writing twice changes nothing, and reading back gives the same CRDs."""

    def contents(folder: Path) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    generate.write(tmp_path / "crds")
    first = contents(tmp_path / "crds")
    generate.write(tmp_path / "crds")
    assert contents(tmp_path / "crds") == contents(tmp_path / generate.CHART_FOLDER) == first
    written = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / generate.DOCS).iterdir()}
    assert written == generate.pages()
    assert {name: yaml.safe_load(text) for name, text in first.items()} == {
        f"taskyard.dev_{crd['spec']['names']['plural']}.yaml": crd for crd in generate.crds()
    }


@pytest.mark.parametrize(
    ("kind", "plural", "short", "scope"),
    [
        ("Task", "tasks", "tsk", "Namespaced"),
        ("TaskDefinition", "taskdefinitions", "td", "Namespaced"),
        ("ClusterTaskDefinition", "clustertaskdefinitions", "ctd", "Cluster"),
    ],
)
def test_names(kind: str, plural: str, short: str, scope: str) -> None:
    """What users type, and that an uninstall leaves it all where it is."""
    crd = CRDS[kind]
    names = crd["spec"]["names"]
    assert crd["metadata"]["name"] == f"{plural}.taskyard.dev"
    assert crd["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert (names["plural"], names["shortNames"], names["categories"]) == (plural, [short], ["taskyard"])
    assert crd["spec"]["scope"] == scope


@pytest.mark.parametrize("key", ["$ref", "$defs", "anyOf", "oneOf", "allOf", "title", "const", INHERITED])
def test_no_node_has(key: str) -> None:
    """None of these has a place in a structural schema of ours."""
    assert [path for path, node in ALL_NODES.items() if key in node] == []


def test_only_two_fields_take_any_json() -> None:
    """They take `null` too, and keep what is in them; but for a copy, no other field does either."""
    keeping = [path for path, node in ALL_NODES.items() if "x-kubernetes-preserve-unknown-fields" in node]
    assert [path for path, node in ALL_NODES.items() if "nullable" in node] == UNTYPED
    assert sorted(keeping) == sorted([*UNTYPED, *COPIES])
    assert all(ALL_NODES[path].keys() == {*ANY_JSON, "description"} for path in UNTYPED)
    assert all(ALL_NODES[path].keys() == {*ANY_OBJECT, "description"} for path in COPIES)


def test_every_other_node_has_exactly_one_type() -> None:
    """Either a type that JSON has, or int-or-string."""
    json_types = {"object", "array", "string", "integer", "number", "boolean"}
    strange = [
        path
        for path, node in ALL_NODES.items()
        if path not in UNTYPED
        and (node.get("type") in json_types) == node.get("x-kubernetes-int-or-string", False)
    ]
    assert strange == []


def test_no_node_is_open() -> None:
    """Unknown fields are refused everywhere: an object names its fields, or has a schema for its values."""
    open_objects = [
        path
        for path, node in ALL_NODES.items()
        if node.get("type") == "object" and not ({"properties", "additionalProperties"} & node.keys())
    ]
    # A CRD must leave `metadata` open: the API server has its schema.
    assert sorted(open_objects) == sorted([*(f"{kind}.metadata" for kind in CRDS), *COPIES])


@pytest.mark.parametrize(
    "path",
    [
        ".spec.template.spec.containers[].resources.requests[]",
        ".spec.template.spec.initContainers[].resources.limits[]",
        ".spec.template.spec.resources.limits[]",
        ".spec.template.spec.overhead[]",
        ".spec.template.spec.volumes[].emptyDir.sizeLimit",
        ".spec.template.spec.volumes[].ephemeral.volumeClaimTemplate.spec.resources.requests[]",
        ".spec.template.spec.containers[].env[].valueFrom.resourceFieldRef.divisor",
        ".spec.template.spec.containers[].livenessProbe.httpGet.port",
        ".spec.template.spec.containers[].readinessProbe.tcpSocket.port",
    ],
)
def test_takes_a_number_or_a_string(path: str) -> None:
    """Quantities and ports are written both ways in manifests: `cpu: 1`, `cpu: 500m`, `port: http`."""
    assert NODES[path].get("x-kubernetes-int-or-string") is True


@pytest.mark.parametrize(
    "path",
    [
        ".spec.template.spec.ephemeralContainers",
        ".spec.template.metadata.finalizers",
        ".spec.template.metadata.managedFields",
    ],
)
def test_has_no_field_that_a_template_cannot_use(path: str) -> None:
    assert path not in NODES


def test_a_condition_is_told_by_its_own_kind() -> None:
    """Both kinds have conditions of one shape; what they are called is said of the list."""
    named = {
        kind: set(re.findall(r"`([A-Z][a-z]+)`", json.dumps(ALL_NODES[f"{kind}.status.conditions"])))
        for kind in ("Task", "TaskQueue")
    }
    assert named == {"Task": {"Succeeded", "Finished"}, "TaskQueue": {"Active"}}


def test_silence_spares_a_field_that_is_called_description() -> None:
    """Descriptions are dropped at every depth; the name of a field is none."""
    text = {"type": "string", "description": "Dropped."}
    schema = {"type": "object", "properties": {"description": text, "list": {"type": "array", "items": text}}}
    silent = {"type": "string"}
    assert without_descriptions(schema) == {
        "type": "object",
        "properties": {"description": silent, "list": {"type": "array", "items": silent}},
    }


def test_a_default_is_told_where_explain_prints_it() -> None:
    """`kubectl explain` knows no defaults; those of objects say nothing that their fields do not."""
    number = {"type": "integer", "default": 3, "description": "How many."}
    flag = {"type": "boolean", "default": False, "description": "Whether."}
    inner = {"type": "object", "default": {}, "description": "More.", "properties": {"number": number}}
    told = with_defaults_told({"type": "object", "properties": {"flag": flag, "inner": inner}})
    assert told["properties"]["flag"]["description"] == "Whether. Default: `false`."
    assert told["properties"]["inner"]["description"] == "More."
    assert told["properties"]["inner"]["properties"]["number"]["description"] == "How many. Default: `3`."
    assert number["description"] == "How many."


def test_a_default_that_a_definition_may_replace_is_told_too() -> None:
    """The API server knows nothing of it: it would fill it in."""
    fields = {
        "limit": {"type": "integer", "description": "How many."},
        "until": {"type": "integer", "description": "How long."},
        "other": {"type": "integer", "description": "Else."},
        "inner": {
            "type": "object",
            "description": "More.",
            "properties": {"number": {"type": "integer", "description": "Which."}},
        },
    }
    mark_inherited(fields, ["limit", "until", "inner"], {"limit": 0, "inner": {"number": 5}})
    told = with_defaults_told({"type": "object", "properties": fields})["properties"]
    assert told["limit"]["description"] == "How many. Default: `0`, unless its definition has another."
    assert told["until"]["description"] == "How long. Default: its definition's, if that has one."
    assert told["other"]["description"] == "Else."
    assert told["inner"]["description"] == "More."
    number = told["inner"]["properties"]["number"]
    assert number == {
        "type": "integer",
        "description": "Which. Default: `5`, unless its definition has another.",
    }


def built_in(defaults: Mapping[str, Any], path: str = "") -> Iterator[str]:
    for name, value in defaults.items():
        yield f"{path}.{name}"
        if isinstance(value, dict):
            yield from built_in(value, f"{path}.{name}")


@pytest.mark.parametrize("path", [f".spec{each}" for each in built_in(BUILT_IN)])
def test_the_api_server_fills_in_nothing_that_a_definition_may_replace(path: str) -> None:
    """Or nobody could tell what the author of a Task had written."""
    assert "default" not in NODES[path]


def test_what_a_definition_may_have_a_default_for_is_what_the_spec_of_a_task_has() -> None:
    """Types, bounds and rules are the same; only when they may change is no matter of a definition's."""
    fields = NODES[".spec"]["properties"]
    defaults = DEFINITION_NODES[".spec.versions[].defaults"]["properties"]
    assert tuple(defaults) == DEFAULTABLE
    assert {*BUILT_IN} <= {*DEFAULTABLE}
    assert {*BUILT_IN["retry"], *DELAYS} <= defaults["retry"]["properties"].keys()
    for name in DEFAULTABLE:
        assert without_descriptions(defaults[name]) == without_descriptions(fields[name])
        assert "hange" not in defaults[name]["description"]
        assert fields[name]["description"].startswith(defaults[name]["description"])


def test_both_kinds_of_definitions_have_one_schema_and_a_tasks_template() -> None:
    """Where it is registered makes no difference to what it can say."""
    assert SCHEMAS.keys() == {"Task", "TaskQueue", *DefinitionKind}
    assert (
        SCHEMAS["TaskDefinition"]["properties"]["spec"]
        == SCHEMAS["ClusterTaskDefinition"]["properties"]["spec"]
    )
    template = DEFINITION_NODES[".spec.versions[].template"]
    assert without_descriptions(template) == without_descriptions(NODES[".spec.template"])


@pytest.mark.parametrize("kind", CRDS)
def test_the_crd_is_small_enough_to_apply(kind: str) -> None:
    """kubectl copies it into an annotation, Helm stores it twice a release, the API server compiles it."""
    size = len(json.dumps(CRDS[kind], separators=(",", ":")))
    assert size < LARGEST_WE_WANT < LARGEST_THAT_KUBECTL_APPLIES


def test_states_and_phases_are_those_of_the_core() -> None:
    """There is one list of states."""
    status = SCHEMA["properties"]["status"]["properties"]
    assert status["state"]["enum"] == [str(each) for each in State]
    assert status["phase"]["enum"] == [str(each) for each in Phase]
    assert status["runs"]["items"]["properties"]["state"]["enum"] == [str(each) for each in State]
    assert status["stop"]["properties"]["reason"]["enum"] == [str(each) for each in StopReason]


@pytest.mark.parametrize(
    ("kind", "plain", "wide"),
    [
        pytest.param(
            "Task",
            ["State", "Reason", "Queue", "Run", "Age"],
            ["Pod", "Node", "Retries", "Started", "Finished"],
            id="tasks",
        ),
        *(pytest.param(kind, ["Latest", "Retired", "Age"], [], id=kind) for kind in DefinitionKind),
    ],
)
def test_columns(kind: str, plain: list[str], wide: list[str]) -> None:
    """What `kubectl get` shows, and what `-o wide` adds."""
    columns = CRDS[kind]["spec"]["versions"][0]["additionalPrinterColumns"]
    assert [each["name"] for each in columns if "priority" not in each] == plain
    assert [each["name"] for each in columns if "priority" in each] == wide


@pytest.mark.parametrize("key", ["additionalPrinterColumns", "selectableFields"])
@pytest.mark.parametrize("kind", CRDS)
def test_points_to_a_field(kind: str, key: str) -> None:
    """A path that leads nowhere is no error to the API server, only an empty column."""
    entries = CRDS[kind]["spec"]["versions"][0].get(key, [])
    paths = [each["jsonPath"].replace("[-1:]", "[]") for each in entries]
    known = {path for path, _ in nodes(SCHEMAS[kind])}
    assert [path for path in paths if path not in known and not path.startswith(".metadata.")] == []


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        pytest.param("template", "It never changes.", id="what is fixed"),
        pytest.param("release", "It may be changed at any time.", id="what is not"),
        pytest.param("deadline", "It may be changed only together with `rerun`.", id="with a rerun"),
        pytest.param("rerun", "It never falls.", id="what only rises"),
    ],
)
def test_a_field_says_when_it_may_change(name: str, sentence: str) -> None:
    """From the same list as the rules that refuse an edit."""
    assert f" {sentence}" in NODES[".spec"]["properties"][name]["description"]


@pytest.mark.parametrize("name", NODES[".spec"]["properties"])
def test_every_field_of_the_spec_is_fixed_or_is_known_to_change(name: str) -> None:
    """A field that is added is immutable by itself; whoever wants it otherwise says so in `rules`."""
    carrier = "" if name in MUTABLE_WITH_A_RERUN else ".spec"
    fixed = [
        each
        for each in NODES[carrier]["x-kubernetes-validations"]
        if f"`{name}` must stay as it was" in each["message"]
    ]
    assert len(fixed) == (0 if name in MUTABLE else 1)


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        pytest.param("2026-01-31T12:00:00Z", True, id="plain"),
        pytest.param("2024-02-29T23:59:59.123456789+23:59", True, id="all that there is"),
        pytest.param("1900-01-01T00:00:00.5-00:00", True, id="the first year"),
        pytest.param("2999-12-31T23:59:59-23:59", True, id="the last year"),
        pytest.param("1899-12-31T00:00:00Z", False, id="a year that nobody means"),
        pytest.param("0000-01-01T00:00:00Z", False, id="a year that Python does not know"),
        pytest.param("3000-01-01T00:00:00Z", False, id="a year too far"),
        pytest.param("2026-01-31T24:00:00Z", False, id="the hour 24"),
        pytest.param("2026-01-31T12:60:00Z", False, id="the minute 60"),
        pytest.param("2026-12-31T23:59:60Z", False, id="a leap second"),
        pytest.param("2026-01-31T12:00:00.1234567890Z", False, id="ten digits of a second"),
        pytest.param("2026-01-31T12:00:00,5Z", False, id="a comma"),
        pytest.param("2026-01-31T12:00:00+24:00", False, id="a day's offset"),
        pytest.param("2026-01-31T12:00:00+0100", False, id="an offset without a colon"),
        pytest.param("2026-01-31t12:00:00z", False, id="small letters"),
        pytest.param("2026-01-31 12:00:00Z", False, id="a space"),
        pytest.param("2026-01-31T12:00:00", False, id="no zone"),
        pytest.param("2026-01-31", False, id="a day"),
    ],
)
def test_instants(text: str, taken: bool) -> None:
    """What the pattern takes, the operator can read; the API server's own `date-time` takes more."""
    assert (re.match(INSTANT, text) is not None) is taken
    if taken:
        assert datetime.fromisoformat(text).tzinfo is not None


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        pytest.param(str | None, {"type": "string"}, id="optional is not nullable"),
        pytest.param(int | str, {"x-kubernetes-int-or-string": True}, id="a port is int-or-string"),
        pytest.param(int | str | None, {"x-kubernetes-int-or-string": True}, id="an optional port too"),
        pytest.param(
            State | None, {"type": "string", "enum": [str(each) for each in State]}, id="an enum by reference"
        ),
        pytest.param(
            dict[str, int] | None,
            {"type": "object", "additionalProperties": {"type": "integer"}},
            id="a map keeps the schema of its values",
        ),
        pytest.param(list[str], {"type": "array", "items": {"type": "string"}}, id="a list keeps its items"),
    ],
)
def test_rendering(annotation: Any, expected: dict[str, Any]) -> None:
    """What pydantic says its way is said the CRD's way; a field's description wins over that of its type."""

    class Example(BaseModel):
        field: annotation = Field(description="Ours.")

    rendered = structural(Example.model_json_schema())["properties"]["field"]
    assert rendered == {**expected, "description": "Ours."}


def test_rendering_refuses_a_union_that_has_no_structural_form() -> None:
    """A mistake in a model is found here and not by the API server."""

    class Example(BaseModel):
        field: bool | list[str]

    with pytest.raises(ValueError, match="no structural form"):
        structural(Example.model_json_schema())


def unknown(value: Any, schema: dict[str, Any], path: str = "") -> Iterator[str]:
    """The fields of an object that the schema lacks: what the API server refuses if asked to be strict."""
    if isinstance(value, dict) and "properties" in schema:
        for name, sub in value.items():
            if name not in schema["properties"]:
                yield f"{path}.{name}"
            else:
                yield from unknown(sub, schema["properties"][name], f"{path}.{name}")
    elif isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield from unknown(item, schema["items"], f"{path}[{index}]")


def test_what_the_operator_writes_has_its_place() -> None:
    """A field of the status that the CRD does not have would be dropped, with a warning that nobody reads."""
    status = status_json(EVERYTHING)
    assert list(unknown(status, SCHEMA["properties"]["status"])) == []
    # The operator fills in every field of it; the time of the write is added by the patch.
    assert status.keys() | {"updatedAt"} == SCHEMA["properties"]["status"]["properties"].keys()
    for name in ("runs", "dependencies"):
        item = NODES[f".status.{name}[]"]["properties"]
        assert {key for each in status[name] for key in each} == item.keys()
    assert status["definition"].keys() == NODES[".status.definition"]["properties"].keys()


def test_examples_use_only_fields_that_exist() -> None:
    """What the API server would say under strict validation, said earlier."""
    examples = sorted((ROOT / "examples").glob("*.yaml"))
    assert examples
    for example in examples:
        for document in yaml.safe_load_all(example.read_text(encoding="utf-8")):
            if document["kind"] in SCHEMAS:
                assert list(unknown(document, SCHEMAS[document["kind"]])) == [], example.name
