#!/usr/bin/env python3
"""Counterparts for the tests of forwarding: real sockets of another implementation.

    forward_peer.py MODE [ARGUMENT...]

Prints the port it listens on, or "ready" at a Unix socket, on one line, and serves until it is ended.

    echo            sends back what comes, and ends its direction when the other ends
    echo unix PATH  the same at a Unix socket
    drain           reads to the end, then answers "COUNT SHA256\n": right only when the end travels as an end
    source COUNT    sends COUNT bytes of a known sequence, ends its direction, then answers nothing and reads to the end
    reset           takes a connection, reads one byte and resets it
    wait            takes a connection, and answers "reset" or "end" to whoever asks on a second one how the first ended
    udp             sends datagrams back
    http            an HTTP server that says what request it got
"""
import hashlib, http.server, socket, socketserver, struct, sys, threading


def sequence(count):
    block = bytes(range(251)) * 261
    left = count
    while left > 0:
        part = block[:min(left, len(block))]
        yield part
        left -= len(part)


def listen(path=None):
    if path:
        server = socket.socket(socket.AF_UNIX)
        server.bind(path)
    else:
        server = socket.socket()
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", 0))
    server.listen(1024)
    print("ready" if path else server.getsockname()[1], flush=True)
    return server


def reset(connection):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def serve(server, handle):
    while True:
        connection, _ = server.accept()
        threading.Thread(target=guard, args=(handle, connection), daemon=True).start()


def guard(handle, connection):
    try:
        handle(connection)
    except OSError:
        pass
    finally:
        connection.close()


def echo(connection):
    while data := connection.recv(1 << 18):
        connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)


def drain(connection):
    digest, count = hashlib.sha256(), 0
    while data := connection.recv(1 << 18):
        digest.update(data)
        count += len(data)
    connection.sendall(f"{count} {digest.hexdigest()}\n".encode())


def source(count):
    def handle(connection):
        for part in sequence(count):
            connection.sendall(part)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(1 << 16):
            pass
    return handle


def resetting(connection):
    connection.recv(1)
    reset(connection)


class Waiting:
    def __init__(self):
        self.first, self.ended, self.how = True, threading.Event(), None
        self.lock = threading.Lock()

    def __call__(self, connection):
        with self.lock:
            is_first, self.first = self.first, False
        if is_first:
            try:
                while connection.recv(1 << 16):
                    pass
                self.how = "end"
            except ConnectionResetError:
                self.how = "reset"
            self.ended.set()
        else:
            self.ended.wait()
            connection.sendall(self.how.encode() + b"\n")


class Requests(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        fields = ",".join(sorted(name.lower() for name in self.headers))
        text = f"{self.command} {self.path} host={self.headers['Host']} fields={fields} body={len(body)}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PUT = answer

    def log_message(self, *arguments):
        pass


def main():
    mode, arguments = sys.argv[1], sys.argv[2:]
    path = arguments[1] if arguments[:1] == ["unix"] else None
    if mode == "udp":
        server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        server.bind(("127.0.0.1", 0))
        print(server.getsockname()[1], flush=True)
        while True:
            data, sender = server.recvfrom(65535)
            server.sendto(data, sender)
    elif mode == "http":
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Requests)
        print(server.server_address[1], flush=True)
        server.serve_forever()
    else:
        handlers = {"echo": echo, "drain": drain, "reset": resetting, "wait": Waiting()}
        handle = source(int(arguments[0])) if mode == "source" else handlers[mode]
        serve(listen(path), handle)


main()
