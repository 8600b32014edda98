"""A stand-in for the Hugging Face Hub, on this machine."""

import hashlib
import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

COMMITS = {"main": "a" * 40, "v1": "b" * 40}


@contextmanager
def hub_of(repositories, requests):
    """Serve directories by the names of models; yield the address.

    Args:
        repositories: dict. A path; or dict of paths by revision; or the status and the
            `X-Error-Code` of any answer.
        requests: list. Receives the method and the path of each request.
    """

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_HEAD(self):
            self._answer(False)

        def do_GET(self):
            self._answer(True)

        def _answer(self, has_body):
            path = self.path.partition("?")[0].strip("/")
            requests.append((self.command, path))
            status, headers, body = _find(
                repositories, path.removeprefix("api/models/")
            )
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if has_body:
                self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _find(repositories, path):
    user, model, *rest = path.split("/")
    found = repositories.get(f"{user}/{model}", (404, "RepoNotFound"))
    if isinstance(found, tuple):
        status, code = found
        return status, {"X-Error-Code": code}, b""
    revision = rest[1] if len(rest) > 1 else "main"
    name = next((k for k, v in COMMITS.items() if revision in (k, v)), revision)
    if name not in found:
        return 404, {"X-Error-Code": "RevisionNotFound"}, b""
    folder, commit = found[name], COMMITS[name]
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    names = [path.relative_to(folder).as_posix() for path in files]
    if not rest or rest[0] == "revision":
        content = {"id": f"{user}/{model}", "sha": commit, "siblings": []}
        return 200, {"Content-Type": "application/json"}, json.dumps(content).encode()
    if rest[0] == "tree":
        tree = [
            {
                "type": "file",
                "path": name,
                "size": path.stat().st_size,
                "oid": hashlib.sha1(path.read_bytes()).hexdigest(),  # noqa: S324
            }
            for name, path in zip(names, files, strict=True)
        ]
        return 200, {"Content-Type": "application/json"}, json.dumps(tree).encode()
    name = "/".join(rest[2:])
    if name not in names:
        return 404, {"X-Error-Code": "EntryNotFound"}, b""
    body = (folder / name).read_bytes()
    etag = f'"{hashlib.sha1(body).hexdigest()}"'  # noqa: S324
    return 200, {"ETag": etag, "X-Repo-Commit": commit}, body
