"""Two devices at the ends of an emulated link, and what they move over it beside scp. Used by scripts/bench; needs root.

    100 Mbit/s, 50 ms there and back, 50 ms of queue, then the same link with loss, with jitter and packets that arrive 10 ms
    early, and a long one. Every copy starts cold: the sending daemon is restarted, as scp starts a new connection too.
"""
import json, os, shutil, signal, statistics, subprocess, time

CLEAN = {"rate": "100mbit", "delay": "25ms", "queue": "50ms", "jitter": "0ms", "reorder": "0", "loss": "0",
         "reorder-by": "10ms"}
LINKS = {
    "clean": CLEAN,
    "1 % loss": CLEAN | {"loss": "1%"},
    "3 % loss": CLEAN | {"loss": "3%"},
    "5 ms jitter, 2 % reordered": CLEAN | {"jitter": "5ms", "reorder": "2%"},
    # Some answers come back at once: the measured minimum of the round trip means nothing.
    "the same, by the whole delay": CLEAN | {"jitter": "5ms", "reorder": "2%", "reorder-by": "25ms"},
    "200 ms, 0.5 % loss": CLEAN | {"delay": "100ms", "loss": "0.5%"},
}
RIGHT = "10.7.0.2"


class Link:
    """A running kith-link."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("bench: kith-link cannot run here (it needs root and /dev/net/tun)")
        self.ends = json.loads(line)

    def set(self, options):
        for key, value in options.items():
            answer = self.ask(f"{key}={value}")
            if "error" in answer:
                raise SystemExit(f"bench: kith-link: {key}={value}: {answer['error']}")

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def inside(self, end, *argv):
        return ["nsenter", f"--net={self.ends[end]}", *argv]

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


class Kith:
    """A device at each end."""

    def __init__(self, program, link, folder, grants=None):
        self.program, self.link = program, link
        self.left, self.right = f"{folder}/link-left", f"{folder}/link-right"
        self.up("right", self.right)
        self.up("left", self.left)
        grants = [word for grant in grants or [f"files:write={folder}"] for word in ("--grant", grant)]
        invitation = self("invite", "--data", self.right, "--yes", "--text", *grants).strip()
        self("pair", "--data", self.left, invitation, "--yes")

    def __call__(self, *argv):
        return subprocess.run([self.program, *argv], check=True, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, timeout=180).stdout

    def up(self, end, data):
        subprocess.run(self.link.inside(end, self.program, "up", "--data", data, "--detach", "--no-invite",
                                        "--name", end), check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)

    def restart(self):
        """Ends the left device's connections with the device itself."""
        self("down", "--data", self.left)
        self.up("left", self.left)

    def copy(self, source, destination):
        self("cp", "--data", self.left, source, f"right:{destination}")

    def ping(self, count):
        """Round trips through the whole stack, in milliseconds."""
        return json.loads(self("ping", "--data", self.left, "right", "--count", str(count), "--interval", "0", "--json"))

    def stop(self):
        for data in (self.left, self.right):
            subprocess.run([self.program, "down", "--data", data], stderr=subprocess.DEVNULL)


class SCP:
    """A private sshd at the right end; `ssh` is the one of scripts/bench, whose keys it uses."""

    def __init__(self, ssh, link):
        self.ssh, self.link = ssh, link
        self.daemon = subprocess.Popen(
            link.inside("right", *ssh.daemon_command("0.0.0.0", 22)), stderr=subprocess.DEVNULL)
        for _ in range(100):
            if subprocess.run(link.inside("left", "ssh", *ssh.options, RIGHT, "true"),
                              stderr=subprocess.DEVNULL).returncode == 0:
                return
            time.sleep(0.05)
        raise SystemExit("bench: the sshd at the end of the link does not answer")

    def copy(self, source, destination):
        subprocess.run(self.link.inside("left", "scp", "-q", *self.ssh.options, source, f"{RIGHT}:{destination}"),
                       check=True, timeout=180)

    def stop(self):
        self.daemon.terminate()


def small_files(link, kith, scp, folder):
    """10,000 files of 4 KiB over the clean link; scp asks for each several times there and back, so it gets 500."""
    source, to = f"{folder}/link-many", f"{folder}/link-many-copy"
    for outer in range(100):
        os.makedirs(f"{source}/{outer}")
        for inner in range(100):
            with open(f"{source}/{outer}/{inner}", "wb") as file:
                file.write(os.urandom(4096))
    remote = " ".join(["ssh", *scp.ssh.options])
    few = [f"{source}/{outer}" for outer in range(5)]
    os.makedirs(f"{folder}/link-few")
    commands = {
        "kith cp -r": [kith.program, "cp", "--data", kith.left, "-q", "-r", source, f"right:{to}"],
        "rsync -a": ["rsync", "-a", "-e", remote, source + "/", f"{RIGHT}:{to}"],
        "scp -r, 500 files": ["scp", "-qr", *scp.ssh.options, *few, f"{RIGHT}:{folder}/link-few"],
    }
    rows = {}
    for name, command in commands.items():
        kith.restart()
        start = time.monotonic()
        subprocess.run(link.inside("left", *command), check=True, timeout=600, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        rows[name] = {"seconds": time.monotonic() - start}
        if not name.startswith("scp"):
            if subprocess.run(["diff", "-rq", source, to]).returncode != 0:
                raise SystemExit(f"bench: what {name} copied over the link differs from its source")
            shutil.rmtree(to)
    shutil.rmtree(source)
    shutil.rmtree(f"{folder}/link-few")
    print("  10,000 files of 4 KiB in 100 folders: " +
          ", ".join(f"{name} {row['seconds']:.1f} s" for name, row in rows.items()), flush=True)
    return rows


def begun_again(link, kith, scp, source, folder, digest):
    """A file whose copy is killed half way on the sending side and then asked for again."""
    size, to = os.path.getsize(source), f"{folder}/link-again"
    os.makedirs(to)
    remote = " ".join(["ssh", *scp.ssh.options])
    commands = {
        "kith cp": [kith.program, "cp", "--data", kith.left, "-q", source, f"right:{to}/"],
        "rsync --partial": ["rsync", "-a", "--partial", "-e", remote, source, f"{RIGHT}:{to}/"],
        "scp": ["scp", "-q", *scp.ssh.options, source, f"{RIGHT}:{to}/"],
    }

    def there():
        return max([os.path.getsize(f"{to}/{name}") for name in os.listdir(to)], default=0)

    rows = {}
    for name, command in commands.items():
        copy = subprocess.Popen(link.inside("left", *command), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                start_new_session=True)
        while there() < size // 2:
            if copy.poll() is not None:
                raise SystemExit(f"bench: {name} was over before it could be killed")
            time.sleep(0.005)
        if name == "kith cp":
            os.kill(json.loads(kith("status", "--data", kith.left, "--json"))["pid"], signal.SIGKILL)
            copy.wait()
            time.sleep(0.5)
            kith.up("left", kith.left)
        else:
            os.killpg(copy.pid, signal.SIGTERM)
            copy.wait()
        before = -1
        while before != there():
            before = there()
            time.sleep(0.5)
        up, start = link.ask("stats")["up"]["bytes"], time.monotonic()
        subprocess.run(link.inside("left", *command), check=True, timeout=180, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        rows[name] = {"seconds": time.monotonic() - start, "size": size, "there": before,
                      "on the wire": link.ask("stats")["up"]["bytes"] - up}
        if digest(f"{to}/{os.path.basename(source)}") != digest(source):
            raise SystemExit(f"bench: the copy of {name} that was killed did not finish")
        shutil.rmtree(to)
        os.makedirs(to)
    os.rmdir(to)
    print(f"  {size >> 20} MiB killed half way and begun again: " + ", ".join(
        f"{name} {row['seconds']:.1f} s, {row['on the wire'] / size:.0%} of it on the wire"
        for name, row in rows.items()), flush=True)
    return rows


def measure(program, kith_program, ssh, folder, size_in_mib, digest):
    """Fills and prints the table; `ssh` is scripts/bench's."""
    link = Link(program)
    kith = scp = None
    rows = {}
    source, size = f"{folder}/link-source", size_in_mib << 20
    with open(source, "wb") as file:
        file.write(os.urandom(size))
    wanted = digest(source)
    congestion = open("/proc/sys/net/ipv4/tcp_congestion_control").read().strip()
    print(f"\n{size_in_mib} MiB over an emulated link, 100 Mbit/s, 50 ms there and back, 50 ms of queue; "
          f"Mbit/s, median of 3 cold starts, bytes verified (TCP: {congestion})")
    try:
        kith, scp = Kith(kith_program, link, folder), SCP(ssh, link)
        for name, options in LINKS.items():
            link.set(options)
            rates, spent = {"kith cp": [], "scp": []}, {"kith cp": [], "scp": []}
            for attempt in range(3):
                for tool, label in ((kith, "kith cp"), (scp, "scp")):
                    if tool is kith:
                        kith.restart()
                    before, start = link.ask("stats"), time.monotonic()
                    destination = f"{folder}/link-copy"
                    tool.copy(source, destination)
                    rates[label].append(size * 8 / (time.monotonic() - start) / 1e6)
                    spent[label].append((link.ask("stats")["up"]["bytes"] - before["up"]["bytes"]) / size)
                    if digest(destination) != wanted:
                        raise SystemExit("bench: the copy differs from its source")
                    os.remove(destination)
            row = {label: {"Mbit/s": statistics.median(rates[label]), "all": rates[label],
                           "bytes on the wire per byte": statistics.median(spent[label])} for label in rates}
            row["ratio"] = row["kith cp"]["Mbit/s"] / row["scp"]["Mbit/s"]
            rows[name] = row
            print(f"  {name:28} kith cp {row['kith cp']['Mbit/s']:6.1f}   scp {row['scp']['Mbit/s']:6.1f}   "
                  f"ratio {row['ratio']:5.2f}x   sent per byte {row['kith cp']['bytes on the wire per byte']:.2f} / "
                  f"{row['scp']['bytes on the wire per byte']:.2f}", flush=True)
        link.set(CLEAN)
        cold = []
        for _ in range(5):
            kith.restart()
            cold.append(kith.ping(1)["milliseconds"][0])
        warm = kith.ping(10)["milliseconds"]
        rows["requests at 50 ms"] = {"first, with the connection, ms": statistics.median(cold),
                                     "later, ms": statistics.median(warm)}
        rows["small files"] = small_files(link, kith, scp, folder)
        rows["begun again"] = begun_again(link, kith, scp, source, folder, digest)
        print(f"  a request's answer at 50 ms: the first, with the connection, {statistics.median(cold):.1f} ms; "
              f"later ones {statistics.median(warm):.1f} ms")
    finally:
        for tool in (kith, scp, link):
            if tool:
                tool.stop()
        os.remove(source)
    return rows
