"""Logs are events with fields: a message that never varies, and what varies beside it.

logger.info("claimed", extra={"task": "hello", "attempt": 1})
"""

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from taskyard.settings import LogFormat

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure(log_format: LogFormat, level: str) -> None:
    """Everything to stderr, one line a record; libraries only when something is wrong."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log_format is LogFormat.JSON else TextFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    for library in ("kopf", "aiohttp", "asyncio", "kubernetes"):
        logging.getLogger(library).setLevel(max(logging.WARNING, logging.getLevelName(level.upper())))


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    # kopf hangs objects of its own on records; a field is something that prints.
    return {
        key: value
        for key, value in vars(record).items()
        if key not in _STANDARD and isinstance(value, str | int | float | bool)
    }


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        event: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            event["exception"] = self.formatException(record.exc_info)
        return json.dumps(event, default=str)


class TextFormatter(logging.Formatter):
    """Readable in a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S.%f")[:-3]
        fields = " ".join(f"{key}={value}" for key, value in _fields(record).items())
        line = f"{moment} {record.levelname.lower():7} {record.getMessage()}  {fields}".rstrip()
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line
