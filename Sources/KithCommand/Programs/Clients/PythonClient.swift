import KithAPI

/// Writes a client in Python, for 3.9 and later, with the standard library only.
struct PythonClient {
    let model: ClientModel

    private static let keywords: Set<String> = [
        "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
        "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
        "not", "or", "pass", "raise", "return", "try", "while", "with", "yield", "self", "on", "timeout", "params",
        "value",
    ]

    private static func escaped(_ word: String) -> String { keywords.contains(word) ? word + "_" : word }

    var source: String {
        var text = """
            # Written by `kith api generate python` for version \(model.version) of the table; write it anew, do not edit it.
            \"\"\"A client of Kith: every method of a device, typed, over the socket in its data directory.

                from kith import Client, KithError

                with Client("~/.local/share/kith") as kith:
                    for location in kith.locations.list()["locations"]:
                        print(location["name"])
                    with kith.search.follow(query="ext:pdf") as stream:
                        for difference in stream:
                            print(difference["found"])

            Each method takes its input as keyword arguments; `on` names another device and `timeout` is in seconds. One
            connection carries all calls, from any number of threads.
            \"\"\"

            from __future__ import annotations

            import base64, collections, json, os, socket, sys, threading
            from typing import Any, Dict, Generic, Iterator, List, Optional, TypeVar, Union

            if sys.version_info >= (3, 8):
                from typing import Literal, TypedDict


            """
        text += "ERRORS = {\n" + model.errors.map { "    \($0.code): \"\($0.name)\",\n" }.joined() + "}\n"
        text += "\n" + Self.runtime + "\n\n# Types\n"
        for definition in model.definitions { text += "\n" + self.definition(definition) }
        text += "\n\n# Methods\n"
        for (name, methods) in model.namespaces {
            text += """


                class \(name.asTypeName)Namespace:
                    \"\"\"The methods named `\(name.asComment).…`.\"\"\"

                    def __init__(self, client: Client):
                        self._client = client

                """
            for method in methods { text += "\n" + self.method(method).indented(4) }
        }
        text += """


            class Client(Connection):
                \"\"\"A device that runs on this machine, by its data directory.\"\"\"

                def __init__(self, directory: Optional[str] = None):
                    super().__init__(directory)

            """
        for (name, _) in model.namespaces {
            text += "        self.\(Self.escaped(name.asSnakeName)) = \(name.asTypeName)Namespace(self)\n"
        }
        return text
    }

    private func form(_ form: ClientModel.Form) -> String {
        switch form {
        case .any: "Any"
        case .boolean: "bool"
        case .integer: "int"
        case .number: "float"
        case .text, .bytes: "str"
        case .null: "None"
        case .words(let words): "Literal[\(words.map(Self.quoted).joined(separator: ", "))]"
        case .list(let element): "List[\(self.form(element))]"
        case .dictionary(let value): "Dict[str, \(self.form(value))]"
        case .object: "Dict[str, Any]"
        case .oneOf(let forms): "Union[\(forms.map(self.form).joined(separator: ", "))]"
        case .named(let name): Self.quoted(name.asTypeName)
        }
    }

    private static func quoted(_ text: String) -> String {
        "\"\(text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\""))\""
    }

    private func definition(_ definition: ClientModel.Definition) -> String {
        let name = definition.name.asTypeName
        let comment = definition.description.map { "# \($0.asComment)\n" } ?? ""
        switch definition.form {
        case .object(let members): return comment + typedDict(name, members)
        case .oneOf(let forms):
            // An object of one member each: named for it, so that it can be looked at.
            var (text, names) = ("", [String]())
            for (index, form) in forms.enumerated() {
                guard case .object(let members) = form else {
                    names.append(self.form(form))
                    continue
                }
                let part = name + (members.count == 1 ? members[0].name.asTypeName : String(index + 1))
                text += typedDict(part, members) + "\n"
                names.append(Self.quoted(part))
            }
            return text + comment + "\(name) = Union[\(names.joined(separator: ", "))]\n"
        default: return comment + "\(name) = \(form(definition.form))\n"
        }
    }

    private func typedDict(_ name: String, _ members: [ClientModel.Member]) -> String {
        func entries(_ members: [ClientModel.Member]) -> String {
            members.map { "    \(Self.quoted($0.name)): \(Self.quoted(form($0.form).replacing("\"", with: ""))),\n" }
                .joined()
        }
        let (required, others) = (members.filter(\.isRequired), members.filter { !$0.isRequired })
        if others.isEmpty { return "\(name) = TypedDict(\"\(name)\", {\n\(entries(members))})\n" }
        if required.isEmpty { return "\(name) = TypedDict(\"\(name)\", {\n\(entries(members))}, total=False)\n" }
        return """
            _\(name)Required = TypedDict("_\(name)Required", {
            \(entries(required))})


            class \(name)(_\(name)Required, TypedDict("_\(name)Optional", {
            \(entries(others))}, total=False)):
                pass

            """
    }

    private func method(_ method: ClientModel.Method) -> String {
        var (parameters, body) = ([String](), "params: Any = {}\n")
        if let input = method.input {
            parameters = ["value: \(form(input).replacing("\"", with: ""))"]
            body = "params: Any = value\n"
        }
        for member in method.ordered {
            let name = Self.escaped(member.name)
            let type = form(member.form).replacing("\"", with: "")
            parameters.append(member.isRequired ? "\(name): \(type)" : "\(name): Optional[\(type)] = None")
            let set = "params[\(Self.quoted(member.name))] = \(name)\n"
            body += member.isRequired ? set : "if \(name) is not None:\n    \(set)"
        }
        parameters += ["on: Optional[str] = None", "timeout: Optional[float] = None"]
        let output = form(method.output).replacing("\"", with: "")
        let answer: String
        if let stream = method.stream {
            answer = "Stream[\(way(stream.down)), \(way(stream.up)), \(output)]"
        } else {
            answer = output
        }
        return """
            def \(Self.escaped(method.word.asSnakeName))(self, *, \(parameters.joined(separator: ", "))) -> \(answer):
                \"\"\"\(method.summary.asComment)

                The method `\(method.name.asComment)`. Callers: \(method.callers.asComment).
                \"\"\"
            \(body.indented(4))    return self._client.\(method.stream == nil ? "call" : "open")(\(Self.quoted(method.name)), params, on=on, timeout=timeout)

            """
    }

    private func way(_ way: ClientModel.Way) -> String {
        switch way {
        case .nothing: "None"
        case .bytes: "bytes"
        case .messages(let form): self.form(form).replacing("\"", with: "")
        }
    }

    /// What carries the calls.
    private static let runtime = #"""
        Down = TypeVar("Down")
        Up = TypeVar("Up")
        Answer = TypeVar("Answer")


        class KithError(Exception):
            """A call that failed: its code by name (`notFound`), its number, and what an application adds."""

            def __init__(self, code: str, message: str, number: int = 0, data: Any = None):
                super().__init__(message)
                self.code, self.message, self.number, self.data = code, message, number, data

            @classmethod
            def read(cls, error: Any) -> "KithError":
                number = error.get("code", 0)
                return cls(ERRORS.get(number, "internal"), error.get("message", ""), number, error.get("data"))


        class _Waiter:
            """What comes for one call or stream, in the order in which it comes."""

            def __init__(self) -> None:
                self.arrived: collections.deque = collections.deque()
                self.ready = threading.Condition()
                self.credit = 32

            def put(self, item: Any) -> None:
                with self.ready:
                    self.arrived.append(item)
                    self.ready.notify_all()

            def take(self, timeout: Optional[float] = None) -> Any:
                with self.ready:
                    if not self.ready.wait_for(lambda: self.arrived, timeout):
                        raise KithError("timedOut", "It was not done in time.", -32006)
                    return self.arrived.popleft()


        class Stream(Generic[Down, Up, Answer]):
            """A stream that a service has accepted; iterating gives what it sends, until it ends.

            Dropped before its end it is cancelled; `with` does so at once.
            """

            WINDOW = 64

            def __init__(self, connection: "Connection", id: int, waiter: _Waiter, answer: Answer):
                self._connection, self._id, self._waiter = connection, id, waiter
                self._taken, self._ended = 0, False
                #: The service's answer.
                self.answer = answer

            def __iter__(self) -> Iterator[Down]:
                return self

            def __next__(self) -> Down:
                while not self._ended:
                    kind, value = self._waiter.take()
                    if kind == "message":
                        self._taken += 1
                        if self._taken >= self.WINDOW // 2:
                            self._connection._notify("$/credit", {"id": self._id, "messages": self._taken})
                            self._taken = 0
                        return value
                    if kind == "end":
                        self._ended = True
                        if value is not None:
                            raise value
                raise StopIteration

            def send(self, message: Up) -> None:
                """Sends one message, or bytes, waiting while the other end is slow."""
                with self._waiter.ready:
                    ended = lambda: any(kind == "end" for kind, _ in self._waiter.arrived)
                    self._waiter.ready.wait_for(lambda: self._waiter.credit > 0 or ended())
                    if self._ended or ended():
                        raise KithError("closed", "The stream is over.", -32010)
                    self._waiter.credit -= 1
                if isinstance(message, (bytes, bytearray)):
                    content = {"bytes": base64.b64encode(message).decode()}
                else:
                    content = {"message": message}
                self._connection._notify("$/message", {"id": self._id, **content})

            def finish(self) -> None:
                """Says that nothing more comes from here."""
                self._connection._notify("$/finish", {"id": self._id})

            def cancel(self) -> None:
                """Ends it; what has come can still be taken."""
                if not self._ended:
                    self._connection._notify("$/cancel", {"id": self._id})

            def __enter__(self) -> "Stream[Down, Up, Answer]":
                return self

            def __exit__(self, *error: Any) -> None:
                self.cancel()

            def __del__(self) -> None:
                try:
                    self.cancel()
                except (KithError, OSError):
                    pass  # the connection is gone, and the stream with it


        class Connection:
            """One connection to a device, for any number of calls at once."""

            def __init__(self, directory: Optional[str] = None):
                directory = os.path.expanduser(directory or os.environ.get("KITH_DATA") or "~/.local/share/kith")
                path = os.path.join(directory, "kith.sock")
                if os.path.exists(path + ".path"):
                    with open(path + ".path") as file:
                        path = file.read().strip()
                self._socket = socket.socket(socket.AF_UNIX)
                try:
                    self._socket.connect(path)
                except OSError as error:
                    self._socket.close()
                    raise KithError("unreachable", f"No device runs on {directory}: {error}", -32005) from None
                self._lock = threading.Lock()
                self._next = 0
                self._waiting: Dict[int, _Waiter] = {}
                self._closed: Optional[KithError] = None
                threading.Thread(target=self._read, name="kith", daemon=True).start()
                hello = self.call("rpc.hello", {"protocol": 2})
                if hello["protocol"] != 2:
                    self.close()
                    raise KithError("unsupported", "This client is written for version 2 of the socket.", -32601)

            def __enter__(self) -> "Any":
                return self

            def __exit__(self, *error: Any) -> None:
                self.close()

            def close(self) -> None:
                """Ends the connection; calls that wait fail with `closed`."""
                try:
                    self._socket.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # it has ended already
                self._socket.close()

            def call(self, method: str, params: Any, on: Optional[str] = None, timeout: Optional[float] = None) -> Any:
                """Calls a method by its name, and waits for its answer."""
                id, waiter = self._begin(method, params, on, timeout)
                try:
                    return self._answer(id, waiter, timeout)
                finally:
                    with self._lock:
                        self._waiting.pop(id, None)

            def open(self, method: str, params: Any, on: Optional[str] = None, timeout: Optional[float] = None) -> Any:
                """Opens a stream by its method's name, and waits until the service has accepted."""
                id, waiter = self._begin(method, params, on, timeout, credit=Stream.WINDOW)
                try:
                    answer = self._answer(id, waiter, timeout)
                except BaseException:
                    with self._lock:
                        self._waiting.pop(id, None)
                    raise
                return Stream(self, id, waiter, answer)

            def _begin(self, method: str, params: Any, on: Any, timeout: Any, **more: Any) -> Any:
                waiter = _Waiter()
                with self._lock:
                    if self._closed:
                        raise self._closed
                    self._next += 1
                    id = self._next
                    self._waiting[id] = waiter
                request = {"jsonrpc": "2.0", "id": id, "method": method, "params": params, **more}
                if on is not None:
                    request["on"] = on
                if timeout is not None:
                    request["timeout"] = max(1, int(timeout * 1000))
                self._send(request)
                return id, waiter

            def _answer(self, id: int, waiter: _Waiter, timeout: Optional[float]) -> Any:
                try:
                    # The device itself answers when the time is up; should it not, this gives up a little later.
                    kind, value = waiter.take(None if timeout is None else timeout + 0.5)
                except BaseException:
                    self._notify("$/cancel", {"id": id})
                    raise
                if kind != "result":
                    raise value or KithError("closed", "The device has stopped.", -32010)
                return value

            def _notify(self, method: str, params: Any) -> None:
                self._send({"jsonrpc": "2.0", "method": method, "params": params})

            def _send(self, packet: Any) -> None:
                line = json.dumps(packet, separators=(",", ":")).encode() + b"\n"
                try:
                    with self._lock:
                        self._socket.sendall(line)
                except OSError as error:
                    raise KithError("closed", f"The device has stopped: {error}", -32010) from None

            def _read(self) -> None:
                try:
                    for line in self._socket.makefile("rb"):
                        packet = json.loads(line)
                        if "method" in packet:
                            self._notice(packet["method"], packet.get("params") or {})
                            continue
                        with self._lock:
                            waiter = self._waiting.get(packet.get("id"))
                        if waiter is not None and "error" in packet:
                            waiter.put(("error", KithError.read(packet["error"])))
                        elif waiter is not None:
                            waiter.put(("result", packet.get("result")))
                except (OSError, ValueError):
                    pass  # the connection has ended, or makes no sense any more
                finally:
                    closed = KithError("closed", "The device has stopped.", -32010)
                    with self._lock:
                        self._closed = closed
                        waiting, self._waiting = self._waiting, {}
                    for waiter in waiting.values():
                        waiter.put(("end", closed))

            def _notice(self, method: str, params: Any) -> None:
                with self._lock:
                    waiter = self._waiting.get(params.get("id"))
                if waiter is None:
                    return
                if method == "$/message":
                    is_bytes = "bytes" in params
                    waiter.put(("message", base64.b64decode(params["bytes"]) if is_bytes else params["message"]))
                elif method == "$/credit":
                    with waiter.ready:
                        waiter.credit += params.get("messages", 0)
                        waiter.ready.notify_all()
                elif method == "$/end":
                    with self._lock:
                        self._waiting.pop(params.get("id"), None)
                    error = params.get("error")
                    waiter.put(("end", None if error is None else KithError.read(error)))
        """#
}
