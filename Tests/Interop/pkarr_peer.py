"""A pkarr directory, and one who uses another's: `pkarr_peer.py serve` or `pkarr_peer.py use HTTP-PORT DNS-PORT ORIGIN`.

Written from the specifications (pkarr relays, BEP 44, RFC 1035) with nothing of Kith. The server keeps what is signed,
newest first, and prints its port. The user publishes, reads and attacks, and prints a verdict: "ok", or what was wrong.
Both run until their input ends.
"""

import http.client
import http.server
import json
import socket
import struct
import sys
import threading

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

LETTERS = "ybndrfg8ejkmcpqxot1uwisza345h769"


def z32(key):
    bits = "".join(f"{byte:08b}" for byte in key) + "0" * (-len(key) * 8 % 5)
    return "".join(LETTERS[int(bits[i : i + 5], 2)] for i in range(0, len(bits), 5))


def unz32(text):
    bits = "".join(f"{LETTERS.index(letter):05b}" for letter in text)
    return bytes(int(bits[i : i + 8], 2) for i in range(0, len(bits) // 8 * 8, 8))


def signed(time, message):
    return b"3:seqi%de1:v%d:" % (time, len(message)) + message


def name(text):
    return b"".join(bytes([len(label)]) + label.encode() for label in text.split(".")) + b"\0"


def message(key, *strings):
    answers = b""
    for string in strings:
        data = bytes([len(string)]) + string.encode()
        answers += name(f"_iroh.{z32(key)}") + struct.pack("!HHIH", 16, 1, 30, len(data)) + data
    return struct.pack("!6H", 0, 0x8000, 0, len(strings), 0, 0) + answers


class Directory(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    records = {}

    def answer(self, status, body=b""):
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        key = self.path.removeprefix("/pkarr/")
        if len(body) > 1072:
            return self.answer(413)
        time = struct.unpack("!Q", body[64:72])[0]
        try:
            Ed25519PublicKey.from_public_bytes(unz32(key)).verify(body[:64], signed(time, body[72:]))
        except (InvalidSignature, ValueError):
            return self.answer(400)
        old = self.records.get(key)
        if old and old[64:72] > body[64:72]:
            return self.answer(409)
        self.records[key] = body
        self.answer(204)

    def do_GET(self):
        body = self.records.get(self.path.removeprefix("/pkarr/"))
        self.answer(200 if body else 404, body or b"")

    def log_message(self, *_):
        pass


def use(port, dns_port, origin):
    secret = Ed25519PrivateKey.generate()
    key = secret.public_key().public_bytes_raw()

    def body(time, text):
        return secret.sign(signed(time, text)) + struct.pack("!Q", time) + text

    connection = http.client.HTTPConnection("127.0.0.1", port)

    def ask(method, path, content=None):
        connection.request(method, path, content)
        response = connection.getresponse()
        return response.status, response.read()

    def expect(what, got, wanted):
        if got != wanted:
            raise AssertionError(f"{what}: {got!r} instead of {wanted!r}")

    def question(label):
        return struct.pack("!6H", 77, 0x0100, 1, 0, 0, 0) + name(label) + struct.pack("!HH", 16, 1)

    def over_udp(label):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.settimeout(60)
            udp.sendto(question(label), ("127.0.0.1", dns_port))
            return udp.recv(65_535)

    def over_tcp(label):
        with socket.create_connection(("127.0.0.1", dns_port), timeout=60) as tcp:
            asked = question(label)
            tcp.sendall(struct.pack("!H", len(asked)) + asked)
            stream = tcp.makefile("rb")
            return stream.read(struct.unpack("!H", stream.read(2))[0])

    place = f"/pkarr/{z32(key)}"
    expect("nothing there", ask("GET", place)[0], 404)
    nothing = ask("GET", place)
    expect("no key looks the same", ask("GET", "/pkarr/nobody"), nothing)
    expect("nothing is listed", ask("GET", "/pkarr/"), nothing)
    expect("nor here", ask("GET", "/"), nothing)
    first = body(1_000, message(key, "relay=https://a.example"))
    expect("publishing", ask("PUT", place, first), (204, b""))
    expect("reading", ask("GET", place), (200, first))
    expect("once more", ask("PUT", place, first)[0], 204)
    second = body(1_000, message(key, "relay=https://b.example"))
    expect("as old and larger", ask("PUT", place, second)[0], 204)
    expect("as old and smaller", ask("PUT", place, first)[0], 409)
    expect("older", ask("PUT", place, body(999, message(key, "relay=https://c.example")))[0], 409)
    expect("what stays", ask("GET", place), (200, second))
    forged = bytearray(body(2_000, message(key, "relay=https://evil.example")))
    forged[-1] ^= 1
    expect("forged", ask("PUT", place, bytes(forged))[0], 400)
    expect("another's", ask("PUT", "/pkarr/" + z32(bytes(32)), first)[0], 400)
    expect("no DNS", ask("PUT", place, body(2_000, b"hello"))[0], 400)
    expect("too short", ask("PUT", place, bytes(71))[0], 400)
    expect("no key", ask("PUT", "/pkarr/nobody", first)[0], 400)
    expect("another method", ask("DELETE", place)[0], 405)
    expect("too long", ask("PUT", place, bytes(1_073))[0], 413)
    connection.close()
    expect("after that", ask("GET", place), (200, second))
    expect("health", ask("GET", "/healthz")[0], 200)
    metrics = ask("GET", "/metrics")[1].decode()
    expect("metrics", "kith_directory_records 1\n" in metrics, True)
    expect("no key in them", z32(key) in metrics, False)

    label = f"_iroh.{z32(key)}.{origin}"
    data = b"\x17relay=https://b.example"
    for how in (over_udp, over_tcp):
        answer = how(label)
        expect("an answer", struct.unpack("!6H", answer[:12]), (77, 0x8500, 1, 1, 0, 0))
        # Type, class, time and length of the record, which has the name of the question.
        expect("its record", answer[-len(data) - 12 :], b"\xc0\x0c" + struct.pack("!HHIH", 16, 1, 30, len(data)) + data)
        missing = how(f"_iroh.{z32(bytes(32))}.{origin}")
        expect("none", struct.unpack("!6H", missing[:12]), (77, 0x8503, 1, 0, 1, 0))
        expect("not ours", struct.unpack("!6H", how("example.net")[:12]), (77, 0x8105, 1, 0, 0, 0))


if sys.argv[1] == "serve":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Directory)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(json.dumps({"port": server.server_address[1]}), flush=True)
else:
    try:
        use(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
        print(json.dumps({"verdict": "ok"}), flush=True)
    except Exception as error:
        print(json.dumps({"verdict": f"{type(error).__name__}: {error}"}), flush=True)
sys.stdin.read()
