"""A directory that answers every question with the bytes it was last given, as a line of hexadecimal digits.

Prints its port, then the number of bytes of each line it was given.
"""

import http.server
import json
import sys
import threading


class Directory(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    body = b""

    def do_GET(self):
        self.send_response(200)
        self.send_header("content-length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Directory)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(json.dumps({"port": server.server_address[1]}), flush=True)
for line in sys.stdin:
    Directory.body = bytes.fromhex(line.strip())
    print(json.dumps({"bytes": len(Directory.body)}), flush=True)
