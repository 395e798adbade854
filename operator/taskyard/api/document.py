"""The page `docs/api.md`: a table for every object of the API, made from the schema that the API server gets."""

from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum

from taskyard.api.fields import CAMEL_CASE_WORD, DNS_SUBDOMAIN, INSTANT, LABEL_VALUE
from taskyard.api.pod_template import DNS_LABEL
from taskyard.api.queue import LABEL_KEY
from taskyard.api.rules import MUTABLE, MUTABLE_WITH_A_RERUN
from taskyard.api.schema import INHERITED, JSON, in_json
from taskyard.core.defaults import DEFAULTABLE
from taskyard.core.manifest import API_VERSION
from taskyard.core.words import ErrorCode, Flaw, Reason, State, StopReason

INTRODUCTION = f"""\
<!-- Generated from operator/taskyard/api; do not edit. -->
# The API

`{API_VERSION}`. The same text as `kubectl explain task.spec`, on one page. A field without a default is absent unless
it is written. The API server fills in defaults, but for those that a definition may replace: these hold wherever the
field is absent. It refuses what breaks a bound or a rule, with the path of the field.
"""

DEFINITIONS = f"""\
## TaskDefinition and ClusterTaskDefinition

A task type with versions, which a Task names in `definitionRef`. A `TaskDefinition` is for the Tasks of its namespace,
a `ClusterTaskDefinition` for those of every namespace; their fields and rules are the same. `defaults` takes
{", ".join(f"`{each}`" for each in DEFAULTABLE)}, each as the spec of a Task has it.
"""

# The patterns that have a name. The page says the name, and the API server the pattern.
PATTERNS = {
    CAMEL_CASE_WORD: "one CamelCase word",
    DNS_LABEL: "DNS label",
    DNS_SUBDOMAIN: "DNS subdomain",
    INSTANT: "year 1900 to 2999, no leap second",
    LABEL_KEY: "as the key of a label",
    LABEL_VALUE: "as the value of a label",
}

STATES = {
    State.UNSCHEDULED: "suspended, or waits for its dependencies",
    State.DELAYED: "waits for a time: `runAt`, or the delay before a retry",
    State.PENDING: "eligible; waits for its turn",
    State.CLAIMED: "reserved by an operator; no container of it has started",
    State.RUNNING: "the main container runs",
    State.COMPLETED: "the pod succeeded, and the task reported no error",
    State.FAILED: "the task's own fault, and no retry is left, allowed or in time",
    State.EXCEPTION: "no verdict could be had",
    State.CANCELLED: "asked for by `cancel`; no pod of it runs any more",
    State.EXPIRED: "had not started by `goodUntil`",
    State.STALLED: "stopped by the drain of its node, with `onShutdown: Stop`",
    State.DROPPED: "refused: its definition is not registered, or that version of it is not, or is retired",
}


def api_page(task: JSON, queue: JSON, definition: JSON) -> str:
    """The whole page, from the schemas of `Task`, `TaskQueue`, and the one of both kinds of definitions."""
    parts = [
        INTRODUCTION,
        f"## Task\n\n{task['description']}\n",
        *(_table(path, node) for path, node in _objects(task) if path),
        f"## TaskQueue\n\n{queue['description']}\n",
        *(_table(f"TaskQueue.{path}", node) for path, node in _objects(queue) if path),
        DEFINITIONS,
        *(_table(f"TaskDefinition.{path}", node) for path, node in _objects(definition) if path),
        _what_may_change(),
        _rules(task, definition),
        _states(),
        _error_codes(),
        _words("Reasons", Reason, "The reason of a state, where it is not an error code."),
        _words("Reasons of a stop", StopReason, "In `status.stop.reason`."),
        _words("Flaws", Flaw, "In `status.result.flaws`: what a task's report needed."),
    ]
    return "\n".join(parts)


def _objects(node: JSON, path: str = "") -> Iterator[tuple[str, JSON]]:
    """Every object of ours with its path, outer ones first. A template is Kubernetes' own, defaults are a Task's."""
    if "properties" not in node or path.endswith(("metadata", "template", "versions[].defaults")):
        return
    yield path, node
    for name, sub in node["properties"].items():
        below = f"{path}.{name}".removeprefix(".")
        yield from _objects(sub.get("items", sub), f"{below}[]" if "items" in sub else below)


def _table(path: str, node: JSON) -> str:
    defaults = node.get("default", {})
    required = node.get("required", [])
    lines = [
        (
            f"`{name}`",
            _type(sub),
            "required" if name in required else _default(sub, defaults.get(name)),
            _bounds(sub),
            sub["description"],
        )
        for name, sub in node["properties"].items()
    ]
    return f"### `{path}`\n\n" + rows(("field", "type", "default", "bounds", "description"), lines)


def _type(node: JSON) -> str:
    match node.get("type"):
        case None:
            return "any JSON"
        case "array":
            return f"list of {_type(node['items'])}"
        case "string" if node.get("format") == "date-time":
            return "time"
        case word:
            return str(word)


def _default(node: JSON, of_the_whole: object) -> str:
    match node.get("default", node.get(INHERITED, of_the_whole)):
        case None:
            return "its definition's" if INHERITED in node else ""
        case dict():
            return ""
        case value if INHERITED in node:
            return f"`{in_json(value)}`, or its definition's"
        case value:
            return f"`{in_json(value)}`"


def _bounds(node: JSON) -> str:
    match node.get("type"):
        case "integer":
            return f"{node['minimum']:,} to {node['maximum']:,}"
        case "string" if "enum" in node:
            return _quoted(node["enum"])
        case "string":
            return ", ".join(_bounds_of_text(node))
        case "array":
            inner = _bounds(node["items"])
            number = f"{_from(node.get('minItems', 0))} {node['maxItems']:,} items"
            once = ", each once" if node["x-kubernetes-list-type"] == "set" else ""
            return f"{number}{once}{'; ' if inner else ''}{inner}"
        case "object" if "minProperties" in node:
            return "not empty"
        case _:
            return ""


def _bounds_of_text(node: JSON) -> Iterator[str]:
    if "maxLength" in node:
        yield f"{_from(node.get('minLength', 0))} {node['maxLength']:,} characters"
    if "pattern" in node:
        yield PATTERNS.get(node["pattern"], f"`{node['pattern']}`")


def _from(minimum: int) -> str:
    return f"{minimum} to" if minimum else "at most"


def _what_may_change() -> str:
    return (
        "## What may change\n\n"
        f"Of a Task's spec, {_quoted(MUTABLE)} at any time; {_quoted(MUTABLE_WITH_A_RERUN)} in a write that also raises"
        " `rerun`, on a Task that is Finished; nothing else.\n\n"
        "Of a definition, versions may be added to `versions` and taken away from it, and `retired` at any time; a"
        " version never changes once it is written.\n"
    )


def _rules(*schemas: JSON) -> str:
    """Every rule as the sentence that a person reads when it is broken, with the path that the API server names."""
    lines = [
        (f"`{(path + each.get('fieldPath', '')).removeprefix('.')}`", f"{each['message']}.")
        for schema in schemas
        for path, node in _carriers(schema)
        for each in node["x-kubernetes-validations"]
        if "must stay as it was" not in each["message"]  # a section of its own has these
    ]
    return "## Rules\n\n" + rows(("field", "what must hold"), lines)


def _carriers(node: JSON, path: str = "") -> Iterator[tuple[str, JSON]]:
    """Every node that carries rules, those of a pod template included, with its path."""
    if "x-kubernetes-validations" in node:
        yield path, node
    for name, sub in node.get("properties", {}).items():
        yield from _carriers(sub, f"{path}.{name}")
    if "items" in node:
        yield from _carriers(node["items"], f"{path}[]")


def _states() -> str:
    lines = [
        (f"`{state}`", f"`{state.phase}`", "yes" if state.is_terminal else "", STATES[state])
        for state in State
    ]
    return "## States\n\n" + rows(("state", "phase", "terminal", "meaning"), lines)


def _error_codes() -> str:
    lines = [(f"`{code}`", code.meaning) for code in ErrorCode]
    return (
        "## Error codes\n\n"
        "In `status.result.error.code`, and as `status.reason` of a task that did not succeed. A task may report codes"
        " of its own.\n\n" + rows(("code", "meaning"), lines)
    )


def _words(title: str, words: type[StrEnum], sentence: str) -> str:
    return f"## {title}\n\n{sentence} {_quoted(words)}.\n"


def _quoted(words: Iterable[str]) -> str:
    return ", ".join(f"`{each}`" for each in words)


def rows(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A table."""
    lines = [head, ["---"] * len(head), *body]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)
