/// The file systems that are mounted, as `/proc/self/mountinfo` lists them (proc_pid_mountinfo(5)).
package struct MountTable: Hashable, Sendable {
    /// A mounted file system.
    package struct Mount: Hashable, Sendable {
        /// Its number, as long as it is mounted.
        package var id: Int
        /// The numbers of its device.
        package var major: UInt32
        package var minor: UInt32
        /// The folder of the file system that is mounted; not `/` for a part of it.
        package var root: [UInt8]
        /// Where it is.
        package var point: [UInt8]
        /// The kind of file system: `ext4`, `nfs4`.
        package var type: String
        /// What was mounted: a device, or what a server calls it.
        package var source: [UInt8]
        /// True when nothing can be written through it, or to its file system.
        package var isReadOnly: Bool
    }

    /// The most bytes that are read of the table.
    package static let maximumSize = 8 << 20

    /// The mounts; what covers another comes after it.
    package var mounts: [Mount]

    /// Reads the table's text; lines that are none are left out.
    package init(parsing text: [UInt8]) {
        mounts = text.split(separator: UInt8(ascii: "\n")).compactMap { Mount(line: [UInt8]($0)) }
    }

    /// Makes a table.
    package init(mounts: [Mount]) { self.mounts = mounts }

    /// The mount that a path without links lies in; `nil` for an empty table.
    package func mount(of path: [UInt8]) -> Mount? {
        // Of several at one place the last one is what is seen.
        var best: Mount?
        for mount in mounts where mount.holds(path) {
            if best.map({ mount.point.count >= $0.point.count }) ?? true { best = mount }
        }
        return best
    }
}

extension MountTable.Mount {
    /// Reads a line, as `36 35 98:0 /root /mnt/a\040b rw,noatime shared:1 - ext4 /dev/sda1 rw,errors=continue`.
    init?(line: [UInt8]) {
        let words = line.split(separator: UInt8(ascii: " ")).map { [UInt8]($0) }
        guard let dash = words.firstIndex(of: [UInt8(ascii: "-")]), dash >= 6, words.count >= dash + 3 else {
            return nil
        }
        let device = words[2].split(separator: UInt8(ascii: ":")).map { UInt32(String(decoding: $0, as: UTF8.self)) }
        guard let id = Int(String(decoding: words[0], as: UTF8.self)), device.count == 2, let major = device[0],
            let minor = device[1]
        else { return nil }
        self.id = id
        (self.major, self.minor) = (major, minor)
        root = Self.unescaped(words[3])
        point = Self.unescaped(words[4])
        guard point.first == UInt8(ascii: "/") else { return nil }
        type = String(decoding: Self.unescaped(words[dash + 1]), as: UTF8.self)
        source = Self.unescaped(words[dash + 2])
        let options = words[5].split(separator: UInt8(ascii: ","))
        let ofAll = dash + 3 < words.count ? words[dash + 3].split(separator: UInt8(ascii: ",")) : []
        isReadOnly = (options + ofAll).contains { $0.elementsEqual("ro".utf8) }
    }

    /// Takes the octal numbers out that stand for spaces, tabs, newlines and backslashes.
    static func unescaped(_ text: [UInt8]) -> [UInt8] {
        var bytes: [UInt8] = []
        var index = text.startIndex
        while index < text.endIndex {
            let digits = text[index...].dropFirst().prefix(3)
            if text[index] == UInt8(ascii: "\\"), digits.count == 3, digits.allSatisfy({ (48..<56).contains($0) }) {
                let value = digits.reduce(0) { $0 * 8 + Int($1 - 48) }
                if value < 256 {
                    bytes.append(UInt8(value))
                    index += 4
                    continue
                }
            }
            bytes.append(text[index])
            index += 1
        }
        return bytes
    }

    /// Whether a path lies in it.
    func holds(_ path: [UInt8]) -> Bool {
        point == [UInt8(ascii: "/")] || path == point
            || path.count > point.count && path.starts(with: point) && path[point.count] == UInt8(ascii: "/")
    }
}

extension MountTable.Mount {
    /// The file systems that hold nobody's files.
    private static let pseudo: Set<String> = [
        "autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs",
        "fuse.gvfsd-fuse", "fuse.portal", "fusectl", "hugetlbfs", "mqueue", "nsfs", "proc", "pstore", "ramfs",
        "rpc_pipefs", "securityfs", "selinuxfs", "sysfs", "tracefs",
    ]

    /// True for a file system of the system's own making.
    package var isPseudo: Bool { Self.pseudo.contains(type) }
}
