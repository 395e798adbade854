"""Writes the CRDs, and the pages about them: `python -m taskyard.api.generate crds/`.

The chart beside that folder gets the same bytes, so that `helm install` and `kubectl apply -f crds/` cannot
differ.
"""

import sys
from pathlib import Path
from typing import Any

import yaml

from taskyard.api.definition import ClusterTaskDefinition, TaskDefinition
from taskyard.api.document import api_page
from taskyard.api.fields import Model
from taskyard.api.queue import TaskQueue
from taskyard.api.rules import add_definition_rules, add_rules, tell_what_may_change
from taskyard.api.schema import JSON, mark_inherited, structural, with_defaults_told
from taskyard.api.state_machine import state_machine_page
from taskyard.api.task import Task
from taskyard.core.defaults import BUILT_IN, DEFAULTABLE
from taskyard.core.manifest import API_VERSION, GROUP, VERSION
from taskyard.core.words import State

CHART_FOLDER = Path("charts/taskyard/files/crds")
DOCS = Path("docs")
HEADER = "# Generated from operator/taskyard/api; do not edit.\n"

AGE: JSON = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}
TASK_COLUMNS: list[JSON] = [
    {"name": "State", "type": "string", "jsonPath": ".status.state"},
    {"name": "Reason", "type": "string", "jsonPath": ".status.reason"},
    {"name": "Queue", "type": "string", "jsonPath": ".spec.queueName"},
    {"name": "Run", "type": "integer", "jsonPath": ".status.run"},
    AGE,
    # The last run tells; copies of its pod and node at the top of the status would be a second truth.
    {"name": "Pod", "type": "string", "jsonPath": ".status.runs[-1:].pod", "priority": 1},
    {"name": "Node", "type": "string", "jsonPath": ".status.runs[-1:].node", "priority": 1},
    {"name": "Retries", "type": "integer", "jsonPath": ".status.retryCount", "priority": 1},
    {"name": "Started", "type": "date", "jsonPath": ".status.startedAt", "priority": 1},
    {"name": "Finished", "type": "date", "jsonPath": ".status.completedAt", "priority": 1},
]
TASK_SELECTABLE = (
    ".status.state",
    ".status.phase",
    ".spec.queueName",
    ".spec.definitionRef.name",
    ".spec.idempotencyKey",
)


# Of a path that leads to many, a column shows the first: the last of one list, then, and the other as a whole.
DEFINITION_COLUMNS: list[JSON] = [
    {"name": "Latest", "type": "string", "jsonPath": ".spec.versions[-1:].version"},
    {"name": "Retired", "type": "string", "jsonPath": ".spec.retired"},
    AGE,
]


QUEUE_COLUMNS: list[JSON] = [
    {"name": "Pending", "type": "integer", "jsonPath": ".status.pending"},
    {"name": "Claimed", "type": "integer", "jsonPath": ".status.claimed"},
    {"name": "Running", "type": "integer", "jsonPath": ".status.running"},
    {"name": "Limit", "type": "integer", "jsonPath": ".spec.maxConcurrent"},
    {"name": "Paused", "type": "boolean", "jsonPath": ".spec.paused"},
    AGE,
    {"name": "Delayed", "type": "integer", "jsonPath": ".status.delayed", "priority": 1},
    {"name": "Oldest", "type": "date", "jsonPath": ".status.oldestPendingAt", "priority": 1},
]


def task_schema() -> JSON:
    """The structural schema of `Task`, with its rules, defaults and marks."""
    schema = _schema(Task)
    add_rules(schema)
    fields = schema["properties"]["spec"]["properties"]
    tell_what_may_change(fields)
    mark_inherited(fields, DEFAULTABLE, BUILT_IN)
    # A Task is Pending from its first moment, also while no operator runs that could write so. Defaults are
    # filled in whenever an object is read, so this costs no write.
    schema["properties"]["status"]["default"] = {
        "state": State.PENDING.value,
        "phase": State.PENDING.phase.value,
    }
    return schema


def definition_schema(kind: type[Model] = TaskDefinition) -> JSON:
    """The structural schema of a kind of definitions, with its rules."""
    schema = _schema(kind)
    add_definition_rules(schema)
    return schema


def crds() -> list[JSON]:
    """Every CustomResourceDefinition, as plain data."""
    return [
        task_crd(),
        _crd(
            "TaskQueue",
            "tq",
            "Namespaced",
            {**_version(_schema(TaskQueue), QUEUE_COLUMNS), "subresources": {"status": {}}},
        ),
        _definition_crd(TaskDefinition, "td", scope="Namespaced"),
        _definition_crd(ClusterTaskDefinition, "ctd", scope="Cluster"),
    ]


def task_crd() -> JSON:
    """The CustomResourceDefinition of `Task`, as plain data."""
    return _crd(
        "Task",
        "tsk",
        "Namespaced",
        {
            **_version(task_schema(), TASK_COLUMNS),
            "subresources": {"status": {}},
            "selectableFields": [{"jsonPath": path} for path in TASK_SELECTABLE],
        },
    )


def _definition_crd(kind: type[Model], short: str, scope: str) -> JSON:
    return _crd(kind.__name__, short, scope, _version(definition_schema(kind), DEFINITION_COLUMNS))


def _schema(kind: type[Model]) -> JSON:
    schema = structural(kind.model_json_schema(by_alias=True))
    schema["properties"] |= {
        "apiVersion": {"type": "string", "description": f"`{API_VERSION}`."},
        "kind": {"type": "string", "description": f"`{kind.__name__}`."},
        "metadata": {"type": "object"},
    }
    return schema


def _version(schema: JSON, columns: list[JSON]) -> JSON:
    return {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": with_defaults_told(schema)},
        "additionalPrinterColumns": columns,
    }


def _crd(kind: str, short: str, scope: str, version: JSON) -> JSON:
    names = {
        "kind": kind,
        "listKind": f"{kind}List",
        "plural": f"{kind.lower()}s",
        "singular": kind.lower(),
        "shortNames": [short],
        "categories": ["taskyard"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{names['plural']}.{GROUP}",
            # An uninstall of the chart must not take every object of the cluster with it.
            "annotations": {"helm.sh/resource-policy": "keep"},
        },
        "spec": {"group": GROUP, "scope": scope, "names": names, "versions": [version]},
    }


def files() -> dict[str, str]:
    """The name and the text of each file, in the manner of controller-gen."""
    return {
        f"{crd['spec']['group']}_{crd['spec']['names']['plural']}.yaml": HEADER + _yaml(crd) for crd in crds()
    }


def pages() -> dict[str, str]:
    """The name and the text of each page of the documentation that is made from the code."""
    return {
        "api.md": api_page(task_schema(), _schema(TaskQueue), definition_schema()),
        "state-machine.md": state_machine_page(),
    }


def write(folder: Path) -> None:
    """Write every file into `folder`, and into the chart and the documentation beside it."""
    for target in (folder, folder.parent / CHART_FOLDER):
        target.mkdir(parents=True, exist_ok=True)
        for name, text in files().items():
            (target / name).write_text(text, encoding="utf-8")
    docs = folder.parent / DOCS
    docs.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (docs / name).write_text(text, encoding="utf-8")


class _PlainDumper(yaml.SafeDumper):
    """Writes everything out: equal parts of a schema are no reason for anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _yaml(document: JSON) -> str:
    text: str = yaml.dump(document, Dumper=_PlainDumper, sort_keys=True, width=110, allow_unicode=True)
    return text


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m taskyard.api.generate <folder>")
    write(Path(sys.argv[1]))
