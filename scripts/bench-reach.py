"""How well devices reach each other, beside iroh's package where it can do the case. Used by scripts/bench; needs root.

Everything runs in the lab (Tools/Lab): two devices behind NATs, relays, an internet between them. A row is a goal of
the project: its value, the floor, the target, and iroh's value in the same lab. Times are those of the machine's
monotonic clock, seen from outside: when a call is answered, when an echo comes back, when a device says that its path
is direct.
"""
import base64, contextlib, json, os, select, shutil, signal, socket, statistics, subprocess, tempfile, threading, time

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Every kind of mapping and filtering that is in use, both ways.
KINDS = ["full-cone", "restricted", "port-restricted", "symmetric"]
# The nine levels, by the side that is impaired.
LEVELS = [(level, side) for level in range(1, 10) for side in (1, 2)]
# An end of the connection, the families before and after.
SWITCHES = [(side, old, new) for side in (1, 2) for old in ("v4", "v6", "dual") for new in ("v4", "v6", "dual")]


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else None


def until(seconds, condition, pause=0.01):
    """Waits for a condition; gives the time that took, or nil."""
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        if condition():
            return time.monotonic() - start
        time.sleep(pause)
    return None


def descendants(process):
    """The processes that come of one, itself included."""
    found = [process]
    for task in found:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found += map(int, open(f"/proc/{task}/task/{task}/children").read().split())
    return found


class Lab:
    """A running kith-lab."""

    def __init__(self, program, first, second):
        self.process = subprocess.Popen([program, "pair", first, second, "--json"], text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, bufsize=1)
        ends = json.loads(self.process.stdout.readline())
        self.spaces, self.addresses = ends["namespaces"], ends["addresses"]

    def change(self, line):
        self.process.stdin.write(line + "\n")
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(f"{line}: {answer['error']}")

    def inside(self, place, *command):
        return ["nsenter", f"--net={self.spaces[place]}", *map(str, command)]

    def run(self, place, *command):
        subprocess.run(self.inside(place, *command), check=True, stdout=subprocess.DEVNULL)

    def stop(self):
        try:
            self.process.stdin.close()
            self.process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()


class Relay:
    """A relay in a place of the lab, for Kith's devices and for iroh's."""

    def __init__(self, lab, kith, place, folder, name=None):
        self.lab, self.place = lab, place
        self.url = f"http://{name or lab.addresses[place]}"
        self.command = lab.inside(place, kith, "relay", "--data", f"{folder}/{place}", "--no-tls", "--listen",
                                  "[::]:80")
        self.process = None

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        # Its first line says that it listens.
        self.process.stdout.readline()
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        return self

    def clients(self):
        page = subprocess.run(self.lab.inside(self.place, "curl", "-s", "http://127.0.0.1/healthz"), text=True,
                              stdout=subprocess.PIPE).stdout
        return json.loads(page)["clients"] if page else 0

    def stop(self, how=signal.SIGTERM):
        if self.process:
            self.process.send_signal(how)
            self.process.wait()
            self.process = None


class Device:
    """The real kith in a place of the lab, asked at its socket."""

    def __init__(self, lab, kith, place, name, folder):
        self.lab, self.kith, self.place, self.name = lab, kith, place, name
        self.data, self.socket, self.number = f"{folder}/{name}", None, 0
        # What takes the place of /etc/hosts, if anything.
        self.hosts = None

    def command(self, *words):
        words = [self.kith, words[0], "--data", self.data, *words[1:]]
        if self.hosts:
            words = ["unshare", "-m", "sh", "-c", f'mount --bind {self.hosts} /etc/hosts && exec "$@"', "sh", *words]
        return self.lab.inside(self.place, *words)

    def run(self, *words):
        done = subprocess.run(self.command(*words), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode:
            raise RuntimeError(f"kith {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout.strip()

    def up(self, *options):
        self.run("up", "--detach", "--no-invite", "--name", self.name, "--no-port-mapping", *options)

    def down(self):
        self.disconnect()
        subprocess.run(self.command("down"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def disconnect(self):
        if self.socket:
            self.socket.close()
            self.socket = None

    def kill(self):
        try:
            os.kill(self.call("device.status")["pid"], signal.SIGKILL)
        except (OSError, KeyError, RuntimeError):
            pass
        self.disconnect()

    def call(self, method, on=None, timeout=30, **params):
        if self.socket is None:
            path = f"{self.data}/kith.sock"
            if os.path.exists(path + ".path"):
                path = open(path + ".path").read().strip()
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(path)
            self.stream = self.socket.makefile("rb")
        self.number += 1
        request = {"jsonrpc": "2.0", "id": self.number, "method": method, "params": params,
                   "timeout": int(timeout * 1000)}
        if on:
            request["on"] = on
        self.socket.sendall(json.dumps(request).encode() + b"\n")
        while True:
            answer = json.loads(self.stream.readline())
            if answer.get("id") == self.number:
                break
        if "error" in answer:
            raise RuntimeError(answer["error"]["message"])
        return answer["result"]

    def path(self, peer):
        """The way to a paired device: `direct`, `relay`, or nil while there is none."""
        for device in self.call("devices.list", probe=False):
            if device["name"] == peer and device.get("path"):
                return "relay" if "://" in device["path"] else "direct"
        return None

    def echo(self, peer, timeout=30):
        """Calls a device; gives the seconds that took, or nil."""
        start = time.monotonic()
        try:
            self.call("device.echo", on=peer, timeout=timeout, bytes=base64.b64encode(b"x" * 56).decode())
        except RuntimeError:
            return None
        return time.monotonic() - start


class Ticker:
    """Sends a line every 20 ms through a program that has it echoed from afar, and notes when it is back."""

    INTERVAL = 0.02

    def __init__(self, command, errors=subprocess.DEVNULL):
        self.sent, self.times, self.last = [], [], -1
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                                        bufsize=0)
        self.isOver = False
        self.threads = [threading.Thread(target=body, daemon=True) for body in (self.write, self.read)]

    def begin(self):
        for thread in self.threads:
            thread.start()
        return self

    def write(self):
        while not self.isOver:
            self.sent.append(time.monotonic())
            try:
                # A pipe that is full would hold the clock of the rest.
                if select.select([], [self.process.stdin], [], 0)[1]:
                    self.process.stdin.write(b"%d\n" % (len(self.sent) - 1))
                else:
                    self.sent.pop()
            except OSError:
                return
            time.sleep(self.INTERVAL)

    def read(self):
        for line in self.process.stdout:
            self.times.append(time.monotonic())
            if int(line) != self.last + 1:
                raise RuntimeError(f"{line!r} came back after {self.last}")
            self.last = int(line)

    def comes_back(self, moment, patience):
        """Waits until something sent after a moment is back."""
        return until(patience, lambda: self.last >= 0 and self.sent[self.last] >= moment) is not None

    def silence(self, moment, patience, settling=0.5):
        """The longest pause between two echoes since a moment, when they come again; nil when they do not."""
        if not self.comes_back(moment + settling, patience):
            return None
        times = list(self.times)
        times = [max((at for at in times if at < moment), default=moment)] + [at for at in times if at >= moment]
        return max(after - before for before, after in zip(times, times[1:]))

    def stop(self):
        self.isOver = True
        self.process.kill()
        self.process.wait()


class Pair:
    """Two of Kith's devices in a lab, paired, with relays that they know."""

    SETTLING = 1

    def __init__(self, programs, folder, first, second, relays=("relay1", "relay2"), isNamed=False, isFar=True):
        """With names the relays are found by either family."""
        self.kith, self.folder = f"{programs}/kith", tempfile.mkdtemp(dir=folder)
        folder = self.folder
        self.lab = Lab(f"{programs}/kith-lab", first, second)
        self.relays = {name: Relay(self.lab, self.kith, name, folder, f"{name}.lab" if isNamed else None).start()
                       for name in relays}
        self.laptop = Device(self.lab, self.kith, "c1", "laptop", folder)
        self.phone = Device(self.lab, self.kith, "c2", "phone", folder)
        self.tickers = []
        # Each device is 10 ms from everything else.
        for router in ("r1", "r2", "m1", "m2") if isFar else ():
            self.lab.change(f"distance {router} 10")
        if isNamed:
            hosts = f"{folder}/hosts"
            with open(hosts, "w") as file:
                for name in relays:
                    address = self.lab.addresses[name]
                    file.write(f"{address} {name}.lab\n2a01:4f8:77:ff::{address.split('.')[-1]} {name}.lab\n")
            self.laptop.hosts = self.phone.hosts = hosts
        self.laptop.up("--no-discovery", *[word for relay in self.relays.values()
                                           for word in ("--use-relay", relay.url)])
        self.phone.up("--no-discovery")
        invitation = self.laptop.run("invite", "--yes", "--text", "--grant", "shell")
        self.phone.run("pair", invitation, "--yes", "--grant", "shell")
        self.online()
        self.connect()
        # Each tells the other at which relays it is to be found from now on, and keeps what it was told.
        time.sleep(self.SETTLING)

    def online(self, patience=20):
        """Waits until the relays say that both are there."""
        return until(patience, lambda: all(relay.clients() >= 2 for relay in self.relays.values()))

    def again(self, *changes, options=()):
        """Starts both devices anew, after changes of the lab."""
        for device in (self.laptop, self.phone):
            device.down()
        for change in changes:
            self.lab.change(change)
        for device in (self.laptop, self.phone):
            device.up("--no-discovery", *options)
        return self.online()

    def connect(self, patience=30):
        """Calls the phone; gives the seconds until it has answered."""
        return self.laptop.echo("phone", patience)

    def is_direct(self):
        return self.laptop.path("phone") == "direct" and self.phone.path("laptop") == "direct"

    def direct(self, patience):
        """The seconds until both send directly."""
        return until(patience, self.is_direct)

    def ticker(self, *options):
        ticker = Ticker(self.laptop.command("shell", *options, "phone", "--", "cat")).begin()
        self.tickers.append(ticker)
        if not ticker.comes_back(time.monotonic(), 20):
            raise RuntimeError("the shell sends nothing back")
        return ticker

    def stop(self):
        for ticker in self.tickers:
            ticker.stop()
        for device in (self.laptop, self.phone):
            device.kill()
        for relay in self.relays.values():
            relay.stop(signal.SIGKILL)
        self.lab.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


class Iroh:
    """Two of iroh's endpoints in the same lab."""

    SECRETS = ("11" * 32, "22" * 32)

    def __init__(self, lab, urls):
        self.lab, self.urls = lab, list(urls)
        self.server = self.client = self.ticker_ = None

    @staticmethod
    def obstacle():
        python = f"{HERE}/.build-python/bin/python"
        if not os.path.exists(python):
            return "scripts/bootstrap --test installs iroh"
        return None if subprocess.run([python, "-c", "import iroh"], stderr=subprocess.DEVNULL).returncode == 0 else \
            "iroh is not installed"

    def command(self, place, *words):
        return self.lab.inside(place, f"{HERE}/.build-python/bin/python", f"{HERE}/Tests/Interop/iroh_reach.py", *words)

    class Events:
        """What an endpoint says."""

        def __init__(self, stream):
            self.list = []
            threading.Thread(target=self.read, args=(stream,), daemon=True).start()

        def read(self, stream):
            for line in stream:
                try:
                    self.list.append(json.loads(line))
                except ValueError:
                    pass  # what Rust logs

        def first(self, patience, **wanted):
            def find():
                return next((event for event in list(self.list)
                             if all(key in event and (value is ... or event[key] == value)
                                    for key, value in wanted.items())), None)
            return find() if until(patience, find) is not None else None

    def serve(self):
        self.server = subprocess.Popen(self.command("c2", "serve", self.SECRETS[1], *self.urls),
                                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.served = self.Events(self.server.stderr)
        event = self.served.first(30, online=...)
        self.home = event and event["relay"].rstrip("/")
        return event and event["online"]

    def dial(self, identity, patience=40):
        """Dials; gives the seconds until the first answer, or nil, and what the endpoint says."""
        self.ticker_ = Ticker(self.command("c1", "dial", self.SECRETS[0], identity, self.home, *self.urls),
                              subprocess.PIPE)
        self.events = self.Events(self.ticker_.process.stderr)
        begun = self.events.first(30, dialing=True)
        until(patience, lambda: any("connected" in event or "failed" in event for event in list(self.events.list)))
        connected = self.events.first(0.1, connected=True)
        failed = self.events.first(0.1, failed=...)
        end = connected or failed
        self.took = end["at"] - begun["at"] if begun and end else None
        self.begun = begun and begun["at"]
        if connected:
            self.ticker_.begin().comes_back(time.monotonic(), 10)
        return self.took if connected else None

    def direct(self, patience):
        """The seconds from dialing to a direct path."""
        event = self.events.first(patience, path="direct")
        return event["at"] - self.begun if event else None

    def path_since(self, moment, kind, patience):
        """The seconds from a moment until the path is of a kind."""
        def find():
            return next((event for event in list(self.events.list)
                         if event.get("path") == kind and event["at"] > moment), None)
        until(patience, find)
        event = find()
        return event and event["at"] - moment

    def stop(self):
        if self.ticker_:
            self.ticker_.stop()
        if self.server:
            self.server.kill()
            self.server.wait()


# MARK: - The rows


class Bench:
    """Measures a row after the other, and keeps what it found."""

    def __init__(self, programs, folder, isQuick):
        self.programs, self.folder, self.isQuick, self.rows = programs, folder, isQuick, {}
        self.iroh = Iroh.obstacle()
        if self.iroh:
            print(f"  (without iroh: {self.iroh})")

    def row(self, goal, value, floor, target, iroh=None, isMet=None, **more):
        """Prints a row; value, floor and target are text, iroh what it did, or why it did not."""
        self.rows[goal] = {"value": value, "floor": floor, "target": target, "iroh": iroh, "met": isMet} | more
        mark = {True: "", False: "  MISSED", None: ""}[isMet]
        print(f"  {goal:44} {value:>24} {floor:>12} {target:>12}   {iroh or '-'}{mark}", flush=True)

    def pair(self, *words, **more):
        return Pair(self.programs, self.folder, *words, **more)

    def with_iroh(self, lab, relays, body):
        """What `body` finds with iroh in a lab, or why it found nothing."""
        if self.iroh:
            return None
        peer = Iroh(lab, [relay.url for relay in relays])
        try:
            identity = peer.serve()
            return body(peer, identity) if identity else None
        finally:
            peer.stop()

    # MARK: Pairs

    def pairs(self):
        pair = self.pair("open", "open")
        found, theirs = {}, {}
        kinds = ["port-restricted", "symmetric"] if self.isQuick else KINDS
        try:
            for first in kinds:
                for second in kinds:
                    pair.again(f"nat 1 {first}", f"nat 2 {second}")
                    connected = pair.connect()
                    direct = pair.direct(20 if connected else 0)
                    found[f"{first} - {second}"] = {"connected": connected, "direct": connected and direct and
                                                    connected + direct}
                    for device in (pair.laptop, pair.phone):
                        device.down()

                    def dial(peer, identity):
                        return {"connected": peer.dial(identity)}
                    theirs[f"{first} - {second}"] = self.with_iroh(pair.lab, pair.relays.values(), dial)
            hostile = self.hostile(pair)
        finally:
            pair.stop()
        count = len(found)

        def direct(of):
            return [case["direct"] for case in of.values() if case and case["direct"]]

        def connected(of):
            return [case["connected"] for case in of.values() if case and case["connected"]]
        ours = direct(found)
        self.row(f"direct, {count} NAT pairs", f"{len(ours)}", f"{count * 13 // 16}", f"{count - 1}",
                 "13 of 16 by its own list", len(ours) >= count - 1, pairs=found, iroh_pairs=theirs)
        ways = connected(found) + [took for took in hostile.values() if took]
        total = count + len(hostile)
        all_ways = hostile | {name: case["connected"] for name, case in found.items()}
        slow = {name: took for name, took in all_ways.items() if took is None or took > 1.5}
        ends = [took for took in connected(theirs)]
        self.row(f"connected at all, {count} pairs and hostile",
                 f"{len(ways)} of {total} in {max(ways, default=0):.2f} s", "all, 3 s", "all, 1.5 s",
                 None if self.iroh else f"{len(ends)} of {count} in {max(ends, default=0):.2f} s",
                 len(ways) == total and not slow, hostile=hostile, slow=slow)
        if ours:
            self.row("time to direct p50 / p95",
                     f"{percentile(ours, .5):.2f} / {percentile(ours, .95):.2f} s", "2 / 4 s", "0.8 / 2 s",
                     None,
                     percentile(ours, .5) <= 0.8 and percentile(ours, .95) <= 2)

    def hostile(self, pair):
        """The seconds until devices are connected where little goes through."""
        found = {}
        for name, first, second in (("UDP blocked here", "blocked", "port-restricted"),
                                    ("UDP blocked there", "symmetric", "blocked"),
                                    ("UDP blocked at both", "blocked", "blocked"),
                                    ("443 and 80 only", "web", "port-restricted")):
            pair.again(f"nat 1 {first}", f"nat 2 {second}")
            found[name] = pair.connect()
        program = shutil.which("tinyproxy")
        if program:
            settings = f"{pair.folder}/tinyproxy.conf"
            with open(settings, "w") as file:
                file.write("Port 8888\nListen 192.168.1.1\nTimeout 600\nConnectPort 80\nConnectPort 443\n")
            for device in (pair.laptop, pair.phone):
                device.down()
            pair.lab.change("nat 1 port-restricted")
            pair.lab.change("nat 2 port-restricted")
            pair.lab.change("drop 1 all")
            proxy = subprocess.Popen(pair.lab.inside("r1", program, "-d", "-c", settings), stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL)
            try:
                pair.phone.up("--no-discovery")
                pair.laptop.up("--no-discovery", "--proxy", "http://192.168.1.1:8888")
                pair.online()
                found["a proxy alone"] = pair.connect()
                pair.laptop.down()
                pair.laptop.up("--no-discovery", "--proxy", "none")
            finally:
                proxy.kill()
                proxy.wait()
                pair.lab.change("pass 1 all")
        return found

    # MARK: Relays only

    def dials(self):
        pair = self.pair("blocked", "blocked", relays=("relay1",), isFar=False)
        try:
            pair.lab.change("distance relay1 50")
            took = []
            for _ in range(3 if self.isQuick else 7):
                pair.again()
                took.append(pair.connect())
            theirs = []
            for device in (pair.laptop, pair.phone):
                device.down()
            for _ in range(2):
                theirs.append(self.with_iroh(pair.lab, pair.relays.values(),
                                             lambda peer, identity: peer.dial(identity)))
        finally:
            pair.stop()
        theirs = [took for took in theirs if took]
        middle = statistics.median([value if value else 30 for value in took])
        self.row("dial by id, 50 ms to the relay", f"{middle * 1000:.0f} ms", "400 ms", "220 ms",
                 f"{statistics.median(theirs) * 1000:.0f} ms" if theirs else None, middle <= 0.220, values=took)

    def absent(self):
        pair = self.pair("port-restricted", "port-restricted", relays=("relay1",))
        try:
            pair.connect()
            took = []
            for _ in range(3):
                pair.again()
                pair.phone.down()
                start = time.monotonic()
                pair.laptop.echo("phone", 30)
                took.append(time.monotonic() - start)
            pair.laptop.down()

            def dial(peer, identity):
                peer.server.kill()
                peer.server.wait()
                peer.dial(identity, 40)
                return peer.took
            theirs = None if self.isQuick else self.with_iroh(pair.lab, pair.relays.values(), dial)
        finally:
            pair.stop()
        middle = statistics.median(took)
        self.row("absent device", f"{middle:.2f} s", "3 s", "0.3 s", f"{theirs:.1f} s" if theirs else None,
                 middle <= 0.3, values=took)

    def restarts(self):
        for away, floor, target in ((0.1, 0.5, 0.3), (5, 6, 5.3)):
            pair = self.pair("blocked", "blocked", relays=("relay1",))
            relay = pair.relays["relay1"]

            def event():
                moment = time.monotonic()
                relay.stop()
                time.sleep(away)
                relay.start()
                return moment
            try:
                pair.connect()
                ticker = pair.ticker()
                values = [ticker.silence(event(), 30, settling=away + 1) for _ in range(2 if self.isQuick else 3)]
                ticker.stop()
                for device in (pair.laptop, pair.phone):
                    device.down()

                def dial(peer, identity):
                    return peer.dial(identity) and peer.ticker_.silence(event(), 40, settling=away + 1)
                theirs = self.with_iroh(pair.lab, pair.relays.values(), dial)
            finally:
                pair.stop()
            self.silence(f"relay restart, {away:g} s away: silence", values, floor, target, theirs)

    def silence(self, goal, values, floor, target, theirs=...):
        """A row of silences, the longest of which counts; without `theirs` iroh was not asked."""
        worst = max((30 if value is None else value) for value in values)
        lost = sum(value is None for value in values)
        self.row(goal, f"{worst:.2f} s" + (f" ({lost} lost)" if lost else ""), f"{floor:g} s", f"{target:g} s",
                 None if self.iroh or theirs is ... else "none in 40 s" if theirs is None else f"{theirs:.1f} s",
                 not lost and worst <= target,
                 values=values)

    def home_gone(self):
        for name, kill in (
                ("its process", lambda lab, relay: relay.stop(signal.SIGKILL)),
                ("its machine", lambda lab, relay: lab.run(relay.place, "ip", "link", "set", "wan", "down"))):
            pair = self.pair("blocked", "blocked")
            try:
                pair.connect()
                ticker = pair.ticker()
                url = next(device["path"] for device in pair.laptop.call("devices.list", probe=False))
                relay = next(relay for relay in pair.relays.values() if relay.url == url.rstrip("/"))
                moment = time.monotonic()
                kill(pair.lab, relay)
                ours = ticker.silence(moment, 30)
                ticker.stop()
            finally:
                pair.stop()
            theirs = None
            if not self.iroh:
                pair = self.pair("blocked", "blocked")
                try:
                    for device in (pair.laptop, pair.phone):
                        device.down()

                    def dial(peer, identity):
                        if not peer.dial(identity):
                            return None
                        moment = time.monotonic()
                        kill(pair.lab, next(relay for relay in pair.relays.values() if relay.url == peer.home))
                        return peer.ticker_.silence(moment, 40)
                    theirs = self.with_iroh(pair.lab, pair.relays.values(), dial)
                finally:
                    pair.stop()
            self.silence(f"home relay gone for good, {name}", [ours], 5, 2, theirs)

    # MARK: Direct

    def direct_dies(self):
        pair = self.pair("port-restricted", "port-restricted")
        silences, returns, theirs, theirReturn = [], [], None, None
        try:
            pair.connect()
            ticker = pair.ticker()
            for turn in range(2 if self.isQuick else 5):
                if pair.direct(60) is None:
                    silences.append(None)
                    continue
                time.sleep(1)
                moment = time.monotonic()
                pair.lab.change(f"drop {turn % 2 + 1} udp")
                silences.append(ticker.silence(moment, 30))
                time.sleep(5)
                pair.lab.change(f"pass {turn % 2 + 1} udp")
                returns.append(pair.direct(60))
            ticker.stop()
            for device in (pair.laptop, pair.phone):
                device.down()
            # Without servers of QAD, whose certificates cannot be a lab's, it knows no address outside: it gets public
            # ones.
            for side in (1, 2):
                pair.lab.change(f"nat {side} open")

            def dial(peer, identity):
                if not peer.dial(identity) or not peer.direct(20):
                    return None, None
                time.sleep(2)
                moment = time.monotonic()
                pair.lab.change("drop 1 udp")
                silent = peer.ticker_.silence(moment, 40)
                time.sleep(5)
                moment = time.monotonic()
                pair.lab.change("pass 1 udp")
                return silent, peer.path_since(moment, "direct", 70)
            theirs, theirReturn = self.with_iroh(pair.lab, pair.relays.values(), dial) or (None, None)
        finally:
            pair.stop()
        self.silence("direct dies, relay alive: silence", silences, 5, 1.2, theirs)
        self.silence("UDP back, no event: direct after", returns, 30, 10, theirReturn)

    def switches(self):
        survived, silences, cases = 0, [], {}
        switches = SWITCHES[::5] if self.isQuick else SWITCHES
        pair = self.pair("port-restricted", "port-restricted", isNamed=True)
        try:
            for side, old, new in switches:
                pair.again(f"uplink {side} home {old}", f"uplink {3 - side} home dual")
                name = f"{'client' if side == 1 else 'server'} {old} -> {new}"
                if pair.connect() is None:
                    cases[name] = "not connected"
                    continue
                pair.direct(5)
                ticker = pair.ticker()
                time.sleep(0.5)
                moment = time.monotonic()
                pair.lab.change(f"uplink {side} mobile {new}")
                silent = ticker.silence(moment, 30)
                ticker.stop()
                cases[name] = silent
                if silent is not None:
                    survived += 1
                    silences.append(silent)
            count = len(switches)
        finally:
            pair.stop()
        middle = statistics.median(silences) if silences else 30
        self.row(f"uplink switch, {count} cases: survive; silence p50", f"{survived}; {middle:.2f} s",
                 f"{count * 14 // 18}; 3 s", f"{count}; 1 s", None, survived == count and middle <= 1, cases=cases)

    def both_switch(self):
        pair = self.pair("port-restricted", "port-restricted")
        values = []
        try:
            pair.connect()
            pair.direct(10)
            ticker = pair.ticker()
            for uplink in ("mobile", "home"):
                moment = time.monotonic()
                for side in (1, 2):
                    pair.lab.change(f"uplink {side} {uplink}")
                values.append(ticker.silence(moment, 30, settling=1))
                time.sleep(3)
        finally:
            pair.stop()
        self.silence("both switch at once: silence", values, 5, 2)

    def both_sleep(self):
        """Two machines that are suspended: their processes stop, their routers forget them, and both go on at once."""
        minutes = 1 if self.isQuick else 10
        pair = self.pair("port-restricted", "port-restricted")
        values = []
        try:
            pair.connect()
            pair.direct(10)
            # As long as a shell on a terminal is kept.
            ticker = pair.ticker("--keep", "8h")
            asleep = [device.call("device.status")["pid"] for device in (pair.laptop, pair.phone)]
            asleep += descendants(ticker.process.pid) + descendants(asleep[1])
            for process in asleep:
                os.kill(process, signal.SIGSTOP)
            time.sleep(60 * minutes)
            moment = time.monotonic()
            for process in asleep:
                os.kill(process, signal.SIGCONT)
            # What was on its way before comes back first; then what was sent since.
            values.append(until(30, lambda: ticker.sent[ticker.last] >= moment))
        finally:
            pair.stop()
        self.silence(f"both sleep {minutes} min: silence after", values, 3, 1)

    def levels(self):
        found, levels = {}, [(level, 1) for level in (1, 4, 8)] if self.isQuick else LEVELS
        pair = self.pair("port-restricted", "port-restricted")
        try:
            for level, side in levels:
                pair.again(f"quality {side} {level}")
                connected = pair.connect(20)
                direct = connected and pair.direct(max(0, 20 - connected))
                ping = direct is not None and connected is not None and pair.laptop.echo("phone", 10)
                found[f"level {level}, side {side}"] = {"connected": connected, "direct": direct, "ping": ping or None}
                for device in (pair.laptop, pair.phone):
                    device.down()
                pair.lab.change(f"quality {side} 0")
        finally:
            pair.stop()
        passed = sum(case["ping"] is not None for case in found.values())
        count = len(found)
        self.row(f"degradation, {count} levels and sides: direct and ping", f"{passed}", f"{count * 13 // 18}",
                 f"{count * 16 // 18}", None, passed >= count * 16 // 18, cases=found)

    # MARK: The local network

    def lan(self):
        """Two devices on one wire, which leads nowhere else; the addresses they had before are not those of now."""
        name, values = f"lan-{os.getpid()}", []

        def ip(*words):
            subprocess.run(["ip", *words], check=True)

        class Wire:
            spaces = {}

            def inside(self, place, *command):
                return ["nsenter", f"--net=/run/netns/{name}-{place}", *map(str, command)]
        wire = Wire()
        kith, folder = f"{self.programs}/kith", tempfile.mkdtemp(dir=self.folder)
        laptop, phone = Device(wire, kith, "1", "laptop", folder), Device(wire, kith, "2", "phone", folder)
        try:
            for place in ("1", "2"):
                ip("netns", "add", f"{name}-{place}")
            ip("-n", f"{name}-1", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", f"{name}-2")
            for place in ("1", "2"):
                ip("-n", f"{name}-{place}", "link", "set", "lo", "up")
                ip("-n", f"{name}-{place}", "link", "set", "eth0", "up")
                ip("-n", f"{name}-{place}", "address", "add", f"192.168.9.{place}/24", "dev", "eth0")
            laptop.up()
            phone.up()
            phone.run("pair", laptop.run("invite", "--yes", "--text"), "--yes")
            for turn in range(3 if self.isQuick else 7):
                laptop.down()
                phone.down()
                for place, offset in (("1", 10), ("2", 110)):
                    ip("-n", f"{name}-{place}", "address", "flush", "dev", "eth0", "scope", "global")
                    ip("-n", f"{name}-{place}", "address", "add", f"192.168.9.{offset + turn}/24", "dev", "eth0")
                laptop.up()
                phone.up()
                start = time.monotonic()
                values.append(until(20, lambda: laptop.echo("phone", 20) is not None) and time.monotonic() - start)
        finally:
            for device in (laptop, phone):
                device.kill()
            for place in ("1", "2"):
                subprocess.run(["ip", "netns", "delete", f"{name}-{place}"], stderr=subprocess.DEVNULL)
        middle = statistics.median([value or 30 for value in values])
        self.row("LAN, internet cut: found and connected p50", f"{middle:.2f} s", "2 s", "0.6 s", None, middle <= 0.6,
                 values=values)

    # MARK: NAT64

    def nat64(self):
        """A device with IPv6 alone, behind tayga, whose router advertises the prefix, and one with IPv4 alone."""
        missing = [name for name in ("tayga", "nft") if not shutil.which(name)]
        if missing:
            raise RuntimeError(f"{missing[0]} is not installed (scripts/bootstrap --test)")
        name, kith, folder = f"nat64-{os.getpid()}", f"{self.programs}/kith", tempfile.mkdtemp(dir=self.folder)
        # c1 has IPv6 alone, r1 is its router, c2 has IPv4 alone; at c2's address there is a relay, too.
        spaces = {place: f"{name}-{place}" for place in ("c1", "r1", "c2")}

        class Wires:
            addresses = {"c2": "9.1.1.2:3340"}

            def inside(self, place, *command):
                return ["nsenter", f"--net=/run/netns/{spaces[place]}", *map(str, command)]

        def run(place, line):
            subprocess.run(wires.inside(place, *line.split()), check=True, stdout=subprocess.DEVNULL)
        wires, running, times, returns = Wires(), [], [], []
        phone, laptop = Device(wires, kith, "c1", "phone", folder), Device(wires, kith, "c2", "laptop", folder)
        relay = Relay(wires, kith, "c2", folder)
        # Nobody asks it for its clients at port 80.
        relay.command = wires.inside("c2", kith, "relay", "--data", f"{folder}/relay", "--no-tls", "--listen",
                                     wires.addresses["c2"])
        try:
            for space in spaces.values():
                subprocess.run(["ip", "netns", "add", space], check=True)
                subprocess.run(["ip", "-n", space, "link", "set", "lo", "up"], check=True)
            for near, far, place in (("lan0", "eth0", "c1"), ("wan0", "eth0", "c2")):
                run("r1", f"ip link add {near} type veth peer name {far} netns {spaces[place]}")
                run("r1", f"ip link set {near} up")
                run(place, f"ip link set {far} up")
            run("r1", "sysctl -qw net.ipv6.conf.all.forwarding=1 net.ipv4.ip_forward=1")
            for place, address, link in (("r1", "9.1.1.1/24", "wan0"), ("c2", "9.1.1.2/24", "eth0"),
                                         ("r1", "2001:db8:64::1/64", "lan0"), ("r1", "fe80::64/64", "lan0"),
                                         ("c1", "2001:db8:64::2/64", "eth0")):
                run(place, f"ip address add {address} dev {link}" + (" nodad" if ":" in address else ""))
            run("c1", "ip -6 route add default via fe80::64 dev eth0")
            settings = f"{folder}/tayga.conf"
            with open(settings, "w") as file:
                file.write("tun-device nat64\nipv4-addr 192.168.255.1\nipv6-addr 2001:db8:64:1::64\n"
                           "prefix 64:ff9b::/96\ndynamic-pool 192.168.255.0/24\n" f"data-dir {folder}\n")
            run("r1", f"tayga -c {settings} --mktun")
            run("r1", "ip link set nat64 up")
            run("r1", "ip route add 192.168.255.0/24 dev nat64")
            run("r1", "ip -6 route add 64:ff9b::/96 dev nat64")
            for rule in ("add table ip nat", "add chain ip nat out { type nat hook postrouting priority 100 ; }",
                         "add rule ip nat out oifname wan0 masquerade"):
                subprocess.run(wires.inside("r1", "nft", rule), check=True)
            running.append(subprocess.Popen(wires.inside("r1", "tayga", "-c", settings, "-d"),
                                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            router = subprocess.Popen(
                wires.inside("r1", "python3", "-B", f"{HERE}/Tests/Interop/router_advertisement.py", "lan0"), text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=1)
            running.append(router)
            router.stdout.readline()

            def advertise():
                router.stdin.write('{"lifetime": 600}\n')
                router.stdout.readline()
                found = subprocess.run(phone.command("doctor", "--network"), text=True, stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL)
                return "64:ff9b::/96" in found.stdout
            relay.start()
            laptop.up("--no-discovery", "--use-relay", relay.url)
            phone.up("--no-discovery", "--use-relay", relay.url)
            until(20, advertise)
            phone.run("pair", laptop.run("invite", "--yes", "--text"), "--yes")
            for _ in range(3 if self.isQuick else 7):
                laptop.down()
                phone.down()
                laptop.up("--no-discovery")
                phone.up("--no-discovery")
                # As routers do, until the device listens; how soon they do is theirs.
                until(20, advertise)
                start = time.monotonic()
                times.append(phone.echo("laptop", 20) and time.monotonic() - start)
                direct = until(20, lambda: phone.path("laptop") == laptop.path("phone") == "direct")
                returns.append(direct and time.monotonic() - start)
        finally:
            for device in (laptop, phone):
                device.kill()
            for process in running:
                process.kill()
                process.wait()
            relay.stop(signal.SIGKILL)
            for space in spaces.values():
                subprocess.run(["ip", "netns", "delete", space], stderr=subprocess.DEVNULL)
        worst = max(value or 30 for value in times)
        self.row("IPv6 alone to IPv4 alone: connected; direct", f"{worst:.2f}; {max(value or 30 for value in returns):.2f} s",
                 "3; 4 s", "1.5; 2 s", None, worst <= 1.5, values=times, direct=returns)

    # MARK: The directory

    def records(self):
        """How soon a device that is at its relay can be found, and whether devices meet without the directory."""
        pair = self.pair("port-restricted", "port-restricted", relays=("relay1",))
        relay, values, process = pair.relays["relay1"], [], None
        place = f"{pair.lab.addresses['relay2']}:8053"
        identity = pair.phone.call("device.status")["id"]

        def found():
            return subprocess.run(pair.lab.inside("c1", "curl", "-sf", f"http://{place}/pkarr/{identity}"),
                                  stdout=subprocess.DEVNULL).returncode == 0

        def stop():
            if process:
                process.kill()
                process.wait()
        try:
            for turn in range(3 if self.isQuick else 5):
                pair.laptop.down()
                pair.phone.down()
                stop()
                process = subprocess.Popen(
                    pair.lab.inside("relay2", pair.kith, "directory", "--data", f"{pair.folder}/directory{turn}",
                                    "--listen", place), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                process.stdout.readline()
                until(10, lambda: relay.clients() == 0)
                pair.phone.up("--no-discovery", "--directory", f"http://{place}")
                until(20, lambda: relay.clients() > 0)
                start = time.monotonic()
                values.append(until(20, found) is not None and time.monotonic() - start)
            stop()
            pair.again()
            meet = pair.connect()
        finally:
            stop()
            pair.stop()
        middle = statistics.median([value or 30 for value in values])
        self.row("record to be had; directory gone: devices meet", f"{middle:.2f} s; {'yes' if meet else 'no'}",
                 "2 s; yes", "0.3 s; yes", None, middle <= 0.3 and meet is not None, values=values, meet=meet)

    # MARK: The relay

    def certificate(self):
        """From nothing to an own relay with a certificate, by one command; the authority is pebble, on this machine."""
        programs = [shutil.which(name) for name in ("pebble", "pebble-challtestsrv")]
        if not all(programs):
            raise RuntimeError("pebble is not installed (scripts/bootstrap --test)")
        folder, host = tempfile.mkdtemp(dir=self.folder), f"127.{os.getpid() >> 8 & 127}.{os.getpid() & 255}.9"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                        "-nodes", "-keyout", f"{folder}/key.pem", "-out", f"{folder}/tls.pem", "-days", "2", "-subj",
                        "/CN=pebble", "-addext", f"subjectAltName=IP:{host}"], check=True, stderr=subprocess.DEVNULL)
        with open(f"{folder}/settings.json", "w") as file:
            json.dump({"pebble": {"listenAddress": f"{host}:14000", "managementListenAddress": f"{host}:15000",
                                  "certificate": f"{folder}/tls.pem", "privateKey": f"{folder}/key.pem",
                                  "httpPort": 5002, "tlsPort": 5001}}, file)

        def fetch(root, url):
            return subprocess.run(["curl", "-s", "--cacert", f"{folder}/{root}", url], text=True,
                                  stdout=subprocess.PIPE).stdout
        running = []

        def run(*command):
            running.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                            env=os.environ | {"PEBBLE_VA_NOSLEEP": "1"}))
        try:
            run(programs[1], "-defaultIPv4", host, "-defaultIPv6", "", "-dns01", f"{host}:8053", "-http01", "",
                "-https01", "", "-tlsalpn01", "", "-management", f"{host}:8055")
            run(programs[0], "-config", f"{folder}/settings.json", "-dnsserver", f"{host}:8053")
            if until(20, lambda: "END CERTIFICATE" in fetch("tls.pem", f"https://{host}:15000/roots/0")) is None:
                raise RuntimeError("pebble does not answer")
            with open(f"{folder}/issuer.pem", "w") as file:
                file.write(fetch("tls.pem", f"https://{host}:15000/roots/0"))
            start = time.monotonic()
            run(f"{self.programs}/kith", "relay", "--data", f"{folder}/relay", "--domain", host, "--acme-directory",
                f"https://{host}:14000/dir", "--acme-root", f"{folder}/tls.pem", "--agree-to-terms", "--listen",
                f"{host}:8443", "--http-listen", f"{host}:5002", "--stun", "none")
            served = until(120, lambda: fetch("issuer.pem", f"https://{host}:8443/ping") == "pong\n")
            took = time.monotonic() - start
        finally:
            for process in reversed(running):
                process.kill()
                process.wait()
        self.row("own relay with a certificate, from nothing", f"{took:.1f} s" if served else "none", "5 min", "60 s",
                 None, served is not None and took <= 60)

    def relay(self):
        """What a relay passes on, what its clients cost, and how fast they are back, on loopback."""
        with RelayOnLoopback(self.programs, self.folder) as relay:
            seconds = 4 if self.isQuick else 8
            values = {}
            for batch in (1, 10):
                cpu = relay.cpu()
                found = relay.load("forward", "--pairs", 4, "--seconds", seconds, "--batch", batch)
                cpu = relay.cpu() - cpu
                values[batch] = {"MB/s": found["bytes"] / found["seconds"] / 1e6,
                                 "CPU-s/GiB": cpu / found["bytes"] * 2**30, "cores": cpu / found["seconds"]}
            quiet = relay.load("forward", "--pairs", 1, "--seconds", seconds, "--every", 5)
            cpu = relay.cpu()
            found = relay.load("forward", "--pairs", 4, "--seconds", seconds, "--key", relay.key)
            quic = (relay.cpu() - cpu) / found["bytes"] * 2**30
        one, ten = values[1], values[10]
        # The load is on the same cores: what the relay would pass on with two of its own follows from what it used.
        alone = 2 / one["CPU-s/GiB"] * 2**30 / 1e6
        print(f"    the load took most of this machine's {os.cpu_count()} cores, the relay {one['cores']:.2f} of them; ten "
              f"datagrams a frame: {ten['MB/s']:.0f} MB/s, {ten['CPU-s/GiB']:.1f} CPU-s/GiB")
        self.row("relay over TLS, datagrams of 1200 to 1400 B", f"{alone:.0f} MB/s ({one['MB/s']:.0f} here)", "100 MB/s",
                 "200 MB/s", "derper 234 published", alone >= 200, values=values)
        self.row("relay CPU for what it forwards, TLS", f"{one['CPU-s/GiB']:.1f} s/GiB", "8 s/GiB", "4 s/GiB", None,
                 one["CPU-s/GiB"] <= 4)
        self.row("relay CPU for what it forwards, QUIC", f"{quic:.1f} s/GiB", "10 s/GiB", "6 s/GiB", None, quic <= 6,
                 forwarded=found)
        self.row("added delay p50 / p99, quiet", f"{quiet['p50']:.2f} / {quiet['p99']:.2f} ms", "1 / 4 ms",
                 "0.2 / 1 ms", None, quiet["p50"] <= 0.2 and quiet["p99"] <= 1)

    def crowd(self):
        """Clients that do nothing, and what they cost a relay."""
        count, back = (2_000, 1_000) if self.isQuick else (10_000, 5_000)
        with RelayOnLoopback(self.programs, self.folder) as relay:
            relay.load("forward", "--pairs", 1, "--seconds", 1)
            before = relay.memory()
            with relay.crowd(count) as lines:
                opened = json.loads(lines.readline())
                time.sleep(5)
                each = (relay.memory() - before) / count
                watched = 20 if self.isQuick else 60
                cpu = relay.cpu()
                time.sleep(watched)
                share = (relay.cpu() - cpu) / watched
        self.row(f"memory per idle client, TLS, {count}", f"{each / 1e3:.1f} kB", "60 kB", "25 kB", None, each <= 25e3,
                 opened=opened)
        self.row(f"{count} idle clients, CPU", f"{share * 100:.2f} % of a core", "5 %", "1 %", None,
                 share <= 0.01 * count / 10_000)
        with RelayOnLoopback(self.programs, self.folder) as relay:
            with relay.crowd(back) as lines:
                json.loads(lines.readline())
                start = time.monotonic()
                relay.restart()
                while "open" not in json.loads(lines.readline()):
                    pass
                took = time.monotonic() - start
        self.row(f"{back} clients after a restart, all back", f"{took:.1f} s", "30 s", "10 s", None, took <= 10)


class RelayOnLoopback:
    """A relay with TLS on this machine, and loads for it."""

    def __init__(self, programs, folder):
        self.programs, self.folder = programs, tempfile.mkdtemp(dir=folder)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                        "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-keyout", f"{self.folder}/key.pem", "-out",
                        f"{self.folder}/chain.pem"], check=True, stderr=subprocess.DEVNULL)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def start(self):
        self.process = subprocess.Popen(
            [f"{self.programs}/kith", "relay", "--data", f"{self.folder}/data", "--listen", f"127.0.0.1:{self.port}",
             "--cert", f"{self.folder}/chain.pem", "--key", f"{self.folder}/key.pem", "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        said = ""
        while "}" not in said:
            said += self.process.stdout.readline()
        self.key = json.loads(said)["url"].partition("#")[2]
        threading.Thread(target=self.process.stdout.read, daemon=True).start()

    def restart(self):
        self.process.terminate()
        self.process.wait()
        self.start()

    def load(self, *words):
        done = subprocess.run([f"{self.programs}/kith-relay-load", words[0], str(self.port), "--tls",
                               *map(str, words[1:])], check=True, text=True, stdout=subprocess.PIPE)
        return json.loads(done.stdout)

    @contextlib.contextmanager
    def crowd(self, count):
        process = subprocess.Popen([f"{self.programs}/kith-relay-load", "idle", str(self.port), "--tls", "--clients",
                                    str(count)], text=True, stdout=subprocess.PIPE, bufsize=1)
        try:
            yield process.stdout
        finally:
            process.kill()
            process.wait()

    def cpu(self):
        """The seconds of processor time it has had."""
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self):
        """Its bytes in memory."""
        return int(open(f"/proc/{self.process.pid}/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure(programs, folder, isQuick=False, only=None):
    """Prints the table, and gives its rows; `only` names some of them."""
    bench = Bench(programs, folder, isQuick)
    parts = [bench.pairs, bench.dials, bench.direct_dies, bench.restarts, bench.home_gone, bench.absent, bench.switches,
             bench.both_switch, bench.both_sleep, bench.levels, bench.lan, bench.nat64, bench.records, bench.certificate,
             bench.relay, bench.crowd]
    print("\nreach, in the lab: two devices behind NATs, an internet, relays")
    print(f"  {'goal':44} {'value':>24} {'floor':>12} {'target':>12}   iroh")
    for part in parts:
        if only and part.__name__ not in only:
            continue
        try:
            part()
        except Exception as error:  # one row less, and the others stand
            bench.rows[part.__name__] = {"failed": str(error)}
            print(f"  {part.__name__:44} failed: {error}", flush=True)
    return bench.rows
