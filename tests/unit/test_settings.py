"""What an operator can be told, and what it says to nonsense."""

from datetime import timedelta

import pytest

from taskyard.loop import LOOKS_AROUND_FOR
from taskyard.settings import BadSetting, LogFormat, load


def test_by_default_it_serves_all_namespaces_under_a_name_of_its_own() -> None:
    first, second = load({}, {}), load({}, {})
    assert first.namespaces == ()
    assert (first.lease_namespace, first.lease_name, first.health_port) == ("default", "taskyard", 8080)
    assert first.identity != second.identity


def test_an_option_wins_over_the_environment() -> None:
    environment = {"TASKYARD_IDENTITY": "env", "TASKYARD_NAMESPACES": "a, b,", "TASKYARD_LOG_FORMAT": "JSON"}
    settings = load({"identity": "option", "namespaces": None}, environment)
    assert settings.identity == "option"
    assert settings.namespaces == ("a", "b")
    assert settings.log_format is LogFormat.JSON


def test_jobs_are_kept_for_ten_minutes_unless_told() -> None:
    assert load({}, {}).keep_jobs == timedelta(minutes=10)
    assert load({"keep_jobs_seconds": "60"}, {}).keep_jobs == timedelta(minutes=1)


def test_an_operator_that_is_told_to_end_looks_around_for_a_second_unless_told() -> None:
    assert load({}, {}).look_around == LOOKS_AROUND_FOR == timedelta(seconds=1)
    assert load({"look_around_seconds": "5"}, {}).look_around == timedelta(seconds=5)


def test_limits() -> None:
    assert (load({}, {}).max_concurrent, load({}, {}).namespace_weights) == (None, {})
    told = load({"max_concurrent": "7", "namespace_weights": "a=3, b=2,"}, {})
    assert (told.max_concurrent, told.namespace_weights) == (7, {"a": 3, "b": 2})


@pytest.mark.parametrize(("options", "seconds"), [({}, 300), ({"relist_seconds": "007"}, 7)])
def test_everything_is_listed_every_five_minutes_unless_told(
    options: dict[str, str | None], seconds: int
) -> None:
    assert load(options, {}).relist_seconds == seconds


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("TASKYARD_NAMESPACES", "a,B*", "--namespaces ($TASKYARD_NAMESPACES) must be a name"),
        ("TASKYARD_HEALTH_PORT", "http", "--health-port ($TASKYARD_HEALTH_PORT) must be a port number"),
        ("TASKYARD_HEALTH_PORT", "70000", "must be a port number"),
        *[
            ("TASKYARD_RELIST_SECONDS", value, "--relist-seconds ($TASKYARD_RELIST_SECONDS) must be a whole")
            for value in ("0", "-1", "1.5", "often", "1234567890")
        ],
        (
            "TASKYARD_MAX_CONCURRENT",
            "0",
            "--max-concurrent ($TASKYARD_MAX_CONCURRENT) must be a whole number",
        ),
        ("TASKYARD_NAMESPACE_WEIGHTS", "a", "must name namespaces with their weights"),
        ("TASKYARD_NAMESPACE_WEIGHTS", "a=0", "from 1 to 9999, as in a=3,b=2; it is 'a=0'"),
        ("TASKYARD_NAMESPACE_WEIGHTS", "A=1", "must be a name as Kubernetes has them"),
        ("TASKYARD_KEEP_JOBS_SECONDS", "59", "must be at least 60; it is '59'"),
        ("TASKYARD_LOG_FORMAT", "xml", "must be one of json, text; it is 'xml'"),
        ("TASKYARD_LOG_LEVEL", "loud", "must be one of debug, info, warning, error"),
        ("TASKYARD_IDENTITY", "x" * 254, "--identity ($TASKYARD_IDENTITY) must have at most 253 characters"),
        ("TASKYARD_LEASE_NAME", "a b", "--lease-name ($TASKYARD_LEASE_NAME) must be a name"),
    ],
)
def test_nonsense_is_named(variable: str, value: str, message: str) -> None:
    with pytest.raises(BadSetting) as raised:
        load({}, {variable: value})
    assert message in str(raised.value)
