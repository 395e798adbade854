"""The result contract: what a task writes to `TASKYARD_RESULT_PATH`, the file of its termination message.

`{"ok": …}` or any other JSON is the result; `{"error": {"code", "message", "traceback", "retryable"}}` is an
error, whatever the exit code; what is not JSON is kept as text. Any bytes of any length may be there: nothing
is believed, and what had to be changed is marked.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Never

from taskyard.core import text
from taskyard.core.model import Error, Value
from taskyard.core.words import CODE_LIMIT, ErrorCode, Flaw

CONTAINER_LIMIT: Final = 4096
"""Bytes that the kubelet keeps of a container's message: the last ones of its file."""

POD_LIMIT: Final = 12 * 1024
"""Bytes that the kubelet keeps of the messages of all containers of a pod, in equal parts."""

DEEPEST: Final = 64
"""Levels of lists and objects; deeper JSON is kept as text, because not every reader survives it."""

LARGEST_INTEGER: Final = 2**63 - 1
"""What the API server keeps exactly; with larger numbers in it, JSON is kept as text."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a task said at its end: a value, an error, or neither."""

    ok: Value | None = None
    error: Error | None = None
    retryable: bool | None = None
    flaws: tuple[Flaw, ...] = ()


NOTHING_SAID: Final = Report()


def read(message: str | None, containers: int = 1, *, may_be_log: bool = False) -> Report:
    """What a container's termination message says; `containers` of its pod share the room.

    After a crash it may be the end of a log, where many an object has an `error`: one that has nothing else is meant.
    """
    if message is None or not message.strip():
        return NOTHING_SAID
    flaws = _flaws(message, min(CONTAINER_LIMIT, POD_LIMIT // max(containers, 1)))
    try:
        value = _json(message)
    except (ValueError, RecursionError):
        kept = tuple(flaw for flaw in Flaw if flaw in {*flaws, Flaw.NOT_JSON})
        return Report(ok=Value(text.cut(message)), flaws=kept)
    # A tail that happens to be JSON is not what the task wrote, but an object that begins with its brace is.
    flaws -= {Flaw.TRUNCATED} if isinstance(value, dict) else set()
    cleaned = text.printable_json(value)
    if cleaned != value:
        flaws |= {Flaw.CONTROL_CHARACTERS}
    marks = tuple(flaw for flaw in Flaw if flaw in flaws)
    match cleaned:
        case {"error": {} as reported} if len(cleaned) == 1 or not may_be_log:
            return Report(error=_error(reported), retryable=_retryable(reported), flaws=marks)
        case {"ok": ok} if len(cleaned) == 1:
            return Report(ok=Value(ok), flaws=marks)
        case _:
            return Report(ok=Value(cleaned), flaws=marks)


def _error(reported: Mapping[str, Any]) -> Error:
    code, message, traceback = (_string(reported.get(key)) for key in ("code", "message", "traceback"))
    return Error(
        code=text.cut(code or ErrorCode.UNHANDLED_ERROR, CODE_LIMIT),
        message=text.cut(message or "the task reported an error without a message"),
        traceback=text.cut(traceback) if traceback else None,
        is_reported=True,
    )


def _retryable(reported: Mapping[str, Any]) -> bool | None:
    word = reported.get("retryable")
    return word if isinstance(word, bool) else None


def _string(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def _json(message: str) -> Any:
    value = json.loads(message, parse_constant=_refuse, parse_int=_integer, parse_float=_float)
    _measure(value, DEEPEST)
    return value


def _refuse(word: str) -> Never:
    raise ValueError(f"{word} is not JSON")


def _integer(digits: str) -> int:
    number = int(digits)
    if abs(number) > LARGEST_INTEGER:
        _refuse(digits)
    return number


def _float(digits: str) -> float:
    number = float(digits)
    if number in {float("inf"), float("-inf")}:
        _refuse(digits)
    return number


def _measure(value: Any, levels: int) -> None:
    if levels == 0:
        raise ValueError("too deep")
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _measure(each, levels - 1)


def _flaws(message: str, limit: int) -> set[Flaw]:
    flaws = set()
    if text.printable(message) != message:
        flaws.add(Flaw.CONTROL_CHARACTERS)
    if "\N{REPLACEMENT CHARACTER}" in message:
        flaws.add(Flaw.INVALID_UTF8)
    # Each byte that was not UTF-8 has become a character of three: the length that it had lies in between.
    longest = len(message.encode("utf-8", "replace"))
    shortest = longest - 2 * message.count("\N{REPLACEMENT CHARACTER}")
    if shortest <= limit <= longest:
        flaws.add(Flaw.TRUNCATED)
    return flaws
