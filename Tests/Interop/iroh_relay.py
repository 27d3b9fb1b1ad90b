"""iroh 1.2 endpoints that know a relay and a key, nothing else: no address, no lookup.

`iroh_relay.py pair URL TOKEN|- COUNT`: two of them meet. `iroh_relay.py serve URL TOKEN|- ALPN` and
`iroh_relay.py dial URL TOKEN|- ALPN ID COUNT`: one meets somebody else. Prints one JSON object per line.
"""

import asyncio
import sys

import iroh
from iroh import iroh_ffi

from iroh_peer import answer, ask, say


async def bind(url: str, token: str, alpn: str):
    relays = iroh.RelayMap.empty()
    relays.insert(iroh.RelayConfig(url=url, quic_port=None, auth_token=None if token == "-" else token))
    endpoint = await iroh.Endpoint.bind(
        iroh.EndpointOptions(
            preset=iroh.preset_minimal(),
            bind_addr="127.0.0.1:0",
            alpns=[alpn.encode()],
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


async def dial(endpoint, identity, url: str, alpn: str, count: int):
    connection = await endpoint.connect(iroh.EndpointAddr(identity, url, []), alpn.encode())
    say(connected=True)
    say(verdict=await ask(await connection.open_bi(), up=count, down=count))
    connection.close(0, b"done")


async def run(what: str, url: str, token: str, *rest: str):
    iroh_ffi.uniffi_set_event_loop(asyncio.get_running_loop())
    if what == "pair":
        alpn = "kith-relay-test"
        server, client = await bind(url, token, alpn), await bind(url, token, alpn)
        say(online=True)
        serving = asyncio.create_task(serve(server))
        await dial(client, server.id(), url, alpn, int(rest[0]))
        await serving
        await client.close()
        await server.close()
        return
    endpoint = await bind(url, token, rest[0])
    say(id=endpoint.id().to_bytes().hex())
    if what == "serve":
        await serve(endpoint)
    else:
        identity = iroh.EndpointId.from_bytes(bytes.fromhex(rest[1]))
        await dial(endpoint, identity, url, rest[0], int(rest[2]))
    await endpoint.close()


asyncio.run(run(*sys.argv[1:]))
