"""Address discovery over QUIC (draft-ietf-quic-address-discovery), by aioquic 1.7 with frames and parameters of its own.

`qad_peer.py serve ALPN ROLE` reports to whoever asks, and prints what it is told and the code with which clients close.
`qad_peer.py dial ALPN ROLE HOST PORT` prints what it is told, and closes with code 1.

ROLE: 0 reports, 1 asks, 2 both; -1 says nothing of it. Prints one JSON object per line. X.509 with a self-signed
Ed25519 certificate; nothing of the server's is checked.
"""

import asyncio
import ipaddress
import json
import sys

from aioquic.asyncio import QuicConnectionProtocol, connect, serve
from aioquic.buffer import UINT_VAR_MAX_SIZE
from aioquic.quic import packet
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection, EPOCHS
from aioquic.quic.events import ConnectionTerminated

from aioquic_peer import configuration

PARAMETER = 0x9F81A176
IPV4 = 0x9F81A6
IPV6 = 0x9F81A7


def say(**fields):
    print(json.dumps(fields), flush=True)


def teach(role: int):
    """Adds the extension to aioquic."""
    packet.PARAMS[PARAMETER] = ("address_discovery", int)
    packet.QuicTransportParameters.address_discovery = role if role >= 0 else None
    make = QuicConnection.__init__
    write_ping = QuicConnection._write_ping_frame
    parse = QuicConnection._parse_transport_parameters

    def init(self, *arguments, **named):
        make(self, *arguments, **named)
        self.observed_sequence = 0
        self.peer_role = None
        for kind in (IPV4, IPV6):
            self._QuicConnection__frame_handlers[kind] = (lambda *a: read(self, *a), EPOCHS("1"))

    def read(self, context, kind, buffer):
        sequence = buffer.pull_uint_var()
        ip = ipaddress.ip_address(buffer.pull_bytes(4 if kind == IPV4 else 16))
        say(observed=str(ip), port=buffer.pull_uint16(), sequence=sequence)

    def parse_parameters(self, data, *arguments, **named):
        parse(self, data, *arguments, **named)
        if not named.get("from_session_ticket"):
            buffer = packet.Buffer(data=data)
            self.peer_role = packet.pull_quic_transport_parameters(buffer).address_discovery
            say(role=self.peer_role)

    def write(self, builder, *arguments, **named):
        write_ping(self, builder, *arguments, **named)
        if role not in (0, 2):
            return
        host, port = self._network_paths[0].addr[:2]
        ip = ipaddress.ip_address(host)
        ip = getattr(ip, "ipv4_mapped", None) or ip
        buffer = builder.start_frame(IPV4 if ip.version == 4 else IPV6, capacity=4 + 3 * UINT_VAR_MAX_SIZE)
        buffer.push_uint_var(self.observed_sequence)
        self.observed_sequence += 1
        buffer.push_bytes(ip.packed)
        buffer.push_uint16(port)

    QuicConnection.__init__ = init
    QuicConnection._parse_transport_parameters = parse_parameters
    QuicConnection._write_ping_frame = write


class Reporter(QuicConnectionProtocol):
    """Reports as soon as the handshake is complete: aioquic writes it beside a PING."""

    def quic_event_received(self, event):
        super().quic_event_received(event)
        if type(event).__name__ == "HandshakeCompleted":
            self._quic.send_ping(1)
            self.transmit()
        elif isinstance(event, ConnectionTerminated):
            say(closed=event.error_code)


async def run_server(alpn: str):
    made: QuicConfiguration = configuration(False, alpn)
    server = await serve("127.0.0.1", 0, configuration=made, create_protocol=Reporter)
    say(listening=server._transport.get_extra_info("sockname")[1])
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


async def run_client(alpn: str, host: str, port: int):
    made: QuicConfiguration = configuration(True, alpn)
    async with connect(host, port, configuration=made, create_protocol=Reporter) as protocol:
        say(own=protocol._transport.get_extra_info("sockname")[1])
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        protocol.close(error_code=1)


if __name__ == "__main__":
    teach(int(sys.argv[3]))
    if sys.argv[1] == "serve":
        asyncio.run(run_server(sys.argv[2]))
    else:
        asyncio.run(run_client(sys.argv[2], sys.argv[4], int(sys.argv[5])))
