#if os(Linux)
import Foundation
import KithIO
public import KithIdentity
import KithWire
import Synchronization

/// A GNOME keyring of its own, on a session bus of its own, in a folder of its own.
///
/// Both end with it, or with the process of the test, however that ends.
public final class PrivateKeyring: Sendable {
    /// The reason why there can be none here; `nil` when there can.
    public static let obstacle: String? = {
        let missing = [busProgram, program, callProgram].filter { !FileManager.default.isExecutableFile(atPath: $0) }
        return missing.isEmpty ? nil : "\(missing) not installed: scripts/bootstrap --test does that"
    }()

    private static let busProgram = "/usr/bin/dbus-daemon"
    private static let callProgram = "/usr/bin/busctl"
    private static let program = "/usr/bin/gnome-keyring-daemon"
    private let folder: TemporaryFolder
    /// Keeps the bus alive while it is open; the keyring ends with its bus.
    private let lifeline = Pipe()
    private let session: SecretSession
    private let daemon = Mutex<Process?>(nil)

    /// The D-Bus address of the session.
    public var address: String { "unix:path=\(folder.path)/bus" }

    /// The variables of the environment of a program in the session.
    public var environment: [String: String] {
        [
            "DBUS_SESSION_BUS_ADDRESS": address, "HOME": folder.path, "XDG_RUNTIME_DIR": folder.path,
            "XDG_DATA_HOME": folder.path,
        ]
    }

    /// Starts a bus, and no keyring yet.
    public init() async throws {
        folder = try TemporaryFolder()
        // Nothing is started because somebody asks for it: a keyring that is absent stays so.
        let configuration = """
            <busconfig>
              <type>session</type>
              <listen>unix:path=\(folder.path)/bus</listen>
              <auth>EXTERNAL</auth>
              <policy context="default">
                <allow send_destination="*"/>
                <allow receive_sender="*"/>
                <allow own="*"/>
              </policy>
            </busconfig>
            """
        try folder.write(configuration.utf8, to: "bus.conf")
        // Where a container lacks the capability that the installed one has, only a copy without it may be run.
        try folder.write(Data(contentsOf: URL(filePath: Self.program)), to: "keyring-daemon")
        try folder.setMode(0o700, of: "keyring-daemon")
        session = SecretSession(bus: "unix:path=\(folder.path)/bus")
        let bus = Process()
        bus.executableURL = URL(filePath: "/bin/sh")
        bus.arguments = [
            "-c", #""$0" "$@" & read -r line; kill -9 $!"#, Self.busProgram, "--config-file=\(folder.path)/bus.conf",
            "--nofork", "--nopidfile", "--print-address",
        ]
        bus.standardInput = lifeline
        let output = Pipe()
        bus.standardOutput = output
        bus.standardError = FileHandle.nullDevice
        try bus.run()
        // It listens once it says where.
        let line = await onThread { output.fileHandleForReading.availableData }
        guard !line.isEmpty else { throw KithError(.internal, "The bus of a test did not start.") }
    }

    deinit {
        daemon.withLock { $0?.end() }
        // The shell notices at the latest when the process ends.
        try? lifeline.fileHandleForWriting.close()
    }

    /// A store in it; all of them share a connection.
    public func store(_ service: String = "kith") -> SecretServiceKeyStore {
        SecretServiceKeyStore(service: service, in: session)
    }

    /// Starts the keyring and opens it with its password, and waits until it answers.
    public func start() async throws {
        let process = Process()
        process.executableURL = URL(filePath: "\(folder.path)/keyring-daemon")
        process.arguments = ["--foreground", "--unlock", "--components=secrets"]
        process.environment = ProcessInfo.processInfo.environment.merging(environment) { $1 }
        let input = Pipe()
        process.standardInput = input
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        try process.run()
        try input.fileHandleForWriting.write(contentsOf: Data("password".utf8))
        try input.fileHandleForWriting.close()
        daemon.withLock { $0 = process }
        let store = store()
        try await eventually(within: .seconds(60)) {
            try await onThread {
                do throws(KithError) {
                    _ = try store.secretNames()
                    return true
                } catch {
                    // Between its name on the bus and its open keyring.
                    guard [.unreachable, .denied, .closed].contains(error.code) else { throw error }
                    return false
                }
            }
        }
    }

    /// Kills the keyring, and waits until it is gone.
    public func kill() async throws {
        guard
            let process = daemon.withLock({ daemon in
                defer { daemon = nil }
                return daemon
            })
        else { return }
        process.end()
        await onThread { process.waitUntilExit() }
        let store = store()
        // The bus notices by itself.
        try await eventually(within: .seconds(60)) {
            await onThread {
                do throws(KithError) {
                    _ = try store.secretNames()
                    return false
                } catch {
                    return error.code == .unreachable
                }
            }
        }
    }

    /// Stops the keyring in the middle of whatever it does.
    public func suspend() {
        daemon.withLock { if let pid = $0?.processIdentifier { _ = Foundation.kill(pid, SIGSTOP) } }
    }

    /// Locks the keyring.
    public func lock() async throws {
        try await busctl(
            "call", "org.freedesktop.secrets", "/org/freedesktop/secrets", "org.freedesktop.Secret.Service", "Lock",
            "ao", "1", Self.collection)
    }

    /// Gives an item, by its number in the order in which they were made, another name.
    public func rename(item number: Int, service: String = "kith", to name: String) async throws {
        try await busctl(
            "set-property", "org.freedesktop.secrets", "\(Self.collection)/\(number)", "org.freedesktop.Secret.Item",
            "Attributes", "a{ss}", "3", "xdg:schema", "kith.Secret", "service", service, "name", name)
    }

    private static let collection = "/org/freedesktop/secrets/collection/login"

    /// Does what another program of the session could, and what may be done twice.
    private func busctl(_ arguments: String...) async throws {
        // GNOME's keyring (42) now and then does not know a program that has just come.
        for _ in 0..<5 {
            let process = Process()
            process.executableURL = URL(filePath: Self.callProgram)
            process.arguments = ["--address=\(address)"] + arguments
            process.standardOutput = FileHandle.nullDevice
            try process.run()
            await onThread { process.waitUntilExit() }
            if process.terminationStatus == 0 { return }
        }
        throw KithError(.internal, "The keyring of a test refused \(arguments).")
    }
}

/// The items of one service in a ``PrivateKeyring``.
public struct SecretServicePlace: KeyStorePlace {
    private let store: SecretServiceKeyStore

    /// The items of a service of their own.
    public init(in keyring: PrivateKeyring) { store = keyring.store("kith-\(UInt64.random(in: 0 ... .max))") }

    /// Opens the service's items.
    public func open() -> any KeyStore { store }
    /// The keyring has its own key; ``FileKeyStore`` with a key in it has a wrong one.
    public func openWithWrongKey() -> (any KeyStore)? { nil }

    /// The texts of the items.
    public func contents() throws -> [String: [UInt8]] {
        var all: [String: [UInt8]] = [:]
        for name in try store.secretNames() { all[name] = try store.text(named: name) }
        return all
    }

    /// Writes texts into items.
    public func replaceContents(by contents: [String: [UInt8]]) throws {
        for name in try store.secretNames() where contents[name] == nil { try store.removeSecret(named: name) }
        for (name, text) in contents { try store.store(text: text, named: name) }
    }

    /// Each item is for itself.
    public var noticesMixtures: Bool { false }
    /// The keyring's own program writes.
    public func interruptedContents(storing secret: [UInt8]?, named name: String) -> [[String: [UInt8]]] { [] }

    /// What a person, or another program, could make of an item.
    public func damagedContents(ofSecretNamed name: String) throws -> [DamagedContents] {
        let now = try contents()
        guard let text = now[name] else { return [] }
        try store.store([1, 2, 3], named: "other")
        let other = try store.text(named: "other") ?? []
        try replaceContents(by: now)
        let changes: [(String, [UInt8])] = [
            ("empty", []), ("a password", Array("secret".utf8)), ("cut off", Array(text.dropLast(4))),
            ("a letter", text.dropLast(8) + [text[text.count - 8] ^ 1] + text.suffix(7)),
            ("of another form", Array("kith2:".utf8) + text.dropFirst(6)), ("another secret's", other),
            ("without a sum", Array("kith1:".utf8)), ("longer than any", [UInt8](repeating: 65, count: 8_000)),
        ]
        return changes.map { DamagedContents($0.0, now.merging([name: $0.1]) { $1 }) }
    }
}
#endif
