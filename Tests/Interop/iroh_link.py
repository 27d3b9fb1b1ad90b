"""iroh at one end of an emulated link: `iroh_link.py serve OPTIONS` or `iroh_link.py dial OPTIONS`.

OPTIONS is a JSON object: host to listen on and, to dial, id, address and how much to send and to ask for. Prints one
JSON object per line. No relay, no address lookup. The conversation is that of exchange.py.
"""

import asyncio
import json
import sys

import iroh
from iroh import iroh_ffi

from iroh_peer import answer, ask, bind, say

ALPN = "kith/1"


async def run_server(options):
    endpoint = await bind(ALPN, options["host"])
    say(id=endpoint.id().to_bytes().hex(), addresses=endpoint.bound_sockets())

    async def serve(incoming):
        try:
            connection = await (await incoming.accept()).connect()
            while True:
                start(answer(await connection.accept_bi()))
        except iroh_ffi.IrohError:
            pass  # The packet it began with was spoiled, or the dialer has closed the connection.

    tasks = set()

    def start(work):
        task = asyncio.ensure_future(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    async def run():
        while incoming := await endpoint.accept_next():
            start(serve(incoming))

    start(run())
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def converse(options):
    """Connections one after the other from an endpoint of their own; returns what is wrong with them, or `ok`."""
    endpoint = await bind(ALPN, options["host"])
    peer = iroh.EndpointAddr(iroh.EndpointId.from_bytes(bytes.fromhex(options["id"])), None, [options["address"]])
    verdicts = []

    async def one(connection):
        return await ask(await connection.open_bi(), options["up"], options["down"])

    for _ in range(options["rounds"]):
        connection = await endpoint.connect(peer, ALPN.encode())
        verdicts += await asyncio.gather(*(one(connection) for _ in range(options["streams"])))
        connection.close(0, b"done")
    await endpoint.close()
    return next((verdict for verdict in verdicts if verdict != "ok"), "ok")


async def run_client(options):
    try:
        verdicts = await asyncio.gather(*(converse(options) for _ in range(options["connections"])))
    except iroh_ffi.IrohError as error:
        verdicts = [repr(error)]
    say(verdict=next((verdict for verdict in verdicts if verdict != "ok"), "ok"))


if __name__ == "__main__":
    asyncio.run((run_server if sys.argv[1] == "serve" else run_client)(json.loads(sys.argv[2])))
