"""The conversation every interop test has: one stream, opened by the dialer.

    dialer  -> count (8 bytes, big-endian), payload, end
    answerer-> SHA-256 of the payload (32), `count` bytes, SHA-256 of those (32), end
"""

import hashlib
import random

PIECE = 1 << 20


def pieces(count: int, seed: int):
    """Yields `count` seeded bytes, piece by piece."""
    source = random.Random(seed)
    while count > 0:
        size = min(PIECE, count)
        yield source.randbytes(size)
        count -= size


class Answer:
    """Checks what the answerer says, as it arrives."""

    def __init__(self, wanted: int):
        self.wanted = wanted
        self.head = b""
        self.tail = b""
        self.count = 0
        self.hash = hashlib.sha256()

    def feed(self, data: bytes) -> None:
        if len(self.head) < 32:
            need = 32 - len(self.head)
            self.head += data[:need]
            data = data[need:]
        body = min(len(data), self.wanted - self.count)
        self.hash.update(data[:body])
        self.count += body
        self.tail += data[body:]

    def verdict(self, sent: bytes) -> str:
        """`ok`, or what is wrong; `sent` is the digest of what the dialer sent."""
        if self.head != sent:
            return "the answerer received other bytes than we sent"
        if self.count != self.wanted:
            return f"{self.count} bytes came, {self.wanted} were asked for"
        if self.tail != self.hash.digest():
            return "we received other bytes than the answerer sent"
        return "ok"


class Question:
    """Takes in what the dialer says."""

    def __init__(self):
        self.head = b""
        self.hash = hashlib.sha256()

    def feed(self, data: bytes) -> None:
        if len(self.head) < 8:
            need = 8 - len(self.head)
            self.head += data[:need]
            data = data[need:]
        self.hash.update(data)

    @property
    def wanted(self) -> int:
        return int.from_bytes(self.head, "big")
