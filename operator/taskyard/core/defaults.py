"""What a Task is taken to ask for where it is silent: its definition's defaults first, then these.

They are not in the CRD, as other defaults are: the API server would fill them in, and nobody could tell any more
what the Task's author had written from what a definition may still say.
"""

from collections.abc import Mapping
from typing import Any, Final

from taskyard.core.words import Backoff, DeadLetterPolicy, LogPolicy, OnShutdown

Json = Mapping[str, Any]

BUILT_IN: Final[Json] = {
    "priority": 0,
    "scheduleTimeoutSeconds": 900,
    "startTimeoutSeconds": 600,
    "startLimit": 3,
    "retry": {
        "limit": 0,
        "backoff": str(Backoff.CONSTANT),
        "maxDelaySeconds": 3600,
        "infrastructureLimit": 5,
    },
    "onShutdown": str(OnShutdown.RESUBMIT),
    "deadLetterPolicy": str(DeadLetterPolicy.NONE),
    "logs": str(LogPolicy.ON_FAILURE),
    "ttlSecondsAfterFinished": 86400,
}

DEFAULTABLE: Final = (
    "mainContainer",
    "priority",
    "goodForSeconds",
    "deadlineSeconds",
    "scheduleTimeoutSeconds",
    "startTimeoutSeconds",
    "startLimit",
    "timeoutSeconds",
    "retry",
    "unreachableTimeoutSeconds",
    "onShutdown",
    "deadLetterPolicy",
    "logs",
    "ttlSecondsAfterFinished",
)
"""What a definition may have a default for."""

DELAYS: Final = frozenset({"backoff", "delaySeconds", "intervalsSeconds"})
"""Of `retry`, three that say one thing together: whoever gives one of them gives all."""

RELATIVE: Final = {"goodUntil": "goodForSeconds", "deadline": "deadlineSeconds"}
"""Two ways to say one thing: whoever gives the one does not inherit the other."""


def merged(own: Json, inherited: Json) -> dict[str, Any]:
    """What is asked for, where silence means what is inherited: field by field, and those of `retry` likewise."""
    said_otherwise = {relative for absolute, relative in RELATIVE.items() if absolute in own}
    result = {**{key: value for key, value in inherited.items() if key not in said_otherwise}, **own}
    if "retry" in own and "retry" in inherited:
        result["retry"] = _retry(own["retry"], inherited["retry"])
    return result


def _retry(own: Json, inherited: Json) -> dict[str, Any]:
    replaced = DELAYS if DELAYS & own.keys() else frozenset[str]()
    kept = {key: value for key, value in inherited.items() if key not in replaced}
    return {"backoff": BUILT_IN["retry"]["backoff"], **kept, **own}
