import Crypto
import Foundation
import KithTesting
import KithWire
import Testing

@testable import KithIdentity

private func secret(_ text: String) -> SecretBytes { SecretBytes(Array(text.utf8)) }

@Suite struct KeyStoreConformanceTests {
    /// The stores, each of which must behave as ``KeyStore`` says.
    enum StoreKind: CaseIterable {
        case memory, machineKey, passphrase, keyStore, guardedMemory, guardedFile

        func place() throws -> any KeyStorePlace {
            switch self {
            case .memory: MemoryKeyStorePlace()
            case .machineKey: try FileKeyStorePlace(.machineKey)
            case .passphrase: try FileKeyStorePlace(.passphrase(secret("correct horse"), cost: 10))
            case .keyStore: try FileKeyStorePlace(keysIn: MemoryKeyStorePlace())
            case .guardedMemory: try GuardedKeyStorePlace(MemoryKeyStorePlace())
            case .guardedFile: try GuardedKeyStorePlace(FileKeyStorePlace(.machineKey))
            }
        }
    }

    @Test(arguments: StoreKind.allCases, KeyStoreConformance.allCases)
    func `every store does as KeyStore says`(kind: StoreKind, check: KeyStoreConformance) throws {
        try check.run(in: kind.place())
    }
}

@Suite struct FileKeyStoreTests {
    private func passphrase(_ text: String, in folder: TemporaryFolder) -> FileKeyStore {
        FileKeyStore(directory: folder.path, seal: .passphrase(secret(text), cost: 10))
    }

    @Test func `files are for their owner only, and nothing is left beside them`() throws {
        let folder = try TemporaryFolder()
        let store = FileKeyStore(directory: folder.path, seal: .machineKey)
        try store.store([1], named: "identity")
        try store.store([2], named: "identity")
        #expect(try folder.files() == ["identity.sealed", "index.sealed", "machine.key"])
        for name in try folder.files() { #expect(try folder.mode(of: name) == 0o600) }
    }

    @Test func `the file is as drawn and does not show the secret`() throws {
        let folder = try TemporaryFolder()
        let secret = [UInt8](64..<96)
        try passphrase("pass", in: folder).store(secret, named: "a")
        let file = try folder.bytes("a.sealed")
        #expect(Array(file[..<10]) == Array("kithkey1".utf8) + [0x12, 10] as [UInt8])
        #expect(file.count == 26 + 12 + 32 + 16)
        #expect(!(0..<file.count - 4).contains { file[$0..<$0 + 4] == secret[0..<4] })
        // Stored again it has another nonce, and sealed anew another salt as well.
        try passphrase("pass", in: folder).store(secret, named: "a")
        let again = try folder.bytes("a.sealed")
        #expect(again[10..<26] == file[10..<26] && again[26..<38] != file[26..<38] && again[38...] != file[38...])
        #expect(try folder.bytes("index.sealed")[..<26] == file[..<26])
        try passphrase("pass", in: folder).reseal(with: .passphrase(KithIdentityTests.secret("pass"), cost: 10))
        #expect(try folder.bytes("a.sealed")[10..<26] != file[10..<26])
    }

    @Test func `a passphrase is stretched once for a store, whatever it reads and writes`() throws {
        let folder = try TemporaryFolder()
        let store = passphrase("p", in: folder)
        let keys = { store.stretched.count }
        #expect(keys() == 0)
        try store.store([1], named: "a")
        #expect(try store.add([2], named: "b"))
        #expect(try store.secret(named: "a") == [1])
        #expect(keys() == 1)
        let other = passphrase("p", in: folder)
        #expect(try other.secret(named: "b") == [2])
        #expect(other.stretched.count == 1)
    }

    @Test func `no secret has the name of the list of keys`() throws {
        let folder = try TemporaryFolder()
        let store = FileKeyStore(directory: folder.path, seal: .machineKey)
        #expect(throws: KithError(.invalid, "")) { try store.store([1], named: "index") }
        #expect(throws: KithError(.invalid, "")) { _ = try store.add([1], named: "index") }
        #expect(throws: KithError(.invalid, "")) { _ = try store.secret(named: "index") }
        #expect(throws: KithError(.invalid, "")) { try store.removeSecret(named: "index") }
        #expect(try folder.files() == [])
    }

    @Test func `a wrong passphrase is denied, and the file stays as it is`() throws {
        let folder = try TemporaryFolder()
        let id = try passphrase("right", in: folder).deviceKey().id
        let before = try folder.bytes("identity.sealed")
        for wrong in ["wrong", "", "right ", "Right"] {
            #expect(throws: KithError(.denied, "")) { _ = try passphrase(wrong, in: folder).deviceKey() }
        }
        #expect(throws: KithError(.denied, "")) {
            _ = try FileKeyStore(directory: folder.path, seal: .machineKey).deviceKey()
        }
        #expect(throws: KithError(.denied, "")) { try passphrase("wrong", in: folder).store([1], named: "b") }
        #expect(throws: KithError(.denied, "")) { try passphrase("wrong", in: folder).removeSecret(named: "identity") }
        #expect(try folder.bytes("identity.sealed") == before)
        #expect(try folder.files() == ["identity.sealed", "index.sealed"])
        #expect(try passphrase("right", in: folder).deviceKey().id == id)
    }

    @Test func `no changed byte of a file goes unnoticed`() throws {
        let folder = try TemporaryFolder()
        let store = FileKeyStore(directory: folder.path, seal: .machineKey)
        try store.store([1, 2, 3, 4], named: "a")
        let right = try folder.bytes("a.sealed")
        for index in right.indices {
            var wrong = right
            wrong[index] ^= 0x10
            try folder.write(wrong, to: "a.sealed")
            #expect(throws: KithError.self, "byte \(index)") { _ = try store.secret(named: "a") }
        }
        for count in 0..<right.count {
            try folder.write(Array(right.prefix(count)), to: "a.sealed")
            #expect(throws: KithError(.corrupt, "")) { _ = try store.secret(named: "a") }
        }
        // Nor is a file opened under another name.
        try folder.write(right, to: "a.sealed")
        try folder.write(right, to: "b.sealed")
        #expect(throws: KithError(.corrupt, "")) { _ = try store.secret(named: "b") }
        try SecretFile.remove("\(folder.path)/b.sealed")
        #expect(try store.secret(named: "a") == [1, 2, 3, 4])
    }

    @Test func `the cost that users get works, and stands in the file`() throws {
        let folder = try TemporaryFolder()
        let store = FileKeyStore(directory: folder.path, seal: .passphrase(secret("right")))
        try store.store([1, 2, 3], named: "a")
        #expect(try folder.bytes("a.sealed")[9] == 17)
        // What is in the file counts, not what the store would write now.
        #expect(try passphrase("right", in: folder).secret(named: "a") == [1, 2, 3])
    }

    @Test func `a damaged file cannot make us take gigabytes`() throws {
        let folder = try TemporaryFolder()
        let store = passphrase("p", in: folder)
        try store.store([1], named: "a")
        var file = try folder.bytes("a.sealed")
        for cost in [0, 9, 23, 40, 255] as [UInt8] {
            file[9] = cost
            try folder.write(file, to: "a.sealed")
            #expect(throws: KithError(.corrupt, "")) { _ = try store.secret(named: "a") }
        }
        // Nor can the list of keys, which is opened first.
        file = try folder.bytes("index.sealed")
        for cost in [0, 9, 23, 40, 255] as [UInt8] {
            file[9] = cost
            try folder.write(file, to: "index.sealed")
            #expect(throws: KithError(.corrupt, "")) { _ = try store.secret(named: "a") }
        }
        #expect(throws: KithError(.invalid, "")) {
            try FileKeyStore(directory: folder.path, seal: .passphrase(secret("p"), cost: 30)).store([1], named: "b")
        }
    }

    @Test func `without the machine's key nothing opens, and none is made in its place`() throws {
        let folder = try TemporaryFolder()
        let store = FileKeyStore(directory: folder.path, seal: .machineKey)
        try store.store([1], named: "a")
        let key = try folder.bytes("machine.key")
        #expect(key.count == 32)
        try FileManager.default.removeItem(atPath: "\(folder.path)/machine.key")
        #expect(throws: KithError(.corrupt, "")) { _ = try store.secret(named: "a") }
        #expect(throws: KithError(.corrupt, "")) { try store.store([1], named: "a") }
        #expect(throws: KithError(.corrupt, "")) { try store.store([1], named: "b") }
        #expect(try folder.files() == ["a.sealed", "index.sealed"])
        try folder.write([UInt8](repeating: 0, count: 32), to: "machine.key")
        #expect(throws: KithError(.corrupt, "")) { _ = try store.secret(named: "a") }
        try folder.write([1, 2, 3], to: "machine.key")
        #expect(throws: KithError(.corrupt, "")) { _ = try store.secret(named: "a") }
        try folder.write(key, to: "machine.key")
        #expect(try store.secret(named: "a") == [1])
    }

    @Test func `a key file that others may read is refused`() throws {
        let folder = try TemporaryFolder()
        let store = FileKeyStore(directory: folder.path, seal: .machineKey)
        try store.store([1], named: "a")
        for name in ["a.sealed", "index.sealed", "machine.key"] {
            for mode in [0o640, 0o604, 0o660, 0o601] {
                try folder.setMode(mode, of: name)
                do {
                    _ = try store.secret(named: "a")
                    Issue.record("\(name) was read with mode \(String(mode, radix: 8))")
                } catch {
                    #expect(error.code == .denied && error.message.contains("chmod 600"))
                }
            }
            try folder.setMode(0o600, of: name)
        }
        #expect(try store.secret(named: "a") == [1])
    }

    @Test func `a link, a folder and a huge file are refused`() throws {
        let folder = try TemporaryFolder()
        let store = FileKeyStore(directory: folder.path, seal: .machineKey)
        try store.store([1], named: "a")
        try FileManager.default.createSymbolicLink(
            atPath: "\(folder.path)/b.sealed", withDestinationPath: "\(folder.path)/a.sealed")
        #expect(throws: KithError(.denied, "")) { _ = try store.secret(named: "b") }
        try SecretFile.remove("\(folder.path)/b.sealed")
        try FileManager.default.createDirectory(
            atPath: "\(folder.path)/c.sealed", withIntermediateDirectories: false)
        #expect(throws: KithError(.corrupt, "")) { _ = try store.secret(named: "c") }
        try FileManager.default.removeItem(atPath: "\(folder.path)/c.sealed")
        try folder.write([UInt8](repeating: 0, count: 1 << 20), to: "d.sealed")
        #expect(throws: KithError(.corrupt, "")) { _ = try store.secret(named: "d") }
    }

    @Test func `a file is replaced whole, or stays`() throws {
        let folder = try TemporaryFolder()
        let path = "\(folder.path)/file"
        try SecretFile.write(Array("old".utf8), to: path)
        try SecretFile.write([UInt8](repeating: 7, count: 100_000), to: path, mode: 0o400)
        #expect(try SecretFile.read(path, limit: 100_000)?.count == 100_000)
        #expect(try folder.mode(of: "file") == 0o400)
        #expect(throws: KithError(.corrupt, "")) { _ = try SecretFile.read(path, limit: 99_999) }
        // A folder in its place cannot be replaced by a file: what was begun is taken away again.
        try FileManager.default.createDirectory(atPath: "\(folder.path)/there/in", withIntermediateDirectories: true)
        #expect(throws: KithError.self) { try SecretFile.write([1], to: "\(folder.path)/there") }
        #expect(try folder.files() == ["file", "there"])
        #expect(throws: KithError(.notFound, "")) { try SecretFile.write([1], to: "\(folder.path)/no/file") }
        try SecretFile.remove(path)
        try SecretFile.remove(path)
        #expect(try SecretFile.read(path, limit: 10) == nil)
    }

    @Test func `processes that start at once get one key of the device`() async throws {
        let folder = try TemporaryFolder()
        let path = folder.path
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<4 {
                group.addTask {
                    await #expect(processExitsWith: .success) { [path = path as String] in
                        // All of them wait for the last, so that they meet.
                        let number = UInt64.random(in: 0 ... .max)
                        try Data().write(to: URL(filePath: "\(path)/ready-\(number)"))
                        while try FileManager.default.contentsOfDirectory(atPath: path).count(where: {
                            $0.hasPrefix("ready-")
                        }) < 4 {
                            sched_yield()
                        }
                        for name in ["identity", "b", "c", "d"] {
                            let store = FileKeyStore(directory: path, seal: .machineKey)
                            let id = try store.deviceKey(named: name).id
                            try Data(id.description.utf8).write(to: URL(filePath: "\(path)/\(name).of-\(number)"))
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        let store = FileKeyStore(directory: path, seal: .machineKey)
        for name in ["identity", "b", "c", "d"] {
            let ids = try folder.files().filter { $0.hasPrefix("\(name).of-") }.map { try folder.bytes($0) }
            #expect(ids.count == 4)
            #expect(Set(ids) == [Array(try store.deviceKey(named: name).id.description.utf8)])
        }
    }

    // MARK: - Sealing anew

    /// Seals from and to, with secrets as a device and its groups have them; key stores of their own each time.
    private static var changes: [(from: FileKeyStore.Seal, to: FileKeyStore.Seal)] {
        let (old, new) = (secret("old"), secret("new"))
        return [
            (.machineKey, .passphrase(new, cost: 10)), (.passphrase(old, cost: 10), .machineKey),
            (.passphrase(old, cost: 10), .passphrase(new, cost: 10)), (.machineKey, .machineKey),
            (.machineKey, .keyStore(MemoryKeyStore())), (.keyStore(MemoryKeyStore()), .machineKey),
        ]
    }

    private func fill(_ folder: TemporaryFolder, _ seal: FileKeyStore.Seal) throws -> FileKeyStore {
        let store = FileKeyStore(directory: folder.path, seal: seal)
        try store.store([1, 2, 3], named: "identity")
        try store.store([4], named: "groups")
        return store
    }

    private func holdsAll(_ store: FileKeyStore) throws -> Bool {
        try store.secret(named: "identity") == [1, 2, 3] && store.secret(named: "groups") == [4]
    }

    @Test(arguments: changes.indices)
    func `all is sealed anew, and nothing else opens it`(number: Int) throws {
        let (from, to) = Self.changes[number]
        let folder = try TemporaryFolder()
        let old = try fill(folder, from)
        let key = try? folder.bytes("machine.key")
        try old.reseal(with: to)
        #expect(try holdsAll(FileKeyStore(directory: folder.path, seal: to)))
        switch to {
        case .machineKey:
            #expect(try folder.files() == ["groups.sealed", "identity.sealed", "index.sealed", "machine.key"])
            #expect(try folder.bytes("machine.key") != key)
            #expect(try FileKeyStore.sealKind(directory: folder.path) == .machineKey)
        case .passphrase:
            #expect(try folder.files() == ["groups.sealed", "identity.sealed", "index.sealed"])
            #expect(throws: KithError(.denied, "")) { _ = try old.secret(named: "identity") }
            #expect(try FileKeyStore.sealKind(directory: folder.path) == .passphrase)
        case .keyStore(let keys):
            #expect(try folder.files() == ["groups.sealed", "identity.sealed", "index.sealed"])
            #expect(try FileKeyStore.sealKind(directory: folder.path) == .keyStore)
            #expect(try keys.secretNames().count == 1)
        }
        // A key that seals nothing any more is forgotten.
        if case .keyStore(let keys) = from { #expect(try keys.secretNames() == []) }
        for name in try folder.files() { #expect(try folder.mode(of: name) == 0o600) }
    }

    @Test(arguments: changes.indices)
    func `killed at any moment, all is sealed as before or all anew`(number: Int) throws {
        let (from, to) = Self.changes[number]
        let folder = try TemporaryFolder()
        let old = try fill(folder, from)
        var before: [String: [UInt8]] = [:]
        for name in try folder.files() { before[name] = try folder.bytes(name) }
        let pending = try old.change(resealingWith: to).encoded()
        #expect(try holdsAll(old), "nothing is changed before what will be is written down")
        try folder.write(pending, to: "reseal.pending")
        #expect(try holdsAll(FileKeyStore(directory: folder.path, seal: to)))
        var after: [String: [UInt8]] = [:]
        for name in try folder.files() { after[name] = try folder.bytes(name) }
        #expect(after["reseal.pending"] == nil)
        // Any of the files may have been put in place, or removed, before the end came.
        let names = Set(before.keys).union(after.keys).sorted()
        for chosen in 0..<(1 << names.count) {
            for (bit, name) in names.enumerated() {
                let content = chosen >> bit & 1 == 0 ? before[name] : after[name]
                if let content {
                    try folder.write(content, to: name)
                } else {
                    try SecretFile.remove("\(folder.path)/\(name)")
                }
            }
            try folder.write(pending, to: "reseal.pending")
            #expect(try holdsAll(FileKeyStore(directory: folder.path, seal: to)), "\(chosen)")
            #expect(try folder.files() == after.keys.sorted())
        }
        // Before, only a file of another name lies beside the others.
        for (name, content) in before { try folder.write(content, to: name) }
        if before["machine.key"] == nil { try SecretFile.remove("\(folder.path)/machine.key") }
        try folder.write(pending.dropLast(9), to: "reseal.pending.123.456.new")
        #expect(try holdsAll(old))
        try old.reseal(with: to)
        #expect(try !folder.files().contains { $0.hasPrefix("reseal") })
    }

    @Test func `a wrong passphrase and damage change nothing`() throws {
        let folder = try TemporaryFolder()
        let store = try fill(folder, .passphrase(secret("old"), cost: 10))
        let wrong = passphrase("wrong", in: folder)
        #expect(throws: KithError(.denied, "")) { try wrong.reseal(with: .machineKey) }
        #expect(throws: KithError(.invalid, "")) { try store.reseal(with: .passphrase(secret("new"), cost: 3)) }
        var damaged = try folder.bytes("groups.sealed")
        let right = damaged
        damaged[40] ^= 1
        try folder.write(damaged, to: "groups.sealed")
        #expect(throws: KithError(.corrupt, "")) { try store.reseal(with: .machineKey) }
        #expect(try folder.files() == ["groups.sealed", "identity.sealed", "index.sealed"])
        try folder.write(right, to: "groups.sealed")
        #expect(try holdsAll(store))
        #expect(throws: KithError(.notFound, "")) {
            let empty = try TemporaryFolder()
            try FileKeyStore(directory: empty.path, seal: .machineKey).reseal(with: .machineKey)
        }
        // A change of another time is not made once more.
        let steps = try store.steps(storing: [9], named: "groups")
        let earlier = try #require(
            steps.lazy.compactMap { step in
                if case .write(let name, let bytes) = step, name.hasPrefix("reseal.pending") { bytes } else { nil }
            }.first)
        try store.store([5], named: "groups")
        let groups = try folder.bytes("groups.sealed")
        try folder.write(earlier, to: "reseal.pending")
        #expect(throws: KithError(.corrupt, "")) { _ = try store.secret(named: "identity") }
        #expect(try folder.bytes("groups.sealed") == groups)
        try SecretFile.remove("\(folder.path)/reseal.pending")
        #expect(try store.secret(named: "groups") == [5])
        // What was written down names no file but those of secrets.
        try folder.write([0xA2] + Array("efiles".utf8), to: "reseal.pending")
        #expect(throws: KithError(.corrupt, "")) { _ = try store.secret(named: "identity") }
    }

    // MARK: - Folders without a list of keys

    /// Writes secrets as a Kith did that kept no list: each file with a salt of its own.
    private func fillAsBefore(_ folder: TemporaryFolder, _ seal: FileKeyStore.Seal) throws {
        for (name, secret) in [("identity", [1, 2, 3]), ("groups", [4])] as [(String, [UInt8])] {
            let salt = (0..<16).map { _ in UInt8.random(in: 0 ... .max) }
            let key: SymmetricKey
            var header = Array("kithkey1".utf8)
            switch seal {
            case .machineKey:
                if !SecretFile.exists("\(folder.path)/machine.key") {
                    try folder.write((0..<32).map { _ in UInt8.random(in: 0 ... .max) }, to: "machine.key")
                }
                key = SymmetricKey(data: try folder.bytes("machine.key"))
                header += [1, 0] + [UInt8](repeating: 0, count: 16)
            case .passphrase(let passphrase, let cost):
                key = try FileKeyStore.StretchedKeys().key(of: passphrase, salt, cost).key
                header += [2, UInt8(cost)] + salt
            default: throw KithError(.invalid, "Not made here.")
            }
            let box = try ChaChaPoly.seal(secret, using: key, authenticating: header + Array(name.utf8))
            try folder.write(header + Array(box.combined), to: "\(name).sealed")
        }
    }

    @Test(arguments: [FileKeyStore.Seal.machineKey, .passphrase(secret("old"), cost: 10)])
    func `a folder of an older Kith opens, and its first change makes the list`(seal: FileKeyStore.Seal) throws {
        let folder = try TemporaryFolder()
        try fillAsBefore(folder, seal)
        let files = try folder.files()
        let before = try files.map { try folder.bytes($0) }
        let store = FileKeyStore(directory: folder.path, seal: seal)
        #expect(try holdsAll(store))
        #expect(try store.secretNames() == ["groups", "identity"])
        #expect(try store.generation() == 0)
        #expect(try !store.add([9], named: "groups"))
        #expect(try folder.files() == files, "reading writes nothing")
        // A wrong passphrase makes no list that would keep the right one out.
        let wrong = passphrase("wrong", in: folder)
        #expect(throws: KithError(.denied, "")) { try wrong.store([1], named: "new") }
        #expect(try folder.files() == files)
        // Killed at any step of the first change.
        let now = Dictionary(uniqueKeysWithValues: zip(files, before))
        for step in try store.steps(storing: [5], named: "new") {
            try step.perform(in: folder.path)
            let left = Dictionary(uniqueKeysWithValues: try folder.files().map { ($0, try folder.bytes($0)) })
            let again = FileKeyStore(directory: folder.path, seal: seal)
            #expect(try holdsAll(again))
            for name in try folder.files() where left[name] == nil { try SecretFile.remove("\(folder.path)/\(name)") }
            for (name, bytes) in left { try folder.write(bytes, to: name) }
        }
        #expect(try store.generation() == 1)
        #expect(try store.secretNames() == ["groups", "identity", "new"])
        #expect(try holdsAll(store))
        // From now on a file as it was before is an older one.
        for (name, bytes) in now where name != "machine.key" {
            let newer = try folder.bytes(name)
            try folder.write(bytes, to: name)
            #expect(throws: KithError(.corrupt, "")) { _ = try store.secret(named: "identity") }
            try folder.write(newer, to: name)
        }
        #expect(try holdsAll(store))
    }

    @Test func `a higher cost seals all anew, a lower one nothing`() throws {
        let folder = try TemporaryFolder()
        _ = try fill(folder, .passphrase(secret("p"), cost: 10))
        let higher = FileKeyStore(directory: folder.path, seal: .passphrase(secret("p"), cost: 11))
        try higher.store([4], named: "groups")
        #expect(try ["groups", "identity", "index"].map { try folder.bytes("\($0).sealed")[9] } == [11, 11, 11])
        #expect(try holdsAll(passphrase("p", in: folder)))
        try passphrase("p", in: folder).store([4], named: "groups")
        #expect(try folder.bytes("groups.sealed")[9] == 11)
        #expect(try holdsAll(higher))
    }
}
