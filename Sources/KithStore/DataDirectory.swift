import KithIdentity
package import KithWire

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// The rules for the folder that a device keeps its keys and its state in.
///
/// One that is not there is made, for its owner alone. One that is there must be a device's already, or empty; its mode
/// is never changed, since it may be somebody's home.
package enum DataDirectory {
    /// Makes the folder when it is not there.
    ///
    /// - Throws: `KithError` `.invalid` for a place that is none for a device, `.denied` for one that others can change
    ///   or look into. What was there stays as it was.
    package static func prepare(_ directory: String) throws(KithError) {
        try checkPath(to: directory)
        var path = ""
        let parts = directory.split(separator: "/")
        for (index, part) in parts.enumerated() {
            path += "/\(part)"
            // Only the folder itself is nobody else's.
            let mode: mode_t = index == parts.count - 1 ? 0o700 : 0o755
            guard unsafe mkdir(path, mode) == 0 || errno == EEXIST || errno == EISDIR else {
                throw SecretFile.failure("make the data directory", path, errno)
            }
        }
        try check(directory)
    }

    /// Tells whether a folder holds what belongs to a device; looks and makes nothing.
    package static func isOfDevice(_ directory: String) -> Bool {
        isOfWholeDevice(directory) || SecretFile.exists("\(directory)/groups.sqlite")
    }

    /// Tells whether a folder holds a device's key, or its database; looks and makes nothing.
    package static func isOfWholeDevice(_ directory: String) -> Bool {
        FileKeyStore.holdsDeviceKey(directory: directory) || SecretFile.exists("\(directory)/kith.sqlite")
    }

    /// Refuses a folder that is none for a device's keys; makes nothing, and is content when nothing is there.
    ///
    /// - Throws: as ``prepare(_:)``.
    package static func check(_ directory: String) throws(KithError) {
        try checkPath(to: directory)
        var info = stat()
        guard unsafe stat(directory, &info) == 0 else {
            if errno == ENOENT { return }
            throw KithError(
                errno == EACCES ? .denied : .invalid,
                "\(directory) cannot be the data directory: \(unsafe String(cString: strerror(errno))).")
        }
        guard info.st_mode & S_IFMT == S_IFDIR else {
            throw KithError(.invalid, "\(directory) is not a folder, so it cannot be the data directory.")
        }
        let below = directory.hasSuffix("/") ? "\(directory)kith" : "\(directory)/kith"
        if !isOfDevice(directory) {
            if isRootOrHome(info) {
                throw KithError(
                    .invalid, "\(directory) cannot be the data directory. Name a folder of its own: --data \(below)")
            }
            if let other = try SecretFile.names(in: directory).first(where: { !isOwn($0) }) {
                throw KithError(
                    .invalid,
                    "\(directory) holds other things (\(other)), so it cannot be the data directory. "
                        + "Name a folder of its own: --data \(below)")
            }
        }
        guard info.st_uid == geteuid() else {
            throw KithError(.denied, "The data directory \(directory) belongs to another user.")
        }
        guard info.st_mode & 0o077 == 0 else {
            throw KithError(
                .denied,
                "Others may \(info.st_mode & 0o022 == 0 ? "look into" : "write to") \(directory), which is to hold a "
                    + "device's keys. Name a folder that kith makes (--data \(below)), or run: chmod 700 \(directory)")
        }
    }

    /// Refuses a path that somebody else leads, or could lead, elsewhere: by a link, or by a folder that anybody may
    /// rename things in.
    private static func checkPath(to directory: String) throws(KithError) {
        guard directory.hasPrefix("/") else {
            throw KithError(.invalid, "The data directory must be an absolute path, not “\(directory)”.")
        }
        var path = ""
        for part in directory.split(separator: "/") {
            var around = stat()
            if unsafe stat(path.isEmpty ? "/" : path, &around) == 0, around.st_mode & 0o002 != 0,
                around.st_mode & S_ISVTX == 0
            {
                throw KithError(
                    .denied,
                    "Anybody may rename what is in \(path), so \(directory) cannot be the data directory.")
            }
            path += "/\(part)"
            var info = stat()
            guard unsafe lstat(path, &info) == 0 else { return }
            guard info.st_mode & S_IFMT == S_IFLNK, info.st_uid != geteuid(), info.st_uid != 0 else { continue }
            throw KithError(
                .denied, "\(path) is a link that another user made, so \(directory) cannot be the data directory.")
        }
    }

    /// Tells whether a folder is `/`, or the home of whoever runs this.
    private static func isRootOrHome(_ folder: stat) -> Bool {
        var folders = ["/"]
        if let home = unsafe getenv("HOME") { unsafe folders.append(String(cString: home)) }
        if let home = unsafe getpwuid(geteuid())?.pointee.pw_dir { unsafe folders.append(String(cString: home)) }
        return folders.contains { path in
            var info = stat()
            return unsafe stat(path, &info) == 0 && info.st_dev == folder.st_dev && info.st_ino == folder.st_ino
        }
    }

    /// Tells whether a device may have left something of that name before it had its key; or a relay, a file system, or
    /// a person.
    private static func isOwn(_ name: String) -> Bool {
        ["lock", "config", "relay", "lost+found", ".DS_Store"].contains(name)
            || ["kith.", "groups.", "machine.key", "reseal.pending"].contains { name.hasPrefix($0) }
            || name.contains(".sealed")
    }
}
