"""The functions of CKith.h."""

from __future__ import annotations

import ctypes
import ctypes.util
import itertools
import os
from ctypes import CFUNCTYPE, POINTER, byref, c_char_p, c_int32, c_size_t, c_uint64, c_void_p
from typing import Any, Callable

from ._errors import KithError

STREAM_OPENED, STREAM_MESSAGE, STREAM_BYTES, STREAM_ENDED = 1, 2, 3, 4


class ErrorStruct(ctypes.Structure):
    _fields_ = [("code", c_int32), ("message", ctypes.c_char * 508)]


_Error = POINTER(ErrorStruct)
# `const char *` beside a length: it may hold any byte, also none.
_Bytes = c_void_p
_OPENED = CFUNCTYPE(None, c_void_p, _Error, c_uint64, c_char_p)
_RUNNING = CFUNCTYPE(None, c_void_p, c_uint64, c_int32, _Error)
_DONE = CFUNCTYPE(None, c_void_p)
_ANSWERED = CFUNCTYPE(None, c_void_p, _Error, _Bytes, c_size_t)
_STREAMED = CFUNCTYPE(None, c_void_p, c_uint64, c_int32, _Error, _Bytes, c_size_t)
_REQUESTED = CFUNCTYPE(None, c_void_p, c_uint64, c_char_p, c_char_p, _Bytes, c_size_t)


def _load() -> ctypes.CDLL:
    name = os.environ.get("KITH_LIBRARY") or ctypes.util.find_library("kith") or "libkith.so.0"
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        raise ImportError(f"{error}. `make lib` builds libkith.so; $KITH_LIBRARY names another place.") from None
    handle = POINTER(c_uint64)
    for function, arguments in {
        "kith_device_open": [c_char_p, c_char_p, c_size_t, _OPENED, c_void_p, _Error],
        "kith_device_start": [c_uint64, _RUNNING, c_void_p, _Error],
        "kith_device_stop": [c_uint64, _Error],
        "kith_device_free": [c_uint64, _DONE, c_void_p, _Error],
        "kith_call": [c_uint64, c_char_p, c_char_p, c_uint64, c_char_p, c_size_t, _ANSWERED, c_void_p, handle, _Error],
        "kith_cancel": [c_uint64, _Error],
        "kith_stream_open": [
            c_uint64, c_char_p, c_char_p, c_uint64, c_char_p, c_size_t, _STREAMED, c_void_p, handle, _Error,
        ],
        "kith_send": [c_uint64, c_int32, c_char_p, c_size_t, _Error],
        "kith_finish": [c_uint64, _Error],
        "kith_service_add": [c_uint64, c_char_p, c_size_t, _REQUESTED, c_void_p, handle, _Error],
        "kith_service_remove": [c_uint64, _DONE, c_void_p, _Error],
        "kith_reply": [c_uint64, c_char_p, c_size_t, _Error],
        "kith_reply_error": [c_uint64, c_int32, c_char_p, _Error],
    }.items():
        getattr(library, function).argtypes = arguments
        getattr(library, function).restype = c_int32
    library.kith_version.restype = c_char_p
    return library


_library = _load()
version: str = _library.kith_version().decode()

# What callbacks are for, by their context: a number, which C carries and Python's objects need not survive.
_numbers = itertools.count(1)
_contexts: dict[int, Callable[..., Any]] = {}


def keep(function: Callable[..., Any]) -> int:
    """A context that calls `function`, until it is dropped."""
    context = next(_numbers)
    _contexts[context] = function
    return context


def drop(context: int) -> None:
    _contexts.pop(context, None)


def _failure(error: Any) -> KithError | None:
    return KithError(error.contents.code, error.contents.message.decode(errors="replace")) if error else None


def _bytes(data: int | None, length: int) -> bytes:
    return ctypes.string_at(data, length) if data and length else b""


# Each is called on the library's thread. The last call of a context drops it.


@_OPENED
def opened(context: int, error: Any, device: int, identity: bytes | None) -> None:
    _contexts.pop(context)(_failure(error), device, identity.decode() if identity else "")


@_RUNNING
def running(context: int, device: int, is_up: int, error: Any) -> None:
    function = _contexts[context] if is_up else _contexts.pop(context)
    function(bool(is_up), _failure(error))


@_DONE
def done(context: int) -> None:
    _contexts.pop(context)()


@_ANSWERED
def answered(context: int, error: Any, data: int | None, length: int) -> None:
    _contexts.pop(context)(_failure(error), _bytes(data, length))


@_STREAMED
def streamed(context: int, stream: int, event: int, error: Any, data: int | None, length: int) -> None:
    function = _contexts.pop(context) if event == STREAM_ENDED else _contexts[context]
    function(event, _failure(error), _bytes(data, length))


@_REQUESTED
def requested(
    context: int, request: int, method: bytes, caller: bytes | None, data: int | None, length: int
) -> None:
    _contexts[context](request, method.decode(), caller.decode() if caller else None, _bytes(data, length))


#: For a callback that nobody needs.
no_callback = _DONE()


def call(name: str, *arguments: Any) -> None:
    """Calls a function of the library, with an error as its last argument."""
    error = ErrorStruct()
    if getattr(_library, name)(*arguments, byref(error)) != 0:
        raise KithError(error.code, error.message.decode(errors="replace"))


def begin(name: str, arguments: tuple[Any, ...], callback: Any, function: Callable[..., Any], *more: Any) -> int:
    """Calls a function that calls back; returns the context, which is dropped if it fails."""
    context = keep(function)
    try:
        call(name, *arguments, callback, context, *more)
    except BaseException:
        drop(context)
        raise
    return context
