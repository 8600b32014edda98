"""A stand-in for the Hugging Face Hub, on this machine."""

import base64
import hashlib
import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

REVISIONS = ("main", "v1")
# As the hub decides by default; other files are parts of the commit.
_LARGE = (".h5", ".safetensors")


@contextmanager
def hub_of(repositories, requests, uploads=None, cut=()):
    """Serve directories by the names of models; yield the address.

    `repositories` has a dict of paths by revision, or the status and the `X-Error-Code`
    of any answer; what is pushed is added. The first download of files of the names in
    `cut` ends in the middle.
    """
    cut, stored = set(cut), {}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_HEAD(self):
            self._answer(*_find(repositories, self._path()), has_body=False)

        def do_GET(self):
            path = self._path()
            status, headers, body = _find(repositories, path)
            start = self.headers.get("Range", "bytes=0-")[6:-1]
            if status == 200 and start != "0":
                requests.append(("RANGE", start))
                length = len(body)
                headers["Content-Range"] = f"bytes {start}-{length - 1}/{length}"
                status, body = 206, body[int(start) :]
            if path.rpartition("/")[2] in cut:
                cut.remove(path.rpartition("/")[2])
                self.close_connection = True
                self._answer(status, headers, body, end=len(body) // 2)
            else:
                self._answer(status, headers, body)

        def do_PUT(self):
            stored[self._path().rpartition("/")[2]] = self._content()
            self._answer(200, {}, b"")

        def do_POST(self):
            path, content = self._path(), self._content()
            assert self.headers["Authorization"] == "Bearer hf_token"
            address = f"http://127.0.0.1:{server.server_port}"
            answer = _change(repositories, uploads, stored, path, content, address)
            if isinstance(answer, dict):
                self._answer(200, {}, json.dumps(answer).encode())
            else:
                self._answer(answer[0], {"X-Error-Message": answer[1]}, b"{}")

        def _path(self):
            path = self.path.partition("?")[0].strip("/")
            requests.append((self.command, path))
            return path.removeprefix("api/models/")

        def _content(self):
            if "Content-Length" in self.headers:
                return self.rfile.read(int(self.headers["Content-Length"]))
            content = b""
            while size := int(self.rfile.readline(), 16):
                content += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return content

        def _answer(self, status, headers, body, has_body=True, end=None):
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if has_body:
                self.wfile.write(body[:end])

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def use_hub(monkeypatch, address, cache):
    """Let the libraries of this process ask a hub, with an empty cache and a token."""
    import huggingface_hub
    from huggingface_hub import constants

    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HF_ENDPOINT", address)
    monkeypatch.setenv("HF_TOKEN", "hf_token")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(cache))
    # Its protocol would need a stand-in of its own.
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
    # What KerasHub calls has read the address when it was imported.
    api = huggingface_hub.create_repo.__self__
    monkeypatch.setattr(api, "endpoint", address)


def commit_of(folder):
    """Return the name of a commit of a folder's content."""
    found = hashlib.sha1()  # noqa: S324
    for path in _files(folder):
        found.update(path.read_bytes())
    return found.hexdigest()


def _files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _find(repositories, path):
    user, model, *rest = path.split("/")
    found = repositories.get(f"{user}/{model}", (404, "RepoNotFound"))
    if isinstance(found, tuple):
        status, code = found
        return status, {"X-Error-Code": code, "X-Error-Message": code}, b""
    commits = {name: commit_of(folder) for name, folder in found.items()}
    revision = rest[1] if len(rest) > 1 else "main"
    name = next((k for k, v in commits.items() if revision in (k, v)), revision)
    if name not in found:
        return 404, {"X-Error-Code": "RevisionNotFound"}, b""
    folder, commit = found[name], commits[name]
    files = _files(folder)
    names = [path.relative_to(folder).as_posix() for path in files]
    if not rest or rest[0] == "revision":
        content = {"id": f"{user}/{model}", "sha": commit, "private": False}
        content["siblings"] = [{"rfilename": name} for name in names]
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


def _change(repositories, uploads, stored, path, content, address):
    """Return the answer to a POST: a dict, or a status and a message."""
    if path == "api/validate-yaml":
        return {}
    lines = [json.loads(line) for line in content.splitlines()]
    if path == "api/repos/create":
        model = f"{lines[0]['organization']}/{lines[0]['name']}"
    else:
        model = "/".join(path.split("/")[:2]).removesuffix(".git")
    found = repositories.setdefault(model, {"main": uploads / model / "main"})
    if isinstance(found, tuple):
        return found
    if path == "api/repos/create":
        found["main"].mkdir(parents=True, exist_ok=True)
        return {"url": f"{address}/{model}"}
    if path.endswith("/info/lfs/objects/batch"):
        objects = [
            each | {"actions": {"upload": {"href": f"{address}/lfs/{each['oid']}"}}}
            for each in lines[0]["objects"]
        ]
        return {"transfer": "basic", "objects": objects}
    _, _, action, revision = path.split("/")
    folder = found.setdefault(revision, uploads / model / revision)
    if action == "preupload":
        files = [
            {
                "path": each["path"],
                "uploadMode": "lfs" if each["path"].endswith(_LARGE) else "regular",
                "shouldIgnore": False,
            }
            for each in lines[0]["files"]
        ]
        return {"files": files}
    for line in lines if action == "commit" else ():
        value = line["value"]
        if line["key"] != "header":
            target = folder / value["path"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(
                base64.b64decode(value["content"])
                if line["key"] == "file"
                else stored[value["oid"]]
            )
    commit = commit_of(folder)
    return {"commitUrl": f"{address}/{model}/commit/{commit}", "commitOid": commit}
