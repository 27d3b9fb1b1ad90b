/*
 * A device that serves math/add and makes calls for whoever drives it, as the tests of Node.js do.
 *
 *     peer DIRECTORY      prints an invitation, which pairs without asking; then reads lines DEVICE METHOD JSON, makes that
 *                         call and prints its answer, until its input ends
 */
#include "example.h"

int main(int count, char **arguments)
{
    if (count != 2) {
        fprintf(stderr, "usage: %s DIRECTORY\n", arguments[0]);
        return 2;
    }
    static mailbox box = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    static mailbox run = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    const char options[] = "{\"name\":\"c\"}", automatic[] = "{\"isAutomatic\":true}";
    char line[1024], device_name[128], method[128];
    kith_error error;
    int start = 0;

    need(kith_device_open(arguments[1], options, sizeof options - 1, opened, &box, &error), "open", error.message);
    need(await(&box), "open", box.text);
    kith_handle device = box.device;
    need(kith_service_add(device, registration, sizeof registration - 1, requested, NULL, NULL, &error), "add",
         error.message);
    need(kith_device_start(device, running, &run, &error), "start", error.message);
    need(await(&run), "start", run.text);

    need(kith_call(device, "invitations.create", NULL, 10000, automatic, sizeof automatic - 1, answered, &box, NULL,
                   &error),
         "invite", error.message);
    need(await(&box), "invite", box.text);
    printf("%s\n", box.text);
    fflush(stdout);

    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "%127s %127s %n", device_name, method, &start) != 2) return 2;
        need(kith_call(device, method, device_name, 10000, line + start, strlen(line + start), answered, &box, NULL,
                       &error),
             "call", error.message);
        await(&box);
        printf("%s\n", box.text);
        fflush(stdout);
    }
    need(kith_device_free(device, done, &box, &error), "free", error.message);
    need(await(&box), "free", box.text);
    return 0;
}
