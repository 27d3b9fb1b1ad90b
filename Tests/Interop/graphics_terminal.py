"""A terminal with pictures: runs a command in a pseudo-terminal and answers as such a terminal does.

    graphics_terminal.py kitty|sixel|none PROGRAM WORDS…

Types Down and p when something is shown, waits for a picture (or, of a terminal without, for half blocks), then types p
and q. Prints one line of JSON: {"picture", "removed", "blocks", "status"}.
"""

import fcntl
import json
import os
import pty
import re
import select
import struct
import sys
import termios
import time

kind, words = sys.argv[1], sys.argv[2:]
child, terminal = pty.fork()
if child == 0:
    os.environ.update({"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"})
    os.environ.pop("NO_COLOR", None)
    os.execv(words[0], words)
# 100 columns of 10 pixels, 30 rows of 20.
fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 1000, 600))
seen = b""
answered = typed = False
shown = None
end = time.monotonic() + 60


def picture():
    if kind == "kitty":
        # From the first command to the one that says it is the last.
        found = re.search(rb"\x1b_Ga=T,[^;]*;.*?\x1b\\", seen, re.S)
    elif kind == "sixel":
        found = re.search(rb"\x1bP0;1;0q.*?\x1b\\", seen, re.S)
    else:
        found = re.search("▀".encode(), seen)
    return found and found.group(0)


while time.monotonic() < end:
    ready, _, _ = select.select([terminal], [], [], 0.1)
    if ready:
        try:
            more = os.read(terminal, 65536)
        except OSError:
            break
        if not more:
            break
        seen += more
    if not answered and b"\x1b[c" in seen:
        answered = True
        answer = b"\x1b[6;20;10t"
        if kind == "kitty":
            answer = b"\x1b_Gi=4211;OK\x1b\\" + answer
        answer += b"\x1b[?62;4;22c" if kind == "sixel" else b"\x1b[?62;22c"
        # In two pieces, with a key that does nothing between.
        os.write(terminal, answer[:7])
        time.sleep(0.01)
        os.write(terminal, answer[7:])
    if answered and not typed and b"dot.png" in seen:
        typed = True
        os.write(terminal, b"\x1b[B")
        time.sleep(0.2)
        os.write(terminal, b"p")
    if typed and shown is None and picture():
        shown = picture().decode("utf-8", "replace")
        os.write(terminal, b"p")
        time.sleep(0.5)
        os.write(terminal, b"q")
_, status = os.waitpid(child, 0)
print(
    json.dumps(
        {
            "picture": (shown or "")[:120],
            "removed": b"\x1b_Ga=d,d=I" in seen,
            "blocks": "▀".encode() in seen,
            "asked": b"\x1b_Gi=4211" in seen,
            "status": os.waitstatus_to_exitcode(status),
        }
    )
)
