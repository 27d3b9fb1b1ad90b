#ifndef KITH_PROTECTION_H
#define KITH_PROTECTION_H

#include <stddef.h>
#include <stdint.h>

// What of a device is kept from other devices, by whatever name, link or mount they reach it. Files are told apart by
// their device and inode; names decide nothing.

/// The identity of a file, whatever its name.
typedef struct kith_identity {
    uint64_t device, inode;
} kith_identity;

/// The files that are kept from others.
typedef struct kith_protection {
    /// Folders and sockets.
    const kith_identity *kept;
    size_t count;
    /// The data directory, open, or -1: the files in it are kept under their other names, too.
    int directory;
    /// The program this process runs; zeros when nobody knows. The entries of its processes in /proc are kept.
    kith_identity program;
} kith_protection;

/// The errno of what is kept; no system uses it.
enum { KITH_ERROR_PROTECTED = 10012 };

/// Opens a folder to be protected and says which it is. Returns a descriptor, or the negated errno.
int kith_protection_open(const char *directory, kith_identity *identity);

/// Says which file a path leads to, links followed. Returns 0, or the negated errno.
int kith_protection_identify(const char *path, kith_identity *identity);

/// The program this process runs; zeros where the system does not say.
kith_identity kith_protection_program(void);

/// Tells whether an open file or folder is kept from others. Returns 1 or 0, or the negated errno.
///
/// Kept are what `protection` names, any folder of this user with a device's sealed key in it, the files of the data
/// directory under a second name or mounted elsewhere, so the sealed keys and databases of other devices of this user, and
/// the folders in /proc of processes of this program.
int kith_protection_covers(const kith_protection *protection, int descriptor);

/// Tells whether a name in a folder is the data directory, a folder above it, or a folder or a link on the path to it,
/// however many links that leads through.
///
/// `path` is the data directory's, absolute: whoever moves one of those away could put another in its place.
int kith_protection_holds(const kith_protection *protection, const char *path, int folder, const char *name);

/// Connects to the Unix socket at `path`, links followed, unless it is kept. Does not wait.
///
/// On Linux it connects to the very file that was checked. Elsewhere the file is checked before and after.
int kith_protection_connect(const kith_protection *protection, const char *path);

/// Listens at a new Unix socket, unless its folder is kept or something kept has the name; says which file it is.
///
/// On Linux it is made in the very folder that was checked. Elsewhere the folder is checked again afterwards.
int kith_protection_listen(const kith_protection *protection, const char *path, int backlog, kith_identity *made);

/// Removes the Unix socket at `path`, unless it or its folder is kept, or it is not the one that was `made`.
///
/// `made` is NULL for any.
void kith_protection_unlink(const kith_protection *protection, const char *path, const kith_identity *made);

#endif
