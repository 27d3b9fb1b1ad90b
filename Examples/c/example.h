/* What the examples share: waiting for callbacks, and a service that adds. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <CKith.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the callbacks leave for the main thread, which waits for them. */
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int count; /* callbacks that have come and are not yet waited for */
    kith_handle device;
    int32_t code;
    char text[2048];
} mailbox;

static inline void leave(mailbox *box, const kith_error *error, const char *text, size_t length)
{
    pthread_mutex_lock(&box->lock);
    box->code = error ? error->code : KITH_OK;
    if (error) {
        text = error->message;
        length = strlen(text);
    }
    if (length >= sizeof box->text) length = sizeof box->text - 1;
    if (length) memcpy(box->text, text, length);
    box->text[length] = 0;
    box->count++;
    pthread_cond_signal(&box->changed);
    pthread_mutex_unlock(&box->lock);
}

static inline int32_t await(mailbox *box)
{
    pthread_mutex_lock(&box->lock);
    while (!box->count) pthread_cond_wait(&box->changed, &box->lock);
    box->count--;
    pthread_mutex_unlock(&box->lock);
    return box->code;
}

/* Ends the program with what went wrong. */
static inline void need(int32_t code, const char *what, const char *message)
{
    if (code == KITH_OK) return;
    fprintf(stderr, "%s: %s %s\n", what, kith_code_text(code), message);
    exit(1);
}

static inline void opened(void *context, const kith_error *error, kith_handle device, const char *id)
{
    mailbox *box = context;
    box->device = device;
    leave(box, error, id, id ? strlen(id) : 0);
}

static inline void running(void *context, kith_handle device, int32_t is_up, const kith_error *error)
{
    (void)device;
    leave(context, error, is_up ? "up" : "down", is_up ? 2 : 4);
}

static inline void answered(void *context, const kith_error *error, const char *json, size_t length)
{
    leave(context, error, json, length);
}

static inline void streamed(void *context, kith_handle stream, int32_t event, const kith_error *error, const char *data,
                     size_t length)
{
    (void)stream;
    (void)event;
    leave(context, error, data, length);
}

static inline void done(void *context) { leave(context, NULL, NULL, 0); }

/* Serves math/add. What comes fits the schema it was registered with. */
static inline void requested(void *context, kith_handle request, const char *method, const char *caller, const char *json,
                      size_t length)
{
    (void)context;
    (void)method;
    (void)caller;
    (void)length;
    const char *a = strstr(json, "\"a\":"), *b = strstr(json, "\"b\":");
    char answer[64];
    if (!a || !b) {
        kith_reply_error(request, KITH_INVALID, "It takes a and b.", NULL);
        return;
    }
    int count = snprintf(answer, sizeof answer, "%.17g", strtod(a + 4, NULL) + strtod(b + 4, NULL));
    kith_reply(request, answer, (size_t)count, NULL);
    /* Again is an error, and harmless. */
    if (kith_reply(request, "0", 1, NULL) != KITH_NOT_FOUND) abort();
}

static const char registration[] =
    "{\"service\":\"math\",\"methods\":[{\"name\":\"add\",\"kind\":\"query\",\"access\":\"paired\",\"input\":"
    "{\"type\":\"object\",\"required\":[\"a\",\"b\"],\"properties\":{\"a\":{\"type\":\"number\"},"
    "\"b\":{\"type\":\"number\"}}}}]}";

#endif
