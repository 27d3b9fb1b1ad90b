"""Many small files, a copy that is killed half way, and a file that has changed: kith beside scp, rsync and tar over ssh."""
import glob, json, os, random, shutil, signal, subprocess, sys, time


def timed(command, **more):
    start = time.monotonic()
    done = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **more)
    return time.monotonic() - start, done.stdout


def tree(folder):
    """What is in a folder: names and contents."""
    found = {}
    for path, _, files in os.walk(folder):
        for name in files:
            full = os.path.join(path, name)
            found[os.path.relpath(full, folder)] = open(full, "rb").read()
    return found


def many(kith, ssh, folder):
    source = f"{folder}/many"
    for outer in range(100):
        os.makedirs(f"{source}/{outer}")
        for inner in range(100):
            with open(f"{source}/{outer}/{inner}", "wb") as file:
                file.write(os.urandom(4096))
    wanted = tree(source)
    remote = " ".join(["ssh", *ssh.options, "-p", str(ssh.port)])
    commands = {
        "kith cp -r": lambda to: [kith.program, "cp", "--data", kith.here, "-q", "-r", source, f"there:{to}"],
        "scp -r": lambda to: ["scp", "-qr", *ssh.options, "-P", str(ssh.port), source, f"127.0.0.1:{to}"],
        "rsync -a": lambda to: ["rsync", "-a", "-e", remote, source + "/", f"127.0.0.1:{to}"],
        "tar over ssh": lambda to: ["sh", "-c", f"tar -C {source} -cf - . | {remote} 127.0.0.1 "
                                                f"'mkdir {to} && tar -C {to} -xf -'"],
    }
    rows = {}
    for name, command in commands.items():
        best = None
        for _ in range(3):
            to = f"{folder}/many-copy"
            seconds, _ = timed(command(to))
            if tree(to) != wanted:
                raise SystemExit(f"bench: what {name} copied differs from its source")
            shutil.rmtree(to)
            best = min(seconds, best or seconds)
        rows[name] = {"seconds": best}
    again = f"{folder}/many-copy"
    timed(commands["kith cp -r"](again))
    seconds, _ = timed([kith.program, "sync", "--data", kith.here, "-q", source, f"there:{again}"])
    rows["kith sync, nothing new"] = {"seconds": seconds}
    shutil.rmtree(again)
    shutil.rmtree(source)
    return rows


def resume(kith, folder, size, digest):
    """Kills the sending device half way; the same copy is then begun again."""
    source, to = f"{folder}/large", f"{folder}/resumed"
    with open(source, "wb") as file:
        for _ in range(size):
            file.write(os.urandom(1 << 20))
    os.makedirs(to)
    command = [kith.program, "cp", "--data", kith.here, "--json", "-q", source, f"there:{to}/"]
    copy = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while True:
        partial = glob.glob(f"{to}/.kith-resume-*")
        if partial and os.path.getsize(partial[0]) >= size << 19:
            break
        if copy.poll() is not None:
            raise SystemExit("bench: the copy was over before it could be killed")
    os.kill(kith.pid(kith.here), signal.SIGKILL)
    copy.wait()
    there = -1
    while there != os.path.getsize(partial[0]):  # what was on its way still arrives
        there = os.path.getsize(partial[0])
        time.sleep(0.5)
    subprocess.run([kith.program, "up", "--data", kith.here, "--detach", "--no-invite", "--name", "near"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    seconds, output = timed(command)
    if digest(source) != digest(f"{to}/large"):
        raise SystemExit("bench: the copy that was killed did not finish")
    sent = json.loads(output)["sent"]
    os.remove(f"{to}/large")
    os.remove(source)
    return {"size": size << 20, "there when killed": there, "sent again": sent - ((size << 20) - there),
            "seconds": seconds}


def delta(kith, ssh, folder, digest):
    """A file of 256 MiB in which one per cent has changed, in 41 places."""
    size, span = 256 << 20, 64 << 10
    source = f"{folder}/changed"
    old = bytearray(os.urandom(size))
    with open(source, "wb") as file:
        file.write(old)
    for name in ("kith", "rsync"):
        shutil.copy(source, f"{folder}/old-{name}")
        os.utime(f"{folder}/old-{name}", (1, 1))
    drawn = random.Random(1)
    for _ in range(41):
        place = drawn.randrange(size - span)
        old[place:place + span] = os.urandom(span)
    with open(source, "wb") as file:
        file.write(old)
    seconds, output = timed([kith.program, "cp", "--data", kith.here, "--json", "-q", source, f"there:{folder}/old-kith"])
    rows = {"kith cp": {"seconds": seconds, "sent": json.loads(output)["sent"]}}
    remote = " ".join(["ssh", *ssh.options, "-p", str(ssh.port)])
    seconds, output = timed(["rsync", "-a", "--no-whole-file", "--stats", "-e", remote, source,
                             f"127.0.0.1:{folder}/old-rsync"])
    literal = next(line for line in output.splitlines() if line.startswith("Literal data:"))
    rows["rsync -a"] = {"seconds": seconds, "sent": int(literal.split()[2].replace(",", ""))}
    for name in ("kith", "rsync"):
        if digest(f"{folder}/old-{name}") != digest(source):
            raise SystemExit(f"bench: what {name} made of the old version differs from the source")
        os.remove(f"{folder}/old-{name}")
    os.remove(source)
    return rows


def names(kith, folder):
    """A folder of 100,000 names listed from here, beside find and ls on the other end, shown by a shell there.

    They take turns, as the machine is quicker at one moment than at another.
    """
    there = f"{folder}/names"
    os.makedirs(there)
    for number in range(100_000):
        os.close(os.open(f"{there}/{number}", os.O_CREAT | os.O_WRONLY, 0o644))
    shell = [kith.program, "shell", "--data", kith.here, "there", "--"]
    own = lambda *words: [kith.program, words[0], "--data", kith.here, *words[1:]]
    commands = {
        "shell: find -ls": shell + ["find", there, "-maxdepth", "1", "-ls"],
        "shell: find": shell + ["find", there, "-maxdepth", "1"],
        "shell: ls -l": shell + ["ls", "-l", there],
        "kith ls": own("ls", f"there:{there}"),
        "kith ls -l": own("ls", "-l", f"there:{there}"),
        "kith find": own("find", f"there:{there}", "-maxdepth", "1"),
    }
    rows = {}
    for _ in range(3):
        for name, command in commands.items():
            seconds, output = timed(command)
            if not 100_000 <= output.count("\n") <= 100_001:
                raise SystemExit(f"bench: {name} listed {output.count(chr(10))} names")
            rows[name] = {"seconds": min(seconds, rows.get(name, {"seconds": seconds})["seconds"])}
    shutil.rmtree(there)
    return rows


def measure(kith, ssh, folder, size, digest):
    rows = {"names": names(kith, folder)}
    print("\na folder of 100,000 names, tmpfs, over loopback, best of 3; beside find -ls on the other end")
    for name, row in rows["names"].items():
        ratio = row["seconds"] / rows["names"]["shell: find -ls"]["seconds"]
        print(f"  {name:24} {row['seconds']:6.2f} s   {ratio:6.2f}x")
    rows["many"] = many(kith, ssh, folder)
    print("\n10,000 files of 4 KiB in 100 folders, tmpfs to tmpfs over loopback, best of 3")
    for name, row in rows["many"].items():
        print(f"  {name:24} {row['seconds']:6.2f} s")
    rows["delta"] = delta(kith, ssh, folder, digest)
    print("\n256 MiB of which 1 % has changed, in 41 places")
    for name, row in rows["delta"].items():
        print(f"  {name:24} {row['seconds']:6.2f} s   {row['sent'] / 1e6:8.2f} MB of contents sent")
    rows["resume"] = resume(kith, folder, size, digest)
    row = rows["resume"]
    print(f"\n{size} MiB, the sending device killed when {row['there when killed'] / (size << 20):.0%} was there, begun again")
    print(f"  sent again               {row['sent again'] / 1e6:6.2f} MB ({row['sent again'] / row['size']:.3%}), "
          f"done in {row['seconds']:.2f} s")
    return rows
