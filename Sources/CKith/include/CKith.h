/*
 * CKith.h: Kith for C and whatever can call C. This file is the reference; what is not in it is not API.
 *
 * A device is opened on a data directory and started. It calls methods, here and on paired devices, opens streams, and
 * serves methods of its own. Inputs, answers and messages are JSON in UTF-8, as at the socket (Documentation/Socket.md);
 * `kith api` lists the methods.
 *
 * Rules for all functions
 *
 *   Threads     Every function may be called from any thread, at any time, also within a callback. None blocks.
 *   Callbacks   Come on one thread of the library, one at a time for the whole process, never within the call that
 *               caused them (but perhaps before that has returned). One that takes long delays all others, so leave work
 *               to threads of your own. It must not throw, jump out or end the thread.
 *   Context     Every callback gets the `context` that was given with it, untouched. Each says which call is its last:
 *               after that the context is yours to free.
 *   Memory      What you pass in is borrowed until the function returns. What a callback is given is borrowed until the
 *               callback returns. Nothing has to be freed but devices and services.
 *   Text        `const char *` beside a length has exactly that many bytes and need not end in NUL; NULL with length 0
 *               is allowed where it says so. Other text ends in NUL and is UTF-8. `error` may always be NULL.
 *   Handles     Numbers, never 0. One that was freed, or never was one, or is one of another kind is an error
 *               (KITH_NOT_FOUND), never a crash; its number does not return.
 *   Errors      A function returns KITH_OK or one of the codes; it then has done nothing, calls back nothing, and has
 *               filled `*error` if that is not NULL. What happens later is told to the callback.
 */
#ifndef CKITH_H
#define CKITH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header; compare it with kith_version(). */
#define KITH_VERSION "0.1.0"

/* Codes; those of JSON-RPC at the socket. */
#define KITH_OK 0
#define KITH_UNSUPPORTED (-32601) /* The device does not know the method. */
#define KITH_INVALID (-32602)     /* The request is wrong; again unchanged it will not help. */
#define KITH_INTERNAL (-32603)    /* A fault of the library's. */
#define KITH_NOT_FOUND (-32001)   /* What was asked for does not exist; also a handle that is none. */
#define KITH_CONFLICT (-32002)    /* It is there already, or used by another process. */
#define KITH_DENIED (-32003)      /* The grant is missing. */
#define KITH_UNPAIRED (-32004)    /* The caller is not paired with the device. */
#define KITH_UNREACHABLE (-32005) /* The device cannot be reached now; later it may be. */
#define KITH_TIMED_OUT (-32006)   /* The time passed first. */
#define KITH_CANCELLED (-32007)   /* It was called off. */
#define KITH_EXHAUSTED (-32008)   /* A limit was met. */
#define KITH_CORRUPT (-32009)     /* Bytes that should agree do not. */
#define KITH_CLOSED (-32010)      /* The connection, the stream or the call has ended. */

/* A device, call, stream, service or request to be answered. 0 is none. */
typedef uint64_t kith_handle;

/* An error: a struct of the caller's, filled by the library. */
typedef struct kith_error {
    int32_t code;
    char message[508]; /* For a person; ends in NUL, cut where it is too long. Never holds a secret. */
} kith_error;

/* The version of the library. Static; not to be freed. */
const char *kith_version(void);

/* What a code means, in one sentence, for whoever has no kith_error. Static; never NULL, whatever the code. */
const char *kith_code_text(int32_t code);

/* Devices */

/*
 * Called exactly once for each kith_device_open that returned KITH_OK: with error NULL and the device, which is to be
 * freed with kith_device_free; or with the error and 0. `id` is the DeviceID, NULL in case of an error.
 */
typedef void (*kith_opened)(void *context, const kith_error *error, kith_handle device, const char *id);

/*
 * Opens a data directory, made when it is not there. `options` is a JSON object or NULL; all members may be left out:
 *   "name": text             the name it gives itself when it pairs; kept
 *   "port": 0...65535        the UDP port; kept
 *   "passphrase": text       seals the key
 *   "listens": bool          accept other devices and local clients (default true)
 *   "shell", "files", "forward", "inbox": bool    serve these methods (default true; callers need grants all the same)
 * Errors told to the callback: KITH_CONFLICT when another process uses the directory, KITH_DENIED when the key does not
 * open, KITH_CORRUPT when a file is damaged.
 */
int32_t kith_device_open(const char *directory, const char *options, size_t options_length, kith_opened opened,
                         void *context, kith_error *error);

/*
 * Called once with is_up 1 and error NULL when calls can be made, unless it fails before; then exactly once, the last
 * call, with is_up 0 when it runs no more: error is NULL when it was stopped or freed.
 */
typedef void (*kith_running)(void *context, kith_handle device, int32_t is_up, const kith_error *error);

/* Runs a device until it is stopped or freed. Running again afterwards is allowed; KITH_CONFLICT while it runs. */
int32_t kith_device_start(kith_handle device, kith_running running, void *context, kith_error *error);

/* Tells a device to stop: it takes no new calls and gives running ones five seconds. Does nothing if it does not run. */
int32_t kith_device_stop(kith_handle device, kith_error *error);

/* Called exactly once, after the last callback of all that belonged to what was freed or removed. */
typedef void (*kith_done)(void *context);

/*
 * Frees a device: the handle is none from now on, as are those of its calls, streams and services once they have ended.
 * What runs is cancelled, and its last callbacks come; then `done`, if it is not NULL. The directory is then free.
 */
int32_t kith_device_free(kith_handle device, kith_done done, void *context, kith_error *error);

/* Calls */

/*
 * Called exactly once for each kith_call that returned KITH_OK: with the answer, or with the error and NULL, 0.
 * The handle of the call is none from then on.
 */
typedef void (*kith_answered)(void *context, const kith_error *error, const char *json, size_t length);

/*
 * Calls a query or an action by its name or path, as "files.list" or "math/add".
 *   on        the device to ask: a name or DeviceID; NULL for this one; "*" for any that serves it
 *   timeout   milliseconds the answer may take, 0 for no limit
 *   json      the input, one JSON value of at most 4 MiB; NULL, 0 for {}
 *   call      filled with the handle for kith_cancel, before any callback; may be NULL
 */
int32_t kith_call(kith_handle device, const char *method, const char *on, uint64_t timeout, const char *json,
                  size_t length, kith_answered answered, void *context, kith_handle *call, kith_error *error);

/*
 * Cancels a call or a stream. Its last callback still comes: KITH_CANCELLED, or the result if that was there already.
 * One that is over is KITH_NOT_FOUND, which may be ignored.
 */
int32_t kith_cancel(kith_handle call, kith_error *error);

/* Publishes an event: the call "events.publish". `message` is one JSON value. `answered` may be NULL. */
int32_t kith_publish(kith_handle device, const char *topic, const char *message, size_t length, kith_answered answered,
                     void *context, kith_error *error);

/* Streams */

/* What a callback of a stream is given. */
#define KITH_STREAM_OPENED 1  /* First, once: the service accepted; its answer, JSON. */
#define KITH_STREAM_MESSAGE 2 /* A message, JSON. */
#define KITH_STREAM_BYTES 3   /* Bytes. */
#define KITH_STREAM_ENDED 4   /* Last, exactly once, also without the first: error is NULL when it ended well. */

/*
 * Called for a stream, in order. The next message is taken after the callback has returned: a slow one slows the
 * sender. The handle is none after KITH_STREAM_ENDED.
 */
typedef void (*kith_streamed)(void *context, kith_handle stream, int32_t event, const kith_error *error,
                              const char *data, size_t length);

/* Opens a stream by its method's name; the parameters are those of kith_call, and `stream` may not be NULL. */
int32_t kith_stream_open(kith_handle device, const char *method, const char *on, uint64_t timeout, const char *json,
                         size_t length, kith_streamed streamed, void *context, kith_handle *stream, kith_error *error);

/*
 * Sends one message, JSON, or with is_bytes 1 bytes, of at most 1 MiB. It is copied and queued: KITH_EXHAUSTED when 64
 * are waiting or 4 MiB; try again a little later. May be called before the stream is opened.
 */
int32_t kith_send(kith_handle stream, int32_t is_bytes, const char *data, size_t length, kith_error *error);

/* Ends our direction, after all that was sent. KITH_CLOSED for what is sent later. */
int32_t kith_finish(kith_handle stream, kith_error *error);

/* Subscribes to events: the stream "events.subscribe". `topic` may be a pattern. */
int32_t kith_subscribe(kith_handle device, const char *topic, kith_streamed streamed, void *context,
                       kith_handle *subscription, kith_error *error);

/* Ends a subscription, as kith_cancel ends any stream. */
int32_t kith_unsubscribe(kith_handle subscription, kith_error *error);

/* Services */

/*
 * Called for each call of a service's method. Answer `request` exactly once, from any thread, now or later, with
 * kith_reply or kith_reply_error; it is none from then on, and when the caller waits no more (KITH_NOT_FOUND then).
 *   method    as it was registered, with its service: "math/add"
 *   caller    the DeviceID of the paired device that calls; NULL for this device's own person
 */
typedef void (*kith_requested)(void *context, kith_handle request, const char *method, const char *caller,
                               const char *json, size_t length);

/*
 * Serves methods at SERVICE/METHOD. `registration` is the JSON object of rpc.register at the socket:
 *   {"service": "math", "methods": [{"name": "add", "kind": "query", "access": "paired", "input": {...}}]}
 * Methods of the kind "stream" are KITH_UNSUPPORTED. `service` may be NULL if it is to last as long as the device.
 */
int32_t kith_service_add(kith_handle device, const char *registration, size_t length, kith_requested requested,
                         void *context, kith_handle *service, kith_error *error);

/* Stops serving; what runs is ended. `done` may be NULL; no callback of the service comes after it. */
int32_t kith_service_remove(kith_handle service, kith_done done, void *context, kith_error *error);

/* Answers a request with one JSON value. An answer that is not JSON is KITH_INVALID, and the request stays open. */
int32_t kith_reply(kith_handle request, const char *json, size_t length, kith_error *error);

/* Answers a request with an error; a code that is none of the above becomes KITH_INTERNAL. */
int32_t kith_reply_error(kith_handle request, int32_t code, const char *message, kith_error *error);

#ifdef __cplusplus
}
#endif

#endif
