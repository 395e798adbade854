"""The schema of a task's pod template: the official client's model, as far as a Job's pod can use it.

A whole template, and not an untyped object, so that `kubectl apply` refuses a misspelt field with its path.
The client's model comes from the OpenAPI document of Kubernetes but tells less: quantities are plain strings.
Its descriptions are left out: with them the CRD would be six times as large, more than `kubectl apply` can
store in its annotation, and `kubectl explain pod.spec` has them.
"""

from functools import cache

from kubernetes.aio.client import V1PodTemplateSpec

from taskyard.api.schema import INT_OR_STRING, JSON, rule, structural, without_descriptions

# As Kubernetes parses it: sign, decimal number, suffix or exponent. `128Megs` is refused at the door.
QUANTITY: JSON = {
    **INT_OR_STRING,
    "pattern": r"^[+-]?([0-9]+|[0-9]+[.][0-9]*|[.][0-9]+)(([KMGTPE]i)|[numkMGTPE]|([eE][+-]?[0-9]+))?$",
}

# (model, field): where Kubernetes has a quantity, or a map of them.
QUANTITIES = [("V1EmptyDirVolumeSource", "sizeLimit"), ("V1ResourceFieldSelector", "divisor")]
QUANTITY_MAPS = [
    ("V1PodSpec", "overhead"),
    ("V1ResourceRequirements", "limits"),
    ("V1ResourceRequirements", "requests"),
    ("V1VolumeResourceRequirements", "limits"),
    ("V1VolumeResourceRequirements", "requests"),
]

# A Job gives its pods the template's labels and annotations. `name` is ignored there as here, and
# `creationTimestamp: null` is what old kubectls print: both stand in too many manifests to be refused.
# Finalizers would outlive the task.
METADATA_FIELDS = ("annotations", "creationTimestamp", "labels", "name")

# Kubernetes sets no limit; rules that look at each container need one: their cost is estimated beforehand.
MAX_CONTAINERS = 64
MAX_CONTAINER_NAME = 63
DNS_LABEL = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"

ABOUT_TEMPLATES = (
    "What to run: a pod template, as in a Job. `kubectl explain pod.spec` describes its fields."
    " `restartPolicy` is `Never`, the grace period 5 s where none is set, and no API token is mounted unless a service"
    " account is named, or `automountServiceAccountToken` is true."
)

POD_RULES = [
    rule(
        "!has(self.restartPolicy) || self.restartPolicy == 'Never'",
        "`restartPolicy` must be `Never` or absent: a run is one pod that runs once;"
        " it is the Task that starts another run",
        field=".restartPolicy",
        forbidden=True,
    ),
]
CONTAINER_RULES = [
    rule(
        "!has(self.restartPolicy)",
        "`restartPolicy` must be absent on a container: Kubernetes would run its code again inside one run;"
        " only a sidecar, an init container, may have it",
        field=".restartPolicy",
        forbidden=True,
    ),
    rule(
        "!has(self.restartPolicyRules)",
        "`restartPolicyRules` must be absent on a container:"
        " Kubernetes would run its code again inside one run",
        field=".restartPolicyRules",
        forbidden=True,
    ),
]
SAME_ORDER = rule(
    "self.map(each, each.name) == oldSelf.map(each, each.name)",
    "the order of containers must stay as it was: the first is the main one, and init containers run in turn",
    forbidden=True,
)
"""To `==` two lists by name are the same in any order."""

INIT_CONTAINER_RULES = [
    rule(
        "!has(self.restartPolicy) || self.restartPolicy == 'Always'",
        "`restartPolicy` of an init container must be `Always`, which makes it a sidecar, or absent",
        field=".restartPolicy",
        forbidden=True,
    ),
    rule(
        "!has(self.restartPolicyRules) || has(self.restartPolicy)",
        "`restartPolicyRules` must be absent on an init container"
        " that is no sidecar (`restartPolicy: Always`)",
        field=".restartPolicyRules",
        forbidden=True,
    ),
]


@cache
def pod_template_schema() -> JSON:
    """The structural schema of every `template`, with the rules that keep a run to one pod that runs once."""
    client = V1PodTemplateSpec.model_json_schema(by_alias=True)
    models = client["$defs"]
    for model, field in QUANTITIES:
        models[model]["properties"][field] = QUANTITY
    for model, field in QUANTITY_MAPS:
        models[model]["properties"][field] = {"type": "object", "additionalProperties": QUANTITY}
    metadata = models["V1ObjectMeta"]["properties"]
    models["V1ObjectMeta"]["properties"] = {field: metadata[field] for field in METADATA_FIELDS}
    # Kubernetes allows these on a pod that exists, never in a template.
    del models["V1PodSpec"]["properties"]["ephemeralContainers"]

    template = without_descriptions(structural(client))
    template["required"] = ["spec"]
    pod = template["properties"]["spec"]
    pod["description"] = "The pod of each run: see `kubectl explain pod.spec`."
    pod["x-kubernetes-validations"] = POD_RULES
    containers = pod["properties"]["containers"]
    containers["minItems"] = 1
    _named_once(containers, rules=CONTAINER_RULES)
    _named_once(pod["properties"]["initContainers"], rules=INIT_CONTAINER_RULES)
    return template


def _named_once(containers: JSON, *, rules: list[JSON]) -> None:
    """Make the list a map by name, so that a name used twice is refused at the door and not by the Job."""
    containers["maxItems"] = MAX_CONTAINERS
    containers["x-kubernetes-list-type"] = "map"
    containers["x-kubernetes-list-map-keys"] = ["name"]
    containers["x-kubernetes-validations"] = [SAME_ORDER]
    containers["items"]["x-kubernetes-validations"] = rules
    # What every Job with it would be refused for is refused here, where the user is still looking.
    item = containers["items"]
    item["required"] = ["image", "name"]
    item["properties"]["name"] |= {"maxLength": MAX_CONTAINER_NAME, "pattern": DNS_LABEL}
    item["properties"]["image"]["minLength"] = 1
    item["properties"]["imagePullPolicy"]["enum"] = ["Always", "IfNotPresent", "Never"]
