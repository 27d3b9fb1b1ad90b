"""What a forwarded connection costs: kith forward -L beside ssh -L, in one run over loopback.

Part of scripts/bench. Both lead to the same counterpart (Tests/Interop/forward_peer.py): bulk both ways, and the time from
connect() to the first byte back, which for both includes opening the connection at the far end.
"""
import hashlib, json, os, socket, statistics, subprocess, sys, time

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PEER = f"{HERE}/Tests/Interop/forward_peer.py"


class Peer:
    def __init__(self, *arguments):
        self.process = subprocess.Popen([sys.executable, PEER, *arguments], stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())

    def stop(self):
        self.process.terminate()
        self.process.wait()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class KithForward:
    def __init__(self, kith, target):
        self.kith = kith
        running = json.loads(kith("forward", "there", "--data", kith.here, "-L", f"127.0.0.1:0:127.0.0.1:{target}",
                                  "--detach", "--json"))
        self.id = running["id"]
        self.port = int(running["rules"][0]["listening"][0].rsplit(":", 1)[1])

    def stop(self):
        self.kith("forward", "--data", self.kith.here, "--stop", str(self.id))


class SSHForward:
    def __init__(self, ssh, target):
        self.port = free_port()
        self.process = subprocess.Popen(["ssh", "-N", *ssh.options, "-o", "ExitOnForwardFailure=yes", "-p",
                                         str(ssh.port), "-L", f"127.0.0.1:{self.port}:127.0.0.1:{target}",
                                         "127.0.0.1"], stderr=subprocess.DEVNULL)
        for _ in range(200):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                time.sleep(0.05)
        raise SystemExit("bench: ssh -L does not listen")

    def stop(self):
        self.process.terminate()
        self.process.wait()


def download(port, size):
    start, count = time.monotonic(), 0
    with socket.create_connection(("127.0.0.1", port)) as connection:
        while data := connection.recv(1 << 18):
            count += len(data)
    if count != size:
        raise SystemExit(f"bench: {count} bytes of {size} arrived")
    return size / (time.monotonic() - start) / 1e6


def upload(port, size):
    block = os.urandom(1 << 20)
    digest = hashlib.sha256()
    for _ in range(size >> 20):
        digest.update(block)
    start = time.monotonic()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        for _ in range(size >> 20):
            connection.sendall(block)
        connection.shutdown(socket.SHUT_WR)
        answer = connection.makefile().readline()
    seconds = time.monotonic() - start
    if answer.strip() != f"{size} {digest.hexdigest()}":
        raise SystemExit("bench: what arrived differs from what was sent")
    return size / seconds / 1e6


def latency(port, rounds=300):
    times = []
    for number in range(rounds + 20):
        start = time.monotonic()
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(b"x")
            if connection.recv(1) != b"x":
                raise SystemExit("bench: the echo is silent")
            if number >= 20:
                times.append((time.monotonic() - start) * 1e3)
    times.sort()
    return {"p50_ms": statistics.median(times), "p99_ms": times[int(len(times) * 0.99)]}


def measure(kith, ssh, size=256 << 20, attempts=3):
    rows = {"kith forward": {}, "ssh -L": {}}
    for column, peer_mode, what in (("down MB/s", ("source", str(size)), download), ("up MB/s", ("drain",), upload),
                                    (None, ("echo",), None)):
        peer = Peer(*peer_mode)
        forwards = {"kith forward": KithForward(kith, peer.port), "ssh -L": SSHForward(ssh, peer.port)}
        try:
            for name, forward in forwards.items():
                if what:
                    rows[name][column] = max(what(forward.port, size) for _ in range(attempts))
                else:
                    rows[name] |= latency(forward.port)
        finally:
            for forward in forwards.values():
                forward.stop()
            peer.stop()
    return rows


def show(rows):
    print("\none forwarded TCP connection, loopback, best of 3; connect to first byte back")
    for name, row in rows.items():
        print(f"  {name:13} down {row['down MB/s']:6.0f} MB/s   up {row['up MB/s']:6.0f} MB/s   "
              f"connect p50 {row['p50_ms']:5.2f} ms   p99 {row['p99_ms']:5.2f} ms")
    kith, ssh = rows["kith forward"], rows["ssh -L"]
    print(f"  ratio         down {kith['down MB/s'] / ssh['down MB/s']:6.2f}x       up "
          f"{kith['up MB/s'] / ssh['up MB/s']:6.2f}x       connect p50 {kith['p50_ms'] / ssh['p50_ms']:5.2f}x")
