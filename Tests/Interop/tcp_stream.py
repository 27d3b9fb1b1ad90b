"""A TCP stream (CUBIC) that competes for a link: `tcp_stream.py serve OPTIONS` or `tcp_stream.py dial OPTIONS`.

OPTIONS is a JSON object with host and port. The server sends as fast as it can until the dialer goes away, the dialer
reads until its input ends and prints how many bytes came.
"""

import json
import select
import socket
import sys

options = json.loads(sys.argv[2])
if sys.argv[1] == "serve":
    with socket.create_server((options["host"], 0)) as server:
        print(json.dumps({"port": server.getsockname()[1]}), flush=True)
        stream, _ = server.accept()
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        stream.setblocking(False)
        try:
            while True:
                readable, _, _ = select.select([sys.stdin], [stream], [])
                if readable:
                    break
                stream.send(bytes(1 << 14))
        except OSError:
            pass
else:
    count = 0
    with socket.create_connection((options["host"], options["port"])) as stream:
        print(json.dumps({"port": stream.getsockname()[1]}), flush=True)
        while True:
            ready, _, _ = select.select([stream, sys.stdin], [], [])
            if sys.stdin in ready:
                break
            count += len(stream.recv(1 << 16))
    print(json.dumps({"count": count}), flush=True)
