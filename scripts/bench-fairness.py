"""Two senders on one link, and what each gets of it. Used by scripts/bench; needs root, and gtlsserver and gtlsclient.

    20 Mbit/s, 30 ms there and back, a drop-tail queue of 5 to 200 ms. `kith cp` beside libngtcp2's server with each of its
    congestion controllers, either of them first, and beside another `kith cp`. The share of the first is what arrived of
    it, of all that arrived from 2 s after the start of the second on.
"""
import importlib.util, os, shutil, subprocess, time

HERE = os.path.dirname(os.path.abspath(__file__))
QUEUES = (5, 25, 50, 100, 200)
RATE = 20
SECONDS = 20
LEFT = "10.7.0.1"
# The least share, in percent, that each is to get: of another controller, and of the same one.
GOAL, GOAL_OF_OURS = 25, 40


def links():
    spec = importlib.util.spec_from_file_location("links", f"{HERE}/bench-links.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


class Copy:
    """`kith cp` of a file that is larger than the link carries meanwhile, between two devices of its own."""

    def __init__(self, kith, link, source, folder):
        self.kith, self.link, self.source, self.folder = kith, link, source, folder
        self.process = None

    def prepare(self):
        self.kith.restart()
        # The connection is there before the clock starts.
        self.kith.ping(1)

    def start(self):
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.process = subprocess.Popen(
            self.link.inside("left", self.kith.program, "cp", "--data", self.kith.left, "-q", self.source,
                             f"right:{self.folder}/"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def bytes(self):
        return sum(os.path.getsize(f"{self.folder}/{name}") for name in os.listdir(self.folder))

    def stop(self):
        self.process.terminate()
        self.process.wait()


class NGTCP2:
    """libngtcp2's server at the left end, whose controller is that of the row, and its client at the right one."""

    def __init__(self, link, source, folder, controller):
        self.link, self.source, self.folder, self.controller = link, source, folder, controller
        self.programs = []

    def prepare(self):
        os.makedirs(self.folder, exist_ok=True)
        key, certificate = f"{self.folder}/key.pem", f"{self.folder}/cert.pem"
        if not os.path.exists(key):
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                            "-nodes", "-keyout", key, "-out", certificate, "-days", "2", "-subj", "/CN=localhost"],
                           check=True, stderr=subprocess.DEVNULL)
        quiet = ["-q", "--no-quic-dump", "--no-http-dump"]
        server = shutil.which("gtlsserver", path="/usr/sbin:/usr/bin:/usr/local/bin")
        self.programs = [subprocess.Popen(
            self.link.inside("left", server, *quiet, f"--cc={self.controller}", "-d", os.path.dirname(self.source),
                             LEFT, "4433", key, certificate), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)]
        time.sleep(0.5)

    def start(self):
        into = f"{self.folder}/into"
        shutil.rmtree(into, ignore_errors=True)
        os.makedirs(into)
        self.programs.append(subprocess.Popen(
            self.link.inside("right", "gtlsclient", "-q", "--no-quic-dump", "--no-http-dump", f"--download={into}",
                             LEFT, "4433", f"https://localhost/{os.path.basename(self.source)}"),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def bytes(self):
        into = f"{self.folder}/into"
        return sum(os.path.getsize(f"{into}/{name}") for name in os.listdir(into))

    def stop(self):
        for program in reversed(self.programs):
            program.terminate()
            program.wait()


def contest(first, second, delay):
    """The bytes of each that arrived in the time measured."""
    try:
        for sender in (first, second):
            sender.prepare()
        first.start()
        time.sleep(delay)
        second.start()
        time.sleep(2)
        before = (first.bytes(), second.bytes())
        time.sleep(SECONDS)
        return first.bytes() - before[0], second.bytes() - before[1]
    finally:
        for sender in (first, second):
            sender.stop()


def measure(program, kith_program, folder, rows=None):
    """Fills and prints the table."""
    tools = links()
    missing = [name for name in ("gtlsserver", "gtlsclient")
               if not shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/bin")]
    link, devices, results = tools.Link(program), [], {}
    source = f"{folder}/fairness-source"
    with open(source, "wb") as file:
        # More than the link carries in a row, and nothing that could be left out.
        for _ in range(128):
            file.write(os.urandom(1 << 20))
    print(f"\ntwo senders on one link of {RATE} Mbit/s, 30 ms there and back: the first's share and the second's, in "
          f"percent, over {SECONDS} s (goal: nobody below {GOAL}, of two of ours nobody below {GOAL_OF_OURS}), and the "
          "Mbit/s of both")
    if missing:
        print(f"  no rows with libngtcp2: {' and '.join(missing)} not installed")
    print("  queue                          " + "".join(f"{queue:>8} ms      " for queue in QUEUES))
    try:
        link.set({"rate": f"{RATE}mbit", "delay": "15ms", "queue": "50ms"})
        for number in range(2):
            os.makedirs(f"{folder}/{number}")
            devices.append(tools.Kith(kith_program, link, f"{folder}/{number}", grants=[f"files:write={folder}"]))
        ours = [Copy(device, link, source, f"{folder}/into-{number}") for number, device in enumerate(devices)]
        pairs = [("kith, then kith", ours[0], ours[1], 5, GOAL_OF_OURS)]
        for controller in () if missing else ("cubic", "reno", "bbr2"):
            theirs = NGTCP2(link, source, f"{folder}/{controller}", controller)
            pairs.append((f"kith, then ngtcp2 {controller}", ours[0], theirs, 5, GOAL))
            pairs.append((f"ngtcp2 {controller}, then kith", theirs, ours[0], 5, GOAL))
        for name, first, second, delay, goal in pairs:
            if rows and not any(word in name for word in rows):
                continue
            line, results[name] = f"  {name:30} ", {}
            for queue in QUEUES:
                link.set({"queue": f"{queue}ms"})
                counts = contest(first, second, delay)
                total = max(1, sum(counts))
                share = counts[0] * 100 / total
                missed = "" if goal <= share <= 100 - goal else "!"
                row = {"first, %": share, "Mbit/s": total * 8 / SECONDS / 1e6, "goal, %": goal}
                results[name][f"{queue} ms"] = row
                line += f"{share:4.0f}:{100 - share:.0f}{missed:1} {row['Mbit/s']:5.1f}  "
            print(line, flush=True)
    finally:
        for device in devices:
            device.stop()
        link.stop()
        os.remove(source)
    return results
