/*
 * The functions of CKith.h for Node.js. What the library calls back on its thread becomes one event in Node.js's, by one
 * thread-safe function for each device, with what it was given copied. index.js makes promises and iterators of that.
 */
#include <CKith.h>
#include <node_api.h>

#include <stdlib.h>
#include <string.h>

/* One callback: a kind, the number of whatever it belongs to, and up to three texts. */
typedef struct {
    const char *kind;
    double number;
    kith_handle handle;
    int32_t code; /* of the error, whose message is then `text` */
    char *method, *caller, *text;
    size_t length;
} note;

/* What a context points to: where its events go, and under which number. */
typedef struct {
    napi_threadsafe_function function;
    double number;
} target;

static char *copy(const char *text, size_t length)
{
    char *copied = malloc(length + 1);
    if (!copied) abort();
    if (length) memcpy(copied, text, length);
    copied[length] = 0;
    return copied;
}

static void post(target *to, const char *kind, kith_handle handle, const kith_error *error, const char *method,
                 const char *caller, const char *text, size_t length)
{
    note *made = calloc(1, sizeof *made);
    if (!made) abort();
    made->kind = kind;
    made->number = to->number;
    made->handle = handle;
    if (error) {
        made->code = error->code;
        text = error->message;
        length = strlen(text);
    }
    if (method) made->method = copy(method, strlen(method));
    if (caller) made->caller = copy(caller, strlen(caller));
    if (text) made->text = copy(text, length);
    made->length = length;
    /* When Node.js is going away nobody listens any more, and nothing can be done. */
    if (napi_call_threadsafe_function(to->function, made, napi_tsfn_blocking) != napi_ok) {
        free(made->method);
        free(made->caller);
        free(made->text);
        free(made);
    }
}

/* The last event of a context. */
static void end(target *to)
{
    napi_release_threadsafe_function(to->function, napi_tsfn_release);
    free(to);
}

static void opened(void *context, const kith_error *error, kith_handle device, const char *id)
{
    post(context, "opened", device, error, NULL, NULL, id, id ? strlen(id) : 0);
    end(context);
}

static void running(void *context, kith_handle device, int32_t is_up, const kith_error *error)
{
    post(context, is_up ? "up" : "down", device, error, NULL, NULL, NULL, 0);
    if (!is_up) end(context);
}

static void answered(void *context, const kith_error *error, const char *json, size_t length)
{
    post(context, "answered", 0, error, NULL, NULL, json, length);
    end(context);
}

static void streamed(void *context, kith_handle stream, int32_t event, const kith_error *error, const char *data,
                     size_t length)
{
    static const char *const kinds[] = {"", "accepted", "message", "bytes", "ended"};
    post(context, kinds[event], stream, error, NULL, NULL, data, length);
    if (event == KITH_STREAM_ENDED) end(context);
}

static void requested(void *context, kith_handle request, const char *method, const char *caller, const char *json,
                      size_t length)
{
    post(context, "requested", request, NULL, method, caller, json, length);
}

static void done(void *context)
{
    post(context, "done", 0, NULL, NULL, NULL, NULL, 0);
    end(context);
}

/* Calls the function of JavaScript: (kind, number, handle, code, text, method, caller). */
static void deliver(napi_env env, napi_value function, void *context, void *data)
{
    (void)context;
    note *made = data;
    if (env) {
        napi_value arguments[7], undefined;
        napi_get_undefined(env, &undefined);
        for (int place = 0; place < 7; place++) arguments[place] = undefined;
        napi_create_string_utf8(env, made->kind, NAPI_AUTO_LENGTH, &arguments[0]);
        napi_create_double(env, made->number, &arguments[1]);
        napi_create_bigint_uint64(env, made->handle, &arguments[2]);
        napi_create_int32(env, made->code, &arguments[3]);
        if (made->text && !made->code && strcmp(made->kind, "bytes") == 0)
            napi_create_buffer_copy(env, made->length, made->text, NULL, &arguments[4]);
        else if (made->text)
            napi_create_string_utf8(env, made->text, made->length, &arguments[4]);
        if (made->method) napi_create_string_utf8(env, made->method, NAPI_AUTO_LENGTH, &arguments[5]);
        if (made->caller) napi_create_string_utf8(env, made->caller, NAPI_AUTO_LENGTH, &arguments[6]);
        napi_call_function(env, undefined, function, 7, arguments, NULL);
    }
    free(made->method);
    free(made->caller);
    free(made->text);
    free(made);
}

/* Inputs */

typedef struct {
    napi_env env;
    napi_value values[8];
    size_t count;
} input;

static input inputs(napi_env env, napi_callback_info info)
{
    input in = {.env = env, .count = 8};
    napi_get_cb_info(env, info, &in.count, in.values, NULL, NULL);
    return in;
}

/* Text or bytes, to be freed; NULL for anything else. */
static char *text(const input *in, size_t place, size_t *length)
{
    napi_valuetype type;
    bool is_buffer = false;
    size_t count = 0;
    *length = 0;
    napi_typeof(in->env, in->values[place], &type);
    if (type == napi_string) {
        napi_get_value_string_utf8(in->env, in->values[place], NULL, 0, &count);
        char *copied = malloc(count + 1);
        if (!copied) abort();
        napi_get_value_string_utf8(in->env, in->values[place], copied, count + 1, length);
        return copied;
    }
    napi_is_buffer(in->env, in->values[place], &is_buffer);
    if (!is_buffer) return NULL;
    void *bytes = NULL;
    napi_get_buffer_info(in->env, in->values[place], &bytes, length);
    return copy(bytes, *length);
}

static kith_handle handle(const input *in, size_t place)
{
    uint64_t value = 0;
    bool is_whole;
    if (napi_get_value_bigint_uint64(in->env, in->values[place], &value, &is_whole) != napi_ok || !is_whole) return 0;
    return value;
}

static double number(const input *in, size_t place)
{
    double value = 0;
    napi_get_value_double(in->env, in->values[place], &value);
    return value;
}

/* A context: the events of one number, to the function that `open` was given. */
static target *towards(const input *in, size_t place)
{
    napi_threadsafe_function function = NULL;
    napi_value name;
    target *made = malloc(sizeof *made);
    if (!made) abort();
    napi_create_string_utf8(in->env, "kith", NAPI_AUTO_LENGTH, &name);
    if (napi_create_threadsafe_function(in->env, in->values[place + 1], NULL, name, 0, 1, NULL, NULL, NULL, deliver,
                                        &function) != napi_ok) {
        free(made);
        napi_throw_type_error(in->env, NULL, "A function was expected.");
        return NULL;
    }
    made->function = function;
    made->number = number(in, place);
    return made;
}

/* Throws {code, message}, unless it went well. `unused` is the context that nobody will call. */
static napi_value result(napi_env env, int32_t code, const kith_error *error, target *unused, kith_handle value)
{
    napi_value made = NULL;
    if (code == KITH_OK) {
        napi_create_bigint_uint64(env, value, &made);
        return made;
    }
    if (unused) end(unused);
    napi_value message, failure;
    napi_create_string_utf8(env, error->message, NAPI_AUTO_LENGTH, &message);
    napi_create_error(env, NULL, message, &failure);
    napi_create_int32(env, code, &made);
    napi_set_named_property(env, failure, "code", made);
    napi_throw(env, failure);
    return NULL;
}

/* The functions */

/* open(directory, options, number, listener) */
static napi_value device_open(napi_env env, napi_callback_info info)
{
    input in = inputs(env, info);
    kith_error error;
    size_t length, ignored;
    target *to = towards(&in, 2);
    if (!to) return NULL;
    char *directory = text(&in, 0, &ignored), *options = text(&in, 1, &length);
    int32_t code = kith_device_open(directory, options, length, opened, to, &error);
    free(directory);
    free(options);
    return result(env, code, &error, to, 0);
}

/* start(device, number, listener) */
static napi_value device_start(napi_env env, napi_callback_info info)
{
    input in = inputs(env, info);
    kith_error error;
    target *to = towards(&in, 1);
    if (!to) return NULL;
    return result(env, kith_device_start(handle(&in, 0), running, to, &error), &error, to, 0);
}

/* stop(device) */
static napi_value device_stop(napi_env env, napi_callback_info info)
{
    input in = inputs(env, info);
    kith_error error;
    return result(env, kith_device_stop(handle(&in, 0), &error), &error, NULL, 0);
}

/* free(device, number, listener) */
static napi_value device_free(napi_env env, napi_callback_info info)
{
    input in = inputs(env, info);
    kith_error error;
    target *to = towards(&in, 1);
    if (!to) return NULL;
    return result(env, kith_device_free(handle(&in, 0), done, to, &error), &error, to, 0);
}

static napi_value begin(napi_env env, napi_callback_info info, bool is_stream)
{
    input in = inputs(env, info);
    kith_error error;
    kith_handle made = 0;
    size_t length, ignored;
    target *to = towards(&in, 5);
    if (!to) return NULL;
    char *method = text(&in, 1, &ignored), *on = text(&in, 2, &ignored), *json = text(&in, 4, &length);
    double milliseconds = number(&in, 3);
    /* A number that is none of milliseconds is refused there. */
    uint64_t timeout = milliseconds >= 0 && milliseconds < 9e15 ? (uint64_t)milliseconds : UINT64_MAX;
    int32_t code = is_stream ? kith_stream_open(handle(&in, 0), method, on, timeout, json, length, streamed, to, &made,
                                                &error)
                             : kith_call(handle(&in, 0), method, on, timeout, json, length, answered, to, &made, &error);
    free(method);
    free(on);
    free(json);
    return result(env, code, &error, to, made);
}

/* call(device, method, on, timeout, json, number, listener) */
static napi_value call(napi_env env, napi_callback_info info) { return begin(env, info, false); }

/* stream(device, method, on, timeout, json, number, listener) */
static napi_value stream(napi_env env, napi_callback_info info) { return begin(env, info, true); }

/* cancel(handle) */
static napi_value cancel(napi_env env, napi_callback_info info)
{
    input in = inputs(env, info);
    kith_error error;
    return result(env, kith_cancel(handle(&in, 0), &error), &error, NULL, 0);
}

/* send(stream, json or bytes) */
static napi_value send(napi_env env, napi_callback_info info)
{
    input in = inputs(env, info);
    kith_error error;
    bool is_bytes = false;
    size_t length;
    napi_is_buffer(env, in.values[1], &is_bytes);
    char *data = text(&in, 1, &length);
    int32_t code = kith_send(handle(&in, 0), is_bytes, data, length, &error);
    free(data);
    return result(env, code, &error, NULL, 0);
}

/* finish(stream) */
static napi_value finish(napi_env env, napi_callback_info info)
{
    input in = inputs(env, info);
    kith_error error;
    return result(env, kith_finish(handle(&in, 0), &error), &error, NULL, 0);
}

/* serve(device, registration, number, listener): [service, context], for unserve */
static napi_value serve(napi_env env, napi_callback_info info)
{
    input in = inputs(env, info);
    kith_error error;
    kith_handle made = 0;
    size_t length;
    target *to = towards(&in, 2);
    if (!to) return NULL;
    char *registration = text(&in, 1, &length);
    int32_t code = kith_service_add(handle(&in, 0), registration, length, requested, to, &made, &error);
    free(registration);
    napi_value service = result(env, code, &error, to, made), context, pair;
    if (!service) return NULL;
    napi_create_external(env, to, NULL, NULL, &context);
    napi_create_array_with_length(env, 2, &pair);
    napi_set_element(env, pair, 0, service);
    napi_set_element(env, pair, 1, context);
    return pair;
}

/* unserve(service, number, listener) */
static napi_value unserve(napi_env env, napi_callback_info info)
{
    input in = inputs(env, info);
    kith_error error;
    target *to = towards(&in, 1);
    if (!to) return NULL;
    return result(env, kith_service_remove(handle(&in, 0), done, to, &error), &error, to, 0);
}

/* release(context): once, after the last event of a service */
static napi_value release(napi_env env, napi_callback_info info)
{
    input in = inputs(env, info);
    void *context = NULL;
    if (napi_get_value_external(env, in.values[0], &context) == napi_ok && context) end(context);
    return NULL;
}

/* reply(request, json) */
static napi_value reply(napi_env env, napi_callback_info info)
{
    input in = inputs(env, info);
    kith_error error;
    size_t length;
    char *json = text(&in, 1, &length);
    int32_t code = kith_reply(handle(&in, 0), json, length, &error);
    free(json);
    return result(env, code, &error, NULL, 0);
}

/* refuse(request, code, message) */
static napi_value refuse(napi_env env, napi_callback_info info)
{
    input in = inputs(env, info);
    kith_error error;
    size_t ignored;
    int32_t why = 0;
    napi_get_value_int32(env, in.values[1], &why);
    char *message = text(&in, 2, &ignored);
    int32_t code = kith_reply_error(handle(&in, 0), why, message, &error);
    free(message);
    return result(env, code, &error, NULL, 0);
}

static napi_value version(napi_env env, napi_callback_info info)
{
    (void)info;
    napi_value made;
    napi_create_string_utf8(env, kith_version(), NAPI_AUTO_LENGTH, &made);
    return made;
}

NAPI_MODULE_INIT()
{
    static const struct {
        const char *name;
        napi_callback function;
    } functions[] = {
        {"open", device_open}, {"start", device_start}, {"stop", device_stop}, {"free", device_free},
        {"call", call},        {"stream", stream},      {"cancel", cancel},    {"send", send},
        {"finish", finish},    {"serve", serve},        {"unserve", unserve},  {"release", release},
        {"reply", reply},      {"refuse", refuse},      {"version", version},
    };
    for (size_t place = 0; place < sizeof functions / sizeof *functions; place++) {
        napi_value function;
        if (napi_create_function(env, functions[place].name, NAPI_AUTO_LENGTH, functions[place].function, NULL,
                                 &function) != napi_ok ||
            napi_set_named_property(env, exports, functions[place].name, function) != napi_ok)
            return NULL;
    }
    return exports;
}
