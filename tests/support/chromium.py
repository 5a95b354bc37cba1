"""A headless Chromium, driven over a pipe (the DevTools protocol as JSON, one message up to a
zero byte), so that a test of a page needs nothing but the browser itself."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PATIENCE_SECONDS = 30.0
_FLAGS = (
    "--headless",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-extensions",
    "--hide-scrollbars",
    "--no-first-run",
    "--force-color-profile=srgb",
)


def find() -> str | None:
    """The browser's program; CHROMIUM in the environment names another one."""
    named = os.environ.get("CHROMIUM", "")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


class Chromium:
    """One browser with one page. Everything that the page logs, asks of a network or throws is
    kept."""

    def __init__(self, program: str) -> None:
        self._profile = tempfile.TemporaryDirectory(prefix="chromium-")
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        self._process = self._start(program, theirs_in, theirs_out)
        os.close(theirs_in)
        os.close(theirs_out)
        self._read = b""
        self._id = 0
        self._session = ""
        self.log: list[str] = []
        self.requests: list[str] = []
        try:
            self._attach()
        except BaseException:
            self._end()
            raise

    def _attach(self) -> None:
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def _start(self, program: str, theirs_in: int, theirs_out: int) -> "subprocess.Popen[bytes]":
        # The protocol is spoken on the descriptors 3 and 4, whatever ours are called.
        flags = list(_FLAGS) + (["--no-sandbox"] if os.geteuid() == 0 else [])
        shell = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        return subprocess.Popen(
            ["bash", "-c", shell, program, *flags, f"--user-data-dir={self._profile.name}"],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def close(self) -> None:
        self._session = ""
        try:
            self.send("Browser.close")
            self._process.wait(PATIENCE_SECONDS)
        finally:
            self._end()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)
        self._profile.cleanup()

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._id += 1
        message: dict[str, Any] = {"id": self._id, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._id:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                found: dict[str, Any] = answer["result"]
                return found

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE_SECONDS
        while b"\0" not in self._read:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._in], [], [], left)[0]:
                raise AssertionError("the browser does not answer")
            piece = os.read(self._in, 1 << 20)
            if not piece:
                raise AssertionError("the browser has ended")
            self._read += piece
        text, _, self._read = self._read.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        self._hear(message)
        return message

    def _hear(self, message: dict[str, Any]) -> None:
        said = message.get("params", {})
        match message.get("method"):
            case "Runtime.consoleAPICalled":
                words = " ".join(str(arg.get("value", arg)) for arg in said["args"])
                self.log.append(f"{said['type']}: {words}")
            case "Runtime.exceptionThrown":
                details = said["exceptionDetails"]
                text = details.get("exception", {}).get("description", details["text"])
                self.log.append(f"exception: {text}")
            case "Log.entryAdded":
                self.log.append(f"{said['entry']['level']}: {said['entry']['text']}")
            case "Network.requestWillBeSent":
                self.requests.append(said["request"]["url"])

    # what a reader does

    def open(self, file: Path, fragment: str = "") -> None:
        """The page in ``file``, loaded; what was kept of an earlier one is forgotten."""
        self.send("Page.navigate", url="about:blank")
        self.log.clear()
        self.requests.clear()
        self.send("Page.navigate", url=file.as_uri() + (f"#{fragment}" if fragment else ""))
        self.until("document.readyState === 'complete'")
        self.settle()

    def size(self, width: int, height: int) -> None:
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def media(self, kind: str = "", **features: str) -> None:
        """``media("print")``, or ``media(prefers_color_scheme="dark")``."""
        named = [{"name": k.replace("_", "-"), "value": v} for k, v in features.items()]
        self.send("Emulation.setEmulatedMedia", media=kind, features=named)

    def js(self, expression: str) -> Any:
        answer = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise AssertionError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def until(self, expression: str) -> Any:
        until = time.monotonic() + PATIENCE_SECONDS
        while not (found := self.js(expression)):
            if time.monotonic() > until:
                raise AssertionError(f"it never came true: {expression}; {self.log}")
            time.sleep(0.02)
        return found

    def settle(self) -> None:
        """Two frames: what was to be drawn is drawn."""
        self.js("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(1))))")

    def press(self, *keys: str, shift: bool = False) -> None:
        for key in keys:
            text = "\r" if key == "Enter" else key if len(key) == 1 else ""
            code = {"Enter": 13, "Tab": 9, "Escape": 27}.get(key, 0)
            common = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 if shift else 0}
            down = "keyDown" if text else "rawKeyDown"
            self.send("Input.dispatchKeyEvent", type=down, text=text, **common)
            self.send("Input.dispatchKeyEvent", type="keyUp", **common)
        self.settle()

    def click(self, selector: str) -> None:
        """Where the first element that fits is, after it has been scrolled into view."""
        box = self.js(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        self.settle()
        box = self.js(
            f"(() => {{ const b = document.querySelector({json.dumps(selector)})"
            ".getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send(
                "Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left",
                clickCount=1,
            )  # fmt: skip
        self.settle()

    def screenshot(self, file: Path, *, whole: bool = False) -> None:
        answer = self.send("Page.captureScreenshot", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(answer["data"]))

    def pdf(self) -> bytes:
        answer = self.send("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        return base64.b64decode(answer["data"])
