#!/usr/bin/env python3
"""follow.py DIRECTORY copy FROM TO | shell COMMAND | pair INVITATION: one of three, followed to its end."""

import base64, sys
from kith_socket import Device

directory, what, *rest = sys.argv[1:]
device = Device(directory)
if what == "copy":
    for progress in device.open("files.copy", {"sources": [{"path": rest[0]}], "destination": {"path": rest[1]}}):
        if failure := progress.get("failure"):
            sys.exit(failure["message"])
        if summary := progress.get("summary"):
            print(summary["files"], "file,", summary["bytes"], "bytes")
elif what == "shell":
    shell = device.open("shell.open", {"commandLine": rest[0]})
    for message in shell:
        if output := message.get("output"):
            sys.stdout.buffer.write(base64.b64decode(output))
            sys.stdout.flush()
        if "exited" in message:
            sys.exit(message["exited"].get("status", 1))
elif what == "pair":
    pairing = device.open("pairing.join", {"invitation": rest[0]})
    for event in pairing:
        if compare := event.get("compare"):
            answer = input(f"{compare['code']}: does {compare['name']} show the same? [y/N] ")
            pairing.send({"accept": answer.strip().lower() in ("y", "yes")})
        elif failed := event.get("failed"):
            sys.exit(failed["message"])
        elif paired := event.get("paired"):
            print("paired with", paired["_0"]["name"])
            sys.exit()
    sys.exit("the pairing was not finished")
