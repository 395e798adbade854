"""Writes the CRDs, and the pages about them: `python -m taskyard.api.generate crds/`.

The chart beside that folder gets the same bytes, so that `helm install` and `kubectl apply -f crds/` cannot
differ.
"""

import sys
from pathlib import Path
from typing import Any

import yaml

from taskyard.api.document import api_page
from taskyard.api.rules import add_rules
from taskyard.api.schema import JSON, structural, with_defaults_told
from taskyard.api.state_machine import state_machine_page
from taskyard.api.task import Task
from taskyard.core.manifest import API_VERSION, GROUP, VERSION
from taskyard.core.words import State

CHART_FOLDER = Path("charts/taskyard/files/crds")
DOCS = Path("docs")
HEADER = "# Generated from operator/taskyard/api; do not edit.\n"

TASK_NAMES: JSON = {
    "kind": "Task",
    "listKind": "TaskList",
    "plural": "tasks",
    "singular": "task",
    "shortNames": ["tsk"],
    "categories": ["taskyard"],
}
TASK_COLUMNS: list[JSON] = [
    {"name": "State", "type": "string", "jsonPath": ".status.state"},
    {"name": "Reason", "type": "string", "jsonPath": ".status.reason"},
    {"name": "Queue", "type": "string", "jsonPath": ".spec.queueName"},
    {"name": "Run", "type": "integer", "jsonPath": ".status.run"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    # The last run tells; copies of its pod and node at the top of the status would be a second truth.
    {"name": "Pod", "type": "string", "jsonPath": ".status.runs[-1:].pod", "priority": 1},
    {"name": "Node", "type": "string", "jsonPath": ".status.runs[-1:].node", "priority": 1},
    {"name": "Retries", "type": "integer", "jsonPath": ".status.retryCount", "priority": 1},
    {"name": "Started", "type": "date", "jsonPath": ".status.startedAt", "priority": 1},
    {"name": "Finished", "type": "date", "jsonPath": ".status.completedAt", "priority": 1},
]
TASK_SELECTABLE = (".status.state", ".status.phase", ".spec.queueName", ".spec.definitionRef.name")


def task_schema() -> JSON:
    """The structural schema of `Task`, with its rules and defaults."""
    schema = structural(Task.model_json_schema(by_alias=True))
    add_rules(schema)
    schema["properties"] |= {
        "apiVersion": {"type": "string", "description": f"`{API_VERSION}`."},
        "kind": {"type": "string", "description": "`Task`."},
        "metadata": {"type": "object"},
    }
    # A Task is Pending from its first moment, also while no operator runs that could write so. Defaults are
    # filled in whenever an object is read, so this costs no write.
    schema["properties"]["status"]["default"] = {
        "state": State.PENDING.value,
        "phase": State.PENDING.phase.value,
    }
    return schema


def task_crd() -> JSON:
    """The CustomResourceDefinition of `Task`, as plain data."""
    version: JSON = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": with_defaults_told(task_schema())},
        "subresources": {"status": {}},
        "additionalPrinterColumns": TASK_COLUMNS,
        "selectableFields": [{"jsonPath": path} for path in TASK_SELECTABLE],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{TASK_NAMES['plural']}.{GROUP}",
            # An uninstall of the chart must not take every Task of the cluster with it.
            "annotations": {"helm.sh/resource-policy": "keep"},
        },
        "spec": {"group": GROUP, "scope": "Namespaced", "names": TASK_NAMES, "versions": [version]},
    }


def files() -> dict[str, str]:
    """The name and the text of each file, in the manner of controller-gen."""
    return {
        f"{crd['spec']['group']}_{crd['spec']['names']['plural']}.yaml": HEADER + _yaml(crd)
        for crd in [task_crd()]
    }


def pages() -> dict[str, str]:
    """The name and the text of each page of the documentation that is made from the code."""
    return {"api.md": api_page(task_schema()), "state-machine.md": state_machine_page()}


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
