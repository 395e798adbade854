"""The generated CRD: the files are what the models say, and the API server can take them."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel, Field

from taskyard.api import generate
from taskyard.api.schema import structural, without_descriptions
from taskyard.core.manifest import status_patch
from taskyard.core.model import Error, Phase, Run, State, Status, Task

ROOT = Path(__file__).parents[2]
VERSION = generate.task_crd()["spec"]["versions"][0]
SCHEMA = VERSION["schema"]["openAPIV3Schema"]

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


@pytest.mark.parametrize(
    "folder", [pytest.param(Path("crds"), id="crds"), pytest.param(generate.CHART_FOLDER, id="the chart")]
)
def test_the_files_are_what_the_models_say(folder: Path) -> None:
    """Whoever changes a model runs `make manifests`; nobody edits a generated file, and none stays behind."""
    found = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / folder).iterdir()}
    assert found == generate.files()


def test_what_is_written_is_what_was_meant(tmp_path: Path) -> None:
    """Writing twice changes nothing, and reading back gives the same CRD."""
    generate.write(tmp_path / "crds")
    first = (tmp_path / "crds/taskyard.dev_tasks.yaml").read_bytes()
    generate.write(tmp_path / "crds")
    assert (tmp_path / "crds/taskyard.dev_tasks.yaml").read_bytes() == first
    assert (tmp_path / generate.CHART_FOLDER / "taskyard.dev_tasks.yaml").read_bytes() == first
    assert yaml.safe_load(first) == generate.task_crd()


@pytest.mark.parametrize("key", ["$ref", "$defs", "anyOf", "oneOf", "allOf", "title", "const", "nullable"])
def test_no_node_has(key: str) -> None:
    """None of these has a place in a structural schema of ours."""
    assert [path for path, node in NODES.items() if key in node] == []


def test_every_node_has_exactly_one_type() -> None:
    """Either a type that JSON has, or int-or-string."""
    json_types = {"object", "array", "string", "integer", "number", "boolean"}
    strange = [
        path
        for path, node in NODES.items()
        if (node.get("type") in json_types) == node.get("x-kubernetes-int-or-string", False)
    ]
    assert strange == []


def test_no_node_is_open() -> None:
    """Unknown fields are refused everywhere: an object names its fields, or has a schema for its values."""
    open_objects = [
        path
        for path, node in NODES.items()
        if node.get("type") == "object" and not ({"properties", "additionalProperties"} & node.keys())
    ]
    # A CRD must leave `metadata` open: the API server has its schema.
    assert open_objects == [".metadata"]


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


def test_silence_spares_a_field_that_is_called_description() -> None:
    """Descriptions are dropped at every depth; the name of a field is none."""
    text = {"type": "string", "description": "Dropped."}
    schema = {"type": "object", "properties": {"description": text, "list": {"type": "array", "items": text}}}
    silent = {"type": "string"}
    assert without_descriptions(schema) == {
        "type": "object",
        "properties": {"description": silent, "list": {"type": "array", "items": silent}},
    }


def test_the_crd_is_small_enough_to_apply() -> None:
    """kubectl copies it into an annotation, Helm stores it twice a release, the API server compiles it."""
    size = len(json.dumps(generate.task_crd(), separators=(",", ":")))
    assert size < LARGEST_WE_WANT < LARGEST_THAT_KUBECTL_APPLIES


def test_states_and_phases_are_those_of_the_core() -> None:
    """There is one list of states."""
    status = SCHEMA["properties"]["status"]["properties"]
    assert status["state"]["enum"] == [str(each) for each in State]
    assert status["phase"]["enum"] == [str(each) for each in Phase]
    assert status["runs"]["items"]["properties"]["state"]["enum"] == [str(each) for each in State]


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
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from unknown(item, schema["items"], f"{path}[{index}]")


def test_what_the_operator_writes_has_its_place() -> None:
    """A field of the status that the CRD does not have would be dropped, with a warning that nobody reads."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    task = Task(
        namespace="default",
        name="hello",
        uid="5d3c",
        resource_version=7,
        generation=1,
        created_at=now,
        deleting=False,
        main_container="main",
        status=Status(),
    )
    run = Run(
        number=0,
        attempt=1,
        state=State.FAILED,
        reason="Signal",
        job="hello-1",
        pod="hello-1-x",
        node="node-1",
        started_at=now,
        finished_at=now,
        exit_code=137,
        signal=9,
        message="the container `main` was ended by SIGKILL",
    )
    everything = Status(
        state=State.FAILED,
        reason="Signal",
        message=run.message,
        submitted_at=now,
        claimed_at=now,
        claimed_by="operator-1",
        started_at=now,
        completed_at=now,
        failed_at=now,
        error=Error("Signal", "the container `main` was ended by SIGKILL"),
        runs=(run,),
    )
    status = status_patch(task, everything, now)["status"]
    assert list(unknown(status, SCHEMA["properties"]["status"])) == []
    # For as long as the API is this thin, the operator fills in every field of it.
    assert status.keys() == SCHEMA["properties"]["status"]["properties"].keys()


def test_examples_use_only_fields_that_exist() -> None:
    """What the API server would say under strict validation, said earlier."""
    examples = sorted((ROOT / "examples").glob("*.yaml"))
    assert examples
    for example in examples:
        task = yaml.safe_load(example.read_text(encoding="utf-8"))
        assert list(unknown(task, SCHEMA)) == [], example.name
