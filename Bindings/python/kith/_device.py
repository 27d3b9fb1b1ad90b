from __future__ import annotations

import asyncio
import collections
import ctypes
import inspect
import json
import logging
import os
import warnings
from dataclasses import dataclass
from typing import Any, Callable, Mapping

from . import _native
from ._errors import Code, KithError

version = _native.version
_log = logging.getLogger("kith")

#: More messages that nobody has read end a stream: it would hold up what else comes from the library.
UNREAD_LIMIT = 4_096


def _encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode()


def _decode(data: bytes) -> Any:
    return json.loads(data) if data else None


def _later(loop: asyncio.AbstractEventLoop, function: Callable[..., Any], *arguments: Any) -> None:
    """Has the loop call a function; nobody waits any more where it is closed."""
    try:
        loop.call_soon_threadsafe(function, *arguments)
    except RuntimeError:
        if not loop.is_closed():
            raise


class _Answer:
    """A future that the library's thread settles."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self._loop.create_future()
        # Whether or not somebody waits, a failure is no fault of the program's.
        self.future.add_done_callback(lambda future: future.cancelled() or future.exception())

    def __call__(self, error: KithError | None, value: Any = None) -> None:
        _later(self._loop, self._settle, error, value)

    def _settle(self, error: KithError | None, value: Any) -> None:
        if self.future.done():
            return
        if error:
            self.future.set_exception(error)
        else:
            self.future.set_result(value)


@dataclass(frozen=True)
class Call:
    """What is known of a call beside its input."""

    #: The DeviceID of the paired device that calls; None for this device's own person.
    caller: str | None


Handler = Callable[[Any, Call], Any]


@dataclass
class Method:
    """A method of a service: its handler, a function or a coroutine function of the input and the call, and what
    `rpc.register` says of it (Documentation/Socket.md)."""

    handler: Handler
    kind: str = "action"
    summary: str | None = None
    access: str | None = None
    idempotent: bool | None = None
    input: Any = None
    output: Any = None

    def _declaration(self, name: str) -> dict[str, Any]:
        members = {
            "name": name, "kind": self.kind, "summary": self.summary, "access": self.access,
            "idempotent": self.idempotent, "input": self.input, "output": self.output,
        }
        return {name: value for name, value in members.items() if value is not None}


class Stream:
    """A stream: iterate over what comes. Leaving `async with` cancels it. More than 4,096 unread messages end it."""

    def __init__(self, device: Device, method: str, input: Any, on: str | None, timeout: float | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._unread: collections.deque[Any] = collections.deque()
        self._news = asyncio.Event()
        self._ended = False
        self._error: KithError | None = None
        self._opened = _Answer()
        self._handle = ctypes.c_uint64(0)
        _native.begin(
            "kith_stream_open", (device._handle, *_parameters(method, on, timeout, input)), _native.streamed,
            lambda *event: _later(self._loop, self._take, *event), ctypes.byref(self._handle))

    async def accepted(self) -> Any:
        """Waits until the service accepts; returns its answer."""
        return await asyncio.shield(self._opened.future)

    def _take(self, event: int, error: KithError | None, data: bytes) -> None:
        if event == _native.STREAM_OPENED:
            self._opened._settle(None, _decode(data))
        elif event == _native.STREAM_ENDED:
            self._ended = True
            self._error = self._error or error
            self._opened._settle(self._error or KithError(Code.CLOSED, "The stream has ended."), None)
        elif self._error is None:
            self._unread.append(_decode(data) if event == _native.STREAM_MESSAGE else data)
            if len(self._unread) > UNREAD_LIMIT:
                self._error = KithError(Code.EXHAUSTED, f"More than {UNREAD_LIMIT} messages were not read.")
                self._unread.clear()
                self.cancel()
        self._news.set()

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> Any:
        while True:
            if self._unread:
                return self._unread.popleft()
            if self._ended or self._error:
                if self._error and not (self._error.code == Code.CANCELLED and self._cancelled):
                    raise self._error
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()

    _cancelled = False

    async def send(self, message: Any) -> None:
        """Sends a message, or bytes; waits while the other end is slow."""
        is_bytes = isinstance(message, (bytes, bytearray, memoryview))
        data = bytes(message) if is_bytes else _encode(message)
        while True:
            try:
                return _native.call("kith_send", self._handle, int(is_bytes), data, len(data))
            except KithError as error:
                if error.code != Code.EXHAUSTED or len(data) > 1 << 20:
                    raise
            await asyncio.sleep(0.01)

    def finish(self) -> None:
        """Ends our direction, after all that was sent."""
        _native.call("kith_finish", self._handle)

    def cancel(self) -> None:
        """Calls it off; nothing happens when it is over."""
        self._cancelled = True
        try:
            _native.call("kith_cancel", self._handle)
        except KithError as error:
            if error.code != Code.NOT_FOUND:
                raise

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(self, *_: Any) -> None:
        self.cancel()


class Service:
    """A service that a device offers."""

    def __init__(self, device: Device, name: str, methods: Mapping[str, Method | Handler]) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        declared = {word: method if isinstance(method, Method) else Method(method) for word, method in methods.items()}
        self._handlers = {f"{name}/{word}": method.handler for word, method in declared.items()}
        registration = _encode(
            {"service": name, "methods": [method._declaration(word) for word, method in declared.items()]})
        self._handle = ctypes.c_uint64(0)
        self._context = _native.begin(
            "kith_service_add", (device._handle, registration, len(registration)), _native.requested,
            lambda *request: _later(self._loop, self._begin, *request), ctypes.byref(self._handle))

    def _begin(self, request: int, method: str, caller: str | None, data: bytes) -> None:
        task = self._loop.create_task(self._answer(request, method, caller, data))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, request: int, method: str, caller: str | None, data: bytes) -> None:
        try:
            answer = self._handlers[method](_decode(data), Call(caller))
            if inspect.isawaitable(answer):
                answer = await answer
            # Results are objects or values; None is an empty one.
            reply = _encode({} if answer is None else answer)
        except KithError as error:
            _ignoring(Code.NOT_FOUND, "kith_reply_error", request, int(error.code), str(error).encode())
        except asyncio.CancelledError:
            _ignoring(Code.NOT_FOUND, "kith_reply_error", request, int(Code.CANCELLED), b"The service was stopped.")
            raise
        except Exception:
            # What exactly went wrong is the program's own business.
            _log.exception("the handler of %s failed", method)
            _ignoring(Code.NOT_FOUND, "kith_reply_error", request, int(Code.INTERNAL), b"The handler failed.")
        else:
            _ignoring(Code.NOT_FOUND, "kith_reply", request, reply, len(reply))

    async def remove(self) -> None:
        """Stops serving; returns when no call comes any more. Handlers that still run are cancelled."""
        done = _Answer()
        _native.begin("kith_service_remove", (self._handle,), _native.done, lambda: done(None))
        await done.future
        self._forget()

    def _forget(self) -> None:
        _native.drop(self._context)
        for task in self._tasks:
            task.cancel()


def _ignoring(code: Code, name: str, *arguments: Any) -> None:
    try:
        _native.call(name, *arguments)
    except KithError as error:
        if error.code != code:
            raise


def _parameters(method: str, on: str | None, timeout: float | None, input: Any) -> tuple[Any, ...]:
    data = _encode({} if input is None else input)
    milliseconds = 0 if timeout is None else max(1, round(timeout * 1_000))
    return method.encode(), on.encode() if on is not None else None, milliseconds, data, len(data)


class Device:
    """A device in this process, made by :meth:`open` and used by the loop that opened it."""

    def __init__(self, handle: int, identity: str) -> None:
        self._handle = handle
        self._services: list[Service] = []
        self._down: asyncio.Future[Any] | None = None
        #: Its DeviceID.
        self.id = identity

    @classmethod
    async def open(cls, directory: str | os.PathLike[str], **options: Any) -> Device:
        """Opens a data directory, made when it is not there. The options are those of `kith_device_open` in CKith.h:
        name, port, passphrase, listens, shell, files, forward, inbox."""
        opened = _Answer()
        data = _encode(options)
        _native.begin(
            "kith_device_open", (os.fsencode(directory), data, len(data)), _native.opened,
            lambda error, device, identity: opened(error, (device, identity)))
        try:
            return cls(*await asyncio.shield(opened.future))
        except asyncio.CancelledError:
            # Nobody is left to free it.
            opened.future.add_done_callback(
                lambda future: future.exception() or _native.call("kith_device_free", future.result()[0], _native.no_callback, None))
            raise

    async def start(self) -> None:
        """Runs it; returns when it is up."""
        up, down = _Answer(), _Answer()

        def running(is_up: bool, error: KithError | None) -> None:
            if not is_up:
                up(error or KithError(Code.CLOSED, "The device was stopped."))
            (up if is_up else down)(error)

        _native.begin("kith_device_start", (self._handle,), _native.running, running)
        self._down = down.future
        await up.future

    async def stop(self) -> None:
        """Stops it; returns when it is down."""
        _native.call("kith_device_stop", self._handle)
        if self._down is not None:
            await asyncio.shield(self._down)

    async def free(self) -> None:
        """Ends everything, and frees the directory; raises NOT_FOUND the second time."""
        done = _Answer()
        handle, self._handle = self._handle, 0
        _native.begin("kith_device_free", (handle,), _native.done, lambda: done(None))
        await asyncio.shield(done.future)
        for service in self._services:
            service._forget()

    async def __aenter__(self) -> Device:
        await self.start()
        return self

    async def __aexit__(self, *_: Any) -> None:
        if self._handle:
            await self.free()

    def __del__(self) -> None:
        if getattr(self, "_handle", 0):
            warnings.warn(f"the device {self.id} was not freed", ResourceWarning, stacklevel=2)
            _ignoring(Code.NOT_FOUND, "kith_device_free", self._handle, _native.no_callback, None)

    async def call(self, method: str, input: Any = None, *, on: str | None = None, timeout: float | None = None) -> Any:
        """Calls a query or an action by its name or path. `on` is a device's name or DeviceID, None for this one, "*"
        for any that serves it; `timeout` is in seconds. Cancelling the task cancels the call."""
        answer = _Answer()
        handle = ctypes.c_uint64(0)
        _native.begin(
            "kith_call", (self._handle, *_parameters(method, on, timeout, input)), _native.answered, answer,
            ctypes.byref(handle))
        try:
            return _decode(await answer.future)
        except asyncio.CancelledError:
            _ignoring(Code.NOT_FOUND, "kith_cancel", handle)
            raise

    def stream(
        self, method: str, input: Any = None, *, on: str | None = None, timeout: float | None = None
    ) -> Stream:
        """Opens a stream."""
        return Stream(self, method, input, on, timeout)

    async def publish(self, topic: str, message: Any, **options: Any) -> None:
        """Publishes an event; the options are the members of `kith api show events.publish`."""
        await self.call("events.publish", {"topic": topic, "message": message} | options)

    def subscribe(self, topic: str, **options: Any) -> Stream:
        """Follows the events of a topic or a pattern: {"event": {...}} or {"gap": {...}}, with the members of
        `kith api show events.subscribe`."""
        return Stream(self, "events.subscribe", {"topic": topic} | options, None, None)

    def serve(self, service: str, methods: Mapping[str, Method | Handler]) -> Service:
        """Serves methods at SERVICE/METHOD, in the loop that runs now."""
        made = Service(self, service, methods)
        self._services.append(made)
        return made
