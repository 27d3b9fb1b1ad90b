import KithIO
import KithIdentity
import KithWire
import Logging
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#endif

#if os(Linux)

/// Avahi, by the system's message bus: where both run, this device is a service of the local network.
///
/// It asks and never waits for an answer; nothing here blocks, and no library is needed.
final class AvahiResponder: ServiceResponder {
    private struct State {
        var engine: AvahiEngine
        /// The connection, once it is open to messages.
        var descriptor: Int32?
    }

    /// The time after which a bus that was not there is looked for again.
    private static let pause = Duration.seconds(30)
    /// The time a goodbye takes: Avahi waits up to a quarter of a second with what it says.
    private static let farewell = Duration.milliseconds(400)

    private let path: String?
    private let clock: any Ticker
    private let heard: @Sendable (String, [[UInt8]], UInt32) -> Void
    private let changed: @Sendable (AvahiEngine.Presence) -> Void
    private let logger: Logger
    private let mutex: Mutex<State>

    /// Makes one for the bus at an address, or else at the one that the environment names.
    ///
    /// `device` returns the paired device that a service is of, if it is to be asked about on an interface; `heard` takes
    /// what a service says, which anybody can have written; `changed` hears whether Avahi serves this device.
    init(
        bus address: String?, clock: any Ticker, logger: Logger,
        device: @escaping @Sendable (String, UInt32) -> DeviceID?,
        heard: @escaping @Sendable (String, [[UInt8]], UInt32) -> Void,
        changed: @escaping @Sendable (AvahiEngine.Presence) -> Void
    ) {
        let usual = unsafe getenv("DBUS_SYSTEM_BUS_ADDRESS").map { unsafe String(cString: $0) }
        path = Self.busPath(address ?? usual)
        self.clock = clock
        self.logger = logger
        self.heard = heard
        self.changed = changed
        mutex = Mutex(State(engine: AvahiEngine(device: device)))
    }

    /// The path in a bus address; the system's usual one without an address, `nil` for a bus elsewhere.
    static func busPath(_ address: String?) -> String? {
        guard let address, !address.isEmpty else { return "/run/dbus/system_bus_socket" }
        for one in address.split(separator: ";") where one.hasPrefix("unix:") {
            for pair in one.dropFirst(5).split(separator: ",") where pair.hasPrefix("path=") {
                // An escaped one is not understood, and so not found.
                return String(pair.dropFirst(5))
            }
        }
        return nil
    }

    var presence: AvahiEngine.Presence { mutex.withLock { $0.engine.presence } }

    var state: LocalDiscovery.Responder {
        mutex.withLock { $0.engine.problem }.map { .unavailable($0) } ?? .registered
    }

    func publish(_ records: [ServiceRecord]) { act { $0.publish(records) } }

    func examine(isNew: Bool) { act { $0.examine() } }

    /// Avahi follows the interfaces itself.
    func use(_ interfaces: [NetworkInterface]) {}

    func leave(_ records: [ServiceRecord]) async {
        guard act({ $0.update(records) }) else { return }
        // Ends early only when cancelled.
        try? await clock.sleep(for: Self.farewell)
    }

    func run(on reactor: Reactor) async {
        var last: String?
        while !Task.isCancelled {
            let why = await converse(on: reactor)
            act { engine in
                engine.disconnected(why)
                return []
            }
            if why != last { logger.debug("no DNS-SD responder is used", metadata: ["why": "\(why)"]) }
            last = why
            // Ends early only when cancelled.
            try? await clock.sleep(for: Self.pause)
        }
    }

    /// Talks on one connection until it ends; returns why it did.
    private func converse(on reactor: Reactor) async -> String {
        guard let path else { return "the message bus is not on this machine" }
        let connection: DBusConnection
        do {
            connection = try DBusConnection(path: path, on: reactor)
        } catch {
            return "no message bus answers at \(path): \(error)"
        }
        defer { mutex.withLock { $0.descriptor = nil } }
        do {
            try connection.send(Array("\0AUTH EXTERNAL \(Self.hexadecimal("\(geteuid())"))\r\n".utf8))
            guard try await connection.line().starts(with: "OK ".utf8) else {
                return "the message bus does not admit this user"
            }
            try connection.send(Array("BEGIN\r\n".utf8))
            mutex.withLock { $0.descriptor = connection.descriptor }
            act { $0.start() }
            while let bytes = try await connection.message() {
                let message = try DBusMessage(bytes)
                act { $0.received(message) }
            }
            return "the message bus has ended"
        } catch {
            return "the message bus failed: \(error)"
        }
    }

    private static func hexadecimal(_ text: String) -> String {
        text.utf8.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }.joined()
    }

    /// Asks the engine, and does what it says; returns whether something was sent.
    ///
    /// What is sent is in the order in which the engine said it.
    @discardableResult private func act(_ body: (inout AvahiEngine) -> [AvahiEngine.Action]) -> Bool {
        let (texts, hasSent, presence) = mutex.withLock { state in
            var texts: [AvahiEngine.Action] = []
            var hasSent = false
            let before = state.engine.presence
            let actions = body(&state.engine)
            let presence = state.engine.presence == before ? nil : state.engine.presence
            guard let descriptor = state.descriptor else { return (texts, false, presence) }
            for action in actions {
                switch action {
                case .heard: texts.append(action)
                case .send(let bytes):
                    guard state.descriptor != nil else { continue }
                    hasSent = DBusConnection.send(bytes, to: descriptor)
                    // Its reader sees that it has ended, and begins anew.
                    if !hasSent { state.descriptor = nil }
                }
            }
            return (texts, hasSent, presence)
        }
        for case .heard(let service, let data, let interface) in texts {
            // What is no text counts as one that says nothing.
            heard(service, ServiceRecord.strings(in: data) ?? [], interface)
        }
        if let presence { changed(presence) }
        return hasSent
    }
}
#endif
