"""Words from outside, made fit to be kept in a status and shown in a terminal."""

from typing import Any, Final

from taskyard.core.words import MESSAGE_LIMIT

_CONTROLS: Final = dict.fromkeys(
    (
        *(code for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"),
        # What reorders or hides the text around it, and halves of characters that no encoding takes.
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
        *range(0xD800, 0xE000),
    ),
    "\N{REPLACEMENT CHARACTER}",
)


def printable(text: str) -> str:
    """The same text without what would upset a terminal: escapes, NUL, and what turns writing around."""
    return text.translate(_CONTROLS)


def printable_json(value: Any) -> Any:
    """The same JSON value, with every string in it printable."""
    match value:
        case str():
            return printable(value)
        case list():
            return [printable_json(each) for each in value]
        case dict():
            return {printable(key): printable_json(each) for key, each in value.items()}
        case _:
            return value


def joined(text: str, suffix: str) -> str:
    """Both, within what the status takes; it is the text that gives way."""
    return cut(text, MESSAGE_LIMIT - len(suffix)) + suffix


def cut(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """As much of a text as the status takes, printable. Doing it twice changes nothing."""
    text = printable(text)
    return text if len(text) <= limit else text[: limit - 1] + "…"
