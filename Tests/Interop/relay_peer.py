"""iroh's relay protocol, written from its description alone: `relay_peer.py client URL ...` or `relay_peer.py serve`.

`client URL VERSION TOKEN|-`: two clients with keys of their own meet at a relay, and say how each step went.
`wait URL`: a client that waits for the relay to restart. `slow URL`: one of three reads nothing.
`pinged URL SILENCE|-`: a client that says whether it is pinged. `page`: a web server without a relay.
`flood URL KIND`, `small URL`, `unfinished URL COUNT`: clients that make a relay work for nothing.
`serve [PORT]`: a relay; commands on the input, one per line: `restart MS`, `drop`, `break`, `silent`.
Prints one JSON object per line.
"""

import asyncio
import http.server
import json
import os
import sys

import websockets
from blake3 import blake3
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve

CONTEXT = "iroh-relay handshake v1 challenge signature"
VERSIONS = ["iroh-relay-v2", "iroh-relay-v1"]


def say(**fields):
    print(json.dumps(fields), flush=True)


def signed_bytes(challenge: bytes) -> bytes:
    return blake3(challenge, derive_key_context=CONTEXT).digest()


class Client:
    def __init__(self, version: str, token: str | None):
        self.key = Ed25519PrivateKey.generate()
        self.id = self.key.public_key().public_bytes_raw()
        self.version, self.headers = version, {"Authorization": f"Bearer {token}"} if token else {}

    async def open(self, url: str):
        self.socket = await connect(
            "ws" + url.removeprefix("http").rstrip("/") + "/relay", subprotocols=[self.version],
            additional_headers=self.headers, compression=None,
        )
        assert self.socket.subprotocol == self.version
        frame = await self.receive()
        assert frame[0] == 0 and len(frame) == 17, frame
        await self.socket.send(b"\x01" + self.id + b"\x40" + self.key.sign(signed_bytes(frame[1:])))
        return await self.receive()

    async def receive(self) -> bytes:
        return await asyncio.wait_for(self.socket.recv(), 20)

    async def send(self, to: bytes, payload: bytes, size: int | None = None, ecn: int = 0):
        head = bytes([4 if size is None else 5]) + to + bytes([ecn])
        await self.socket.send(head + (b"" if size is None else size.to_bytes(2, "big")) + payload)


async def run_client(url: str, version: str, token: str | None):
    one, two = Client(version, token), Client(version, token)
    first = await one.open(url)
    if first[0] == 3:
        say(denied=first[2:].decode())
        return
    assert first == b"\x02", first
    assert await two.open(url) == b"\x02"

    await one.send(two.id, b"hello")
    assert await two.receive() == b"\x06" + one.id + b"\x00hello"
    batch = bytes(range(256)) * 12
    await two.send(one.id, batch, size=1200, ecn=2)
    assert await one.receive() == b"\x07" + two.id + b"\x02" + (1200).to_bytes(2, "big") + batch
    largest = os.urandom(65_536 - 33)
    await one.send(two.id, largest)
    assert await two.receive() == b"\x06" + one.id + b"\x00" + largest
    say(passed="datagrams")

    # A message in parts is one frame; text is passed over.
    await one.socket.send("text")
    await one.socket.send([b"\x04" + two.id, b"\x00in ", b"parts"])
    assert await two.receive() == b"\x06" + one.id + b"\x00in parts"
    await one.socket.send(b"\x09" + b"12345678")
    assert await one.receive() == b"\x0a" + b"12345678"
    await (await one.socket.ping(b"web"))
    say(passed="pings")

    absent = os.urandom(32)
    await one.send(absent, b"anybody?")
    assert await one.receive() == b"\x08" + absent
    say(passed="absent")

    # The same key again: the newest receives; the older learns of it, and of its return.
    again = Client(version, token)
    again.key, again.id = two.key, two.id
    assert await again.open(url) == b"\x02"
    notice = await two.receive()
    assert notice == b"\x0d\x01" if version == VERSIONS[0] else (notice[0] == 11 and len(notice) > 1), notice
    await one.send(two.id, b"newest")
    assert await again.receive() == b"\x06" + one.id + b"\x00newest"
    await again.socket.close()
    notice = await two.receive()
    assert notice == (b"\x0d\x00" if version == VERSIONS[0] else b"\x0b"), notice
    await one.send(two.id, b"back")
    assert await two.receive() == b"\x06" + one.id + b"\x00back"
    say(passed="same key")

    await one.socket.close()
    assert await two.receive() == b"\x08" + one.id
    say(passed="gone")

    # Whoever breaks the protocol is disconnected.
    await two.socket.send(b"\x2a")
    try:
        while True:
            await two.receive()
    except websockets.ConnectionClosed:
        say(passed="unknown frame")

    liar = Client(version, token)
    real = liar.key
    liar.key = Ed25519PrivateKey.generate()
    try:
        answer = await liar.open(url)
    except websockets.ConnectionClosed:
        answer = None
    assert real is not liar.key and (answer is None or answer[0] == 3), answer
    say(passed="wrong signature")


async def run_waiting(url: str):
    """A client that waits for what the relay says when it restarts."""
    client = Client(VERSIONS[0], None)
    assert await client.open(url) == b"\x02"
    say(ready=True)
    frame = await client.receive()
    assert frame[0] == 12 and len(frame) == 9, frame
    try:
        await client.receive()
    except websockets.ConnectionClosed as closed:
        say(reconnect=int.from_bytes(frame[1:5], "big"), tries=int.from_bytes(frame[5:], "big"), code=closed.rcvd.code)


async def run_slow(url: str):
    """Two clients exchange messages while a third is sent 64 MiB that it never reads."""
    sender, partner, slow = Client(VERSIONS[0], None), Client(VERSIONS[0], None), Client(VERSIONS[0], None)
    for client in (sender, partner, slow):
        assert await client.open(url) == b"\x02"
    slow.socket.transport.pause_reading()
    flood = b"\x04" + slow.id + b"\x00" + bytes(16_384)
    for number in range(200):
        for _ in range(20):
            await sender.socket.send(flood)
        await sender.send(partner.id, number.to_bytes(4, "big"))
        while True:
            frame = await partner.receive()
            if frame[0] == 9:
                await partner.socket.send(b"\x0a" + frame[1:])
                continue
            assert frame == b"\x06" + sender.id + b"\x00" + number.to_bytes(4, "big"), frame[:40]
            break
    say(exchanged=200)

    async def gone():
        while True:
            frame = await sender.receive()
            if frame == b"\x08" + slow.id:
                return
            if frame[0] == 9:
                await sender.socket.send(b"\x0a" + frame[1:])

    waiting = asyncio.create_task(gone())
    while not waiting.done():
        await sender.socket.send(flood)
        await asyncio.sleep(0.05)
    await waiting
    say(closed=True)


async def run_pinged(url: str, silence: str):
    """A client that says whether it is pinged."""
    client = Client(VERSIONS[0], None)
    if silence != "-":
        client.headers["Kith-Relay-Silence"] = silence
    assert await client.open(url) == b"\x02"
    frame = await client.receive()
    say(pinged=frame[0] == 9 and len(frame) == 9)


FLOODS = {
    "pings": b"\x89\x80\0\0\0\0", "pongs": b"\x8a\x80\0\0\0\0", "texts": b"\x81\x80\0\0\0\0",
    "parts": b"\x00\x80\0\0\0\0",
}


async def run_flood(url: str, kind: str):
    """A client that sends frames without contents, and says how it was closed; two others meet all the while."""
    one, two = Client(VERSIONS[0], None), Client(VERSIONS[0], None)
    flooding = Client(VERSIONS[0], None)
    for client in (one, two, flooding):
        assert await client.open(url) == b"\x02"
    if kind == "parts":
        flooding.socket.transport.write(b"\x02\x80\0\0\0\0")
    flooding.socket.transport.write(FLOODS[kind] * 20_000)
    try:
        while True:
            await flooding.receive()
    except websockets.ConnectionClosed as closed:
        say(code=closed.rcvd and closed.rcvd.code, reason=closed.rcvd and closed.rcvd.reason)
    await one.send(two.id, b"hello")
    assert await two.receive() == b"\x06" + one.id + b"\x00hello"
    say(passed="datagrams")


async def run_small(url: str):
    """A client that sends more small datagrams than it may; the last one says that all were served."""
    one, two = Client(VERSIONS[0], None), Client(VERSIONS[0], None)
    for client in (one, two):
        assert await client.open(url) == b"\x02"
    for number in range(400):
        await one.send(two.id, number.to_bytes(2, "big"))
    assert await one.receive() == b"\x0d\x02"
    while (await two.receive())[-2:] != (399).to_bytes(2, "big"):
        pass
    say(passed="small")
    # Many short ones in one frame are not passed on; a few are, and so are long ones.
    await one.send(two.id, bytes(900), size=1)
    await one.send(two.id, bytes(8), size=1)
    assert await two.receive() == b"\x07" + one.id + b"\x00\x00\x01" + bytes(8)
    await one.send(two.id, bytes(54 * 1_200), size=1_200)
    assert await two.receive() == b"\x07" + one.id + b"\x00" + (1_200).to_bytes(2, "big") + bytes(54 * 1_200)
    say(passed="segments")


async def run_unfinished(url: str, count: int):
    """Clients that do not finish what they say; prints which of them are closed, and how."""
    one, two = Client(VERSIONS[0], None), Client(VERSIONS[0], None)
    clients = [Client(VERSIONS[0], None) for _ in range(count)]
    for client in [one, two] + clients:
        assert await client.open(url) == b"\x02"

    async def closed(number: int, client: Client):
        try:
            while True:
                await client.receive()
        except websockets.ConnectionClosed as closed:
            say(client=number, code=closed.rcvd and closed.rcvd.code)
        except TimeoutError:
            pass

    waiting = [asyncio.create_task(closed(number, client)) for number, client in enumerate(clients)]
    for client in clients:
        # Half of a message that was promised to be 65,000 bytes long, behind a part of one.
        part = b"\x04" + bytes(32) + b"\0" + bytes(20_000)
        client.socket.transport.write(b"\x02\xfe" + len(part).to_bytes(2, "big") + bytes(4) + part)
        client.socket.transport.write(b"\x00\xfe" + (40_000).to_bytes(2, "big") + bytes(4) + bytes(30_000))
        # The relay has read it once it has passed on what came later.
        await one.send(two.id, b"hello")
        assert await two.receive() == b"\x06" + one.id + b"\x00hello"
    say(passed="datagrams")
    await asyncio.wait(waiting)


class Relay:
    def __init__(self):
        self.clients = {}
        self.silent = False

    async def serve(self, socket):
        challenge = os.urandom(16)
        await socket.send(b"\x00" + challenge)
        proof = await socket.recv()
        assert proof[0] == 1 and proof[33] == 64 and len(proof) == 98, proof
        key = proof[1:33]
        try:
            Ed25519PublicKey.from_public_bytes(key).verify(proof[34:], signed_bytes(challenge))
        except InvalidSignature:
            await socket.send(b"\x03\x03bad")
            return
        authorization = socket.request.headers.get("Authorization")
        if authorization == "Bearer wrong":
            await socket.send(b"\x03\x09bad token")
            return
        await socket.send(b"\x02")
        self.clients[key] = socket
        silence = socket.request.headers.get("Kith-Relay-Silence")
        say(joined=key.hex(), authorization=authorization, version=socket.subprotocol, silence=silence)
        try:
            async for frame in socket:
                if frame[0] == 9 and not self.silent:
                    await socket.send(b"\x0a" + frame[1:])
                elif frame[0] in (4, 5):
                    other = self.clients.get(frame[1:33])
                    if other:
                        await other.send(bytes([frame[0] + 2]) + key + frame[33:])
                    else:
                        await socket.send(b"\x08" + frame[1:33])
        except websockets.ConnectionClosed:
            pass
        finally:
            if self.clients.get(key) is socket:
                del self.clients[key]
            say(left=key.hex())

    def page(self, connection, request):
        if request.path == "/ping":
            return connection.respond(http.HTTPStatus.OK, "pong")
        return None


async def run_server(port: int):
    relay = Relay()
    async with serve(
        relay.serve, "127.0.0.1", port, subprotocols=VERSIONS, process_request=relay.page, compression=None,
        ping_interval=None,
    ) as server:
        say(port=server.sockets[0].getsockname()[1])
        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            words = line.split()
            if words[0] == "restart":
                for socket in list(relay.clients.values()):
                    await socket.send(b"\x0c" + int(words[1]).to_bytes(4, "big") + (30_000).to_bytes(4, "big"))
                    await socket.close()
            elif words[0] == "drop":
                for socket in list(relay.clients.values()):
                    socket.transport.abort()
            elif words[0] == "break":
                for socket in list(relay.clients.values()):
                    await socket.send(b"\x2a")
            elif words[0] == "silent":
                relay.silent = True


def not_found(request):
    """A web server that is no relay."""
    request.send_error(404)


if __name__ == "__main__":
    what, arguments = sys.argv[1], sys.argv[2:]
    if what == "client":
        asyncio.run(run_client(arguments[0], arguments[1], None if arguments[2] == "-" else arguments[2]))
    elif what == "wait":
        asyncio.run(run_waiting(arguments[0]))
    elif what == "slow":
        asyncio.run(run_slow(arguments[0]))
    elif what == "pinged":
        asyncio.run(run_pinged(arguments[0], arguments[1]))
    elif what == "flood":
        asyncio.run(run_flood(arguments[0], arguments[1]))
    elif what == "small":
        asyncio.run(run_small(arguments[0]))
    elif what == "unfinished":
        asyncio.run(run_unfinished(arguments[0], int(arguments[1])))
    elif what == "page":
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
        server.RequestHandlerClass = type("Page", (http.server.BaseHTTPRequestHandler,), {"do_GET": not_found})
        say(port=server.server_port)
        server.serve_forever()
    else:
        asyncio.run(run_server(int(arguments[0]) if arguments else 0))
