"""The kinds `TaskDefinition` and `ClusterTaskDefinition`: task types with a name and versions, alike but for who may
name them.
"""

from typing import Annotated, Any

from pydantic import Field, StringConstraints, WithJsonSchema

from taskyard.api.fields import LIST_SET, LabelValue, Model, list_map, whole
from taskyard.api.pod_template import ABOUT_TEMPLATES
from taskyard.api.schema import JSON, structural
from taskyard.api.spec import PodTemplate, TaskSpec
from taskyard.core.defaults import DEFAULTABLE
from taskyard.core.words import VERSIONS_LIMIT


def defaults_schema() -> JSON:
    """The structural schema of `defaults`: of each field the one that the spec of a Task has for it."""
    fields = structural(TaskSpec.model_json_schema(by_alias=True))["properties"]
    return {"type": "object", "properties": {name: fields[name] for name in DEFAULTABLE}}


Text = Annotated[str, StringConstraints(max_length=1024)]
Defaults = Annotated[dict[str, Any], WithJsonSchema(defaults_schema())]


class Version(Model):
    """What to run, and what a Task of it asks for where it is silent."""

    version: LabelValue = Field(description="Its name, such as `v2`.")
    description: Text | None = Field(None, description="What it is, for people.")
    template: PodTemplate = Field(description=ABOUT_TEMPLATES)
    defaults: Defaults | None = Field(
        None,
        description="What a Task of this version asks for where it is silent, field by field, those of `retry`"
        " likewise. Of `backoff`, `delaySeconds` and `intervalsSeconds` a Task that gives one gives all; one with"
        " `goodUntil` or `deadline` does not take `goodForSeconds` or `deadlineSeconds`. What is absent here too is as"
        " `kubectl explain task.spec` says.",
    )


Versions = Annotated[
    list[Version], Field(min_length=1, max_length=VERSIONS_LIMIT, json_schema_extra=list_map("version"))
]
VersionNames = Annotated[list[LabelValue], Field(max_length=VERSIONS_LIMIT, json_schema_extra=LIST_SET)]


class DefinitionSpec(Model):
    """What there is to run."""

    versions: Versions = Field(
        description="Every version that a Task may name. A version never changes once it is written; others may be"
        " added, and any may be taken away. One that is added under the name of one that was taken away is another:"
        " tasks that were claimed with the first do not run it, those that still wait do."
    )
    max_concurrent: Annotated[int, whole(0, 1_000_000)] | None = Field(
        None,
        description="How many tasks of this type, of all its versions, are claimed or running at once: in the"
        " namespace, or in the cluster for a ClusterTaskDefinition. It may be changed at any time. Absent: no limit.",
    )
    retired: VersionNames | None = Field(
        None,
        description="Versions that start no new tasks; those that were claimed before go on. It may be changed at any"
        " time.",
    )


class TaskDefinition(Model):
    """A task type for the Tasks of its namespace, which name it in `definitionRef`."""

    spec: DefinitionSpec = Field(description="What there is to run.")


class ClusterTaskDefinition(Model):
    """A task type for the Tasks of every namespace, which name it in `definitionRef`."""

    spec: DefinitionSpec = Field(description="What there is to run.")
