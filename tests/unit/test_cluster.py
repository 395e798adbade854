"""What the API server's answers ask of the caller."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration

from taskyard.cluster import (
    PODS,
    TASKS,
    AlreadyExists,
    ApiServer,
    ClusterError,
    Conflict,
    NotFound,
    Rejected,
    Unavailable,
    error,
)


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (401, "Unauthorized", Unavailable),
        (410, "Expired", Unavailable),
        (429, "TooManyRequests", Unavailable),
        (500, "InternalError", Unavailable),
        (503, "", Unavailable),
        (400, "BadRequest", Rejected),
        (403, "Forbidden", Rejected),
        (422, "Invalid", Rejected),
    ],
)
def test_answers_by_code(code: int, reason: str, kind: type[ClusterError]) -> None:
    found = error(code, {"reason": reason, "message": "what it says"}, {})
    assert type(found) is kind
    assert str(found) == "what it says"


@pytest.mark.parametrize(
    ("code", "reason", "malformed"),
    [
        pytest.param(422, "Invalid", True, id="invalid"),
        pytest.param(413, "RequestEntityTooLarge", True, id="too large for the API server"),
        pytest.param(400, "BadRequest", True, id="not even readable"),
        pytest.param(400, "", False, id="a webhook said no"),
        pytest.param(403, "Forbidden", False, id="quota or rights"),
    ],
)
def test_what_can_never_be_accepted_is_told_from_what_is_refused_today(
    code: int, reason: str, malformed: bool
) -> None:
    found = error(code, {"reason": reason}, {})
    assert isinstance(found, Rejected)
    assert found.malformed is malformed


def test_what_is_too_large_for_etcd_will_be_so_the_next_time() -> None:
    found = error(500, {"message": "etcdserver: request is too large"}, {})
    assert isinstance(found, Rejected)
    assert found.malformed


def test_a_webhook_that_does_not_answer_refuses() -> None:
    said = 'Internal error occurred: failed calling webhook "a.b.c": no endpoints available for service "x"'
    found = error(500, {"kind": "Status", "reason": "InternalError", "message": said}, {})
    assert isinstance(found, Rejected)
    assert not found.malformed, "it will answer one day"


@pytest.mark.parametrize(
    ("code", "body", "is_over"),
    [
        pytest.param(500, {"kind": "Status", "message": "it panicked"}, True, id="not done"),
        pytest.param(429, {"kind": "Status"}, True, id="not begun"),
        pytest.param(504, {"kind": "Status"}, False, id="the API server has not waited for its end"),
        pytest.param(503, {}, False, id="somebody in between does not know"),
    ],
)
def test_what_is_over_is_told_from_what_may_be_on_its_way(
    code: int, body: dict[str, str], is_over: bool
) -> None:
    found = error(code, body, {})
    assert isinstance(found, Unavailable)
    assert found.is_over is is_over


def test_the_server_says_when_to_come_back() -> None:
    found = error(429, {}, {"Retry-After": "7"})
    assert isinstance(found, Unavailable)
    assert found.after == 7


@asynccontextmanager
async def serving(answer: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> AsyncIterator[ApiServer]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0]
    configuration = Configuration()
    configuration.host = f"http://{host}:{port}"
    configuration.api_key["BearerToken"] = "Bearer secret"
    configuration.client_session_kwargs = {"trust_env": False}
    async with ApiClient(configuration) as client:
        yield ApiServer(client)
    await runner.cleanup()


async def test_a_status_patch_is_a_json_patch_with_credentials() -> None:
    seen: dict[str, Any] = {}

    async def answer(request: web.Request) -> web.Response:
        seen.update(
            path=request.path, method=request.method, body=await request.json(), headers=request.headers
        )
        return web.json_response({"metadata": {"name": "t"}})

    async with serving(answer) as server:
        patch = [{"op": "add", "path": "/status/state", "value": "Claimed"}]
        assert await server.patch_status(TASKS, "ns", "t", patch) == {"metadata": {"name": "t"}}
    assert (seen["method"], seen["path"]) == (
        "PATCH",
        "/apis/taskyard.dev/v1alpha1/namespaces/ns/tasks/t/status",
    )
    assert seen["body"] == patch
    assert seen["headers"]["Content-Type"] == "application/json-patch+json"
    assert seen["headers"]["Authorization"] == "Bearer secret"


async def test_a_patch_carries_the_uid_that_it_is_meant_for() -> None:
    seen: dict[str, Any] = {}

    async def answer(request: web.Request) -> web.Response:
        seen.update(body=await request.json(), headers=request.headers)
        return web.json_response({"metadata": {"name": "p"}})

    async with serving(answer) as server:
        await server.patch(PODS, "ns", "p", "uid-1", {"spec": {"x": 1}})
    assert seen["body"] == {"spec": {"x": 1}, "metadata": {"uid": "uid-1"}}
    assert seen["headers"]["Content-Type"] == "application/merge-patch+json"


async def test_a_patch_of_another_object_of_that_name_is_a_conflict() -> None:
    message = 'Pod "p" is invalid: metadata.uid: Invalid value: "u": field is immutable'

    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"reason": "Invalid", "message": message}, status=422)

    async with serving(answer) as server:
        with pytest.raises(Conflict):
            await server.patch(PODS, "ns", "p", "u", {})


@pytest.mark.parametrize(
    ("how", "options"),
    [
        pytest.param({}, {"preconditions": {"uid": "u"}}, id="this object"),
        pytest.param(
            {"version": 7}, {"preconditions": {"uid": "u", "resourceVersion": "7"}}, id="at this version"
        ),
        pytest.param(
            {"force": True},
            {"preconditions": {"uid": "u"}, "gracePeriodSeconds": 0},
            id="without its kubelet",
        ),
    ],
)
async def test_a_deletion_says_what_it_means(how: dict[str, Any], options: dict[str, Any]) -> None:
    seen: dict[str, Any] = {}

    async def answer(request: web.Request) -> web.Response:
        seen.update(body=await request.json())
        return web.json_response({"kind": "Status"})

    async with serving(answer) as server:
        await server.delete(PODS, "ns", "p", "u", **how)
    assert seen["body"] == options | {"propagationPolicy": "Background"}


async def test_a_long_list_comes_in_pages() -> None:
    async def answer(request: web.Request) -> web.Response:
        assert request.query["limit"] == "500"
        if "continue" not in request.query:
            return web.json_response(
                {"metadata": {"resourceVersion": "5", "continue": "a+b"}, "items": [{"n": 1}]}
            )
        assert request.query["continue"] == "a+b"
        return web.json_response({"metadata": {"resourceVersion": "5"}, "items": [{"n": 2}]})

    async with serving(answer) as server:
        pages = [page async for page in server.pages(TASKS, None)]
    assert [(page.items, page.resource_version) for page in pages] == [([{"n": 1}], 5), ([{"n": 2}], 5)]


@pytest.mark.parametrize(
    ("code", "kind"),
    [(404, NotFound), (502, Unavailable), (200, Unavailable)],
    ids=["no CRD", "a proxy", "garbage"],
)
async def test_an_answer_that_is_not_json(code: int, kind: type[ClusterError]) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=code, text="404 page not found")

    async with serving(answer) as server:
        with pytest.raises(kind):
            await server.get(TASKS, "ns", "t")


async def test_no_answer_is_unavailable() -> None:
    configuration = Configuration(host="http://127.0.0.1:1")
    async with ApiClient(configuration) as client:
        with pytest.raises(Unavailable):
            await ApiServer(client).get(TASKS, "ns", "t")
