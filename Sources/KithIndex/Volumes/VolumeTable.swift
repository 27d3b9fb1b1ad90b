import CKithSystem
package import Dispatch
import Foundation
import KithIO
import Synchronization

/// A mounted file system with what is known of it.
package struct MountedVolume: Hashable, Sendable {
    /// Where a volume is.
    package enum Kind: Hashable, Sendable {
        case `internal`, external, network, virtual
    }

    package var mount: MountTable.Mount
    package var kind: Kind
    package var label: String?
    package var uuid: String?
    /// What is the same wherever it is mounted; `nil` for what cannot be told from others.
    package var fingerprint: String?
    /// Bytes; `nil` when it does not answer in time.
    package var capacity: UInt64?
    package var free: UInt64?
    package var isReadOnly: Bool
    /// Why nothing is known of its room.
    package var problem: String?
}

/// Asks the mounted file systems what they are and how full; a server that does not answer holds nobody up.
package final class VolumeTable: Sendable {
    private static let servers: Set<String> = [
        "9p", "afs", "ceph", "cifs", "coda", "davfs", "fuse.sshfs", "fuse.rclone", "fuse.davfs2", "glusterfs", "lustre",
        "ncpfs", "nfs", "nfs4", "smb3", "smbfs", "virtiofs",
    ]
    /// The most volumes that are listed: each is asked by a thread of its own.
    private static let maximum = 512
    private static let inMemory: Set<String> = ["overlay", "ramfs", "squashfs", "tmpfs", "zram"]

    /// What a file system has answered.
    private struct Answer {
        var room = kith_volume_room()
        var uuid: [UInt8]?
        var failure: Int32 = 0
    }

    private let mounts: @Sendable () -> MountTable
    private let limit: DispatchTimeInterval
    /// The folders that something still waits for: nobody else begins to wait there.
    private let waiting = Mutex<Set<[UInt8]>>([])
    private let system: String

    /// Makes a table.
    ///
    /// - Parameters:
    ///   - limit: How long one file system is waited for.
    ///   - system: Where `sys` and `dev` are, for tests.
    ///   - mounts: What is mounted.
    package init(
        limit: DispatchTimeInterval = .seconds(2), system: String = "",
        mounts: @escaping @Sendable () -> MountTable = { MountTable.current() }
    ) {
        self.limit = limit
        self.system = system
        self.mounts = mounts
    }

    /// The volumes, by their paths; with `all` those of the system's own making, too.
    ///
    /// Blocks until all have answered, or their time is over.
    package func list(all: Bool = false) -> [MountedVolume] {
        let wanted = visible(all: all)
        let links = Links(system: system)
        let answers = ask(wanted.map(\.point))
        return wanted.map { mount in
            described(mount, answers[mount.point], links)
        }
    }

    /// The volumes by their mounts, those of the system's own making left out.
    ///
    /// What is among `known` stays as it is there, and only the others are asked; without `known` nothing is. That a mount
    /// is made read-only is no other mount.
    package func list(since known: [MountTable.Mount: MountedVolume]?) -> [MountTable.Mount: MountedVolume] {
        let wanted = visible(all: false).map { mount in
            var mount = mount
            mount.isReadOnly = false
            return mount
        }
        let links = Links(system: system)
        let answers = known.map { known in ask(wanted.filter { known[$0] == nil }.map(\.point)) }
        var volumes: [MountTable.Mount: MountedVolume] = [:]
        for mount in wanted {
            var volume = known?[mount] ?? described(mount, answers?[mount.point], links)
            if known == nil { volume.problem = nil }
            volumes[mount] = volume
        }
        return volumes
    }

    /// The mounts that are seen, by their paths: of several at one place the last one.
    private func visible(all: Bool) -> [MountTable.Mount] {
        var seen: [[UInt8]: MountTable.Mount] = [:]
        for mount in mounts().mounts { seen[mount.point] = mount }
        return Array(
            seen.values.filter { all || !$0.isPseudo }
                .sorted { $0.point.lexicographicallyPrecedes($1.point) }.prefix(Self.maximum))
    }

    /// The volume that a path without links lies in.
    package func volume(of path: [UInt8]) -> MountedVolume? {
        guard let mount = mounts().mount(of: path) else { return nil }
        return described(mount, ask([mount.point])[mount.point], Links(system: system))
    }

    // MARK: - Asking

    /// Asks all at once, each on a thread of its own: one that never answers keeps its thread, and gets no second one.
    private func ask(_ points: [[UInt8]]) -> [[UInt8]: Answer] {
        let answers = Answers()
        let group = DispatchGroup()
        for point in points where waiting.withLock({ $0.insert(point).inserted }) {
            group.enter()
            Thread.detachNewThread { [weak self] in
                let answer = Self.ask(point)
                answers.values.withLock { $0[point] = answer }
                _ = self?.waiting.withLock { $0.remove(point) }
                group.leave()
            }
        }
        _ = group.wait(timeout: .now() + limit)
        return answers.values.withLock { $0 }
    }

    private final class Answers: Sendable {
        let values = Mutex<[[UInt8]: Answer]>([:])
    }

    private static func ask(_ point: [UInt8]) -> Answer {
        var answer = Answer()
        // Opened only as a name first: listing it is not needed.
        let number = unsafe withCString(point) {
            unsafe kith_open(-1, $0, Int32(KITH_FILE_DIRECTORY | KITH_FILE_PATH), 0)
        }
        guard number >= 0 else {
            answer.failure = -number
            return answer
        }
        answer.failure = unsafe -kith_volume_measure(number, &answer.room)
        kith_file_close(number)
        let readable = unsafe withCString(point) { unsafe kith_open(-1, $0, Int32(KITH_FILE_DIRECTORY), 0) }
        guard readable >= 0 else { return answer }
        defer { kith_file_close(readable) }
        var uuid = [UInt8](repeating: 0, count: 16)
        let count = unsafe uuid.withUnsafeMutableBufferPointer { unsafe kith_volume_uuid(readable, $0.baseAddress) }
        if count == 16, uuid.contains(where: { $0 != 0 }) { answer.uuid = uuid }
        return answer
    }

    // MARK: - Describing

    /// The names that udev gives disks.
    private struct Links {
        var uuids: [String: String] = [:]
        var labels: [String: String] = [:]

        init(system: String) {
            uuids = Self.links(in: system + "/dev/disk/by-uuid")
            labels = Self.links(in: system + "/dev/disk/by-label")
        }

        /// The last name of what each leads to, with its own.
        private static func links(in folder: String) -> [String: String] {
            let names = (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? []
            var links: [String: String] = [:]
            for name in names.prefix(4_096) {
                guard let target = try? FileManager.default.destinationOfSymbolicLink(atPath: folder + "/" + name),
                    let device = target.split(separator: "/").last
                else { continue }
                links[String(device)] = unescaped(name)
            }
            return links
        }

        /// Takes the `\x20` out that stand for spaces and the like.
        private static func unescaped(_ name: String) -> String {
            var bytes: [UInt8] = []
            var rest = Array(name.utf8)[...]
            while let byte = rest.popFirst() {
                if byte == UInt8(ascii: "\\"), rest.first == UInt8(ascii: "x"),
                    let value = UInt8(String(decoding: rest.dropFirst().prefix(2), as: UTF8.self), radix: 16)
                {
                    bytes.append(value)
                    rest = rest.dropFirst(3)
                } else {
                    bytes.append(byte)
                }
            }
            return String(decoding: bytes, as: UTF8.self)
        }
    }

    private func described(_ mount: MountTable.Mount, _ answer: Answer?, _ links: Links) -> MountedVolume {
        let source = String(decoding: mount.source, as: UTF8.self)
        let device = source.hasPrefix("/dev/") ? source.split(separator: "/").last.map(String.init) : nil
        let kind = kind(of: mount, source)
        let asked = answer?.uuid.map(Self.text)
        let uuid = asked ?? device.flatMap { links.uuids[$0] }
        var volume = MountedVolume(
            mount: mount, kind: kind, label: device.flatMap { links.labels[$0] }, uuid: uuid,
            fingerprint: fingerprint(of: mount, kind, uuid, source), isReadOnly: mount.isReadOnly)
        switch answer {
        case nil: volume.problem = "it does not answer"
        case let answer? where answer.failure != 0:
            volume.problem = "\(SystemError(answer.failure))"
        case let answer?:
            volume.capacity = answer.room.total
            volume.free = answer.room.free
            if answer.room.is_read_only != 0 { volume.isReadOnly = true }
        }
        return volume
    }

    private func kind(of mount: MountTable.Mount, _ source: String) -> MountedVolume.Kind {
        if Self.servers.contains(mount.type) || source.hasPrefix("//") { return .network }
        if mount.isPseudo || Self.inMemory.contains(mount.type) || mount.major == 0 && !source.hasPrefix("/dev/") {
            return .virtual
        }
        return isRemovable(mount) ? .external : .internal
    }

    /// Whether a disk can be taken out, or hangs on a cable for such.
    private func isRemovable(_ mount: MountTable.Mount) -> Bool {
        let node = "\(system)/sys/dev/block/\(mount.major):\(mount.minor)"
        // A part of a disk lies in the disk's own folder.
        for flag in [node + "/removable", node + "/../removable"]
        where MountTable.contents(of: flag, limit: 64)?.first == UInt8(ascii: "1") {
            return true
        }
        guard let target = try? FileManager.default.destinationOfSymbolicLink(atPath: node) else { return false }
        return ["/usb", "/mmc_host", "/firewire", "/thunderbolt"].contains { target.contains($0) }
    }

    /// What tells a volume from all others, wherever it is mounted.
    private func fingerprint(
        of mount: MountTable.Mount, _ kind: MountedVolume.Kind, _ uuid: String?, _ source: String
    ) -> String? {
        // A part of a file system is another volume than all of it.
        let part = mount.root == [UInt8(ascii: "/")] ? "" : String(decoding: mount.root, as: UTF8.self)
        switch kind {
        case .network: return "server:\(mount.type):\(source)\(part)"
        case .virtual: return nil
        case .internal, .external: return uuid.map { "uuid:\($0.lowercased())\(part)" }
        }
    }

    private static func text(_ uuid: [UInt8]) -> String {
        let digits = uuid.map { byte in (byte < 16 ? "0" : "") + String(byte, radix: 16) }.joined()
        var text = ""
        for (index, digit) in digits.enumerated() {
            if [8, 12, 16, 20].contains(index) { text.append("-") }
            text.append(digit)
        }
        return text
    }
}
