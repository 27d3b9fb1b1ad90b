from __future__ import annotations

import enum


class Code(enum.IntEnum):
    """The kinds of failure, with the numbers of CKith.h."""

    UNSUPPORTED = -32601
    INVALID = -32602
    INTERNAL = -32603
    NOT_FOUND = -32001
    CONFLICT = -32002
    DENIED = -32003
    UNPAIRED = -32004
    UNREACHABLE = -32005
    TIMED_OUT = -32006
    CANCELLED = -32007
    EXHAUSTED = -32008
    CORRUPT = -32009
    CLOSED = -32010


class KithError(Exception):
    """A failure. Raise one in a handler to choose what the caller sees."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        try:
            self.code: int = Code(code)
        except ValueError:  # one of a later version
            self.code = code
