"""The proxy of the fault tests, where there is nothing behind it: what is asked then is counted, too."""

from __future__ import annotations

import http.client
import threading
from contextlib import closing
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.faults.operator import free_port
from tests.faults.proxy import Proxy


class DiesInTheMiddle(BaseHTTPRequestHandler):
    """An API server that is killed while it tells of an event."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.write(b'e\r\n{"type": "ADD\r\n')
        self.wfile.flush()
        self.close_connection = True

    def log_message(self, *_: Any, **__: Any) -> None:
        pass


def proxy_to(port: int, folder: Path) -> Proxy:
    file = folder / "kubeconfig"
    cluster = {"name": "it", "cluster": {"server": f"http://127.0.0.1:{port}"}}
    context = {"name": "it", "context": {"cluster": "it", "user": "it"}}
    config = {"apiVersion": "v1", "kind": "Config", "current-context": "it", "clusters": [cluster]}
    file.write_text(yaml.safe_dump(config | {"contexts": [context], "users": [{"name": "it", "user": {}}]}))
    return Proxy(file, folder)


def connection_to(proxy: Proxy) -> http.client.HTTPConnection:
    [cluster] = yaml.safe_load(proxy.kubeconfig.read_text())["clusters"]
    return http.client.HTTPConnection(cluster["cluster"]["server"].removeprefix("http://"), timeout=10)


def test_whoever_finds_no_api_server_is_cut_off_and_counted(tmp_path: Path) -> None:
    with proxy_to(free_port(), tmp_path) as proxy:
        for path in ("/api/v1/pods", "/api/v1/pods?watch=true"):
            with closing(connection_to(proxy)) as connection:
                connection.request("GET", path)
                with pytest.raises((ConnectionError, http.client.HTTPException)):
                    connection.getresponse()
        assert (proxy.count("list", "pods"), proxy.count("watch", "pods")) == (1, 1)


def test_a_watch_ends_with_its_api_server(tmp_path: Path) -> None:
    server = HTTPServer(("127.0.0.1", 0), DiesInTheMiddle)
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    with server, proxy_to(server.server_port, tmp_path) as proxy, closing(connection_to(proxy)) as connection:
        connection.request("GET", "/api/v1/pods?watch=true")
        assert connection.getresponse().read() == b"", "half an event is none"
        thread.join()
