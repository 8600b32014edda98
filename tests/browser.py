"""Chromium without a window, asked through a pipe."""

import contextlib
import functools
import http.server
import json
import os
import shutil
import subprocess
import threading
import time

import pytest

_OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"),
    *("--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--remote-debugging-pipe"),
)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


@contextlib.contextmanager
def served_folder(folder):
    """Serve a folder, and yield its address."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class Page:
    """A page of a browser, by the DevTools protocol."""

    def __init__(self, pipe_in, pipe_out):
        self._in, self._out = pipe_in, pipe_out
        self._count = 0
        self._session = None
        self.requests = []
        self.problems = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        options = {"targetId": target, "flatten": True}
        self._session = self.call("Target.attachToTarget", **options)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        """Call a method, and return its result."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._in.write(json.dumps(message).encode() + b"\0")
        self._in.flush()
        while True:
            found = self._read()
            if found.get("id") == self._count:
                assert "error" not in found, found
                return found["result"]

    def _read(self):
        found = bytearray()
        while (byte := self._out.read(1)) != b"\0":
            assert byte, "the browser has ended"
            found += byte
        message = json.loads(found)
        method, given = message.get("method"), message.get("params", {})
        if method == "Network.requestWillBeSent":
            self.requests.append(given["request"]["url"])
        if method == "Runtime.exceptionThrown" or (
            method == "Log.entryAdded" and given["entry"]["level"] == "error"
        ):
            self.problems.append(given)
        return message

    def run(self, program):
        """Run JavaScript, which may be a promise, and return its value."""
        options = {"awaitPromise": True, "returnByValue": True}
        found = self.call("Runtime.evaluate", expression=program, **options)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait_for(self, condition, seconds=60):
        """Wait until a JavaScript expression is true."""
        end = time.monotonic() + seconds
        while not self.run(condition):
            assert time.monotonic() < end, condition
            time.sleep(0.05)

    def resize(self, width, height):
        """Have a window of a size, as on a phone if it is narrow."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1}
        self.call("Emulation.setDeviceMetricsOverride", mobile=width < 600, **size)


@contextlib.contextmanager
def opened_page(address, profile):
    """Open an address in a new browser; without Chromium, skip the test."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium: `apt-get install chromium` installs it")
    to_read, to_write = os.pipe()
    from_read, from_write = os.pipe()
    # It reads from 3 and writes to 4.
    script = f'exec 3<&{to_read} 4>&{from_write}; exec "$0" "$@"'
    with subprocess.Popen(
        ["bash", "-c", script, program, *_OPTIONS, f"--user-data-dir={profile}"],
        pass_fds=(to_read, from_write),
        stderr=subprocess.DEVNULL,
    ) as process:
        os.close(to_read)
        os.close(from_write)
        with os.fdopen(to_write, "wb") as pipe_in, os.fdopen(from_read, "rb") as out:
            page = Page(pipe_in, out)
            page.call("Page.navigate", url=address)
            try:
                yield page
            finally:
                page._session = None
                page.call("Browser.close")
                process.wait(20)
