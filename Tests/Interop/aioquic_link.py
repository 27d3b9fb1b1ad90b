"""aioquic at one end of an emulated link: `aioquic_link.py serve OPTIONS` or `aioquic_link.py dial OPTIONS`.

OPTIONS is a JSON object: host, port, the case by the interop runner's name, and how much to send. Prints one JSON
object per line. The conversation is that of exchange.py, on as many streams and connections as asked for.
"""

import asyncio
import hashlib
import json
import sys

from aioquic.asyncio import connect, serve
from aioquic.quic.packet import QuicProtocolVersion
from aioquic.tls import CipherSuite

from aioquic_peer import answer, configuration, say
from exchange import Answer, pieces


def configured(is_client, options):
    made = configuration(is_client, "kith/1")
    case = options["case"]
    if case == "chacha20":
        made.cipher_suites = [CipherSuite.CHACHA20_POLY1305_SHA256]
    if case == "v2":
        made.original_version = QuicProtocolVersion.VERSION_1
        made.supported_versions = [QuicProtocolVersion.VERSION_2, QuicProtocolVersion.VERSION_1]
    return made


async def run_server(options):
    tasks = set()
    tickets = {}

    def accept(reader, writer):
        task = asyncio.ensure_future(answer(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await serve(
        options["host"],
        0,
        configuration=configured(False, options),
        stream_handler=accept,
        retry=options["case"] == "retry",
        session_ticket_fetcher=tickets.pop,
        session_ticket_handler=lambda ticket: tickets.__setitem__(ticket.ticket, ticket),
    )
    say(port=server._transport.get_extra_info("sockname")[1])
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def ask(protocol, options, opened=None):
    reader, writer = opened or await protocol.create_stream()
    sent = hashlib.sha256()
    writer.write(options["down"].to_bytes(8, "big"))
    for piece in pieces(options["up"], seed=1):
        sent.update(piece)
        writer.write(piece)
        await asyncio.sleep(0)
    writer.write_eof()
    answer = Answer(options["down"])
    while data := await reader.read(1 << 20):
        answer.feed(data)
    return answer.verdict(sent.digest())


async def converse(options, made, **more):
    """One connection; returns what is wrong with it, or `ok`."""
    async with connect(options["host"], options["port"], configuration=made, **more) as protocol:
        if options["case"] == "keyupdate":
            await ask(protocol, options | {"up": 100, "down": 100})
            protocol.request_key_update()
        verdicts = await asyncio.gather(*(ask(protocol, options) for _ in range(options["streams"])))
        wrong = [verdict for verdict in verdicts if verdict != "ok"]
        tls = protocol._quic.tls
        if options["case"] == "chacha20" and tls.key_schedule.cipher_suite != CipherSuite.CHACHA20_POLY1305_SHA256:
            wrong.append(f"the cipher suite is {tls.key_schedule.cipher_suite}")
        if options["case"] == "v2" and protocol._quic._version != QuicProtocolVersion.VERSION_2:
            wrong.append(f"the version is {protocol._quic._version:#x}")
        if made.session_ticket and not tls.session_resumed:
            wrong.append("the session was not resumed")
        if made.session_ticket and options["case"] == "zerortt" and not tls.early_data_accepted:
            wrong.append("the early data was refused")
        return wrong[0] if wrong else "ok"


async def run_client(options):
    if options["case"] in ("resumption", "zerortt"):
        tickets = []
        made = configured(True, options)
        verdict = await converse(options, made, session_ticket_handler=tickets.append)
        if verdict == "ok" and not tickets:
            verdict = "no ticket came"
        if verdict == "ok":
            made = configured(True, options)
            made.session_ticket = tickets[-1]
            verdict = await converse(options, made, wait_connected=options["case"] != "zerortt")
        return say(verdict=verdict)
    verdicts = await asyncio.gather(
        *(converse(options, configured(True, options)) for _ in range(options["connections"]))
    )
    say(verdict=next((verdict for verdict in verdicts if verdict != "ok"), "ok"))


if __name__ == "__main__":
    asyncio.run((run_server if sys.argv[1] == "serve" else run_client)(json.loads(sys.argv[2])))
