#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include "KithSecretService.h"

// sd-bus is opened when it is first asked for: a device that keeps its key in a file needs no such library, and no build
// needs its headers. It is chosen over libsecret because it has no threads, no connection shared with others, and never
// ends the process when the bus does.

#ifdef __linux__
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SERVICE "org.freedesktop.secrets"
#define ROOT "/org/freedesktop/secrets"
#define SECRET "org.freedesktop.Secret."
#define SCHEMA "kith.Secret"
#define QUESTION_MICROSECONDS (25 * 1000 * 1000ull)
#define PATH_ROOM 512
// The name on the bus that its one writer at a time owns. The bus takes it back when the writer's connection ends.
#define WRITER "kith.Secret.Writer"
#define WRITER_ATTEMPTS 3000
#define WRITER_PAUSE_NANOSECONDS (10 * 1000 * 1000)

typedef struct sd_bus sd_bus;
typedef struct sd_bus_message sd_bus_message;
typedef struct {
    const char *name;
    const char *message;
    int needs_free;
} sd_bus_error;

// What sd-bus(3) declares.
static struct {
    int (*new_bus)(sd_bus **);
    int (*set_address)(sd_bus *, const char *);
    int (*set_bus_client)(sd_bus *, int);
    int (*start)(sd_bus *);
    int (*open_user)(sd_bus **);
    sd_bus *(*flush_close_unref)(sd_bus *);
    int (*new_method_call)(sd_bus *, sd_bus_message **, const char *, const char *, const char *, const char *);
    int (*append)(sd_bus_message *, const char *, ...);
    int (*append_array)(sd_bus_message *, char, const void *, size_t);
    int (*open_container)(sd_bus_message *, char, const char *);
    int (*close_container)(sd_bus_message *);
    int (*call)(sd_bus *, sd_bus_message *, uint64_t, sd_bus_error *, sd_bus_message **);
    sd_bus_message *(*unref)(sd_bus_message *);
    int (*read)(sd_bus_message *, const char *, ...);
    int (*read_array)(sd_bus_message *, char, const void **, size_t *);
    int (*enter_container)(sd_bus_message *, char, const char *);
    int (*exit_container)(sd_bus_message *);
    void (*error_free)(sd_bus_error *);
    // Since version 245.
    int (*sensitive)(sd_bus_message *);
} api;

static bool is_loaded;
static pthread_once_t loading = PTHREAD_ONCE_INIT;

static void load(void) {
    void *library = dlopen("libsystemd.so.0", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) library = dlopen("libelogind.so.0", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return;
    const struct {
        void *place;
        const char *name;
    } symbols[] = {
        {&api.new_bus, "sd_bus_new"},
        {&api.set_address, "sd_bus_set_address"},
        {&api.set_bus_client, "sd_bus_set_bus_client"},
        {&api.start, "sd_bus_start"},
        {&api.open_user, "sd_bus_open_user"},
        {&api.flush_close_unref, "sd_bus_flush_close_unref"},
        {&api.new_method_call, "sd_bus_message_new_method_call"},
        {&api.append, "sd_bus_message_append"},
        {&api.append_array, "sd_bus_message_append_array"},
        {&api.open_container, "sd_bus_message_open_container"},
        {&api.close_container, "sd_bus_message_close_container"},
        {&api.call, "sd_bus_call"},
        {&api.unref, "sd_bus_message_unref"},
        {&api.read, "sd_bus_message_read"},
        {&api.read_array, "sd_bus_message_read_array"},
        {&api.enter_container, "sd_bus_message_enter_container"},
        {&api.exit_container, "sd_bus_message_exit_container"},
        {&api.error_free, "sd_bus_error_free"},
    };
    for (size_t index = 0; index < sizeof symbols / sizeof symbols[0]; index++) {
        void *symbol = dlsym(library, symbols[index].name);
        if (symbol == NULL) return;
        memcpy(symbols[index].place, &symbol, sizeof symbol);
    }
    void *symbol = dlsym(library, "sd_bus_message_sensitive");
    memcpy(&api.sensitive, &symbol, sizeof symbol);
    is_loaded = true;
}

// MARK: - Questions

struct kith_secrets {
    sd_bus *bus;
    char session[PATH_ROOM];
    // Of the operation under way.
    const char *service;
    char *reason;
};

static void explain(kith_secrets *talk, const char *text) {
    snprintf(talk->reason, KITH_SECRET_REASON, "%s", text != NULL ? text : "");
}

/// The outcome for what sd-bus returned.
static kith_secret_outcome failure(kith_secrets *talk, int code, const sd_bus_error *error) {
    explain(talk, error != NULL && error->message != NULL ? error->message : strerror(-code));
    const char *name = error != NULL && error->name != NULL ? error->name : "";
    static const char dbus[] = "org.freedesktop.DBus.Error.";
    if (strncmp(name, dbus, sizeof dbus - 1) == 0) {
        const char *kind = name + sizeof dbus - 1;
        if (strcmp(kind, "ServiceUnknown") == 0 || strcmp(kind, "NameHasNoOwner") == 0
            || strncmp(kind, "Spawn.", 6) == 0)
            return KITH_SECRET_NO_SERVICE;
        if (strcmp(kind, "NoReply") == 0 || strcmp(kind, "UnknownObject") == 0 || strcmp(kind, "UnknownMethod") == 0)
            return KITH_SECRET_GONE;
    }
    if (strcmp(name, SECRET "Error.IsLocked") == 0) return KITH_SECRET_LOCKED;
    if (strcmp(name, SECRET "Error.NoSuchObject") == 0 || strcmp(name, SECRET "Error.NoSession") == 0)
        return KITH_SECRET_GONE;
    switch (-code) {
    case ETIMEDOUT: return KITH_SECRET_TIMED_OUT;
    case ECONNRESET:
    case ENOTCONN:
    case EPIPE: return KITH_SECRET_NO_BUS;
    default: return KITH_SECRET_FAILED;
    }
}

static void make_sensitive(sd_bus_message *message) {
    if (api.sensitive != NULL) api.sensitive(message);
}

static int question(
    kith_secrets *talk, sd_bus_message **message, const char *path, const char *interface, const char *member) {
    return api.new_method_call(talk->bus, message, SERVICE, path, interface, member);
}

/// Asks, and lets go of the question; `built` is what building it returned.
static kith_secret_outcome ask(kith_secrets *talk, sd_bus_message *message, int built, sd_bus_message **reply) {
    sd_bus_error error = {0};
    *reply = NULL;
    int code = built < 0 ? built : api.call(talk->bus, message, QUESTION_MICROSECONDS, &error, reply);
    kith_secret_outcome outcome = code < 0 ? failure(talk, code, &error) : KITH_SECRET_DONE;
    api.error_free(&error);
    if (message != NULL) api.unref(message);
    return outcome;
}

static void take_path(char *room, const char *path) { snprintf(room, PATH_ROOM, "%s", path); }

/// An answer that is not of the form it should have.
static kith_secret_outcome malformed(kith_secrets *talk) {
    explain(talk, "it answered with something else");
    return KITH_SECRET_FAILED;
}

/// Connects, and opens a session of the service, in which secrets are not encrypted.
static kith_secret_outcome begin(kith_secrets *talk, const char *bus) {
    int code;
    if (bus == NULL) {
        code = api.open_user(&talk->bus);
    } else {
        code = api.new_bus(&talk->bus);
        if (code >= 0) code = api.set_address(talk->bus, bus);
        if (code >= 0) code = api.set_bus_client(talk->bus, 1);
        if (code >= 0) code = api.start(talk->bus);
    }
    if (code < 0) {
        explain(talk, strerror(-code));
        return KITH_SECRET_NO_BUS;
    }
    sd_bus_message *message = NULL, *reply;
    code = question(talk, &message, ROOT, SECRET "Service", "OpenSession");
    if (code >= 0) code = api.append(message, "sv", "plain", "s", "");
    kith_secret_outcome outcome = ask(talk, message, code, &reply);
    if (outcome != KITH_SECRET_DONE) return outcome;
    const char *path = NULL;
    if (api.read(reply, "v", "s", NULL) < 0 || api.read(reply, "o", &path) < 0) outcome = malformed(talk);
    else take_path(talk->session, path);
    api.unref(reply);
    return outcome;
}

kith_secret_outcome kith_secrets_open(const char *bus, kith_secrets **secrets, char *reason) {
    *secrets = NULL;
    reason[0] = 0;
    pthread_once(&loading, load);
    if (!is_loaded) return KITH_SECRET_UNSUPPORTED;
    kith_secrets *talk = calloc(1, sizeof *talk);
    if (talk == NULL) return KITH_SECRET_FAILED;
    talk->reason = reason;
    kith_secret_outcome outcome = begin(talk, bus);
    if (outcome == KITH_SECRET_DONE) *secrets = talk;
    else kith_secrets_close(talk);
    return outcome;
}

void kith_secrets_close(kith_secrets *talk) {
    if (talk->bus != NULL) api.flush_close_unref(talk->bus);
    free(talk);
}

/// Notes whose secrets the operation that begins is about.
static void attend(kith_secrets *talk, const char *service, char *reason) {
    talk->service = service;
    talk->reason = reason;
    explain(talk, "");
}

/// True when a prompt is needed, which we never ask for: it is dismissed.
static bool is_prompt(kith_secrets *talk, const char *path) {
    if (strcmp(path, "/") == 0) return false;
    sd_bus_message *message = NULL, *reply;
    int code = question(talk, &message, path, SECRET "Prompt", "Dismiss");
    ask(talk, message, code, &reply);
    if (reply != NULL) api.unref(reply);
    return true;
}

/// The default keyring, which must be open.
static kith_secret_outcome open_keyring(kith_secrets *talk, char *path) {
    sd_bus_message *message = NULL, *reply;
    int code = question(talk, &message, ROOT, SECRET "Service", "ReadAlias");
    if (code >= 0) code = api.append(message, "s", "default");
    kith_secret_outcome outcome = ask(talk, message, code, &reply);
    if (outcome != KITH_SECRET_DONE) return outcome;
    const char *found = NULL;
    if (api.read(reply, "o", &found) < 0) outcome = malformed(talk);
    else take_path(path, found);
    api.unref(reply);
    if (outcome != KITH_SECRET_DONE) return outcome;
    if (strcmp(path, "/") == 0) return KITH_SECRET_NO_KEYRING;

    code = question(talk, &message, path, "org.freedesktop.DBus.Properties", "Get");
    if (code >= 0) code = api.append(message, "ss", SECRET "Collection", "Locked");
    outcome = ask(talk, message, code, &reply);
    if (outcome != KITH_SECRET_DONE) return outcome;
    int locked = 0;
    if (api.read(reply, "v", "b", &locked) < 0) outcome = malformed(talk);
    else if (locked) outcome = KITH_SECRET_LOCKED;
    api.unref(reply);
    return outcome;
}

/// Finds items; `name` may be NULL. `each` is called for those that are not locked.
///
/// Finding none is only an answer while the keyring is open.
static kith_secret_outcome search(
    kith_secrets *talk, const char *name, kith_secret_outcome (*each)(void *, const char *path), void *context) {
    sd_bus_message *message = NULL, *reply;
    int code = question(talk, &message, ROOT, SECRET "Service", "SearchItems");
    if (code >= 0) {
        code = name == NULL
            ? api.append(message, "a{ss}", 2, "xdg:schema", SCHEMA, "service", talk->service)
            : api.append(message, "a{ss}", 3, "xdg:schema", SCHEMA, "service", talk->service, "name", name);
    }
    kith_secret_outcome outcome = ask(talk, message, code, &reply);
    if (outcome != KITH_SECRET_DONE) return outcome;
    int found = 0;
    const char *path;
    code = api.enter_container(reply, 'a', "o");
    while (code >= 0 && (code = api.read(reply, "o", &path)) > 0) {
        found++;
        outcome = each(context, path);
        if (outcome != KITH_SECRET_DONE) break;
    }
    if (code >= 0 && outcome == KITH_SECRET_DONE) {
        code = api.exit_container(reply);
        if (code >= 0) code = api.enter_container(reply, 'a', "o");
        // One that is locked may be the one.
        if (code >= 0 && (code = api.read(reply, "o", &path)) > 0) outcome = KITH_SECRET_LOCKED;
    }
    if (code < 0) outcome = malformed(talk);
    api.unref(reply);
    if (outcome == KITH_SECRET_DONE && found == 0) {
        char keyring[PATH_ROOM];
        outcome = open_keyring(talk, keyring);
        if (outcome == KITH_SECRET_DONE) outcome = KITH_SECRET_NONE;
    }
    return outcome;
}

static kith_secret_outcome take_only(void *context, const char *path) {
    char *item = context;
    if (item[0] != 0) return KITH_SECRET_SEVERAL;
    take_path(item, path);
    return KITH_SECRET_DONE;
}

/// The one item of a name.
static kith_secret_outcome find(kith_secrets *talk, const char *name, char *item) {
    item[0] = 0;
    return search(talk, name, take_only, item);
}

// MARK: - Secrets

kith_secret_outcome kith_secret_read(
    kith_secrets *talk, const char *service, const char *name, uint8_t *value, size_t capacity, size_t *count,
    char *reason) {
    char item[PATH_ROOM];
    *count = 0;
    attend(talk, service, reason);
    kith_secret_outcome outcome = find(talk, name, item);
    if (outcome != KITH_SECRET_DONE) return outcome;

    sd_bus_message *message = NULL, *reply;
    int code = question(talk, &message, item, SECRET "Item", "GetSecret");
    if (code >= 0) code = api.append(message, "o", talk->session);
    outcome = ask(talk, message, code, &reply);
    if (outcome != KITH_SECRET_DONE) return outcome;
    make_sensitive(reply);
    const char *session;
    const void *parameters, *bytes = NULL;
    size_t parameters_count, bytes_count = 0;
    if (api.enter_container(reply, 'r', "oayays") < 0 || api.read(reply, "o", &session) < 0
        || api.read_array(reply, 'y', &parameters, &parameters_count) < 0
        || api.read_array(reply, 'y', &bytes, &bytes_count) < 0) {
        outcome = malformed(talk);
    } else if (bytes_count > capacity) {
        outcome = KITH_SECRET_TOO_LARGE;
    } else {
        if (bytes_count > 0) memcpy(value, bytes, bytes_count);
        *count = bytes_count;
    }
    api.unref(reply);
    return outcome;
}

/// Appends the structure in which a secret travels.
static int append_secret(kith_secrets *talk, sd_bus_message *message, const uint8_t *value, size_t count) {
    int code = api.open_container(message, 'r', "oayays");
    if (code >= 0) code = api.append(message, "o", talk->session);
    if (code >= 0) code = api.append_array(message, 'y', NULL, 0);
    if (code >= 0) code = api.append_array(message, 'y', value, count);
    if (code >= 0) code = api.append(message, "s", "text/plain");
    return code < 0 ? code : api.close_container(message);
}

/// Asks the bus itself for what takes a name; `result` is the number it answers with.
static kith_secret_outcome ask_bus(kith_secrets *talk, const char *member, bool takes, uint32_t *result) {
    sd_bus_message *message = NULL, *reply;
    int code = api.new_method_call(
        talk->bus, &message, "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", member);
    // 4: not to be queued for it.
    if (code >= 0) code = takes ? api.append(message, "su", WRITER, 4u) : api.append(message, "s", WRITER);
    kith_secret_outcome outcome = ask(talk, message, code, &reply);
    if (outcome != KITH_SECRET_DONE) return outcome;
    if (api.read(reply, "u", result) < 0) outcome = malformed(talk);
    api.unref(reply);
    return outcome;
}

/// Waits until nobody else writes, at most half a minute.
static kith_secret_outcome begin_writing(kith_secrets *talk) {
    for (int attempt = 0; attempt < WRITER_ATTEMPTS; attempt++) {
        uint32_t result = 0;
        kith_secret_outcome outcome = ask_bus(talk, "RequestName", true, &result);
        if (outcome != KITH_SECRET_DONE) return outcome;
        // 1: it is ours now; 4: it was, since giving it back was not answered.
        if (result == 1 || result == 4) return KITH_SECRET_DONE;
        nanosleep(&(struct timespec){.tv_nsec = WRITER_PAUSE_NANOSECONDS}, NULL);
    }
    explain(talk, "another program writes to it all the time");
    return KITH_SECRET_TIMED_OUT;
}

/// Lets others write. Where that fails the connection is of no use any more, and the name is free once it ends.
static void end_writing(kith_secrets *talk) {
    char unused[KITH_SECRET_REASON];
    char *reason = talk->reason;
    talk->reason = unused;
    uint32_t result;
    ask_bus(talk, "ReleaseName", false, &result);
    talk->reason = reason;
}

static kith_secret_outcome write_alone(
    kith_secrets *talk, const char *name, const char *label, const uint8_t *value, size_t count, bool replaces) {
    char item[PATH_ROOM], keyring[PATH_ROOM];
    kith_secret_outcome outcome = find(talk, name, item);
    sd_bus_message *message = NULL, *reply;
    if (outcome == KITH_SECRET_DONE && !replaces) return KITH_SECRET_EXISTS;
    if (outcome == KITH_SECRET_DONE) {
        int code = question(talk, &message, item, SECRET "Item", "SetSecret");
        if (code >= 0) make_sensitive(message);
        if (code >= 0) code = append_secret(talk, message, value, count);
        outcome = ask(talk, message, code, &reply);
        if (reply != NULL) api.unref(reply);
        return outcome;
    }
    if (outcome == KITH_SECRET_NONE) outcome = open_keyring(talk, keyring);
    if (outcome != KITH_SECRET_DONE) return outcome;

    int code = question(talk, &message, keyring, SECRET "Collection", "CreateItem");
    if (code >= 0) {
        make_sensitive(message);
        code = api.append(
            message, "a{sv}", 2, SECRET "Item.Label", "s", label, SECRET "Item.Attributes", "a{ss}", 3, "xdg:schema",
            SCHEMA, "service", talk->service, "name", name);
    }
    if (code >= 0) code = append_secret(talk, message, value, count);
    // Another program, or an older Kith, may have made it since we looked.
    if (code >= 0) code = api.append(message, "b", replaces ? 1 : 0);
    outcome = ask(talk, message, code, &reply);
    if (outcome != KITH_SECRET_DONE) return outcome;
    const char *made, *prompt;
    if (api.read(reply, "oo", &made, &prompt) < 0) outcome = malformed(talk);
    else if (is_prompt(talk, prompt)) outcome = KITH_SECRET_LOCKED;
    api.unref(reply);
    return outcome;
}

static kith_secret_outcome write_secret(
    kith_secrets *talk, const char *service, const char *name, const char *label, const uint8_t *value, size_t count,
    bool replaces, char *reason) {
    attend(talk, service, reason);
    kith_secret_outcome outcome = begin_writing(talk);
    if (outcome != KITH_SECRET_DONE) return outcome;
    outcome = write_alone(talk, name, label, value, count, replaces);
    end_writing(talk);
    return outcome;
}

kith_secret_outcome kith_secret_write(
    kith_secrets *talk, const char *service, const char *name, const char *label, const uint8_t *value, size_t count,
    char *reason) {
    return write_secret(talk, service, name, label, value, count, true, reason);
}

kith_secret_outcome kith_secret_add(
    kith_secrets *talk, const char *service, const char *name, const char *label, const uint8_t *value, size_t count,
    char *reason) {
    return write_secret(talk, service, name, label, value, count, false, reason);
}

kith_secret_outcome kith_secret_remove(kith_secrets *talk, const char *service, const char *name, char *reason) {
    char item[PATH_ROOM];
    attend(talk, service, reason);
    kith_secret_outcome outcome = find(talk, name, item);
    if (outcome != KITH_SECRET_DONE) return outcome;
    sd_bus_message *message = NULL, *reply;
    int code = question(talk, &message, item, SECRET "Item", "Delete");
    outcome = ask(talk, message, code, &reply);
    if (outcome != KITH_SECRET_DONE) return outcome;
    const char *prompt;
    if (api.read(reply, "o", &prompt) < 0) outcome = malformed(talk);
    else if (is_prompt(talk, prompt)) outcome = KITH_SECRET_LOCKED;
    api.unref(reply);
    return outcome;
}

// MARK: - Names

typedef struct {
    kith_secrets *talk;
    char *names;
    size_t capacity;
    size_t count;
} listing;

/// Adds the name among an item's attributes.
static kith_secret_outcome take_name(void *context, const char *path) {
    listing *list = context;
    sd_bus_message *message = NULL, *reply;
    int code = question(list->talk, &message, path, "org.freedesktop.DBus.Properties", "Get");
    if (code >= 0) code = api.append(message, "ss", SECRET "Item", "Attributes");
    kith_secret_outcome outcome = ask(list->talk, message, code, &reply);
    // It went since it was found.
    if (outcome == KITH_SECRET_GONE) return KITH_SECRET_DONE;
    if (outcome != KITH_SECRET_DONE) return outcome;
    code = api.enter_container(reply, 'v', "a{ss}");
    if (code >= 0) code = api.enter_container(reply, 'a', "{ss}");
    const char *key, *value;
    while (code >= 0 && (code = api.read(reply, "{ss}", &key, &value)) > 0) {
        if (strcmp(key, "name") != 0) continue;
        size_t length = strlen(value) + 1;
        if (length > list->capacity - list->count) {
            outcome = KITH_SECRET_TOO_LARGE;
        } else {
            memcpy(list->names + list->count, value, length);
            list->count += length;
        }
        break;
    }
    if (code < 0) outcome = malformed(list->talk);
    api.unref(reply);
    return outcome;
}

kith_secret_outcome kith_secret_names(
    kith_secrets *talk, const char *service, char *names, size_t capacity, size_t *count, char *reason) {
    listing list = {.talk = talk, .names = names, .capacity = capacity};
    attend(talk, service, reason);
    kith_secret_outcome outcome = search(talk, NULL, take_name, &list);
    *count = list.count;
    return outcome;
}

#else

static kith_secret_outcome unsupported(char *reason) {
    reason[0] = 0;
    return KITH_SECRET_UNSUPPORTED;
}

kith_secret_outcome kith_secrets_open(const char *bus, kith_secrets **secrets, char *reason) {
    (void)bus;
    *secrets = NULL;
    return unsupported(reason);
}

void kith_secrets_close(kith_secrets *secrets) { (void)secrets; }

kith_secret_outcome kith_secret_read(
    kith_secrets *secrets, const char *service, const char *name, uint8_t *value, size_t capacity, size_t *count,
    char *reason) {
    (void)secrets, (void)service, (void)name, (void)value, (void)capacity;
    *count = 0;
    return unsupported(reason);
}

kith_secret_outcome kith_secret_write(
    kith_secrets *secrets, const char *service, const char *name, const char *label, const uint8_t *value,
    size_t count, char *reason) {
    (void)secrets, (void)service, (void)name, (void)label, (void)value, (void)count;
    return unsupported(reason);
}

kith_secret_outcome kith_secret_add(
    kith_secrets *secrets, const char *service, const char *name, const char *label, const uint8_t *value,
    size_t count, char *reason) {
    (void)secrets, (void)service, (void)name, (void)label, (void)value, (void)count;
    return unsupported(reason);
}

kith_secret_outcome kith_secret_remove(kith_secrets *secrets, const char *service, const char *name, char *reason) {
    (void)secrets, (void)service, (void)name;
    return unsupported(reason);
}

kith_secret_outcome kith_secret_names(
    kith_secrets *secrets, const char *service, char *names, size_t capacity, size_t *count, char *reason) {
    (void)secrets, (void)service, (void)names, (void)capacity;
    *count = 0;
    return unsupported(reason);
}

#endif
