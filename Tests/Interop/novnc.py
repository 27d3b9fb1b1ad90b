"""noVNC in Chromium: `novnc.py PORT PASSWORD`, for the VNC server at that port of 127.0.0.1.

A browser without a window opens a page with noVNC's RFB class, over a WebSocket that this program joins to the port.
Each line of input is a JSON object, answered by one line:

    {"do": "pixels", "file": PATH}      writes the canvas, RGBA: {"width", "height"}
    {"do": "text", "text": "aB"}        types
    {"do": "click", "x": 3, "y": 4}     moves the pointer to that pixel and clicks
    {"do": "paste", "text": "…"}        gives noVNC a clipboard
    {"do": "clipboard"}                 the last it was given: {"text"}
"""

import asyncio
import base64
import functools
import http.server
import json
import os
import shutil
import sys
import tempfile
import threading

import websockets

NOVNC = "/usr/share/novnc"
PAGE = """<!doctype html><meta charset="utf-8"><body><div id="screen" style="position:fixed;inset:0"></div><script type="module">
import RFB from "/core/rfb.js"
const words = new URLSearchParams(location.search)
const rfb = new RFB(document.getElementById("screen"), `ws://127.0.0.1:${words.get("port")}/`,
                    {credentials: {password: words.get("password")}})
rfb.showDotCursor = false
window.state = {rfb, status: "", clipboard: null}
for (const name of ["connect", "disconnect", "securityfailure"])
    rfb.addEventListener(name, event => { window.state.status ||= name + " " + JSON.stringify(event.detail) })
rfb.addEventListener("clipboard", event => { window.state.clipboard = event.detail.text })
</script>"""


class Files(http.server.SimpleHTTPRequestHandler):
    """noVNC's files, and the page at /."""

    def do_GET(self):
        if not self.path.startswith("/?"):
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.end_headers()
        self.wfile.write(PAGE.encode())

    def log_message(self, *_):
        pass


async def join(port, socket):
    """Passes on what a WebSocket and a port say to each other."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def down():
        while data := await reader.read(65536):
            await socket.send(data)
        await socket.close()

    task = asyncio.create_task(down())
    try:
        async for data in socket:
            writer.write(data)
            await writer.drain()
    except websockets.ConnectionClosed:
        pass
    task.cancel()
    writer.close()


class Browser:
    """Chromium, by its DevTools protocol over two pipes: JSON, each message ended by a zero byte."""

    async def start(self, folder):
        there, here = os.pipe()
        here_in, there_out = os.pipe()

        def place():
            # 3 and 4 are where Chromium looks.
            a, b = os.dup(there), os.dup(there_out)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = await asyncio.create_subprocess_exec(
            shutil.which("chromium"), "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            f"--user-data-dir={folder}", "--remote-debugging-pipe", "--window-size=800,600", "about:blank",
            preexec_fn=place, close_fds=False, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL)
        os.close(there)
        os.close(there_out)
        self.out = os.fdopen(here, "wb", buffering=0)
        self.reader = asyncio.StreamReader(limit=1 << 28)
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(self.reader), os.fdopen(here_in, "rb", buffering=0))
        self.number = 0
        self.session = None

    async def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.out.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = json.loads((await self.reader.readuntil(b"\0"))[:-1])
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    async def open(self, url):
        target = await self.call("Target.createTarget", url=url)
        attached = await self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self.session = attached["sessionId"]

    async def evaluate(self, text):
        result = await self.call("Runtime.evaluate", expression=text, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(str(result["exceptionDetails"])[:500])
        return result["result"].get("value")

    async def until(self, text):
        while not (value := await self.evaluate(text)):
            await asyncio.sleep(0.05)
        return value


async def answer(browser, order):
    match order["do"]:
        case "pixels":
            pixels = await browser.evaluate(
                """(() => { const canvas = document.querySelector("canvas")
                const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data
                let text = ""
                for (let at = 0; at < data.length; at += 32768)
                    text += String.fromCharCode(...data.subarray(at, at + 32768))
                return {width: canvas.width, height: canvas.height, data: btoa(text)} })()""")
            with open(order["file"], "wb") as file:
                file.write(base64.b64decode(pixels.pop("data")))
            return pixels
        case "text":
            for character in order["text"]:
                key = {"type": "keyDown", "key": character, "text": character}
                if character.isascii() and character.isalnum():
                    key["code"] = ("Digit" if character.isdigit() else "Key") + character.upper()
                    key["windowsVirtualKeyCode"] = ord(character.upper())
                await browser.call("Input.dispatchKeyEvent", **key)
                await browser.call("Input.dispatchKeyEvent", **{**key, "type": "keyUp"})
            return {}
        case "click":
            x, y = await browser.evaluate(
                """(({x, y}) => [x, y])(document.querySelector("canvas").getBoundingClientRect())""")
            place = {"x": x + order["x"] + 0.5, "y": y + order["y"] + 0.5, "button": "left", "clickCount": 1}
            await browser.call("Input.dispatchMouseEvent", **{**place, "type": "mouseMoved", "button": "none"})
            await browser.call("Input.dispatchMouseEvent", **{**place, "type": "mousePressed"})
            await browser.call("Input.dispatchMouseEvent", **{**place, "type": "mouseReleased"})
            return {}
        case "paste":
            await browser.evaluate(f"state.rfb.clipboardPasteFrom({json.dumps(order['text'])})")
            return {}
        case "clipboard":
            return {"text": await browser.evaluate("state.clipboard")}


async def main():
    port, password = int(sys.argv[1]), sys.argv[2]
    files = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=NOVNC))
    threading.Thread(target=files.serve_forever, daemon=True).start()
    folder = tempfile.mkdtemp()
    browser = Browser()
    try:
        async with websockets.serve(functools.partial(join, port), "127.0.0.1", 0, max_size=None) as sockets:
            await browser.start(folder)
            bridge = sockets.sockets[0].getsockname()[1]
            await browser.open(f"http://127.0.0.1:{files.server_port}/?port={bridge}&password={password}")
            status = await browser.until("window.state && state.status")
            print(json.dumps({"status": status}), flush=True)
            lines = asyncio.StreamReader()
            await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
            while line := await lines.readline():
                print(json.dumps(await answer(browser, json.loads(line))), flush=True)
    finally:
        browser.process.kill()
        await browser.process.wait()
        shutil.rmtree(folder, ignore_errors=True)


asyncio.run(main())
