"""Calls a running Kith device through its socket: see Documentation/Socket.md."""

import base64, collections, json, os, socket


class KithError(Exception):
    pass


class Device:
    def __init__(self, directory):
        place = os.path.join(directory, "kith.sock")
        if os.path.exists(place + ".path"):  # where the directory's own path is too long for a socket
            with open(place + ".path") as file:
                place = file.read().strip()
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(place)
        self.lines, self.count = connection.makefile("rwb"), 0
        self.waiting = collections.defaultdict(collections.deque)  # by request: what has come of it
        self.call("rpc.hello", {"protocol": 2})

    def send(self, **message):
        self.lines.write(json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n")
        self.lines.flush()

    def next(self, number):
        while not self.waiting[number]:
            line = self.lines.readline()
            if not line:
                raise KithError("the device has stopped")
            message = json.loads(line)
            self.waiting[message.get("id", message.get("params", {}).get("id"))].append(message)
        message = self.waiting[number].popleft()
        if error := message.get("error") or message.get("params", {}).get("error"):
            raise KithError(error["message"])
        return message

    def request(self, method, params, **envelope):
        self.count += 1
        self.send(id=self.count, method=method, params=params, **envelope)
        return self.count, self.next(self.count)["result"]

    def call(self, method, params, **envelope):
        return self.request(method, params, **envelope)[1]

    def open(self, method, params, **envelope):
        return Stream(self, *self.request(method, params, **envelope))


class Stream:
    def __init__(self, device, number, answer):
        self.device, self.number, self.answer = device, number, answer

    def send(self, message):
        self.device.send(method="$/message", params={"id": self.number, "message": message})

    def __iter__(self):
        while (notice := self.device.next(self.number))["method"] != "$/end":
            if notice["method"] == "$/message":
                params = notice["params"]
                yield params["message"] if "message" in params else base64.b64decode(params["bytes"])
