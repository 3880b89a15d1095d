"""Drive Debian's Chromium over its debugging socket: just what the page tests need."""

import base64
import itertools
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import websocket

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--mute-audio",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
]


class Browser:
    """One headless page; remembers every error it logged and every address it asked for."""

    def __init__(self):
        program = shutil.which("chromium") or shutil.which("chromium-browser")
        if program is None:
            raise RuntimeError("The page tests need Chromium: `make setup` installs it.")
        self.profile = tempfile.mkdtemp(prefix="ident3d-chromium-")
        self.process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={self.profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.numbers, self.events = itertools.count(1), []
        self.socket = websocket.create_connection(self._address(), timeout=60, suppress_origin=True)
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.socket.close()
        self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, **params):
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def open(self, path, fragment=""):
        """Open a file and wait until it is loaded; forgets the events of the page before."""
        self.events.clear()
        self.call("Page.navigate", url=Path(path).resolve().as_uri() + fragment)
        self.wait("document.readyState === 'complete' && location.protocol === 'file:'")

    def run(self, expression):
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(f"{expression}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def wait(self, expression, seconds=20):
        deadline = time.monotonic() + seconds
        while not self.run(expression):
            if time.monotonic() > deadline:
                raise TimeoutError(f"waited {seconds} s for {expression}")
            time.sleep(0.02)

    def press(self, key, text=""):
        for kind in ("keyDown", "keyUp"):
            extra = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, **extra)

    def errors(self):
        """What the console complained about since the page was opened."""
        self.run("1")  # collects the events that are still under way
        bad = []
        for event in self.events:
            kind, params = event.get("method"), event.get("params", {})
            if kind == "Runtime.exceptionThrown":
                bad.append(params["exceptionDetails"].get("text"))
            elif kind == "Runtime.consoleAPICalled":
                bad.append(str(params["args"]))
            elif kind == "Log.entryAdded":
                bad.append(params["entry"]["text"])
            elif kind == "Page.javascriptDialogOpening":
                bad.append(f"dialog: {params['message']}")
        return bad

    def requests(self):
        """Addresses asked for since the page was opened, other than files and data."""
        sent = [e["params"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        urls = [params["request"]["url"] for params in sent]
        return [url for url in urls if not url.startswith(("file:", "data:"))]

    def screen(self, width, height=900, dark=False, phone=False):
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=phone,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def shot(self, path, full=True):
        """Save a screenshot of the whole page."""
        image = self.call("Page.captureScreenshot", captureBeyondViewport=full)
        Path(path).write_bytes(base64.b64decode(image["data"]))

    def _address(self):
        port_file = Path(self.profile) / "DevToolsActivePort"
        deadline = time.monotonic() + 60
        while not (port_file.exists() and port_file.read_text().count("\n")):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("Chromium did not start; `make setup` installs what it needs.")
            time.sleep(0.05)
        port = port_file.read_text().split("\n")[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=30) as answer:
            pages = [target for target in json.load(answer) if target["type"] == "page"]
        return pages[0]["webSocketDebuggerUrl"]
