"""What the API server refuses beyond types and bounds: rules in CEL, each with the sentence that a person reads.

The cost of a rule is estimated before the CRD is accepted, from the bounds of what it looks at. Optional fields are
therefore compared by `has()`: `self.?queueName == oldSelf.?queueName` says the same, but its cost is taken for
unbounded. `input` has no type, and CEL sees such a field through `dyn()` only.
"""

from taskyard.api.schema import JSON, rule
from taskyard.core.defaults import DEFAULTABLE

MUTABLE = ("suspend", "release", "cancel", "rerun", "priority", "ttlSecondsAfterFinished")
"""What may be edited at any time."""

MUTABLE_WITH_A_RERUN = ("runAt", "goodUntil", "deadline")
"""What may be edited in the write that asks a resolved Task for another run."""

# (absolute, relative): two ways to say one thing.
TIMES = (("runAt", "startDelaySeconds"), ("goodUntil", "goodForSeconds"), ("deadline", "deadlineSeconds"))

# Which comes first, and how. Only like with like: a rule does not know when the Task was submitted.
ORDER = (
    ("runAt", "<", "goodUntil", "be before"),
    ("runAt", "<", "deadline", "be before"),
    ("goodUntil", "<=", "deadline", "not be after"),
    ("startDelaySeconds", "<", "goodForSeconds", "be less than"),
    ("startDelaySeconds", "<", "deadlineSeconds", "be less than"),
    ("goodForSeconds", "<=", "deadlineSeconds", "not be more than"),
)

RETRY = [
    rule(
        "!has(self.intervalsSeconds) || (!has(self.delaySeconds)"
        " && (!has(self.backoff) || self.backoff == 'Constant'))",
        "`intervalsSeconds` must not stand beside `delaySeconds`, nor beside a `backoff` other than `Constant`:"
        " delays are a list or a curve",
        field=".intervalsSeconds",
        forbidden=True,
    ),
    rule(
        "!has(self.backoff) || self.backoff == 'Constant'"
        " || has(self.delaySeconds) || has(self.intervalsSeconds)",
        "`delaySeconds` must be given with a `backoff` other than `Constant`: it is what grows",
        field=".delaySeconds",
        missing=True,
    ),
    rule(
        "!has(self.intervalsSeconds) || (has(self.limit) && size(self.intervalsSeconds) == self.limit)",
        "`intervalsSeconds` must have as many items as the `limit` beside it: one delay a retry",
        field=".intervalsSeconds",
    ),
]

WHAT_TO_RUN = [
    rule(
        "has(self.template) || has(self.definitionRef)",
        "exactly one of `template` and `definitionRef` must be given",
        field=".template",
        missing=True,
    ),
    rule(
        "!has(self.template) || !has(self.definitionRef)",
        "exactly one of `template` and `definitionRef` must be given",
        field=".definitionRef",
        forbidden=True,
    ),
    rule(
        "!has(self.mainContainer) || !has(self.template)"
        " || self.template.spec.containers.exists(each, each.name == self.mainContainer)",
        "`mainContainer` must be the name of one of the `containers` of `template`",
        field=".mainContainer",
    ),
]

RERUN = [
    rule("self.rerun >= oldSelf.rerun", "`rerun` must not fall: it counts", field=".rerun", forbidden=True),
    rule(
        "self.rerun <= oldSelf.rerun || !self.cancel",
        "`cancel` must be false in the write that raises `rerun`",
        field=".cancel",
    ),
]


RETIRED = rule(
    "!has(self.retired) || self.retired.all(each, self.versions.exists(there, there.version == each))",
    "`retired` must name only what is in `versions`",
    field=".retired",
)
# Of an item of `versions`, which the API server compares with the one of the same name.
VERSION = [
    rule(
        "self == oldSelf",
        "a version in `versions` must stay as it was written; add another version instead",
        forbidden=True,
    ),
    rule(
        "!has(self.defaults) || !has(self.defaults.mainContainer)"
        " || self.template.spec.containers.exists(each, each.name == self.defaults.mainContainer)",
        "`mainContainer` must be the name of one of the `containers` of `template`",
        field=".defaults.mainContainer",
    ),
]


def add_rules(task: JSON) -> None:
    """Put the rules into the structural schema of `Task`, each where it can see what it is about."""
    spec = task["properties"]["spec"]
    fields = spec["properties"]
    fixed = [name for name in fields if name not in (*MUTABLE, *MUTABLE_WITH_A_RERUN)]
    # Only the rules of the whole see the status.
    task["x-kubernetes-validations"] = [_fixed_but_for_a_rerun(name) for name in MUTABLE_WITH_A_RERUN]
    spec["x-kubernetes-validations"] = [
        *WHAT_TO_RUN,
        *(_not_both(absolute, relative) for absolute, relative in TIMES),
        *(_in_order(*each) for each in ORDER),
        *RERUN,
        *(_fixed(name, fields[name]) for name in fixed),
    ]
    fields["retry"]["x-kubernetes-validations"] = RETRY


def add_definition_rules(definition: JSON) -> None:
    """Put the rules into the structural schema of a kind of definitions."""
    spec = definition["properties"]["spec"]
    version = spec["properties"]["versions"]["items"]
    defaults = version["properties"]["defaults"]
    spec["x-kubernetes-validations"] = [RETIRED]
    version["x-kubernetes-validations"] = VERSION
    defaults["x-kubernetes-validations"] = [
        _in_order(*each) for each in ORDER if {each[0], each[2]} <= set(DEFAULTABLE)
    ]
    defaults["properties"]["retry"]["x-kubernetes-validations"] = RETRY


def tell_what_may_change(fields: JSON) -> None:
    """End the description of each field of a Task's spec with when it may change."""
    for name, field in fields.items():
        field["description"] += f" {_when_it_may_change(name)}"


def _when_it_may_change(name: str) -> str:
    if name == "rerun":
        return "It never falls."
    if name in MUTABLE:
        return "It may be changed at any time."
    if name in MUTABLE_WITH_A_RERUN:
        return "It may be changed only together with `rerun`."
    return "It never changes."


def _not_both(absolute: str, relative: str) -> JSON:
    return rule(
        f"!has(self.{absolute}) || !has(self.{relative})",
        f"`{relative}` must not stand beside `{absolute}`: the time is absolute or relative",
        field=f".{relative}",
        forbidden=True,
    )


def _in_order(earlier: str, sign: str, later: str, words: str) -> JSON:
    return rule(
        f"!has(self.{earlier}) || !has(self.{later}) || self.{earlier} {sign} self.{later}",
        f"`{earlier}` must {words} `{later}`",
        field=f".{earlier}",
    )


def _fixed(name: str, schema: JSON) -> JSON:
    return rule(
        _same(name, typed="type" in schema, always_there="default" in schema),
        f"`{name}` must stay as it was created; create another Task instead",
        field=f".{name}",
        forbidden=True,
    )


def _fixed_but_for_a_rerun(name: str) -> JSON:
    return rule(
        f"({_same(f'spec.{name}')}) || (self.spec.rerun > oldSelf.spec.rerun"
        " && has(self.status) && has(self.status.phase) && self.status.phase == 'Finished')",
        f"`{name}` must stay as it was, unless the same write raises `rerun` on a Task that is Finished",
        field=f".spec.{name}",
        forbidden=True,
    )


def _same(path: str, *, typed: bool = True, always_there: bool = False) -> str:
    """That a field is as it was, present or absent."""
    new, old = (f"self.{path}", f"oldSelf.{path}") if typed else (f"dyn(self).{path}", f"dyn(oldSelf).{path}")
    if always_there:
        return f"{new} == {old}"
    return f"has({new}) == has({old}) && (!has({new}) || {new} == {old})"
