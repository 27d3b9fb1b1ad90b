/*
 * Opens a device, serves math/add on it from C, calls that, follows events, and closes again.
 *
 *     cc -std=c11 math.c $(pkg-config --cflags --libs kith) -o math && ./math DIRECTORY
 */
#include "example.h"

int main(int count, char **arguments)
{
    if (count < 2) {
        fprintf(stderr, "usage: %s DIRECTORY [CALLS]\n", arguments[0]);
        return 2;
    }
    long calls = count > 2 ? strtol(arguments[2], NULL, 10) : 1;
    mailbox box = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    mailbox run = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    mailbox events = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    kith_error error;
    kith_handle service, subscription;

    need(strcmp(kith_version(), KITH_VERSION) != 0, "version", "The header is of another one.");
    need(kith_device_open(arguments[1], "{\"name\":\"c\"}", 12, opened, &box, &error), "open", error.message);
    need(await(&box), "open", box.text);
    kith_handle device = box.device;

    need(kith_service_add(device, registration, sizeof registration - 1, requested, NULL, &service, &error), "add",
         error.message);
    need(kith_device_start(device, running, &run, &error), "start", error.message);
    need(await(&run), "start", run.text);
    printf("the device is %s\n", run.text);

    const char sum[] = "{\"a\":2,\"b\":3}";
    for (long call = 0; call < calls; call++) {
        need(kith_call(device, "math/add", NULL, 10000, sum, sizeof sum - 1, answered, &box, NULL, &error), "call",
             error.message);
        need(await(&box), "call", box.text);
    }
    printf("2 + 3 = %s\n", box.text);

    need(kith_call(device, "math/add", NULL, 0, "{\"a\":2}", 7, answered, &box, NULL, &error), "call", error.message);
    printf("refused: %d %s\n", (int)await(&box), box.text);

    need(kith_subscribe(device, "weather/*", streamed, &events, &subscription, &error), "subscribe", error.message);
    need(await(&events), "subscribe", events.text);
    need(kith_publish(device, "weather/graz", "21", 2, answered, &box, &error), "publish", error.message);
    need(await(&box), "publish", box.text);
    need(await(&events), "event", events.text);
    printf("an event: %s\n", strstr(events.text, "weather/graz") ? "weather/graz" : events.text);
    need(kith_unsubscribe(subscription, &error), "unsubscribe", error.message);
    printf("unsubscribed: %s\n", await(&events) == KITH_CANCELLED ? "cancelled" : events.text);

    /* What is none is an error, whatever the number. */
    const kith_handle wrong[] = {0, 1, device + ((kith_handle)1 << 40), subscription, UINT64_MAX, (kith_handle)1 << 63};
    for (size_t place = 0; place < sizeof wrong / sizeof *wrong; place++) {
        if (kith_cancel(wrong[place], &error) != KITH_NOT_FOUND) return 1;
        if (kith_device_free(wrong[place], NULL, NULL, NULL) != KITH_NOT_FOUND) return 1;
        if (kith_reply(wrong[place], "1", 1, &error) != KITH_NOT_FOUND) return 1;
        if (kith_send(wrong[place], 0, "1", 1, &error) != KITH_NOT_FOUND) return 1;
        if (kith_service_remove(wrong[place], NULL, NULL, &error) != KITH_NOT_FOUND) return 1;
    }
    if (kith_call(device, NULL, NULL, 0, NULL, 0, answered, NULL, NULL, &error) != KITH_INVALID) return 1;
    if (kith_call(device, "math/add", NULL, 0, NULL, 0, NULL, NULL, NULL, &error) != KITH_INVALID) return 1;
    if (kith_call(device, "math/add", NULL, 0, NULL, 5, answered, NULL, NULL, &error) != KITH_INVALID) return 1;
    if (kith_call(device, "math/add", NULL, 0, "{", 1, answered, NULL, NULL, &error) != KITH_INVALID) return 1;
    if (kith_call(device, "math/add", NULL, 0, "{}", SIZE_MAX, answered, NULL, NULL, &error) == KITH_OK) return 1;
    if (kith_device_open(NULL, NULL, 0, opened, NULL, &error) != KITH_INVALID) return 1;
    if (kith_subscribe(device, "a", streamed, NULL, NULL, &error) != KITH_INVALID) return 1;

    need(kith_service_remove(service, done, &box, &error), "remove", error.message);
    need(await(&box), "remove", box.text);
    if (kith_service_remove(service, done, &box, &error) != KITH_NOT_FOUND) return 1;

    need(kith_device_free(device, done, &box, &error), "free", error.message);
    need(await(&run), "stop", run.text);
    printf("the device is %s\n", run.text);
    need(await(&box), "free", box.text);
    if (kith_device_free(device, done, &box, &error) != KITH_NOT_FOUND) return 1;
    printf("freed\n");
    return 0;
}
