#!/usr/bin/env python3
"""Measure how long a key takes to come back: the keystroke echo of a command on a terminal.

    scripts/bench-echo.py [options] -- COMMAND [ARGUMENT…]

    scripts/bench-echo.py -- kith --data /tmp/a shell laptop
    scripts/bench-echo.py -- ssh localhost
    scripts/bench-echo.py -- bash --norc                  # no network: the floor

Runs COMMAND on a pseudo-terminal, waits until the shell it gives answers, has that shell start `cat` on a terminal
in raw mode (`--mode cat`, the default) or stay at its prompt (`--mode prompt`), then types one key at a time and
waits for each to appear before it types the next. Prints one line of JSON:

    {"command": "ssh localhost", "keys": 300, "lost": 0, "p50_ms": 0.41, "p90_ms": …, "p99_ms": …, "max_ms": …}

Exit status: 0 measured, 1 the command did not answer.
"""

import argparse
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import fcntl
import time


# What moves the cursor or colours a character is not the character.
CONTROL = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]+[0-~]|[0-Z\\^-~])")


class Terminal:
    """A command on a pseudo-terminal of its own."""

    def __init__(self, command):
        self.process, self.master = pty.fork()
        if self.process == 0:
            try:
                os.execvp(command[0], command)
            except OSError as error:
                os.write(2, f"{command[0]}: {error.strerror}\n".encode())
                os._exit(127)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.seen = b""

    def write(self, data):
        os.write(self.master, data)

    def read(self, timeout):
        """Reads what is there, waiting for at most `timeout` seconds; None when nothing came."""
        ready, _, _ = select.select([self.master], [], [], max(timeout, 0))
        if not ready:
            return None
        try:
            data = os.read(self.master, 65536)
        except OSError:
            data = b""
        if not data:
            raise EOFError
        return data

    def expect(self, text, timeout):
        """Reads until `text` has come; everything up to it is forgotten."""
        deadline = time.monotonic() + timeout
        while text not in self.seen:
            data = self.read(deadline - time.monotonic())
            if data is None:
                return False
            self.seen = CONTROL.sub(b"", self.seen + data)
        self.seen = self.seen[self.seen.index(text) + len(text):]
        return True

    def settle(self, quiet):
        """Reads until nothing has come for `quiet` seconds."""
        while self.read(quiet) is not None:
            pass
        self.seen = b""

    def end(self):
        os.close(self.master)
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGKILL):
            try:
                os.kill(self.process, number)
            except ProcessLookupError:
                pass
            for _ in range(100):
                if os.waitpid(self.process, os.WNOHANG)[0]:
                    return
                time.sleep(0.01)


def percentile(times, share):
    return times[min(len(times) - 1, int(len(times) * share))]


def measure(options):
    terminal = Terminal(options.command)
    try:
        # The shell prints the sum, not the line it was typed as.
        for _ in range(int(options.timeout)):
            terminal.write(b"echo up$((40+2))up\r")
            if terminal.expect(b"up42up", 1):
                break
        else:
            return None, "the command gave no shell that answers"
        if options.mode == "cat":
            # The far terminal echoes nothing itself: each key travels through a program there and back.
            terminal.write(b"stty raw -echo; echo ca$((40+2))t; exec cat\r")
            if not terminal.expect(b"ca42t", options.timeout):
                return None, "the shell did not start cat"
        terminal.settle(0.3)

        times, lost = [], 0
        for number in range(options.keys + options.warmup):
            key = b"abcdefghijklmnopqrstuvwxyz"[number % 26:number % 26 + 1]
            if options.mode == "prompt" and number % 60 == 59:
                terminal.write(b"\x15")  # empties the line before it wraps
                terminal.settle(0.05)
            start = time.perf_counter()
            terminal.write(key)
            came = terminal.expect(key, options.key_timeout)
            elapsed = time.perf_counter() - start
            if number < options.warmup:
                continue
            if came:
                times.append(elapsed * 1000)
            else:
                lost += 1
                terminal.settle(0.1)
            if options.pause:
                time.sleep(options.pause)
    except EOFError:
        said = terminal.seen.decode(errors="replace").strip().splitlines()
        return None, "the command ended" + (f": {said[-1]}" if said else "")
    finally:
        terminal.end()
    if not times:
        return None, "no key came back"
    times.sort()
    return {
        "command": options.label or " ".join(options.command),
        "mode": options.mode,
        "keys": options.keys,
        "lost": lost,
        "p50_ms": round(percentile(times, 0.50), 3),
        "p90_ms": round(percentile(times, 0.90), 3),
        "p99_ms": round(percentile(times, 0.99), 3),
        "max_ms": round(times[-1], 3),
    }, None


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=300, help="how many keys are measured (300)")
    parser.add_argument("--warmup", type=int, default=20, help="how many come before and do not count (20)")
    parser.add_argument("--pause", type=float, default=0.005, help="seconds between two keys (0.005)")
    parser.add_argument("--mode", choices=("cat", "prompt"), default="cat", help="what answers there (cat)")
    parser.add_argument("--timeout", type=float, default=15, help="seconds to wait for the shell (15)")
    parser.add_argument("--key-timeout", type=float, default=2, help="seconds after which a key is lost (2)")
    parser.add_argument("--label", help="what to call the command in the result")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    result, problem = measure(options)
    if result is None:
        print(f"bench-echo: {' '.join(options.command)}: {problem}", file=sys.stderr)
        sys.exit(1)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
