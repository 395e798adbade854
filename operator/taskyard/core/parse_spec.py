"""From the JSON of a spec to records: what a Task asks for, and what a definition offers."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import lru_cache
from sys import intern
from typing import Any, Final

from taskyard.core import defaults, manifest
from taskyard.core.choose import Queue
from taskyard.core.model import Bound, Version
from taskyard.core.rate import Rate
from taskyard.core.spec import DefinitionRef, Expected, Retry, Spec
from taskyard.core.words import (
    Backoff,
    DeadLetterPolicy,
    DefinitionKind,
    LogPolicy,
    OnDependencyFailure,
    OnDuplicate,
    OnShutdown,
    Requires,
)

Json = Mapping[str, Any]

DIGEST_LENGTH: Final = 16


@lru_cache(maxsize=4096)
def shared(spec: Spec) -> Spec:
    """One record for all Tasks that ask for the same."""
    return spec


def at_rest(spec: Spec) -> Spec:
    """Clocks of a resolved Task do not strike; without them most of its kind are alike, and share one record."""
    return replace(
        spec, run_at=None, good_until=None, deadline=None, cancel=False, suspend=False, dependencies=()
    )


def spec(written: Json, source: Bound | Version | None) -> Spec:
    """What a Task asks for, with what its definition adds, if it has one that is known."""
    inherited = source.defaults if source is not None else {}
    asked = defaults.merged(written, defaults.merged(inherited, defaults.BUILT_IN))
    main_container, grace_seconds = (
        (source.main_container, source.grace_seconds)
        if source is not None
        else of_template(written.get("template", {}))
    )
    return Spec(
        main_container=intern(asked.get("mainContainer", main_container)),
        grace=bounded(grace_seconds),
        definition=_ref(asked["definitionRef"]) if "definitionRef" in asked else None,
        dependencies=tuple(asked.get("dependencies", ())),
        requires=Requires(asked["requires"]),
        on_dependency_failure=OnDependencyFailure(asked["onDependencyFailure"]),
        release=asked["release"],
        queue=intern(asked["queueName"]),
        priority=asked["priority"],
        run_at=_maybe_time(asked.get("runAt")),
        start_delay=_maybe_seconds(asked.get("startDelaySeconds")),
        good_until=_maybe_time(asked.get("goodUntil")),
        good_for=_maybe_seconds(asked.get("goodForSeconds")),
        deadline=_maybe_time(asked.get("deadline")),
        deadline_after=_maybe_seconds(asked.get("deadlineSeconds")),
        schedule_timeout=_seconds(asked["scheduleTimeoutSeconds"]),
        start_timeout=_seconds(asked["startTimeoutSeconds"]),
        start_limit=asked["startLimit"],
        timeout=_maybe_seconds(asked.get("timeoutSeconds")),
        retry=_retry(asked["retry"]),
        unreachable_timeout=_maybe_seconds(asked.get("unreachableTimeoutSeconds")),
        idempotency_key=asked.get("idempotencyKey"),
        on_duplicate=OnDuplicate(asked["onDuplicate"]),
        suspend=asked["suspend"],
        cancel=asked["cancel"],
        rerun=asked["rerun"],
        on_shutdown=OnShutdown(asked["onShutdown"]),
        dead_letter=DeadLetterPolicy(asked["deadLetterPolicy"]),
        logs=LogPolicy(asked["logs"]),
        ttl=_seconds(asked["ttlSecondsAfterFinished"]),
    )


def queue(obj: Json) -> Queue:
    """What a TaskQueue asks for."""
    asked = obj["spec"]
    rate, fairness = asked.get("rateLimit"), asked.get("fairness", {})
    ageing = _seconds(asked["ageing"]["secondsPerPoint"])
    return Queue(
        max_concurrent=asked.get("maxConcurrent"),
        is_paused=asked["paused"],
        rate=Rate(rate["tasks"], _seconds(rate["perSeconds"])) if rate is not None else None,
        max_priority=asked.get("maxPriority"),
        ageing=ageing or None,
        share_label=fairness.get("labelKey"),
        weights={each["key"]: each["weight"] for each in fairness.get("weights", [])},
        max_per_share=fairness.get("maxConcurrentPerKey"),
    )


def versions(definition: Json) -> dict[str, Version]:
    """Every version that a definition has, by its name."""
    metadata, offered = definition["metadata"], definition["spec"]
    kind, retired = DefinitionKind(definition["kind"]), offered.get("retired", [])
    return {
        each["version"]: _version(each, kind, metadata["uid"], is_retired=each["version"] in retired)
        for each in offered["versions"]
    }


def _version(offered: Json, kind: DefinitionKind, uid: str, *, is_retired: bool) -> Version:
    main_container, grace_seconds = of_template(offered["template"])
    inherited = offered.get("defaults", {})
    said = json.dumps([offered["template"], _ordered(inherited)], sort_keys=True).encode()
    return Version(
        kind=kind,
        uid=uid,
        version=offered["version"],
        digest=hashlib.sha256(said).hexdigest()[:DIGEST_LENGTH],
        template=offered["template"],
        defaults=inherited,
        main_container=inherited.get("mainContainer", main_container),
        grace_seconds=grace_seconds,
        is_retired=is_retired,
    )


def _ordered(inherited: Json) -> Json:
    """The same with its sets in one order: the API server lets them change it, and it means nothing."""
    expected = inherited.get("retry", {}).get("expected", {})
    if not expected:
        return inherited
    retry = inherited["retry"] | {"expected": {name: sorted(each) for name, each in expected.items()}}
    return {**inherited, "retry": retry}


def of_template(template: Json) -> tuple[str, int]:
    """The first container of a template, and its grace period."""
    pod = template.get("spec", {})
    containers = pod.get("containers", [])
    grace = bounded(pod.get("terminationGracePeriodSeconds", manifest.GRACE_SECONDS))
    return str(containers[0]["name"]) if containers else "", int(grace.total_seconds())


def _retry(policy: Json) -> Retry:
    return Retry(
        limit=policy["limit"],
        backoff=Backoff(policy["backoff"]),
        delay=_maybe_seconds(policy.get("delaySeconds")),
        max_delay=_seconds(policy["maxDelaySeconds"]),
        intervals=tuple(_seconds(each) for each in policy.get("intervalsSeconds", [])),
        expected=_expected(policy["expected"]) if "expected" in policy else None,
        infrastructure_limit=policy["infrastructureLimit"],
    )


def _expected(failures: Json) -> Expected:
    return Expected(frozenset(failures.get("exitCodes", [])), frozenset(failures.get("errors", [])))


def _ref(ref: Json) -> DefinitionRef:
    return DefinitionRef(DefinitionKind(ref["kind"]), ref["name"], ref["version"])


def bounded(number: int) -> timedelta:
    """Seconds from a pod, where any number may stand: none, or a year at most."""
    return timedelta(seconds=min(max(number, 0), _A_YEAR))


_A_YEAR: Final = 365 * 24 * 60 * 60


def _seconds(number: int) -> timedelta:
    return timedelta(seconds=number)


def _maybe_seconds(number: int | None) -> timedelta | None:
    return timedelta(seconds=number) if number is not None else None


def _maybe_time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
