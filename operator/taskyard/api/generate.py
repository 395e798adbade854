"""Writes the CRDs: `python -m taskyard.api.generate crds/`.

The chart beside that folder gets the same bytes, so that `helm install` and `kubectl apply -f crds/` cannot
differ.
"""

import sys
from pathlib import Path
from typing import Any

import yaml

from taskyard.api.schema import JSON, structural
from taskyard.api.task import Task
from taskyard.core.manifest import API_VERSION, GROUP, VERSION
from taskyard.core.model import State

CHART_FOLDER = Path("charts/taskyard/files/crds")
HEADER = "# Generated from operator/taskyard/api; do not edit.\n"

TASK_COLUMNS: list[JSON] = [
    {"name": "State", "type": "string", "jsonPath": ".status.state"},
    {"name": "Reason", "type": "string", "jsonPath": ".status.reason"},
    {"name": "Run", "type": "integer", "jsonPath": ".status.run"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    # The last run tells; copies of its pod and node at the top of the status would be a second truth.
    {"name": "Pod", "type": "string", "jsonPath": ".status.runs[-1:].pod", "priority": 1},
    {"name": "Node", "type": "string", "jsonPath": ".status.runs[-1:].node", "priority": 1},
    {"name": "Started", "type": "date", "jsonPath": ".status.startedAt", "priority": 1},
    {"name": "Finished", "type": "date", "jsonPath": ".status.completedAt", "priority": 1},
]


def task_crd() -> JSON:
    """The CustomResourceDefinition of `Task`, as plain data."""
    schema = structural(Task.model_json_schema(by_alias=True))
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
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"tasks.{GROUP}",
            # An uninstall of the chart must not take every Task of the cluster with it.
            "annotations": {"helm.sh/resource-policy": "keep"},
        },
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": "Task",
                "listKind": "TaskList",
                "plural": "tasks",
                "singular": "task",
                "shortNames": ["tsk"],
                "categories": ["taskyard"],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": TASK_COLUMNS,
                    "selectableFields": [{"jsonPath": ".status.state"}, {"jsonPath": ".status.phase"}],
                }
            ],
        },
    }


def files() -> dict[str, str]:
    """The name and the text of each file, in the manner of controller-gen."""
    return {
        f"{crd['spec']['group']}_{crd['spec']['names']['plural']}.yaml": HEADER + _yaml(crd)
        for crd in [task_crd()]
    }


def write(folder: Path) -> None:
    """Write every file into `folder`, and into the chart beside it."""
    for target in (folder, folder.parent / CHART_FOLDER):
        target.mkdir(parents=True, exist_ok=True)
        for name, text in files().items():
            (target / name).write_text(text, encoding="utf-8")


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
