"""What secure groups cost (`kith mls bench`), in the shapes that other implementations of MLS publish.

Flat groups of 2 to 5,000 members, warm ones of 10 to 50,000, the large suites at 100, and what a storage writes: the
rows' own bytes, and beside them the bytes of the blocks that the system counts ("to the disk"). Otherwise the
processor's time, and where it says so the time that passes on two cores.
"""
import json
import os
import subprocess

FLAT = (2, 10, 100, 1_000, 5_000)
WARM = (10, 100, 512, 10_000, 50_000)
SUITES = (2, 3, 5, 7)


def rows(program, *arguments):
    """The rows of one run, shown as they come in."""
    output = subprocess.run([program, "mls", "bench", "--json", *arguments], check=True, text=True,
                            stdout=subprocess.PIPE).stdout
    return json.loads(output)


def line(row):
    value = ""
    if "milliseconds" in row:
        value = f"{row['milliseconds']:12.4f} ms"
    if "megabytes" in row:
        value = f"{row['megabytes']:12.1f} MB"
    size = f"{row['bytes']} bytes" if "bytes" in row else ""
    return f"  {row['work']:56}{value or ' ' * 15}  {size}".rstrip()


def measure(program):
    cores = str(min(2, os.cpu_count() or 1))
    results = {}
    for title, arguments in (
        [(f"flat, {count} members", ["--members", str(count), "--cores", cores]) for count in FLAT]
        + [(f"warm, {count} members", ["--warm", str(count), "--cores", cores]) for count in WARM]
        + [(f"suite {suite}", ["--suite", str(suite), "--members", "100"]) for suite in SUITES]
    ):
        results[title] = rows(program, *arguments)
        print(f"\nsecure groups: {title}", flush=True)
        for row in results[title]:
            print(line(row), flush=True)
    return results
