"""Whose turn it is to be thought about: keys that somebody has marked, each handed to one worker at a time.

A key is the uid of a Task. Namespaces take turns, so that whatever happens to thousands of Tasks in one of them holds
up nobody in another. And what only has to be told anew, as the words of all who wait in a queue that was edited, comes
after what has happened: it gets one turn of a few.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final

NEWS_BEFORE_WORDS: Final = 8
"""So much news goes before what is only to be told anew, and then one of that."""


class _Rounds:
    """Keys in line, by the namespaces that take turns."""

    def __init__(self) -> None:
        self._of = OrderedDict[str, deque[str]]()

    def push(self, namespace: str, uid: str) -> None:
        self._of.setdefault(namespace, deque()).append(uid)

    def pop(self) -> str | None:
        """The one that waits longest in the namespace whose turn it is."""
        if not self._of:
            return None
        namespace, uids = self._of.popitem(last=False)
        uid = uids.popleft()
        if uids:
            self._of[namespace] = uids
        return uid


class Dirty:
    """Keys to think about. A key is handed to one worker at a time, and again if it was marked meanwhile."""

    def __init__(self, namespace_of: Callable[[str], str] = lambda uid: "") -> None:
        self._namespace_of = namespace_of
        self._news, self._words = _Rounds(), _Rounds()
        self._since_words = 0
        self._marked: dict[str, bool] = {}
        """And whether there is news of it."""
        self._taken: set[str] = set()
        self._arrived = asyncio.Event()

    def mark(self, uid: str) -> None:
        """There is news of it."""
        self._note(uid, is_news=True)

    def mark_at_leisure(self, uid: str) -> None:
        """Nothing has happened to it, and what it says of itself may be out of date."""
        self._note(uid, is_news=False)

    async def take(self) -> str:
        """The key whose turn it is; whoever takes it owes a `done`."""
        while (uid := self._next()) is None:
            self._arrived.clear()
            await self._arrived.wait()
        del self._marked[uid]
        self._taken.add(uid)
        return uid

    def take_again(self, uid: str) -> bool:
        """Whether it was marked since it was taken. Whoever has it in hand goes on with it, and owes one `done`."""
        return self._marked.pop(uid, None) is not None

    def done(self, uid: str) -> None:
        self._taken.discard(uid)
        if uid in self._marked:
            self._push(uid)

    @property
    def is_idle(self) -> bool:
        """Whether nobody has anything to think about."""
        return not (self._marked or self._taken)

    def _note(self, uid: str, *, is_news: bool) -> None:
        before = self._marked.get(uid)
        if before is None or is_news > before:
            self._marked[uid] = is_news
            if uid not in self._taken:
                self._push(uid)

    def _push(self, uid: str) -> None:
        rounds = self._news if self._marked[uid] else self._words
        rounds.push(self._namespace_of(uid), uid)
        self._arrived.set()

    def _next(self) -> str | None:
        """Whoever moved up from words to news stands in both lines, and counts once."""
        while True:
            is_turn_of_words = self._since_words >= NEWS_BEFORE_WORDS
            first, second = (self._words, self._news) if is_turn_of_words else (self._news, self._words)
            if (uid := first.pop()) is None:
                first, uid = second, second.pop()
            if uid is None:
                return None
            self._since_words = 0 if first is self._words else self._since_words + 1
            if uid in self._marked and uid not in self._taken:
                return uid
