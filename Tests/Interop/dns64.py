"""A resolver of a network with IPv6 alone: `dns64.py ADDRESS` (RFC 6147, RFC 7050).

It knows one name, ipv4only.arpa, which has two addresses of IPv4 and, under the prefix 64:ff9b::/96, of IPv6; of any
other it says that there is none. Prints one JSON object when it listens, and runs until its input is closed.
"""

import json
import socket
import struct
import sys
import threading

NAME = b"\x08ipv4only\x04arpa\x00"
KNOWN = [bytes([192, 0, 0, 170]), bytes([192, 0, 0, 171])]
PREFIX = bytes.fromhex("0064ff9b0000000000000000")


def answer(question: bytes) -> bytes:
    head, body = question[:2], question[12:]
    end = body.index(0) + 1
    name, kind = body[:end], struct.unpack("!H", body[end : end + 2])[0]
    asked = body[: end + 4]
    records = []
    if name.lower() == NAME:
        data = {1: KNOWN, 28: [PREFIX + ip for ip in KNOWN]}.get(kind, [])
        records = [b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 60, len(ip)) + ip for ip in data]
    flags = 0x8180 if name.lower() == NAME else 0x8183
    return head + struct.pack("!HHHHH", flags, 1, len(records), 0, 0) + asked + b"".join(records)


def run(address: str):
    server = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    server.bind((address, 53))
    print(json.dumps({"listening": 53}), flush=True)
    while True:
        question, source = server.recvfrom(512)
        try:
            server.sendto(answer(question), source)
        except (ValueError, IndexError, struct.error):
            pass  # no question


threading.Thread(target=run, args=(sys.argv[1],), daemon=True).start()
sys.stdin.read()
