#if os(Linux)
import Foundation
import KithIdentity
import KithStore
import KithTesting
import KithWire
import Testing

@Suite(.enabled(if: geteuid() == 0, "needs root: mounts a small file system"))
struct `A data directory on a disk that is full` {
    /// A file system of two megabytes in memory; `nil` where this root may not mount one.
    private final class SmallDisk {
        private let folder: TemporaryFolder
        /// The data directory on it.
        var path: String { folder.path + "/device" }

        /// `files` is the most there may be, its own folder included.
        init?(files: Int = 0) throws {
            folder = try TemporaryFolder()
            guard mount("tmpfs", folder.path, "tmpfs", 0, "size=2m,mode=0700,nr_inodes=\(files)") == 0 else {
                print("skipped: this root may not mount a file system")
                return nil
            }
        }

        deinit { umount2(folder.path, 2) }

        /// Takes all the room there is, but for some pages.
        func fill(but pages: Int = 0) throws {
            let descriptor = open(folder.path + "/filler", O_WRONLY | O_CREAT | O_APPEND, 0o600)
            defer { close(descriptor) }
            let block = [UInt8](repeating: 1, count: 4_096)
            while write(descriptor, block, block.count) > 0 {}
            try #require(errno == ENOSPC)
            try #require(ftruncate(descriptor, lseek(descriptor, 0, SEEK_END) - pages * block.count) == 0)
        }

        func allow(files: Int) throws {
            try #require(mount("tmpfs", folder.path, "tmpfs", UInt(MS_REMOUNT), "size=2m,nr_inodes=\(files)") == 0)
        }

        func makeRoom() throws { try FileManager.default.removeItem(atPath: folder.path + "/filler") }
    }

    @Test func `keeps what was reported done, says what is wrong, and goes on when there is room`() throws {
        guard let disk = try SmallDisk() else { return }
        var store = try openStore(disk.path)
        for number in 1...5 as ClosedRange<UInt8> { _ = try store.add(device(number, name: "d\(number)")) }
        var last = 0
        for round in 0..<3 {
            try disk.fill()
            // There may be room left in the log, which is written over again and again.
            let error = #expect(throws: KithError(.exhausted, "")) {
                for number in (last + 1)... {
                    try store.setSetting("last", "\(number) " + String(repeating: "x", count: 20_000))
                    last = number
                }
            }
            #expect(error?.message.contains("the disk is full") == true, "\(String(describing: error))")
            func check() throws {
                let setting = try store.setting("last") ?? "0"
                #expect(setting.prefix { $0 != " " } == "\(last)")
                #expect(try store.devices().map(\.name).sorted() == (1...5).map { "d\($0)" })
            }
            // It can be read, and closed, and opened once there is room.
            try check()
            #expect(throws: KithError(.exhausted, "")) { _ = try store.add(device(9, name: "d9")) }
            try check()
            if round > 0 {
                store.close()
                if round > 1 {
                    let error = #expect(throws: KithError.self) {
                        for _ in 0... {
                            let store = try openStore(disk.path)
                            defer { store.close() }
                            try store.setSetting("other", String(repeating: "y", count: 200_000))
                        }
                    }
                    #expect(error?.code == .exhausted, "\(String(describing: error))")
                }
                try disk.makeRoom()
                store = try openStore(disk.path)
            } else {
                try disk.makeRoom()
            }
            try check()
            try store.setSetting("round", "\(round)")
            #expect(try store.setting("round") == "\(round)")
        }
        store.close()
    }

    @Test func `begins nothing by half`() throws {
        guard let disk = try SmallDisk() else { return }
        // However little room there is: the first pages, the log, its index.
        for pages in [0, 1, 2, 5, 10, 20, 40] {
            try disk.fill(but: pages)
            let error = #expect(throws: KithError(.exhausted, "")) {
                for _ in 0... {
                    let store = try openStore(disk.path)
                    defer { store.close() }
                    try store.setSetting("other", String(repeating: "y", count: 200_000))
                }
            }
            #expect(error?.code == .exhausted, "\(pages) pages: \(String(describing: error))")
        }
        try disk.makeRoom()
        let store = try openStore(disk.path)
        defer { store.close() }
        #expect(try store.devices().isEmpty)
        _ = try store.add(device(1))
    }

    @Test func `says so as well when there is room, and for not one file more`() throws {
        guard let disk = try SmallDisk(files: 1) else { return }
        // The folder, the lock, the database, its log and the index of that.
        for files in 1...5 {
            try disk.allow(files: files)
            #expect(throws: KithError(.exhausted, ""), "\(files) files") { try openStore(disk.path).close() }
        }
        try disk.allow(files: 6)
        let store = try openStore(disk.path)
        defer { store.close() }
        _ = try store.add(device(1))
    }

    @Test func `has no half of a device's key`() throws {
        guard let disk = try SmallDisk() else { return }
        try DataDirectory.prepare(disk.path)
        let keys = FileKeyStore(directory: disk.path, seal: .machineKey)
        try disk.fill()
        #expect(throws: KithError(.exhausted, "")) { try keys.deviceKey() }
        #expect(try FileManager.default.contentsOfDirectory(atPath: disk.path).isEmpty)
        try disk.makeRoom()
        let key = try keys.deviceKey()
        #expect(try keys.storedDeviceKey()?.id == key.id)
    }
}
#endif
