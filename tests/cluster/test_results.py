"""What goes into a task and what comes out of it, byte for byte, with real kubelets in between."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from tests.kube import JSON, Kubectl, of_run, report, task

RESULT = '> "$TASKYARD_RESULT_PATH"'

# What a script leaves → the state, and `status.result`.
REPORTS: dict[str, tuple[str, str, JSON | None]] = {
    "nothing": ("true", "Completed", None),
    "ok": (report('{"ok": [1, "two", null, {"three": 3.5}]}'), "Completed", {"ok": [1, "two", None, {"three": 3.5}]}),
    "other-json": (report('{"answer": 42, "ok": 1}'), "Completed", {"ok": {"answer": 42, "ok": 1}}),
    "null": (report("null"), "Completed", {"ok": None}),
    "ok-null": (report('{"ok": null}'), "Completed", {"ok": None}),
    "error": (
        report('{"error": {"message": "no luck"}}'),
        "Failed",
        {"error": {"code": "UnhandledError", "message": "no luck"}},
    ),
    "text": (report("all done"), "Completed", {"ok": "all done", "flaws": ["NotJson"]}),
    "long": (
        f"(printf A; head -c 4999 /dev/zero | tr '\\\\0' B) {RESULT}",
        "Completed",
        {"ok": "B" * 4096, "flaws": ["NotJson", "Truncated"]},
    ),
    "not-utf8": (
        f"printf 'caf\\\\351!' {RESULT}",
        "Completed",
        {"ok": "caf\N{REPLACEMENT CHARACTER}!", "flaws": ["NotJson", "InvalidUtf8"]},
    ),
    "nul": (
        f"printf 'a\\\\000b' {RESULT}",
        "Completed",
        {"ok": "a\N{REPLACEMENT CHARACTER}b", "flaws": ["NotJson", "ControlCharacters"]},
    ),
    "escapes": (
        f"printf '\\\\033[31mred' {RESULT}",
        "Completed",
        {"ok": "\N{REPLACEMENT CHARACTER}[31mred", "flaws": ["NotJson", "ControlCharacters"]},
    ),
    "escapes-in-json": (
        report('{"ok": "\\u001b[2J", "café": 1}'),
        "Completed",
        {"ok": {"ok": "\N{REPLACEMENT CHARACTER}[2J", "café": 1}, "flaws": ["ControlCharacters"]},
    ),
}  # fmt: skip


def test_whatever_a_task_leaves_is_its_result(kubectl: Kubectl) -> None:
    kubectl.create(*(task(name, script.replace("\\\\", "\\")) for name, (script, _, _) in REPORTS.items()))
    found = kubectl.finished()
    assert {name: (status["state"], status.get("result")) for name, status in found.items()} == {
        name: (state, result) for name, (_, state, result) in REPORTS.items()
    }
    assert {run for status in found.values() for run in of_run(status, "exitCode")} == {(0,)}


def test_a_failure_without_words_of_its_own_has_the_last_lines_of_its_log(kubectl: Kubectl) -> None:
    lines = "for line in $(seq 200); do echo line $line of many; done"
    kubectl.create(
        task("logs", f"{lines}; exit 1"),
        task("words", f"{lines}; {report('told by itself')}; exit 1"),
    )
    found = kubectl.finished()
    begin = "the container `main` exited with code 1: "
    assert found["logs"]["message"].startswith(begin)
    assert found["logs"]["message"].endswith("line 199 of many\nline 200 of many")
    assert "line 1 of many" not in found["logs"]["message"], "the last ones only"
    assert found["words"]["message"] == f"{begin}told by itself"


def test_the_input_arrives_byte_for_byte(kubectl: Kubectl) -> None:
    inputs: dict[str, Any] = {
        "special": {
            "$": ["$", "$$", "$(HOME)", "$$(HOME)", "${HOME}", "$(TASKYARD_UID)", "`id`", "%s\\n"],
            "quotes": "'\"\\\n\t\r<&>",
            "unicode": "Grüße, 世界 🎉 \N{LINE SEPARATOR}",
            "numbers": [0, -1, 1.5, 2**53 - 1],
            "words": [None, True, False, {}, [], ""],
        },
        "large": "$x" * (45 * 1024),
        "null": None,
    }
    hashed = f"printf %s \"$TASKYARD_INPUT\" | sha256sum | cut -c 1-64 | tr -d '\\n' {RESULT}"
    kubectl.create(
        *(task(name, hashed, input=value) for name, value in inputs.items()),
        task("none", report("${TASKYARD_INPUT-unset}").replace("'", '"')),
        task("too-large", "exit 0", input="x" * (100 * 1024 - 1), retry={"limit": 3}),
    )
    found = kubectl.finished()
    results = {name: found[name].get("result", {}).get("ok") for name in inputs}
    assert results == {name: sha256(value) for name, value in inputs.items()}
    assert found["none"]["result"]["ok"] == "unset"
    refused = found["too-large"]
    assert (refused["state"], refused["reason"]) == ("Exception", "MalformedPayload")
    assert refused["message"] == "`input` must have at most 102400 bytes as JSON; it has 102401"
    assert (refused["runCount"], refused["retryCount"]) == (0, 0)


def sha256(value: Any) -> str:
    """Of the input as a task gets it: JSON in one line, keys in order, nothing escaped that need not be."""
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(written.encode()).hexdigest()
