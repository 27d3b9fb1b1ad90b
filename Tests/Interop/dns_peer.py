"""Asks a directory over DNS with dnspython: `dns_peer.py HOST PORT ORIGIN KEY`, and prints one JSON object.

The TXT records of _iroh.KEY.ORIGIN over UDP and over TCP, whether UDP said that the answer was cut, what
dnspython's way of asking TCP then gives, and the codes of what is refused.
"""

import json
import sys

import dns.edns
import dns.flags
import dns.message
import dns.query
import dns.rcode
import dns.rdatatype

host, port, origin, key = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]


def question(name, kind="TXT", **options):
    return dns.message.make_query(name, kind, **options)


def texts(answer):
    return sorted(
        b"".join(data.strings).decode() for rrset in answer.answer if rrset.rdtype == dns.rdatatype.TXT for data in rrset
    )


def code(answer):
    return dns.rcode.to_text(answer.rcode())


def udp(asked):
    return dns.query.udp(asked, host, timeout=60, port=port)


def tcp(asked):
    return dns.query.tcp(asked, host, timeout=60, port=port)


place = f"_iroh.{key}.{origin}"
plain = udp(question(place))
both, was_cut = dns.query.udp_with_fallback(question(place, use_edns=0, payload=1232), host, timeout=60, port=port)
print(
    json.dumps(
        {
            "udpIsCut": bool(plain.flags & dns.flags.TC),
            "udp": texts(plain),
            "tcp": texts(tcp(question(place))),
            "fallback": texts(both),
            "fellBack": was_cut,
            "upperCase": texts(tcp(question(place.upper()))),
            "missing": code(udp(question(f"_iroh.{'y' * 52}.{origin}"))),
            "noKey": code(udp(question(f"_iroh.nobody.{origin}"))),
            "elsewhere": code(udp(question("example.net"))),
            "transfer": code(tcp(question(origin, "AXFR"))),
            "isAuthoritative": bool(plain.flags & dns.flags.AA),
        }
    ),
    flush=True,
)
sys.stdin.read()
