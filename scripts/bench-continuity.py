"""What a running shell notices when the network under it changes, beside ssh. Used by scripts/bench; needs root.

    A command at the other end prints a line every 20 ms; the link takes 10 ms each way. Printed is how long after the
    event, or after the network's return, the next line came. ssh answers the same, where its connection lives on.
"""
import os, subprocess, threading, time

LEFT, RIGHT, SPARE_LEFT, SPARE_RIGHT = "10.7.0.1", "10.7.0.2", "10.7.0.3", "10.7.0.4"
TICKS = "i=0; while [ $i -lt %d ]; do echo $i; i=$((i+1)); sleep 0.02; done"
PATIENCE = 15


def move(link, end, old, new):
    """Gives one end another address instead of its own."""
    device = "link0"
    subprocess.run(link.inside(end, "ip", "addr", "del", f"{new}/16", "dev", device), stderr=subprocess.DEVNULL)
    subprocess.run(link.inside(end, "ip", "addr", "add", f"{new}/16", "dev", device), check=True)
    subprocess.run(link.inside(end, "sysctl", "-qw", f"net.ipv4.conf.{device}.promote_secondaries=1"), check=True)
    subprocess.run(link.inside(end, "ip", "addr", "del", f"{old}/16", "dev", device), check=True)


def down(seconds):
    def happen(link):
        subprocess.run(link.inside("left", "ip", "link", "set", "link0", "down"), check=True)
        time.sleep(seconds)
        subprocess.run(link.inside("left", "ip", "link", "set", "link0", "up"), check=True)
    return happen


def silence(seconds):
    def happen(link):
        link.set({"blackhole": "on"})
        time.sleep(seconds)
        link.set({"blackhole": "off"})
    return happen


EVENTS = {
    "this end's address changes": lambda link: move(link, "left", LEFT, SPARE_LEFT),
    "the other end's address changes": lambda link: move(link, "right", RIGHT, SPARE_RIGHT),
    "a NAT gives us another port": lambda link: link.set({"rebind": "port"}),
    "a NAT gives us another address": lambda link: link.set({"rebind": "address"}),
    "this end's link is down for 5 s": down(5),
    "nothing arrives for 5 s, and nobody says so": silence(5),
    "this end's link is down for a minute": down(60),
}


class Ticker:
    """A shell with a command that prints, and when its lines came."""

    def __init__(self, command):
        self.times = []
        self.process = subprocess.Popen(command, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL)
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        expected = 0
        for line in self.process.stdout:
            if line.strip() != str(expected):
                raise SystemExit(f"bench: the shell printed {line!r} instead of {expected}")
            expected += 1
            self.times.append(time.monotonic())

    def first_after(self, moment):
        """Waits for a line that came then or later; nil when none does."""
        limit = moment + PATIENCE
        while time.monotonic() < limit:
            # Two: one may have been on its way.
            if len(self.times) > 1 and self.times[-2] >= moment:
                return next(at for at in self.times if at >= moment)
            time.sleep(0.005)
        return None

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()


def measure(links, link_program, kith_program, ssh, folder):
    """Prints the table; `links` is the module bench-links.py."""
    rows = {}
    print("\nhow long a running shell is silent, counted from the event or from the network's return")
    for name, event in EVENTS.items():
        row = {}
        for tool in ("kith shell", "ssh"):
            link = links.Link(link_program)
            end = ticker = None
            try:
                link.set({"delay": "10ms"})
                ticks = TICKS % 100_000
                if tool == "ssh":
                    end = links.SCP(ssh, link)
                    command = link.inside("left", "ssh", *ssh.options, RIGHT, ticks)
                else:
                    for side in ("left", "right"):
                        subprocess.run(["rm", "-rf", f"{folder}/link-{side}"])
                    end = links.Kith(kith_program, link, folder, grants=["shell"])
                    command = link.inside("left", kith_program, "shell", "--data", end.left, "right", "--", "sh", "-c",
                                          ticks)
                ticker = Ticker(command)
                if ticker.first_after(time.monotonic()) is None:
                    raise SystemExit(f"bench: {tool} prints nothing")
                event(link)
                moment = time.monotonic()
                came = ticker.first_after(moment)
                row[tool] = None if came is None else (came - moment) * 1000
            finally:
                for thing in (ticker, end, link):
                    if thing:
                        thing.stop()
        rows[name] = row
        shown = [f"{tool} " + ("gone" if at is None else f"{at:.0f} ms").rjust(8) for tool, at in row.items()]
        print(f"  {name:44} {'   '.join(shown)}", flush=True)
    print(f"  (gone: no line within {PATIENCE} s)")
    return rows
