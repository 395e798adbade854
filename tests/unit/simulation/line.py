"""The line between one operator and the API server: slow, cut, and full of refusals, if the dice say so."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from taskyard.cluster import (
    JOBS,
    PODS,
    TASKS,
    AlreadyExists,
    ClusterError,
    Conflict,
    Json,
    Kind,
    Page,
    Rejected,
    Unavailable,
)
from taskyard.core import parse
from tests.unit.fake import Object
from tests.unit.simulation.ground import Ground, Violation, name_of, uid_of
from tests.unit.simulation.strand import Strand, pause
from tests.unit.simulation.witness import Witness

T = TypeVar("T")

LISTED: Final = frozenset({"get", "list"})
REFUSALS: Final = (("no answer, not done", 0.0), ("too many requests", 1.0), ("too many requests", 7.0))


class Pages:
    """A list, page by page. Not a generator: those have to be closed, and an operator may die in the middle."""

    def __init__(self, read: Callable[[], Awaitable[list[Page]]]) -> None:
        self._read = read
        self._left: list[Page] | None = None

    def __aiter__(self) -> "Pages":
        return self

    async def __anext__(self) -> Page:
        if self._left is None:
            self._left = await self._read()
        if not self._left:
            raise StopAsyncIteration
        return self._left.pop(0)


class Line:
    """The verbs of a cluster, for one operator. Somebody else may move before each call and after it."""

    def __init__(self, ground: Ground, witness: Witness, name: str) -> None:
        self._ground = ground
        self._witness = witness
        self._name = name
        self.answers: dict[str, Object] = {}
        """Every Task as this operator was last told it, in answer to a call."""
        self.began: dict[str, Any] = {}
        """When it began to think about a Task."""
        self.refused: set[str] = set()
        """The names of the Jobs that it asked for, and was refused."""
        self.claims: dict[str, int] = {}
        """The attempts that it claimed, and knows it, by the uid of the Task."""
        self.may_claim: Callable[[str], bool] = lambda uid: True

    def pages(
        self,
        kind: Kind,
        namespace: str | None,
        labels: str | None = None,
        fields: str | None = None,
        *,
        only_metadata: bool = False,
    ) -> AsyncIterator[Page]:
        async def read() -> list[Page]:
            found = self._ground.cluster.pages(kind, namespace, labels, fields, only_metadata=only_metadata)
            return [page async for page in found]

        return Pages(lambda: self._call("list", kind, labels or "", read))

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Object:
        return await self._call("get", kind, name, lambda: self._ground.cluster.get(kind, namespace, name))

    async def create(self, kind: Kind, namespace: str, obj: Json) -> Object:
        owner: str = obj["metadata"]["ownerReferences"][0]["uid"] if kind == JOBS else ""
        name: str = obj["metadata"]["name"]
        if kind == JOBS:
            self._witness.job_is_created(dict(obj), self.answers.get(owner), self.began[owner])

        async def make() -> Object:
            if kind == JOBS:
                self._refuse_sometimes(owner, name)
            made = await self._ground.cluster.create(kind, namespace, obj)
            if kind == JOBS:
                self._witness.job_was_created(self._name, made)
            return made

        try:
            return await self._call("create", kind, name, make)
        except (Rejected, AlreadyExists):
            self.refused.add(name)
            raise

    async def replace(self, kind: Kind, namespace: str, name: str, obj: Json) -> Object:
        raise AssertionError("the loop replaces nothing")

    async def patch(self, kind: Kind, namespace: str, name: str, uid: str, patch: Json) -> Object:
        return await self._call(
            "patch", kind, name, lambda: self._ground.cluster.patch(kind, namespace, name, uid, patch)
        )

    async def patch_status(self, kind: Kind, namespace: str, name: str, operations: Sequence[Json]) -> Object:
        claimable = {uid_of(obj): self.may_claim(uid_of(obj)) for obj in self._ground.tasks()}
        has_claimed = False

        async def write() -> Object:
            nonlocal has_claimed
            cluster = self._ground.cluster
            before = next((obj for obj in cluster.peek(kind) if obj["metadata"]["name"] == name), None)
            after = await cluster.patch_status(kind, namespace, name, operations)
            assert before is not None
            self._witness.status_was_written(self._name, before, after)
            has_claimed = is_claim(before, after)
            if has_claimed and not claimable[uid_of(after)]:
                raise Violation(f"{self._name} was told to end, and claims {name}")
            return after

        answer = await self._call("patch_status", kind, name, write)
        if has_claimed:
            self.claims[uid_of(answer)] = answer["status"]["attempt"]
        return answer

    async def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        uid: str,
        *,
        version: int | None = None,
        force: bool = False,
    ) -> Object:
        async def remove() -> Object:
            found = self._ground.find(TASKS, uid)
            if found is not None and version == parse.version(found):
                self._witness.task_is_deleted(found)
            if (job := self._ground.find(JOBS, uid)) is not None:
                self._witness.job_is_deleted(job)
            return await self._ground.cluster.delete(kind, namespace, name, uid, version=version, force=force)

        return await self._call("delete", kind, name, remove)

    async def read_log(self, namespace: str, pod: str, container: str) -> str:
        if self._ground.unlucky(0.1):
            raise TimeoutError
        return await self._call(
            "get", PODS, f"{pod}/log", lambda: self._ground.cluster.read_log(namespace, pod, container)
        )

    async def _call(self, verb: str, kind: Kind, name: str, do: Callable[[], Awaitable[T]]) -> T:
        what = f"{verb} {kind.plural} {name}"
        await pause()
        if self._ground.unlucky(0.012):
            self._fail(what, *self._ground.dice.choice(REFUSALS), is_over=True)
        if verb not in LISTED and self._ground.unlucky(0.003):
            self._deny(what)
        if verb not in LISTED and self._ground.unlucky(0.01):
            self._ground.late_effects.append((self._ground.now, lambda: self._arrive(what, do)))
            self._fail(what, "no answer, still on its way")
        try:
            answer = await do()
        except ClusterError as exc:
            self._ground.happened[type(exc).__name__] += 1
            self._ground.say(self._name, f"{what}: {type(exc).__name__}")
            raise
        if verb not in LISTED:
            self._ground.happened[f"{verb} {kind.plural}"] += 1
            self._ground.say(self._name, what)
        await pause()
        if self._ground.unlucky(0.01):
            self._fail(what, "done, but the answer is lost")
        if kind == TASKS and isinstance(answer, dict) and "spec" in answer:
            known = self.answers.setdefault(uid_of(answer), answer)
            if parse.version(answer) > parse.version(known):  # answers overtake each other
                self.answers[uid_of(answer)] = answer
        return answer

    def _arrive(self, what: str, do: Callable[[], Awaitable[object]]) -> None:
        """A write that its sender does not wait for any more."""
        self._ground.say(self._name, f"{what}: arrives late")
        strand = Strand(what, _forgiving(do))
        while not strand.is_over:
            strand.move()

    def _refuse_sometimes(self, owner: str, name: str) -> None:
        if owner in self._ground.malformed:
            raise Rejected("spec.template: Invalid", malformed=True)
        is_taken = any(name_of(job) == name for job in self._ground.jobs())
        if not is_taken and self._ground.unlucky(0.06):
            raise Rejected("exceeded quota", malformed=False)

    def _fail(self, what: str, how: str, after: float = 0.0, is_over: bool = False) -> None:
        self._ground.happened[how] += 1
        self._ground.say(self._name, f"{what}: {how}")
        raise Unavailable(how, after=after, is_over=is_over)

    def _deny(self, what: str) -> None:
        """Rights that are missing for a moment, or a conflict that nobody else sees."""
        answer = self._ground.dice.choice((Rejected("forbidden", malformed=False), Conflict("try again")))
        self._ground.happened[f"a chance {type(answer).__name__}"] += 1
        self._ground.say(self._name, f"{what}: {answer}")
        raise answer


def is_claim(before: Object, after: Object) -> bool:
    return int(after["status"].get("attempt", 0)) > int(before["status"].get("attempt", 0))


async def _forgiving(do: Callable[[], Awaitable[object]]) -> None:
    with suppress(ClusterError):
        await do()
