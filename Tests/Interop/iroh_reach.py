"""Two iroh 1.2 endpoints that meet by relays: `iroh_reach.py serve SECRET URL…` sends back what it gets, and
`iroh_reach.py dial SECRET ID URL URL…` dials ID at the first URL, sends lines of its input and prints those that come back.

SECRET is 32 bytes in hexadecimal. What happens is a JSON object on the standard error, with the time of the machine's
monotonic clock.
"""

import asyncio
import json
import sys
import time

import iroh
from iroh import iroh_ffi

ALPN = b"kith-bench-reach"


def say(**fields):
    print(json.dumps(fields | {"at": time.monotonic()}), file=sys.stderr, flush=True)


async def bind(secret: str, urls: list[str]):
    relays = iroh.RelayMap.empty()
    for url in urls:
        relays.insert(iroh.RelayConfig(url=url, quic_port=None, auth_token=None))
    endpoint = await iroh.Endpoint.bind(
        iroh.EndpointOptions(
            preset=iroh.preset_minimal(),
            secret_key=bytes.fromhex(secret),
            alpns=[ALPN],
            relay_mode=iroh.RelayMode.custom(relays),
        )
    )
    await endpoint.online()
    say(online=endpoint.id().to_bytes().hex(), relay=endpoint.addr().relay_url())
    return endpoint


async def watch(connection):
    """Says when the selected path is of another kind."""
    last = None
    while True:
        kind = next((("relay" if path.is_relay else "direct") for path in connection.paths() if path.is_selected), None)
        if kind != last:
            last = kind
            say(path=kind)
        await asyncio.sleep(0.01)


async def serve(endpoint):
    async def one(incoming):
        try:
            connection = await (await incoming.accept()).connect()
            stream = await connection.accept_bi()
            receive, send = stream.recv(), stream.send()
            while data := await receive.read(1 << 16):
                await send.write_all(data)
        except Exception as error:
            say(ended=str(error))

    tasks = set()
    while incoming := await endpoint.accept_next():
        task = asyncio.create_task(one(incoming))
        tasks.add(task)
        task.add_done_callback(tasks.discard)


async def dial(endpoint, identity: str, url: str):
    say(dialing=True)
    peer = iroh.EndpointAddr(iroh.EndpointId.from_bytes(bytes.fromhex(identity)), url, [])
    try:
        connection = await endpoint.connect(peer, ALPN)
    except Exception as error:
        say(failed=error.message() if isinstance(error, iroh.IrohError) else str(error))
        return
    watching = asyncio.create_task(watch(connection))
    stream = await connection.open_bi()
    receive, send = stream.recv(), stream.send()
    await send.write_all(b"first\n")
    await receive.read(6)
    say(connected=True)

    async def back():
        while data := await receive.read(1 << 16):
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    returning = asyncio.create_task(back())
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        await send.write_all(line)
    returning.cancel()
    watching.cancel()
    connection.close(0, b"done")


async def main():
    iroh_ffi.uniffi_set_event_loop(asyncio.get_running_loop())
    words = sys.argv[2:]
    if sys.argv[1] == "serve":
        await serve(await bind(words[0], words[1:]))
    else:
        await dial(await bind(words[0], words[3:]), words[1], words[2])


asyncio.run(main())
