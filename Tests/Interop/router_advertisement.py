"""A router that advertises a NAT64's prefix: `router_advertisement.py INTERFACE` (RFC 4861, RFC 8781).

Reads lines of JSON, `{"lifetime": SECONDS}`, and for each sends one router advertisement with the PREF64 option of
64:ff9b::/96 to all on the link. It is no default router and has no other option. Prints one JSON object for each, and
one when it is ready; runs until its input is closed.
"""

import json
import socket
import struct
import sys

PREFIX = bytes.fromhex("0064ff9b0000000000000000")

index = socket.if_nametoindex(sys.argv[1])
sender = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6)
# Advertisements are taken from the link alone: nobody forwards a hop limit of 255.
sender.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    lifetime = json.loads(line)["lifetime"]
    # ICMPv6 with a checksum by the kernel; hop limit, flags, lifetime as a router, times: none said.
    advertisement = struct.pack("!BBHBBHII", 134, 0, 0, 0, 0, 0, 0, 0)
    # Units of 8 seconds in the upper 13 bits, and code 0 for a length of 96.
    advertisement += struct.pack("!BBH", 38, 2, lifetime // 8 << 3) + PREFIX
    sender.sendto(advertisement, ("ff02::1", 0, 0, index))
    print(json.dumps({"sent": lifetime}), flush=True)
