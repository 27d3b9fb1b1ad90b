import Foundation
import KithIdentity
import KithTrust
import KithWire
import Synchronization

/// The duties of every ``KeyStore``, each of which a test runs over an empty ``KeyStorePlace`` of its own.
public enum KeyStoreConformance: String, CaseIterable, Sendable {
    case findsReplacesForgets = "what is stored is found, replaced and forgotten by its name"
    case bounds = "a secret has 0 to 4096 bytes, and one that is refused leaves what was there"
    case names = "a name is no path"
    case lists = "the names of all secrets are listed in order"
    case lasts = "whoever opens the store later finds what was stored"
    case makesOneKey = "the device's key is made once"
    case addsOnce = "of all that add a secret of one name at once, one does, and nothing of the others is seen"
    case isShared = "secrets that many threads read and replace are always whole"
    case refusesWrongKey = "a wrong key is an error that changes nothing"
    case refusesDamage = "damage is an error that changes nothing, and no new key is made"
    case survivesKill = "killed at any step of a change, it holds all as before or all anew, and goes on"
    case noticesMixtures = "a part that is put back from before, or taken away, is an error that changes nothing"
    case counts = "where changes are counted the number grows with each, and says which of two copies is older"
    case holdsRing = "a key ring opens with the key from the store, never with another's, nor in an older form"

    /// A duty that is not done.
    public struct Failure: Error, CustomStringConvertible {
        /// A sentence for a person.
        public let description: String
    }

    /// Checks one duty.
    ///
    /// - Throws: ``Failure``, and what the store says where it should not have.
    public func run(in place: any KeyStorePlace) throws {
        switch self {
        case .findsReplacesForgets: try findReplaceForget(try place.open())
        case .bounds: try bound(try place.open())
        case .names: try name(place)
        case .lists: try list(try place.open())
        case .lasts: try last(place)
        case .makesOneKey: try makeOneKey(place)
        case .addsOnce: try addOnce(place)
        case .isShared: try share(place)
        case .refusesWrongKey: try refuseWrongKey(place)
        case .refusesDamage: try refuseDamage(place)
        case .survivesKill: try surviveKill(place)
        case .noticesMixtures: try noticeMixtures(place)
        case .counts: try count(place)
        case .holdsRing: try holdRing(place)
        }
    }

    private func require(_ condition: Bool, _ what: @autoclosure () -> String) throws {
        guard condition else { throw Failure(description: "Not so: \(rawValue) (\(what()))") }
    }

    /// Requires an error with one of these codes.
    private func requireError(
        _ codes: [KithError.Code], _ what: String, _ body: () throws(KithError) -> Void
    ) throws {
        do throws(KithError) {
            try body()
        } catch {
            return try require(codes.contains(error.code), "\(what): \(error)")
        }
        try require(false, "\(what): no error")
    }

    // MARK: - Secrets

    private func findReplaceForget(_ store: any KeyStore) throws {
        try require(try store.secret(named: "a") == nil, "it is there before it is stored")
        try store.removeSecret(named: "a")
        try store.store([1, 2, 3], named: "a")
        try store.store([], named: "b.c-D")
        try require(try store.secret(named: "a") == [1, 2, 3], "a")
        try require(try store.secret(named: "b.c-D") == [], "an empty one")
        try store.store([9], named: "a")
        try require(try store.secret(named: "a") == [9], "replaced by a shorter one")
        try require(try store.secret(named: "A") == nil, "a name in other letters is another")
        try store.removeSecret(named: "a")
        try require(try store.secret(named: "a") == nil, "forgotten")
        try require(try store.secret(named: "b.c-D") == [], "the other one")
        try store.store([4, 0, 255], named: "a")
        try require(try store.secret(named: "a") == [4, 0, 255], "stored again")
    }

    private func bound(_ store: any KeyStore) throws {
        let largest = (0..<4_096).map { UInt8(truncatingIfNeeded: $0 &* 167) }
        for secret in [[], [0], [10], largest] {
            try store.store(secret, named: "a")
            try require(try store.secret(named: "a") == secret, "\(secret.count) bytes")
        }
        try requireError([.invalid], "4097 bytes") { () throws(KithError) in
            try store.store(largest + [0], named: "a")
        }
        try require(try store.secret(named: "a") == largest, "what was there")
        try requireError([.invalid], "4097 bytes added") { () throws(KithError) in
            _ = try store.add(largest + [0], named: "b")
        }
        try require(try store.add(largest, named: "b"), "4096 bytes added")
        try require(try store.secret(named: "b") == largest, "what was added")
    }

    private func name(_ place: any KeyStorePlace) throws {
        let store = try place.open()
        for name in [
            "", "..", ".", ".a", "a/b", "../a", "/etc/passwd", "a b", "é", "a\0", String(repeating: "a", count: 65),
        ] {
            try requireError([.invalid], "store \(name)") { () throws(KithError) in try store.store([1], named: name) }
            try requireError([.invalid], "add \(name)") { () throws(KithError) in
                _ = try store.add([1], named: name)
            }
            try requireError([.invalid], "read \(name)") { () throws(KithError) in _ = try store.secret(named: name) }
            try requireError([.invalid], "remove \(name)") { () throws(KithError) in
                try store.removeSecret(named: name)
            }
        }
        try require(try place.contents().isEmpty, "something was stored")
        for name in [String(repeating: "a", count: 64), "Z-9.x"] {
            try store.store([1], named: name)
            try require(try store.secret(named: name) == [1], name)
        }
    }

    private func list(_ store: any KeyStore) throws {
        try require(try store.secretNames() == [], "none")
        for name in ["b", "a.b", "a", "C"] { try store.store([1], named: name) }
        try store.store([2], named: "a")
        try require(try store.secretNames() == ["C", "a", "a.b", "b"], "all")
        try store.removeSecret(named: "a")
        try require(try store.secretNames() == ["C", "a.b", "b"], "without the one that was removed")
    }

    private func last(_ place: any KeyStorePlace) throws {
        try place.open().store([1, 2], named: "a")
        try place.open().store([3], named: "b")
        try require(try place.open().secret(named: "a") == [1, 2], "a")
        try place.open().removeSecret(named: "a")
        try require(try place.open().secret(named: "a") == nil, "removed")
        try require(try place.open().secretNames() == ["b"], "b")
    }

    // MARK: - Keys

    private func makeOneKey(_ place: any KeyStorePlace) throws {
        let store = try place.open()
        try require(try store.storedDeviceKey() == nil, "it is there before it is made")
        let key = try store.deviceKey()
        try require(try store.deviceKey().id == key.id, "found again")
        try require(try store.deviceKey(named: "other").id != key.id, "another name, another key")
        try require(try place.open().deviceKey().id == key.id, "found by whoever opens it later")
    }

    private func addOnce(_ place: any KeyStorePlace) throws {
        let store = try place.open()
        try require(try store.add([1, 2], named: "a"), "there was none")
        try require(try !store.add([3], named: "a"), "there was one")
        try require(try !store.add([1, 2], named: "a"), "there was the same")
        try require(try place.open().secret(named: "a") == [1, 2], "it stayed")
        try require(try store.add([], named: "b"), "an empty one")
        try require(try !store.add([4], named: "b"), "there was an empty one")
        try store.removeSecret(named: "a")
        try require(try store.add([5], named: "a"), "it was removed")
        try require(try store.secret(named: "a") == [5], "added again")
        try require(try store.secretNames() == ["a", "b"], "the names")

        let added = Mutex<[Result<Int?, any Error>]>([])
        let keys = Mutex<[Result<DeviceID, any Error>]>([])
        DispatchQueue.concurrentPerform(iterations: 8) { thread in
            let number = Result {
                try place.open().add([UInt8](repeating: UInt8(thread), count: 1_000), named: "one") ? thread : nil
            }
            let key = Result { try place.open().deviceKey().id }
            added.withLock { $0.append(number) }
            keys.withLock { $0.append(key) }
        }
        let winners = try added.withLock { try $0.compactMap { try $0.get() } }
        try require(winners.count == 1, "\(winners.count) added it")
        try require(
            try place.open().secret(named: "one") == winners.first.map { [UInt8](repeating: UInt8($0), count: 1_000) },
            "not what was added is there")
        let ids = try keys.withLock { Set(try $0.map { try $0.get() }) }
        try require(ids == [try place.open().deviceKey().id], "\(ids.count) keys of the device")
    }

    private func share(_ place: any KeyStorePlace) throws {
        let first: Mutex<(any Error)?> = Mutex(nil)
        // Of 1,000 equal bytes: half of one and half of another is seen.
        @Sendable func secret(_ value: Int) -> [UInt8] {
            [UInt8](repeating: UInt8(truncatingIfNeeded: value), count: 1_000)
        }
        try place.open().store(secret(0), named: "shared")
        DispatchQueue.concurrentPerform(iterations: 6) { thread in
            do {
                let store = try place.open()
                for round in 1...6 {
                    try store.store(secret(thread * 16 + round), named: "shared")
                    try store.store(secret(round), named: "own-\(thread)")
                    let shared = try store.secret(named: "shared") ?? []
                    try require(shared.count == 1_000 && Set(shared).count == 1, "the shared one")
                    try require(try store.secret(named: "own-\(thread)") == secret(round), "a thread's own")
                }
            } catch {
                first.withLock { $0 = $0 ?? error }
            }
        }
        if let error = first.withLock({ $0 }) { throw error }
        try require(try place.open().secretNames() == (0..<6).map { "own-\($0)" } + ["shared"], "the names")
    }

    private func refuseWrongKey(_ place: any KeyStorePlace) throws {
        let id = try place.open().deviceKey(named: "a").id
        guard let wrong = try place.openWithWrongKey() else { return }
        let before = try place.contents()
        try requireRefusal(by: wrong, "the wrong key")
        try require(try place.contents() == before, "it was changed")
        try require(try place.open().deviceKey(named: "a").id == id, "the right key")
    }

    private func refuseDamage(_ place: any KeyStorePlace) throws {
        let id = try place.open().deviceKey(named: "a").id
        let before = try place.contents()
        for damaged in try place.damagedContents(ofSecretNamed: "a") {
            try place.replaceContents(by: damaged.contents)
            try requireRefusal(by: try place.open(), damaged.damage)
            try require(try place.contents() == damaged.contents, "\(damaged.damage): it was changed")
        }
        try place.replaceContents(by: before)
        try require(try place.open().deviceKey(named: "a").id == id, "restored")
    }

    /// Requires that the secret "a" is there, cannot be read, and has nothing made in its place.
    private func requireRefusal(by store: any KeyStore, _ what: String) throws {
        for _ in 0..<2 {
            try requireError([.corrupt, .denied], what) { () throws(KithError) in _ = try store.secret(named: "a") }
            try requireError([.corrupt, .denied], what) { () throws(KithError) in _ = try store.deviceKey(named: "a") }
        }
        var isAdded = false
        do throws(KithError) {
            isAdded = try store.add([1], named: "a")
        } catch {
            try require([.corrupt, .denied].contains(error.code), "\(what): \(error)")
        }
        try require(!isAdded, "\(what): another was added")
    }

    // MARK: - Contents of other times

    private func surviveKill(_ place: any KeyStorePlace) throws {
        try place.open().store([1], named: "a")
        try place.open().store([2], named: "b")
        let before = try place.contents()
        let old: [String: [UInt8]] = ["a": [1], "b": [2]]
        let changes: [(name: String, secret: [UInt8]?)] = [("a", [9, 9]), ("c", [3]), ("b", nil)]
        for (name, secret) in changes {
            try place.replaceContents(by: before)
            var new = old
            new[name] = secret
            var isDone = false
            for (step, left) in try place.interruptedContents(storing: secret, named: name).enumerated() {
                let what = "\(name), step \(step)"
                try place.replaceContents(by: left)
                let found = try place.open().allSecrets()
                try require(found == old || found == new, "\(what): \(found)")
                try require(!isDone || found == new, "\(what): undone")
                isDone = found == new
                try place.open().store([7], named: "d")
                try require(try place.open().allSecrets() == found.merging(["d": [7]]) { $1 }, "\(what): goes on")
                let rest = try place.contents().keys.filter { $0.hasSuffix(".new") || $0.hasSuffix(".pending") }
                try require(rest.isEmpty, "\(what): \(rest)")
            }
            try require(
                isDone || (try place.interruptedContents(storing: nil, named: "b")).isEmpty, "\(name): not done")
        }
    }

    private func noticeMixtures(_ place: any KeyStorePlace) throws {
        guard place.noticesMixtures else { return }
        var earlier: [[String: [UInt8]]] = []
        let changes: [(name: String, secret: [UInt8]?)] = [
            ("a", [1]), ("a", [2]), ("b", [3]), ("b", nil), ("c", [4]), ("c", [5]),
        ]
        for (name, secret) in changes {
            let store = try place.open()
            if let secret { try store.store(secret, named: name) } else { try store.removeSecret(named: name) }
            earlier.append(try place.contents())
        }
        let now = earlier.removeLast()
        for (age, before) in ([[:]] + earlier).enumerated() {
            let differing = Set(before.keys).union(now.keys).filter { before[$0] != now[$0] }.sorted()
            // Any of them put back, but neither none nor all; any one taken away.
            for chosen in 1..<max(1, 1 << differing.count - 1) where age > 0 || chosen.nonzeroBitCount == 1 {
                var mixture = now
                for (bit, part) in differing.enumerated() where chosen >> bit & 1 == 1 { mixture[part] = before[part] }
                let what = "\(differing) of time \(age), mixture \(chosen)"
                try place.replaceContents(by: mixture)
                try requireMixtureNoticed(by: place.open(), what)
                try require(try place.contents() == mixture, "\(what): it was changed")
            }
        }
        try place.replaceContents(by: now)
        try require(try place.open().allSecrets() == ["a": [2], "c": [5]], "restored")
    }

    private func requireMixtureNoticed(by store: any KeyStore, _ what: String) throws {
        let codes: [KithError.Code] = [.corrupt, .denied]
        for name in ["a", "b", "c"] {
            try requireError(codes, "\(what), read \(name)") { () throws(KithError) in
                _ = try store.secret(named: name)
            }
            try requireError(codes, "\(what), store \(name)") { () throws(KithError) in
                try store.store([6], named: name)
            }
            try requireError(codes, "\(what), add \(name)") { () throws(KithError) in
                _ = try store.add([6], named: name)
            }
            try requireError(codes, "\(what), remove \(name)") { () throws(KithError) in
                try store.removeSecret(named: name)
            }
        }
        try requireError(codes, "\(what), names") { () throws(KithError) in _ = try store.secretNames() }
        try requireError(codes, "\(what), generation") { () throws(KithError) in _ = try store.generation() }
    }

    private func count(_ place: any KeyStorePlace) throws {
        guard var last = try place.open().generation() else { return }
        try require(last == 0, "nothing was changed yet")
        var copies: [(generation: UInt64, contents: [String: [UInt8]])] = []
        func changed(_ what: String) throws {
            let next = try place.open().generation() ?? 0
            try require(next > last, "\(what): \(next) after \(last)")
            last = next
            copies.append((next, try place.contents()))
        }
        try place.open().store([1], named: "a")
        try changed("stored")
        try place.open().store([1], named: "a")
        try changed("stored again")
        try require(try place.open().add([2], named: "b"), "b is there")
        try changed("added")
        try place.open().removeSecret(named: "b")
        try changed("removed")
        // What changes nothing does not count.
        try place.open().removeSecret(named: "b")
        try require(try !place.open().add([2], named: "a"), "a is not there")
        _ = try place.open().secret(named: "a")
        try require(try place.open().generation() == last, "counted without a change")
        // A whole copy agrees with itself, and says how old it is.
        for copy in copies {
            try place.replaceContents(by: copy.contents)
            try require(try place.open().secret(named: "a") == [1], "a whole copy")
            try require(try place.open().generation() == copy.generation, "the age of a copy")
        }
    }

    private func holdRing(_ place: any KeyStorePlace) throws {
        var ring = KeyRing()
        try ring.hold(RootKey())
        let first = try ring.sealed(by: place.open().deviceKey(), generation: 1)
        try ring.add(NetworkKey(named: KeyLabel("home")))
        let second = try ring.sealed(by: place.open().deviceKey(), generation: 2)
        let key = try place.open().deviceKey()
        let opened = try KeyRing(second, by: key, generation: 2)
        try require(opened.root?.publicKey == ring.root?.publicKey, "the root key")
        try require(opened.networks.map(\.id) == ring.networks.map(\.id), "the networks")
        let other = try place.open().deviceKey(named: "other")
        for (what, sealed, key) in [
            ("rolled back", first, key), ("another device's key", second, other),
            ("cut off", Array(second.dropLast()), key), ("empty", [], key),
        ] {
            try requireError([.corrupt], what) { () throws(KithError) in
                _ = try KeyRing(sealed, by: key, generation: 2)
            }
        }
    }
}

extension KeyStoreConformance: CustomStringConvertible {
    /// The duty, in a sentence.
    public var description: String { rawValue }
}
