"""What one waits for, by the rules of `kubectl wait`."""

from __future__ import annotations

import json
import re
from typing import Any

JSON = dict[str, Any]


def at(found: Any, path: str) -> Any:
    """What is at a path like `.status.waiting[0].reason`; None where nothing is."""
    assert re.fullmatch(r"(\.\w+|\[\d+\])+", path), f"not a path that is understood here: {path}"
    for name, index in re.findall(r"\.(\w+)|\[(\d+)\]", path):
        if name:
            found = found.get(name) if isinstance(found, dict) else None
        else:
            found = found[int(index)] if isinstance(found, list) and int(index) < len(found) else None
    return found


def has_value(found: JSON, path: str, value: str) -> bool:
    """Whether that is there; numbers and truth are compared as they are written."""
    there = at(found, path)
    return bool(value == (there if isinstance(there, str) else json.dumps(there)))


def has_condition(found: JSON, wanted: str) -> bool:
    """`Finished`, or `Succeeded=false`; and no condition counts that is older than the last edit."""
    name, _, value = wanted.partition("=")
    status = found.get("status", {})
    for condition in status.get("conditions", []):
        if condition["type"] == name:
            seen = condition.get("observedGeneration", status.get("observedGeneration"))
            is_current = seen is None or seen >= found["metadata"].get("generation", 0)
            return bool(is_current and condition["status"].lower() == (value or "true").lower())
    return False
