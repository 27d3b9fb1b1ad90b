"""Another implementation of multicast DNS, the package zeroconf, on one link.

    mdns_peer.py browse  '{"address": "10.9.0.2", "type": "_kith._udp.local."}'
    mdns_peer.py publish '{"address": "10.9.0.2", "type": …, "name": …, "host": …, "port": 4433, "text": {…}}'

Prints one JSON object per line, and runs until its input is closed: then it says goodbye.
"""

import json
import socket
import sys

from zeroconf import IPVersion, ServiceBrowser, ServiceInfo, ServiceListener, Zeroconf


def say(**event):
    print(json.dumps(event), flush=True)


class Listener(ServiceListener):
    def add_service(self, zc, kind, name):
        info = zc.get_service_info(kind, name, timeout=10_000)
        if info is None:
            say(event="unresolved", name=name)
            return
        text = {key.decode(): (value or b"").decode() for key, value in info.properties.items()}
        say(
            event="added", name=name, host=info.server, port=info.port, text=text,
            addresses=sorted(info.parsed_addresses()),
        )

    def update_service(self, zc, kind, name):
        pass

    def remove_service(self, zc, kind, name):
        say(event="removed", name=name)


def main():
    mode, options = sys.argv[1], json.loads(sys.argv[2])
    family = IPVersion.V6Only if ":" in options["address"] else IPVersion.V4Only
    zc = Zeroconf(interfaces=[options["address"]], ip_version=family)
    if mode == "browse":
        ServiceBrowser(zc, options["type"], Listener())
    else:
        raw = socket.inet_pton(socket.AF_INET6 if ":" in options["address"] else socket.AF_INET, options["address"])
        zc.register_service(
            ServiceInfo(
                options["type"], f"{options['name']}.{options['type']}", port=options["port"], addresses=[raw],
                server=f"{options['host']}.local.", properties=options["text"],
            )
        )
    say(event="ready")
    sys.stdin.read()
    zc.close()


main()
