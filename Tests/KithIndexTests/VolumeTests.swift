import Foundation
import KithCatalog
import KithIO
import KithTesting
import KithWire
import Logging
import Testing

@testable import KithIndex

@Suite(.timeLimit(.minutes(4))) struct VolumeTests {
    private static let table = MountTable(
        parsing: Array(
            """
            22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
            23 22 0:20 / /proc rw,nosuid - proc proc rw
            24 22 8:17 / /media/My\\040Disk\\134x ro,nosuid shared:2 master:3 - vfat /dev/sdb1 rw
            25 22 0:50 / /mnt/nas rw - nfs4 server:/export rw,vers=4.2
            26 25 0:51 / /mnt/nas/deep rw - tmpfs tmpfs ro
            27 22 8:1 /var/data /data rw - ext4 /dev/sda1 rw
            not a line
            28 22 x:y / /bad rw - ext4 /dev/sdz rw
            29 22 8:1 / relative rw - ext4 /dev/sda1 rw
            """.utf8))

    @Test func `the system's table of mounts is read, with spaces in names`() {
        let mounts = Self.table.mounts
        #expect(mounts.map(\.id) == [22, 23, 24, 25, 26, 27])
        #expect(mounts[2].point == Array("/media/My Disk\\x".utf8))
        #expect(mounts[2].isReadOnly && mounts[4].isReadOnly && !mounts[0].isReadOnly)
        #expect(mounts[3].source == Array("server:/export".utf8) && mounts[3].type == "nfs4")
        #expect(mounts[5].root == Array("/var/data".utf8))
        #expect(mounts[1].isPseudo && !mounts[0].isPseudo)
    }

    @Test func `a path lies in the innermost mount, by whole names`() {
        func id(_ path: String) -> Int? { Self.table.mount(of: Array(path.utf8))?.id }
        #expect(id("/home/ana") == 22)
        #expect(id("/data") == 27 && id("/data/x") == 27 && id("/database") == 22)
        #expect(id("/mnt/nas/deep/er") == 26 && id("/mnt/nas/deeper") == 25)
        // What is mounted over another is what is seen.
        var covered = Self.table
        covered.mounts.append(covered.mounts[5])
        covered.mounts[6].id = 99
        #expect(covered.mount(of: Array("/data/x".utf8))?.id == 99)
    }

    @Test func `escapes that are none stay as they are`() {
        #expect(MountTable.Mount.unescaped(Array("a\\040b".utf8)) == Array("a b".utf8))
        for text in ["\\", "\\04", "\\999", "\\x41", "\\777"] {
            #expect(MountTable.Mount.unescaped(Array(text.utf8)) == Array(text.utf8))
        }
    }

    @Test func `this machine's own volumes have room, and a fingerprint where they have an identity`() throws {
        let table = MountTable.current()
        #expect(table.mount(of: Array("/".utf8)) != nil)
        let volumes = VolumeTable().list()
        let top = try #require(volumes.first { $0.mount.point == Array("/".utf8) })
        #expect(top.problem == nil)
        let (capacity, free) = (try #require(top.capacity), try #require(top.free))
        #expect(capacity > 0 && free <= capacity)
        #expect((top.uuid == nil) == (top.fingerprint == nil) || top.kind == .network)
        #expect(volumes.allSatisfy { !$0.mount.isPseudo })
        #expect(VolumeTable().list(all: true).contains { $0.mount.type == "proc" })
    }

    @Test func `a disk that can be taken out is told by the system, its name and number by udev's links`() throws {
        let folder = try TemporaryFolder()
        for name in ["/sys/dev/block/8:17", "/sys/dev/block/8:1", "/dev/disk/by-uuid", "/dev/disk/by-label"] {
            try FileManager.default.createDirectory(atPath: folder.path + name, withIntermediateDirectories: true)
        }
        try Data("1\n".utf8).write(to: URL(fileURLWithPath: folder.path + "/sys/dev/block/8:17/removable"))
        try Data("0\n".utf8).write(to: URL(fileURLWithPath: folder.path + "/sys/dev/block/8:1/removable"))
        try FileManager.default.createSymbolicLink(
            atPath: folder.path + "/dev/disk/by-uuid/1234-ABCD", withDestinationPath: "../../sdb1")
        try FileManager.default.createSymbolicLink(
            atPath: folder.path + "/dev/disk/by-label/My\\x20Disk", withDestinationPath: "../../sdb1")
        func volumes(at point: String) throws -> MountedVolume {
            var mounts = Self.table
            mounts.mounts = [mounts.mounts[2], mounts.mounts[3]]
            mounts.mounts[0].point = Array(point.utf8)
            mounts.mounts[1].point = Array((folder.path + "/nowhere").utf8)
            let volumes = VolumeTable(system: folder.path, mounts: { [mounts] in mounts }).list()
            let server = try #require(volumes.first { $0.kind == .network })
            #expect(server.problem != nil && server.capacity == nil)
            #expect(server.fingerprint == "server:nfs4:server:/export")
            return try #require(volumes.first { $0.mount.type == "vfat" })
        }
        try FileManager.default.createDirectory(atPath: folder.path + "/a", withIntermediateDirectories: true)
        let one = try volumes(at: folder.path + "/a")
        #expect(one.kind == .external && one.label == "My Disk" && one.isReadOnly)
        // The same wherever it is mounted.
        #expect(try volumes(at: folder.path + "/dev").fingerprint == one.fingerprint)
        #expect(one.fingerprint != nil)
    }

    @Test func `a speed is measured, and nothing is left of it`() throws {
        let folder = try TemporaryFolder()
        var bytes: UInt64 = 0
        let speed = try SpeedTest(path: Array(folder.path.utf8), size: 9 << 20).run { bytes += $0 }
        #expect(speed.write > 0 && speed.read > 0 && bytes == speed.size * 2)
        #expect(try folder.files().isEmpty)
        #expect(throws: KithError.self) { try SpeedTest(path: Array("/proc".utf8), size: 1 << 20).run { _ in } }
        #expect(throws: KithError.self) { try SpeedTest(path: Array(folder.path.utf8), size: 0).run { _ in } }
        struct Stop: Error {}
        #expect(throws: Stop.self) {
            try SpeedTest(path: Array(folder.path.utf8), size: 1 << 20).run { _ in throw Stop() }
        }
        #expect(try folder.files().isEmpty)
    }

    @Test func `the top of the file system is not ejected`() throws {
        let top = try #require(VolumeTable().volume(of: Array("/".utf8)))
        #expect(throws: KithError.self) { try VolumeEjection.eject(top) }
    }

    // MARK: - Locations

    private struct Place {
        let folder: TemporaryFolder
        let index: FileIndex
        let location: IndexLocation

        init() async throws {
            folder = try TemporaryFolder()
            for name in ["old/docs/deep", "old/pictures"] {
                try FileManager.default.createDirectory(
                    atPath: folder.path + "/" + name, withIntermediateDirectories: true)
            }
            for name in ["old/one", "old/docs/two", "old/docs/deep/three"] {
                try Data(name.utf8).write(to: URL(fileURLWithPath: folder.path + "/" + name))
            }
            let bad = Array((folder.path + "/old/").utf8) + [0xFF, 0x64]
            let made = withCString(bad) { mkdir($0, 0o700) }
            #expect(made == 0)
            index = try FileIndex(path: folder.path + "/index.sqlite", logger: Logger(label: "test"))
            location = try index.addLocation(at: Array((folder.path + "/old").utf8))
            _ = try await index.scan(location.id) { _ in }
        }

        func paths(_ query: String) async throws -> [String] {
            let found = try await index.search(
                try SearchQuery(query, now: 0, offsetFromUTC: 0), device: "laptop", limit: 100)
            return found.entries.map { String(decoding: $0.path, as: UTF8.self) }.sorted()
        }
    }

    @Test func `a location that was moved keeps all that is known of it`() async throws {
        let place = try await Place()
        _ = try await place.index.changeTags(
            of: [Array((place.folder.path + "/old/docs/two").utf8)], add: [["kept"]], remove: [])
        let new = place.folder.path + "/old2/in/it"
        try FileManager.default.createDirectory(
            atPath: place.folder.path + "/old2/in", withIntermediateDirectories: true)
        try FileManager.default.moveItem(atPath: place.folder.path + "/old", toPath: new)
        try await place.index.relocate(place.location.id, to: Array(new.utf8), isTrusted: false)
        #expect(try await place.paths("three") == [new + "/docs/deep/three"])
        let counts = try await place.index.scan(place.location.id) { _ in }
        #expect(counts.added == 0 && counts.removed == 0)
        #expect(try await place.paths("tag:kept") == [new + "/docs/two"])
        #expect(try place.index.location(place.location.id).path == Array(new.utf8))
    }

    @Test func `a folder that does not look the same is refused, unless it is known to be`() async throws {
        let place = try await Place()
        let other = place.folder.path + "/other"
        try FileManager.default.createDirectory(atPath: other + "/docs", withIntermediateDirectories: true)
        await #expect {
            try await place.index.relocate(place.location.id, to: Array(other.utf8), isTrusted: false)
        } throws: { ($0 as? KithError)?.code == .conflict }
        await #expect {
            try await place.index.relocate(place.location.id, to: Array((other + "/none").utf8), isTrusted: true)
        } throws: { ($0 as? KithError)?.code == .notFound }
        #expect(try await place.paths("three") == [place.folder.path + "/old/docs/deep/three"])
        try await place.index.relocate(place.location.id, to: Array(other.utf8), isTrusted: true)
        #expect(try place.index.location(place.location.id).path == Array(other.utf8))
    }

    @Test func `a folder into itself is a place as any other`() async throws {
        let place = try await Place()
        let new = place.folder.path + "/old/docs"
        try await place.index.relocate(place.location.id, to: Array(new.utf8), isTrusted: true)
        #expect(try await place.paths("three") == [new + "/docs/deep/three"])
        _ = try await place.index.scan(place.location.id) { _ in }
        #expect(try await place.paths("three") == [new + "/deep/three"])
    }

    @Test func `the volume of a location is noted, and goes with it`() async throws {
        let place = try await Place()
        let volume = LocationVolume(fingerprint: "uuid:1", path: [0x66, 0xFF])
        try place.index.note(volume, of: place.location.id)
        #expect(try place.index.locationVolumes() == [place.location.id: volume])
        try await place.index.removeLocation(place.location.id)
        #expect(try place.index.locationVolumes().isEmpty)
    }
}
