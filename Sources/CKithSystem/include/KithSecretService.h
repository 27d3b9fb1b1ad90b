#ifndef KITH_SECRET_SERVICE_H
#define KITH_SECRET_SERVICE_H

#include <stddef.h>
#include <stdint.h>

/// A conversation with the keyring of a desktop session (freedesktop.org, Secret Service 0.2): a connection to the
/// session's bus, for one thread at a time.
typedef struct kith_secrets kith_secrets;

/// The outcomes of an operation on it.
typedef enum {
    KITH_SECRET_DONE,
    /// There is no secret of that name.
    KITH_SECRET_NONE,
    /// There is one already, where none was to be.
    KITH_SECRET_EXISTS,
    /// This system has no library for D-Bus (libsystemd, libelogind).
    KITH_SECRET_UNSUPPORTED,
    /// There is no session bus, or it does not let us in, or it ended.
    KITH_SECRET_NO_BUS,
    /// Nobody offers the Secret Service on it.
    KITH_SECRET_NO_SERVICE,
    /// It has no default keyring, or none that is open.
    KITH_SECRET_NO_KEYRING,
    KITH_SECRET_LOCKED,
    /// Several items claim the name.
    KITH_SECRET_SEVERAL,
    KITH_SECRET_TOO_LARGE,
    KITH_SECRET_TIMED_OUT,
    /// The service ended, or the item went, before the answer came.
    KITH_SECRET_GONE,
    KITH_SECRET_FAILED,
} kith_secret_outcome;

/// The room for the reason of a failure, as the bus gives it; with a zero at its end.
#define KITH_SECRET_REASON 256

// Each blocks for as long as the service takes, at most half a minute a question. Nothing is ever unlocked, and nobody is
// ever prompted. `service` tells one program's secrets from another's.

/// Opens a conversation on the bus at an address; NULL: the one in the environment. `secrets` is set when it is done.
kith_secret_outcome kith_secrets_open(const char *bus, kith_secrets **secrets, char *reason);

/// Ends it.
void kith_secrets_close(kith_secrets *secrets);

/// Reads a value into `value`; `count` is its length.
kith_secret_outcome kith_secret_read(
    kith_secrets *secrets, const char *service, const char *name, uint8_t *value, size_t capacity, size_t *count,
    char *reason);

/// Writes a text, in place of that of the same name, or into the default keyring.
kith_secret_outcome kith_secret_write(
    kith_secrets *secrets, const char *service, const char *name, const char *label, const uint8_t *value,
    size_t count, char *reason);

/// Writes a text into the default keyring unless there is one of that name: KITH_SECRET_EXISTS then.
kith_secret_outcome kith_secret_add(
    kith_secrets *secrets, const char *service, const char *name, const char *label, const uint8_t *value,
    size_t count, char *reason);

/// Removes it; KITH_SECRET_NONE when there is none.
kith_secret_outcome kith_secret_remove(kith_secrets *secrets, const char *service, const char *name, char *reason);

/// Reads the names of all, each with a zero at its end; `count` is the length of all of them.
kith_secret_outcome kith_secret_names(
    kith_secrets *secrets, const char *service, char *names, size_t capacity, size_t *count, char *reason);

#endif
