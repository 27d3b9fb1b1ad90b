#if os(Linux)
import Foundation
import KithIdentity
import KithTesting
import KithWire
import Testing

/// Keys in a real keyring: GNOME's, on a bus of its own.
@Suite(
    .enabled(if: PrivateKeyring.obstacle == nil, "gnome-keyring is not installed: scripts/bootstrap --test does that"))
struct SecretServiceTests {
    private func requireError(
        _ code: KithError.Code, _ hint: String, sourceLocation: SourceLocation = #_sourceLocation,
        _ body: @escaping @Sendable () throws(KithError) -> Void
    ) async throws {
        let error: KithError? = await onThread {
            do throws(KithError) {
                try body()
                return nil
            } catch {
                return error
            }
        }
        #expect(
            error?.code == code && error?.message.contains(hint) == true, "\(error as Any)",
            sourceLocation: sourceLocation)
    }

    /// Requires that every call fails.
    private func requireErrors(_ code: KithError.Code, _ hint: String, from store: any KeyStore) async throws {
        try await requireError(code, hint) { () throws(KithError) in _ = try store.secret(named: "a") }
        try await requireError(code, hint) { () throws(KithError) in try store.store([9], named: "a") }
        try await requireError(code, hint) { () throws(KithError) in try store.store([9], named: "new") }
        try await requireError(code, hint) { () throws(KithError) in _ = try store.add([9], named: "new") }
        try await requireError(code, hint) { () throws(KithError) in try store.removeSecret(named: "a") }
        try await requireError(code, hint) { () throws(KithError) in _ = try store.secretNames() }
        try await requireError(code, hint) { () throws(KithError) in _ = try store.deviceKey() }
    }

    @Test func `the keyring, and files sealed by a key in it, do as every store does`() async throws {
        let keyring = try await PrivateKeyring()
        try await keyring.start()
        try await onThread { () throws in
            for check in KeyStoreConformance.allCases {
                try check.run(in: SecretServicePlace(in: keyring))
                try check.run(in: FileKeyStorePlace(keysIn: SecretServicePlace(in: keyring)))
            }
        }
    }

    @Test func `of programs that add a secret at once one does, and one that is killed meanwhile keeps nobody out`()
        async throws
    {
        let keyring = try await PrivateKeyring()
        try await keyring.start()
        let address = keyring.address
        let stores = (0..<4).map { _ in SecretServiceKeyStore(bus: address) }
        for round in 0..<4 {
            let name = "round-\(round)"
            let added = try await withThrowingTaskGroup(of: Int?.self) { group in
                for (number, store) in stores.enumerated() {
                    group.addTask {
                        try await onThread { () throws(KithError) in
                            try store.add([UInt8(number)], named: name) ? number : nil
                        }
                    }
                }
                return try await group.reduce(into: [Int]()) { if let number = $1 { $0.append(number) } }
            }
            #expect(added.count == 1)
            let found = try await onThread { () throws(KithError) in try stores[0].secret(named: name) }
            #expect(found == added.map { UInt8(truncatingIfNeeded: $0) })
        }
        // A process that is killed while it writes over and over.
        await #expect(processExitsWith: .signal(SIGKILL)) { [address = address as String] in
            let store = SecretServiceKeyStore(bus: address)
            try store.store([0], named: "killed")
            Thread.detachNewThread { kill(getpid(), SIGKILL) }
            while true { try store.store([1], named: "killed") }
        }
        #expect(try await onThread { () throws(KithError) in try stores[1].add([9], named: "later") })
        let killed = try await onThread { () throws(KithError) in try stores[1].secret(named: "killed") }
        #expect([[0], [1]].contains(killed))
    }

    @Test func `without a session, or a keyring in it, one error says what to do, and nothing is made`() async throws {
        try await requireErrors(
            .unreachable, "Log in to the desktop", from: SecretServiceKeyStore(bus: "unix:path=/tmp/kith-no-bus"))
        let keyring = try await PrivateKeyring()
        try await requireErrors(.unreachable, "Start it", from: keyring.store())
        try await keyring.start()
        let store = keyring.store()
        #expect(try await onThread { () throws(KithError) in try store.secretNames() } == [])
    }

    @Test func `a locked keyring is never prompted for, and holds afterwards what it held`() async throws {
        let keyring = try await PrivateKeyring()
        try await keyring.start()
        let store = keyring.store()
        try await onThread { () throws(KithError) in try store.store([1, 2], named: "a") }
        try await keyring.lock()
        try await requireErrors(.denied, "locked", from: store)
        // An item that is not there is not said to be missing either.
        try await requireError(.denied, "locked") { () throws(KithError) in _ = try store.secret(named: "b") }
        try await keyring.kill()
        try await keyring.start()
        #expect(try await onThread { () throws(KithError) in try store.secret(named: "a") } == [1, 2])
        #expect(try await onThread { () throws(KithError) in try store.secretNames() } == ["a"])
    }

    @Test func `a keyring that is killed while it is asked is an error, and has the secret when it is back`()
        async throws
    {
        let keyring = try await PrivateKeyring()
        try await keyring.start()
        let store = keyring.store()
        // One that asks nothing while the keyring is gone finds the next by itself.
        let idle = SecretServiceKeyStore(bus: keyring.address)
        try await onThread { () throws(KithError) in try idle.store([1, 2], named: "a") }
        keyring.suspend()
        async let answer: Result<[UInt8]?, KithError> = onThread {
            Result { () throws(KithError) in try store.secret(named: "a") }
        }
        async let change: Result<Void, KithError> = onThread {
            Result { () throws(KithError) in try store.store([3], named: "a") }
        }
        try await keyring.kill()
        // Whichever came first, the question or the end.
        for error in [await answer.failure, await change.failure] {
            #expect(error.map { [.closed, .unreachable].contains($0.code) } == true, "\(error as Any)")
        }
        try await keyring.start()
        #expect(try await onThread { () throws(KithError) in try store.secret(named: "a") } == [1, 2])
        #expect(try await onThread { () throws(KithError) in try idle.secret(named: "a") } == [1, 2])
    }

    @Test func `what another program made of the items is an error, and stays`() async throws {
        let keyring = try await PrivateKeyring()
        try await keyring.start()
        let store = keyring.store()
        try await onThread { () throws(KithError) in
            try store.store([1], named: "a")
            try store.store([2], named: "b")
            try store.store(text: [UInt8](repeating: 65, count: 10_000), named: "c")
        }
        try await requireError(.corrupt, "more in it") { () throws(KithError) in _ = try store.secret(named: "c") }
        try await keyring.rename(item: 2, to: "a")
        try await requireError(.conflict, "several") { () throws(KithError) in _ = try store.secret(named: "a") }
        try await requireError(.conflict, "several") { () throws(KithError) in try store.store([3], named: "a") }
        try await requireError(.conflict, "several") { () throws(KithError) in _ = try store.add([3], named: "a") }
        try await requireError(.conflict, "several") { () throws(KithError) in try store.removeSecret(named: "a") }
        // And where one is renamed only, it is not what was stored under that name.
        try await keyring.rename(item: 1, to: "d")
        try await requireError(.corrupt, "damaged") { () throws(KithError) in _ = try store.secret(named: "a") }
        try await requireError(.corrupt, "damaged") { () throws(KithError) in _ = try store.secret(named: "d") }
    }

    @Test func `a folder sealed by a key in the keyring does not open without it`() async throws {
        let keyring = try await PrivateKeyring()
        try await keyring.start()
        let folder = try TemporaryFolder()
        let store = FileKeyStore(directory: folder.path, seal: .keyStore(keyring.store()))
        let id = try await onThread { () throws(KithError) in try store.deviceKey().id }
        #expect(try folder.files() == ["identity.sealed", "index.sealed"])
        let file = try folder.bytes("identity.sealed")
        try await keyring.lock()
        try await requireError(.denied, "locked") { () throws(KithError) in _ = try store.deviceKey() }
        try await keyring.kill()
        try await requireError(.unreachable, "Start it") { () throws(KithError) in _ = try store.deviceKey() }
        #expect(try folder.bytes("identity.sealed") == file)
        try await keyring.start()
        #expect(try await onThread { () throws(KithError) in try store.deviceKey().id } == id)
    }
}

extension Result {
    fileprivate var failure: Failure? { if case .failure(let error) = self { error } else { nil } }
}
#endif
