"""What an operator can be told: by options of `taskyard run`, else by the environment, else by default."""

import argparse
import re
import socket
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from taskyard.cluster import LONGEST_REQUEST
from taskyard.failpoint import POINTS


class LogFormat(StrEnum):
    JSON = "json"
    TEXT = "text"


LONGEST_IDENTITY: Final = 253
LEVELS: Final = ("debug", "info", "warning", "error")


class BadSetting(ValueError):  # noqa: N818 - named for what it tells the user
    """A setting that makes no sense; the message names it and says what must hold."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How this operator runs."""

    namespaces: tuple[str, ...]
    """Where Tasks are served; none named: in all."""
    lease_namespace: str
    lease_name: str
    identity: str
    """Who claims and leads; unique among running operators. One that survives a restart keeps its lease."""
    log_format: LogFormat
    log_level: str
    continue_limit: timedelta
    """How long a run with `onShutdown: Continue` may keep its node from being drained."""
    keep_jobs: timedelta
    """How long the Jobs of a task stay after its verdict, with their pods."""
    look_around: timedelta
    """How long one that is told to end waits for pods of its runs to be told, too."""
    max_concurrent: int | None
    """How many tasks may be at work at once, in all namespaces together; None: any number."""
    namespace_weights: Mapping[str, int]
    """How the namespaces share that; one that is not named has a weight of 1."""
    failpoint: str | None
    """Where to die, for tests; None: nowhere."""
    relist_seconds: int
    """How often everything is listed, to repair what the watches have missed."""
    health_port: int
    """Of `/healthz`, on all addresses; 0: not served."""


@dataclass(frozen=True, slots=True)
class _Option:
    flag: str
    variable: str
    help: str


_OPTIONS: Final = {
    "namespaces": _Option("--namespaces", "TASKYARD_NAMESPACES", "serve these (a,b,c) instead of all"),
    "lease_namespace": _Option(
        "--lease-namespace", "TASKYARD_LEASE_NAMESPACE", "where the Lease lives [default]"
    ),
    "lease_name": _Option("--lease-name", "TASKYARD_LEASE_NAME", "the name of the Lease [taskyard]"),
    "identity": _Option(
        "--identity", "TASKYARD_IDENTITY", "who claims and leads [host name and a random part]"
    ),
    "log_format": _Option("--log-format", "TASKYARD_LOG_FORMAT", "json or text [text in a terminal]"),
    "log_level": _Option("--log-level", "TASKYARD_LOG_LEVEL", f"one of {', '.join(LEVELS)} [info]"),
    "continue_seconds": _Option(
        "--continue-seconds",
        "TASKYARD_CONTINUE_SECONDS",
        "how long `onShutdown: Continue` may hold up a drain [86400]",
    ),
    "keep_jobs_seconds": _Option(
        "--keep-jobs-seconds",
        "TASKYARD_KEEP_JOBS_SECONDS",
        "how long the Jobs of a task stay after its verdict, with their pods [600]",
    ),
    "look_around_seconds": _Option(
        "--look-around-seconds",
        "TASKYARD_LOOK_AROUND_SECONDS",
        "how long one that is told to end waits for pods of its runs to be told, too [1]",
    ),
    "max_concurrent": _Option(
        "--max-concurrent",
        "TASKYARD_MAX_CONCURRENT",
        "how many tasks may be at work at once, in all [no limit]",
    ),
    "namespace_weights": _Option(
        "--namespace-weights",
        "TASKYARD_NAMESPACE_WEIGHTS",
        "how namespaces share --max-concurrent (a=3,b=2); of any other: 1",
    ),
    "failpoint": _Option(
        "--failpoint", "TASKYARD_FAILPOINT", "die before or after a write, for tests [none]"
    ),
    "relist_seconds": _Option(
        "--relist-seconds", "TASKYARD_RELIST_SECONDS", "how often everything is listed anew [300]"
    ),
    "health_port": _Option("--health-port", "TASKYARD_HEALTH_PORT", "of /healthz; 0: none [8080]"),
}


def add_options(parser: argparse.ArgumentParser) -> None:
    for name, option in _OPTIONS.items():
        parser.add_argument(option.flag, dest=name, help=f"{option.help} (${option.variable})")


def load(options: Mapping[str, str | None], environ: Mapping[str, str]) -> Settings:
    """Settings from parsed options and the environment. An empty value is no value."""

    def text(name: str, default: str) -> str:
        return options.get(name) or environ.get(_OPTIONS[name].variable) or default

    return Settings(
        namespaces=tuple(
            _name("namespaces", each) for each in text("namespaces", "").split(",") if each.strip()
        ),
        lease_namespace=_name("lease_namespace", text("lease_namespace", "default")),
        lease_name=_name("lease_name", text("lease_name", "taskyard")),
        identity=_identity(text("identity", "") or f"{socket.gethostname()}_{uuid.uuid4().hex[:8]}"),
        log_format=LogFormat(
            _one_of("log_format", text("log_format", _format_for_here()), [str(each) for each in LogFormat])
        ),
        log_level=_one_of("log_level", text("log_level", "info"), LEVELS),
        continue_limit=_seconds("continue_seconds", text("continue_seconds", "86400")),
        keep_jobs=_kept_for("keep_jobs_seconds", text("keep_jobs_seconds", "600")),
        look_around=_seconds("look_around_seconds", text("look_around_seconds", "1")),
        max_concurrent=_maybe_positive("max_concurrent", text("max_concurrent", "")),
        namespace_weights=_weights("namespace_weights", text("namespace_weights", "")),
        failpoint=_point("failpoint", text("failpoint", "")),
        relist_seconds=_positive("relist_seconds", text("relist_seconds", "300")),
        health_port=_port("health_port", text("health_port", "8080")),
    )


def _format_for_here() -> str:
    return LogFormat.TEXT if sys.stderr.isatty() else LogFormat.JSON


def _name(setting: str, value: str) -> str:
    value = value.strip()
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", value):
        raise _bad(setting, value, "must be a name as Kubernetes has them: a-z, 0-9 and -, at most 63")
    return value


def _identity(value: str) -> str:
    if len(value) > LONGEST_IDENTITY:  # or no claim could be written
        raise _bad("identity", value, f"must have at most {LONGEST_IDENTITY} characters")
    return value


def _one_of(setting: str, value: str, choices: Sequence[str]) -> str:
    if value.lower() not in choices:
        raise _bad(setting, value, f"must be one of {', '.join(choices)}")
    return value.lower()


def _seconds(setting: str, value: str) -> timedelta:
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise _bad(setting, value, "must be a whole number of seconds, of nine digits at most")
    return timedelta(seconds=int(value))


def _kept_for(setting: str, value: str) -> timedelta:
    """A Job holds its name against a create of it that is still on its way."""
    kept_for = _seconds(setting, value)
    if kept_for < LONGEST_REQUEST:
        raise _bad(setting, value, f"must be at least {LONGEST_REQUEST.total_seconds():.0f}")
    return kept_for


def _point(setting: str, value: str) -> str | None:
    if value and value not in POINTS:
        raise _bad(setting, value, f"must be one of {', '.join(sorted(POINTS))}")
    return value or None


def _positive(setting: str, value: str) -> int:
    if not re.fullmatch(r"0*[1-9][0-9]{0,8}", value):
        raise _bad(setting, value, "must be a whole number of at least 1, of nine digits at most")
    return int(value)


def _maybe_positive(setting: str, value: str) -> int | None:
    return _positive(setting, value) if value else None


def _weights(setting: str, value: str) -> dict[str, int]:
    weights = {}
    for each in value.split(","):
        if not each.strip():
            continue
        name, _, weight = each.partition("=")
        if not re.fullmatch(r"[1-9][0-9]{0,3}", weight.strip()):
            raise _bad(
                setting, each, "must name namespaces with their weights, from 1 to 9999, as in a=3,b=2"
            )
        weights[_name(setting, name)] = int(weight)
    return weights


def _port(setting: str, value: str) -> int:
    if not (value.isascii() and value.isdigit() and int(value) < 65536):
        raise _bad(setting, value, "must be a port number, or 0 for none")
    return int(value)


def _bad(setting: str, value: str, rule: str) -> BadSetting:
    option = _OPTIONS[setting]
    return BadSetting(f"{option.flag} (${option.variable}) {rule}; it is {value!r}")
