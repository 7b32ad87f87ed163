"""A small Hugging Face hub on loopback that serves one data set."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit


class Hub(ThreadingHTTPServer):
    """Serves `files` as the data set `name` at one commit; everything else is 404.

    `refuse` answers every request with that status. `requests` collects what was asked, as
    `METHOD path`.
    """

    daemon_threads = True

    def __init__(self, name: str, files: dict[str, bytes], *, refuse: int | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.name, self.files, self.refuse = name, files, refuse
        digest = hashlib.sha1(usedforsecurity=False)
        for path, content in sorted(files.items()):
            digest.update(path.encode() + content)
        self.commit = digest.hexdigest()
        self.requests: list[str] = []

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: clients that hang up are part of the tests."""


@contextmanager
def serve(hub: Hub) -> Iterator[Hub]:
    """Answer requests in a thread; on leaving, the port is closed."""
    thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    do_HEAD = do_POST = do_GET

    def _answer(self) -> None:
        hub, path = self.server, unquote(urlsplit(self.path).path)
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        hub.requests.append(f"{self.command} {path}")
        api, resolve = f"/api/datasets/{hub.name}", f"/datasets/{hub.name}/resolve/"
        if hub.refuse is not None:
            self._send(b"{}", status=hub.refuse)
        elif path in (api, f"{api}/revision/main", f"{api}/revision/{hub.commit}"):
            siblings = [{"rfilename": name} for name in hub.files]
            self._json({"id": hub.name, "sha": hub.commit, "siblings": siblings, "tags": []})
        elif path.startswith(f"{api}/tree/"):
            self._json([
                {"type": "file", "path": name, "oid": _etag(content), "size": len(content)}
                for name, content in hub.files.items()
            ])  # fmt: skip
        elif path.startswith(resolve):
            self._file(path.removeprefix(resolve).partition("/")[2])
        else:
            self._send(b"{}", status=404, headers={"X-Error-Code": "RepoNotFound"})

    def _file(self, name: str) -> None:
        headers = {"X-Repo-Commit": self.server.commit}
        content = self.server.files.get(name)
        if content is None:
            self._send(b"", status=404, headers=headers | {"X-Error-Code": "EntryNotFound"})
        else:
            self._send(content, headers=headers | {"ETag": f'"{_etag(content)}"'})

    def _json(self, value: object) -> None:
        self._send(json.dumps(value).encode(), headers={"Content-Type": "application/json"})

    def _send(
        self, body: bytes, *, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _etag(content: bytes) -> str:
    return hashlib.sha1(content, usedforsecurity=False).hexdigest()
