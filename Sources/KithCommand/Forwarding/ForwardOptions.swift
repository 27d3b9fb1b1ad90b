import ArgumentParser
import KithAPI
import KithForward
import KithWire
import Synchronization

/// The forwards a command may keep up while it lasts, as ssh names them.
struct ForwardOptions: ParsableArguments {
    @Option(
        name: .customShort("L", allowingJoined: true),
        help: ArgumentHelp(
            "Listen here, connect from the device (repeatable).", valueName: "[bind:]port:host:hostport"))
    var local: [String] = []

    @Option(
        name: .customShort("R", allowingJoined: true),
        help: ArgumentHelp(
            "Listen on the device, connect from here (repeatable); a port alone is a proxy here.",
            valueName: "[bind:]port:host:hostport"))
    var remote: [String] = []

    @Option(
        name: .customShort("D", allowingJoined: true),
        help: ArgumentHelp(
            "Listen here as a SOCKS5 and HTTP proxy on the device (repeatable).", valueName: "[bind:]port"))
    var dynamic: [String] = []

    /// The forwards, in the order of the options' kinds.
    func forwards() throws -> ForwardSet {
        ForwardSet(
            try local.map { try Self.rule(.local, $0) } + remote.map { try Self.rule(.remote, $0) }
                + dynamic.map { try Self.rule(.dynamic, $0) })
    }

    /// Reads one; a wrong one is a wrong command line.
    private static func rule(_ option: Forward.Rule.Option, _ text: String) throws -> Forward.Rule {
        do throws(KithError) {
            return try Forward.Rule(option, parsing: text)
        } catch {
            throw ValidationError(error.message)
        }
    }
}

extension ForwardSet {
    /// Keeps them up while something runs that ends with an exit status.
    ///
    /// When this device stops meanwhile, what runs is left to find out and end by itself; its status counts.
    func status(
        whileUp device: String, client: Client, _ body: @escaping @Sendable (Forward.Running) async throws -> Int32
    ) async throws -> Int32 {
        let ended = EndedStatus()
        do {
            return try await whileUp(to: device, client: client) { running in
                let status = try await body(running)
                ended.set(status)
                return status
            }
        } catch let error as KithError where error.code == .closed {
            guard let status = ended.value else { throw error }
            return status
        }
    }
}

/// The exit status of a command, once it has ended.
private final class EndedStatus: Sendable {
    private let status = Mutex<Int32?>(nil)
    var value: Int32? { status.withLock { $0 } }
    func set(_ value: Int32) { status.withLock { $0 = value } }
}
