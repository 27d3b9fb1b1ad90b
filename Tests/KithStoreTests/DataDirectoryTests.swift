import Foundation
import KithIdentity
import KithStore
import KithTesting
import KithWire
import Testing

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

@Suite struct DataDirectoryTests {
    @Test func `a folder with other things in it is refused, and nothing is put there`() throws {
        for name in ["photo.jpg", ".ssh", "kith", "-"] {
            let folder = try TemporaryFolder()
            try folder.write([1], to: name)
            do {
                try folder.open().close()
                Issue.record("took a folder with \(name)")
            } catch {
                #expect(error.code == .invalid && error.message.contains("(\(name))"))
            }
            #expect(try folder.files() == [name])
        }
    }

    @Test func `a folder in which a device was just begun is taken, and one that is a device's whatever else is there`()
        throws
    {
        let folder = try TemporaryFolder()
        for name in ["lock", "config", "kith.log", "machine.key", "identity.sealed.12.34.new"] {
            try folder.write([], to: name)
        }
        try folder.open().close()
        try folder.write([1], to: "photo.jpg")
        try folder.open().close()
    }

    @Test func `the root, the home and folders of others are refused`() throws {
        for path in ["/", NSHomeDirectory(), "/tmp", "/etc"] {
            #expect(throws: KithError.self, "\(path)") { try DataDirectory.check(path) }
        }
        for path in ["", "data", "~/data"] {
            #expect(throws: KithError(.invalid, "")) { try DataDirectory.prepare(path) }
        }
        let folder = try TemporaryFolder()
        setenv("HOME", folder.path, 1)
        defer { setenv("HOME", NSHomeDirectory(), 1) }
        #expect(throws: KithError(.invalid, "")) { try DataDirectory.check(folder.path) }
    }

    @Test(arguments: ["/a/data", "/a/data/", "/a//data", "//a/data//", "/data//"])
    func `a folder that is made is for its owner alone, however its path is spelled`(spelling: String) throws {
        let folder = try TemporaryFolder()
        try DataDirectory.prepare(folder.path + spelling)
        var info = stat()
        #expect(stat(folder.path + spelling, &info) == 0 && info.st_mode & 0o777 == 0o700)
    }

    @Test func `a way that another user made or could change is refused`() throws {
        let folder = try TemporaryFolder()
        let open = folder.path + "/open"
        try DataDirectory.prepare(open + "/below")
        chmod(open, 0o777)
        #expect(throws: KithError(.denied, "")) { try DataDirectory.check(open + "/below") }
        #expect(throws: KithError(.denied, "")) { try DataDirectory.prepare(open + "/other") }
        chmod(open, 0o1777)
        try DataDirectory.check(open + "/below")
        // One's own link may lead to another disk; somebody else's leads where they like.
        let link = open + "/link"
        #expect(symlink(open + "/below", link) == 0)
        try DataDirectory.check(link)
        guard geteuid() == 0 else {
            print("skipped in part: needs root")
            return
        }
        lchown(link, 65_534, 65_534)
        #expect(throws: KithError(.denied, "")) { try DataDirectory.check(link) }
        #expect(throws: KithError(.denied, "")) { try DataDirectory.prepare(link + "/new") }
        chown(open + "/below", 65_534, 65_534)
        #expect(throws: KithError(.denied, "")) { try DataDirectory.check(open + "/below") }
    }

    @Test func `a database that is missing beside a key is not begun anew unless that is asked for`() throws {
        let folder = try TemporaryFolder()
        let key = try FileKeyStore(directory: folder.path, seal: .machineKey).deviceKey()
        #expect(throws: KithError(.corrupt, "")) { try folder.open().close() }
        #expect(try folder.files() == ["identity.sealed", "index.sealed", "lock", "machine.key"])
        // As the message says.
        try folder.write([], to: "kith.sqlite")
        let store = try folder.open()
        defer { store.close() }
        #expect(try store.isBlank() && store.owner() == nil)
        try store.setOwner(key.id)
        #expect(try !store.isBlank() && store.owner() == key.id)
    }

    @Test func `keys that changed less often than the database knows are refused, and what it knows stays`() throws {
        let folder = try TemporaryFolder()
        let store = try folder.open()
        defer { store.close() }
        try store.noteKeys(generation: 0)
        #expect(try store.isBlank())
        for generation in [1, 1, 5, .max] as [UInt64] { try store.noteKeys(generation: generation) }
        for generation in [0, 5, .max - 1] as [UInt64] {
            do {
                try store.noteKeys(generation: generation)
                Issue.record("\(generation) was taken")
            } catch {
                #expect(error.code == .corrupt && error.message.contains("older copy"))
            }
        }
        try store.noteKeys(generation: .max)
        try store.setSetting("keys", "many")
        #expect(throws: KithError(.corrupt, "")) { try store.noteKeys(generation: .max) }
    }
}
