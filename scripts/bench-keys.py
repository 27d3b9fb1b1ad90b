"""How long a key takes to come back from a shell over a bad link, beside ssh and mosh. Used by scripts/bench; needs root.

    100 ms there and back, and packets lost each way. A key that takes more than a second counts as missed. `never` is
    without prediction, `predicted` with what the tool does by itself on such a link.
"""
import json, os, subprocess, sys

HERE = os.path.dirname(os.path.abspath(__file__))
LOSSES = {"no loss": "0", "5 % loss": "5%", "20 % loss": "20%"}
RIGHT = "10.7.0.2"
TOOLS = ("kith shell, never", "ssh", "mosh, never", "kith shell, predicted", "mosh, predicted")


def command(tool, end, ssh, kith_program):
    if tool == "ssh":
        return ["ssh", "-tt", *ssh.options, RIGHT]
    name, mode = tool.split(", ")
    if name == "mosh":
        return ["mosh", f"--predict={'never' if mode == 'never' else 'adaptive'}",
                "--ssh=ssh " + " ".join(ssh.options), "--server=env LC_ALL=C.UTF-8 mosh-server", RIGHT]
    return [kith_program, "shell", "--data", end.left, "right", "--predict",
            "never" if mode == "never" else "adaptive"]


def measure(links, link_program, kith_program, ssh, folder, keys=120):
    """Prints the table; `links` is the module bench-links.py."""
    rows = {}
    print("\nkeystroke echo over an emulated link, 100 ms there and back; ms")
    for loss, share in LOSSES.items():
        rows[loss] = {}
        for tool in TOOLS:
            if tool.startswith("mosh") and subprocess.run(["which", "mosh"], stdout=subprocess.DEVNULL).returncode:
                continue
            link = links.Link(link_program)
            end = None
            try:
                link.set({"delay": "50ms", "loss": "0"})
                if tool.startswith("kith"):
                    for side in ("left", "right"):
                        subprocess.run(["rm", "-rf", f"{folder}/link-{side}"])
                    end = links.Kith(kith_program, link, folder, grants=["shell"])
                else:
                    end = links.SCP(ssh, link)
                # Everybody learns what the link is like from forty keys that do not count.
                link.set({"loss": share})
                environment = os.environ | {"LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}
                answer = subprocess.run(
                    link.inside("left", sys.executable, f"{HERE}/bench-echo.py", "--keys", str(keys), "--warmup", "40",
                                "--pause", "0.12", "--key-timeout", "1", "--timeout", "60", "--",
                                *command(tool, end, ssh, kith_program)),
                    text=True, stdout=subprocess.PIPE, env=environment)
                if answer.returncode != 0:
                    rows[loss][tool] = None
                    print(f"  {loss:10} {tool:24} gave no shell", flush=True)
                    continue
                row = json.loads(answer.stdout.strip().splitlines()[-1])
            finally:
                for thing in (end, link):
                    if thing:
                        thing.stop()
            rows[loss][tool] = {key: row[key] for key in ("p50_ms", "p90_ms", "p99_ms", "lost", "keys")}
            print(f"  {loss:10} {tool:24} p50 {row['p50_ms']:7.2f}   p90 {row['p90_ms']:7.1f}   "
                  f"p99 {row['p99_ms']:7.1f}   missed {row['lost']} of {row['keys']}", flush=True)
    return rows
