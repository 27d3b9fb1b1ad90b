"""What stands between a device and its relay in some networks; the standard library is all it needs.

`proxy TARGET [NAME:PASSWORD]`: an HTTP proxy that connects whoever asks to HOST:PORT (`-`: to where it is asked for).
`portal TARGET`: a captive portal at a relay's own address; once lifted it passes on to HOST:PORT.
Commands on the input, one per line, say what the next connection gets: `open`, `status CODE [FIELD: VALUE]`, `garbage`,
`huge`, `endless`, `close`, `hang`; for a portal `status …` and `open`. `count` says how many requests there were, and how many of them looked for a portal.
Prints one JSON object per line: its port, then each request.
"""

import asyncio
import base64
import json
import sys


def say(**fields):
    print(json.dumps(fields), flush=True)


class Network:
    def __init__(self, kind: str, target: str, password: str | None):
        self.kind, self.target, self.password = kind, target, password
        self.mode = ["open"] if kind == "proxy" else ["status", "302", "Location: http://login.example/start"]
        self.count = self.probes = 0

    def place(self, asked: str) -> tuple[str, int]:
        host, port = (asked if self.target == "-" else self.target).rsplit(":", 1)
        return host.strip("[]"), int(port)

    async def connected(self, reader, writer):
        try:
            await self.serve(reader, writer)
        except (asyncio.CancelledError, asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    async def serve(self, reader, writer):
        if self.kind == "portal" and self.mode == ["open"]:
            return await self.pass_on(reader, writer, *self.place(""))
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        fields = {name.strip().lower(): value.strip() for name, value in (line.split(":", 1) for line in lines)}
        self.count += 1
        self.probes += first.startswith("GET /generate_204 ")
        say(request=first, host=fields.get("host"), authorization=fields.get("proxy-authorization"))
        what, *more = self.mode
        if what == "status":
            field = " ".join(more[1:])
            body = b"<html>Please sign in.</html>"
            answer = f"HTTP/1.1 {more[0]} Other\r\n{field + chr(13) + chr(10) if field else ''}Content-Length: {len(body)}\r\n\r\n"
            writer.write(answer.encode() + body)
        elif what == "garbage":
            writer.write(b"\x05\x00\x00\x01 no proxy of this kind\r\n\r\n")
        elif what == "huge":
            writer.write(b"HTTP/1.1 200 OK\r\n" + b"X-Filler: " + b"x" * 100_000 + b"\r\n\r\n")
        elif what == "endless":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 2)
            writer.write(b"HTTP/1.1 200 OK\r\n" + b"X-Line: 1\r\n" * 400)
        elif what == "close":
            return
        elif what == "hang":
            await reader.read()
        else:
            await self.tunnel(first, fields, reader, writer)
        await writer.drain()
        # Whoever has more to read of this than it wants closes first.
        await reader.read()

    async def tunnel(self, first, fields, reader, writer):
        method, asked, _ = first.split(" ")
        assert method == "CONNECT", first
        if self.password is not None:
            expected = "Basic " + base64.b64encode(self.password.encode()).decode()
            if fields.get("proxy-authorization") != expected:
                writer.write(b'HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm="x"\r\nContent-Length: 0\r\n\r\n')
                return
        await self.pass_on(reader, writer, *self.place(asked), b"HTTP/1.1 200 Connection established\r\n\r\n")

    async def pass_on(self, reader, writer, host, port, greeting=b""):
        their_reader, their_writer = await asyncio.open_connection(host, port)
        writer.write(greeting)

        async def copy(source, sink):
            try:
                while data := await source.read(65_536):
                    sink.write(data)
                    await sink.drain()
            except ConnectionError:
                pass
            finally:
                sink.close()

        await asyncio.gather(copy(reader, their_writer), copy(their_reader, writer))


async def main(kind: str, target: str, password: str | None):
    network = Network(kind, target, password)
    server = await asyncio.start_server(network.connected, "127.0.0.1", 0)
    say(port=server.sockets[0].getsockname()[1])
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        if line.strip() == "count":
            say(count=network.count, probes=network.probes)
        else:
            network.mode = line.split()
            say(mode=network.mode[0])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None))
