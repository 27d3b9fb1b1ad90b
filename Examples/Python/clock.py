#!/usr/bin/env python3
"""clock.py DIRECTORY: serves clock/now and the stream clock/ticks at a Kith device, to it and to others."""

import json, os, socket, sys, threading, time


class Service:
    def __init__(self, directory, name, **methods):  # each is what it is declared as, and a function
        place = os.path.join(directory, "kith.sock")
        if os.path.exists(place + ".path"):  # where the directory's own path is too long for a socket
            place = open(place + ".path").read().strip()
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(place)
        self.lines, self.lock, self.streams = connection.makefile("rwb"), threading.Lock(), {}
        self.functions = {f"{name}/{word}": function for word, (_, function) in methods.items()}
        self.send(id=1, method="rpc.hello", params={"protocol": 2})
        declared = [dict(declaration, name=word) for word, (declaration, _) in methods.items()]
        self.send(id=2, method="rpc.register", params={"service": name, "methods": declared})

    def send(self, **message):
        with self.lock:
            self.lines.write(json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n")
            self.lines.flush()

    def run(self):
        for message in map(json.loads, self.lines):
            method, params = message.get("method"), message.get("params", {})
            if method in self.functions:
                credit = self.streams[message["id"]] = threading.Semaphore(message.get("credit", 0))
                threading.Thread(target=self.answer, args=(message, credit), daemon=True).start()
            elif method == "$/credit" and (credit := self.streams.get(params["id"])):
                credit.release(params["messages"])
            elif method == "$/cancel" and (credit := self.streams.pop(params["id"], None)):
                credit.release()
            elif "error" in message:
                sys.exit(message["error"]["message"])
            elif message.get("id") == 2:
                print("serving", *message["result"]["methods"], flush=True)

    def answer(self, message, credit):
        number, caller, accepted = message["id"], message.get("caller", {"name": "this device"}), False
        try:
            result = self.functions[message["method"]](message.get("params", {}), caller)
            accepted = hasattr(result, "__next__")
            self.send(id=number, result={} if accepted else result)
            for item in result if accepted else ():
                if credit.acquire() and self.streams.get(number) is not credit:
                    return  # called off
                self.send(method="$/message", params={"id": number, "message": item})
            if accepted:
                self.send(method="$/end", params={"id": number})
        except Exception as error:
            failure = {"code": -32602, "message": f"{type(error).__name__}: {error}"}
            end = {"method": "$/end", "params": {"id": number, "error": failure}}
            self.send(**(end if accepted else {"id": number, "error": failure}))
        self.streams.pop(number, None)


now = {"kind": "query", "summary": "Tells the time.", "access": "paired"}
ticks = {"kind": "stream", "summary": "Counts.", "downstream": {"form": "messages"}}  # for the grant node:clock/ticks
count = lambda params, caller: ({"tick": tick, "for": caller["name"]} for tick in range(params["count"]))
Service(sys.argv[1], "clock", now=(now, lambda params, caller: {"time": time.time()}), ticks=(ticks, count)).run()
