"""A real browser for tests: Debian's chromium without a window, driven through its debugging protocol."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

_FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-port=0",
]
#: What keys are called, for those that write nothing.
_KEY_CODES = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Escape": 27, "Enter": 13, "Home": 36}
#: A promise: the grid of nodes was scrolled through thirty frames, from its top.
SCROLLED = (
    "(async () => { const grid = document.getElementById('nodes'); grid.scrollTop = 0;"
    " for (let step = 0; step < 30; step++) { await new Promise(requestAnimationFrame); grid.scrollTop += 25; } })()"
)
PATIENCE_SECONDS = 30.0


def chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Page:
    """One tab."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._sent = 0
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        #: What was written to the console, uncaught, or refused by the security policy.
        self.complaints: list[str] = []
        #: Every address that the page asked for.
        self.requested: list[str] = []

    async def listen(self) -> None:
        async for message in self._socket:
            told = json.loads(message.data)
            if (answered := self._answers.pop(told.get("id", -1), None)) is not None:
                answered.set_result(told)
            elif told.get("method") == "Runtime.exceptionThrown":
                details = told["params"]["exceptionDetails"]
                self.complaints.append(details.get("exception", {}).get("description", details["text"]))
            elif told.get("method") == "Log.entryAdded":
                self.complaints.append(told["params"]["entry"]["text"])
            elif told.get("method") == "Network.requestWillBeSent":
                self.requested.append(told["params"]["request"]["url"])

    async def command(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._sent += 1
        number = self._sent
        answered = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        told = await asyncio.wait_for(answered, PATIENCE_SECONDS)
        assert "error" not in told, (method, told)
        found: dict[str, Any] = told["result"]
        return found

    async def open(self, address: str) -> None:
        await self.command("Page.navigate", url=address)

    async def value(self, expression: str) -> Any:
        """What a JavaScript expression (or promise) is worth on the page."""
        done = await self.command("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, (expression, done["exceptionDetails"])
        return done["result"].get("value")

    async def until(self, expression: str) -> Any:
        """Return as soon as the expression is truthy, with its value; a page that is loading has no answer yet."""
        guarded = f"(() => {{ try {{ return ({expression}) }} catch {{ return null }} }})()"
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    if value := await self.value(guarded):
                        return value
                    await asyncio.sleep(0.02)
        except TimeoutError:
            text = await self.value("document.body?.innerText")
            raise AssertionError(f"never true: {expression}\n{self.complaints}\n{text}") from None

    async def press(self, key: str) -> None:
        typed: dict[str, Any] = {"text": key} if len(key) == 1 else {"windowsVirtualKeyCode": _KEY_CODES[key]}
        if key == "Enter":
            typed["text"] = "\r"
        await self.command("Input.dispatchKeyEvent", type="keyDown", key=key, **typed)
        await self.command("Input.dispatchKeyEvent", type="keyUp", key=key)

    async def write(self, text: str) -> None:
        await self.command("Input.insertText", text=text)

    async def prefer(self, scheme: str) -> None:
        await self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    async def picture(self) -> bytes:
        """What is on the screen, as PNG."""
        return base64.b64decode((await self.command("Page.captureScreenshot"))["data"])


@asynccontextmanager
async def browser(folder: Path, width: int = 1280, height: int = 800) -> AsyncIterator[Page]:
    """A browser with an empty profile and one page while the block runs."""
    program = chromium()
    assert program is not None
    process = await asyncio.create_subprocess_exec(
        program,
        *_FLAGS,
        f"--user-data-dir={folder}",
        f"--window-size={width},{height}",
        "about:blank",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env=os.environ | {"HOME": str(folder)},
    )
    try:
        port = await asyncio.wait_for(_port(process, folder), PATIENCE_SECONDS * 2)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                tabs = json.loads(await answer.text())
            tab = next(entry for entry in tabs if entry["type"] == "page")
            async with session.ws_connect(tab["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                page = Page(socket)
                listening = asyncio.create_task(page.listen())
                for domain in ("Page", "Runtime", "Log", "Network"):
                    await page.command(f"{domain}.enable")
                await page.command(
                    "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
                )
                try:
                    yield page
                finally:
                    listening.cancel()
    finally:
        process.terminate()
        await process.wait()


async def _port(process: asyncio.subprocess.Process, folder: Path) -> int:
    """Where it listens, which it writes into its profile."""
    while True:
        assert process.returncode is None, "the browser ended at once"
        with contextlib.suppress(OSError, ValueError, IndexError):  # not there, or not written yet
            return int((folder / "DevToolsActivePort").read_text().split()[0])
        await asyncio.sleep(0.05)
