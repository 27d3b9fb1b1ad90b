"""Two iroh 1.2 endpoints that know each other's key and a relay, nothing else: `iroh_relay.py URL COUNT`.

Prints one JSON object per line.
"""

import asyncio
import sys

import iroh
from iroh import iroh_ffi

from iroh_peer import answer, ask, say

ALPN = b"kith-relay-test"


async def bind(url: str):
    relays = iroh.RelayMap.empty()
    relays.insert(iroh.RelayConfig(url=url, quic_port=None, auth_token=None))
    endpoint = await iroh.Endpoint.bind(
        iroh.EndpointOptions(
            preset=iroh.preset_minimal(),
            bind_addr="127.0.0.1:0",
            alpns=[ALPN],
            relay_mode=iroh.RelayMode.custom(relays),
        )
    )
    await endpoint.online()
    return endpoint


async def serve(endpoint):
    incoming = await endpoint.accept_next()
    connection = await (await incoming.accept()).connect()
    question = await answer(await connection.accept_bi())
    say(answered=question.wanted)
    await connection.closed()


async def run(url: str, count: int):
    iroh_ffi.uniffi_set_event_loop(asyncio.get_running_loop())
    server, client = await bind(url), await bind(url)
    say(online=True)
    serving = asyncio.create_task(serve(server))
    connection = await client.connect(iroh.EndpointAddr(server.id(), url, []), ALPN)
    say(connected=True)
    say(verdict=await ask(await connection.open_bi(), up=count, down=count))
    connection.close(0, b"done")
    await serving
    await client.close()
    await server.close()


asyncio.run(run(sys.argv[1], int(sys.argv[2])))
