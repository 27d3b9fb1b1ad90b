"""An aioquic 1.7 peer: `aioquic_peer.py serve ALPN` or `aioquic_peer.py dial ALPN HOST PORT COUNT`.

`echo ALPN` serves and sends every DATAGRAM frame back (RFC 9221); `throw ALPN HOST PORT COUNT` dials, sends COUNT of
them one after the other, and compares the answers.

Prints one JSON object per line. X.509 with a self-signed Ed25519 certificate.
"""

import asyncio
import datetime
import hashlib
import json
import ssl
import sys

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import DatagramFrameReceived
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

from exchange import Answer, Question, pieces


def say(**fields):
    print(json.dumps(fields), flush=True)


def certificate():
    key = Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "aioquic")])
    now = datetime.datetime.now(datetime.timezone.utc)
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, None)
    )
    return built, key


def configuration(is_client: bool, alpn: str) -> QuicConfiguration:
    made = QuicConfiguration(is_client=is_client, alpn_protocols=[alpn])
    made.max_data = made.max_stream_data = 16 << 20
    made.idle_timeout = 60
    if is_client:
        made.verify_mode = ssl.CERT_NONE
    else:
        made.certificate, made.private_key = certificate()
    return made


async def answer(reader, writer):
    question = Question()
    while data := await reader.read(1 << 20):
        question.feed(data)
    writer.write(question.hash.digest())
    sent = hashlib.sha256()
    for piece in pieces(question.wanted, seed=2):
        sent.update(piece)
        writer.write(piece)
        await asyncio.sleep(0)
    writer.write(sent.digest())
    writer.write_eof()
    say(answered=question.wanted)


async def run_server(alpn: str):
    tasks = set()

    def accept(reader, writer):
        task = asyncio.ensure_future(answer(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await serve("127.0.0.1", 0, configuration=configuration(False, alpn), stream_handler=accept)
    say(port=server._transport.get_extra_info("sockname")[1])
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def run_client(alpn: str, host: str, port: int, count: int):
    async with connect(host, port, configuration=configuration(True, alpn)) as protocol:
        reader, writer = await protocol.create_stream()
        sent = hashlib.sha256()
        writer.write(count.to_bytes(8, "big"))
        for piece in pieces(count, seed=1):
            sent.update(piece)
            writer.write(piece)
            await asyncio.sleep(0)
        writer.write_eof()
        answer = Answer(count)
        while data := await reader.read(1 << 20):
            answer.feed(data)
        say(verdict=answer.verdict(sent.digest()))


class Datagrams(QuicConnectionProtocol):
    """Keeps the datagrams that come, and sends them back when it serves."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.arrived = asyncio.Queue()

    def throw(self, data):
        self._quic.send_datagram_frame(data)
        self.transmit()

    def quic_event_received(self, event):
        super().quic_event_received(event)
        if isinstance(event, DatagramFrameReceived):
            self.arrived.put_nowait(event.data)
            if not self._quic.configuration.is_client:
                self.throw(event.data)


def datagram_configuration(is_client: bool, alpn: str) -> QuicConfiguration:
    made = configuration(is_client, alpn)
    made.max_datagram_frame_size = 65536
    return made


async def run_echo(alpn: str):
    made = datagram_configuration(False, alpn)
    server = await serve("127.0.0.1", 0, configuration=made, create_protocol=Datagrams)
    say(port=server._transport.get_extra_info("sockname")[1])
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def run_throw(alpn: str, host: str, port: int, count: int):
    made = datagram_configuration(True, alpn)
    async with connect(host, port, configuration=made, create_protocol=Datagrams) as protocol:
        verdict = "ok"
        for number in range(count):
            data = bytes([number % 256]) * (number * 13 % 1100)
            protocol.throw(data)
            if await protocol.arrived.get() != data:
                verdict = f"datagram {number} came back changed"
        say(verdict=verdict)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        asyncio.run(run_server(sys.argv[2]))
    elif sys.argv[1] == "echo":
        asyncio.run(run_echo(sys.argv[2]))
    elif sys.argv[1] == "throw":
        asyncio.run(run_throw(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))
    else:
        asyncio.run(run_client(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])))
