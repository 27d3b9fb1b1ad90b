import CKithSystem
import KithIO
package import KithReach
package import KithWire

/// Follows the interfaces of this machine (Linux: rtnetlink; elsewhere it looks once a second).
public enum NetworkMonitor {
    /// How long news is collected: one change of address is several messages.
    private static let settling = Duration.milliseconds(10)
    /// How often the interfaces are looked at where the system tells of no change.
    private static let polling = Duration.seconds(1)

    /// Calls `body` with the running interfaces now, and whenever they are others, until the task is cancelled.
    public static func follow(_ body: ([NetworkInterface]) async -> Void) async {
        await follow(on: ContinuousClock(), body)
    }

    package static func follow(on clock: any Ticker, _ body: ([NetworkInterface]) async -> Void) async {
        let socket = NewsSocket(kith_network_watch())
        var last: [NetworkInterface]?
        while !Task.isCancelled {
            let interfaces = NetworkInterface.all
            if interfaces != last {
                last = interfaces
                await body(interfaces)
            }
            if let socket {
                await socket.wait()
                // Ends early only when cancelled.
                try? await clock.sleep(for: settling)
            } else {
                try? await clock.sleep(for: polling)
            }
        }
    }

    /// Calls `body` with the options of router advertisements that the system leaves to programs, as they come, until the
    /// task is cancelled; returns at once where the system does not pass them on (it does on Linux).
    package static func followRouterOptions(_ body: ([RouterOption]) -> Void) async {
        guard let socket = NewsSocket(kith_network_router_options()) else { return }
        while !Task.isCancelled {
            let options = RouterOption.all(in: await socket.next())
            if !options.isEmpty { body(options) }
        }
    }
}

/// A descriptor that can be read when something of the network has changed.
private final class NewsSocket: Sendable {
    private let descriptor: Int32
    private let watch: Watch

    /// Takes a descriptor over; `nil` where the system gives none, which is a negative number then.
    init?(_ descriptor: Int32) {
        guard descriptor >= 0 else { return nil }
        guard let reactor = try? Reactor(name: "kith network"), let watch = try? reactor.watch(descriptor) else {
            kith_socket_close(descriptor)
            return nil
        }
        self.descriptor = descriptor
        self.watch = watch
    }

    deinit {
        watch.close()
        kith_socket_close(descriptor)
    }

    /// Waits for news, and takes all there is.
    func wait() async {
        var hasNews = false
        while !Task.isCancelled {
            let (count, _) = read()
            if count > 0 {
                hasNews = true
            } else if hasNews || !SystemError(Int32(clamping: -count)).isWouldBlock {
                // An overflow of its buffer is news, too.
                return
            } else {
                await watch.wait(for: .reading)
            }
        }
    }

    /// Waits for news, and returns the first; nothing after an error, and when cancelled.
    func next() async -> [UInt8] {
        while !Task.isCancelled {
            let (count, bytes) = read()
            if count > 0 { return bytes }
            guard SystemError(Int32(clamping: -count)).isWouldBlock else { return [] }
            await watch.wait(for: .reading)
        }
        return []
    }

    private func read() -> (count: Int, bytes: [UInt8]) {
        var buffer = [UInt8](repeating: 0, count: 16 << 10)
        let count = unsafe buffer.withUnsafeMutableBytes {
            unsafe kith_stream_receive(descriptor, $0.baseAddress, $0.count)
        }
        return (count, Array(buffer.prefix(max(0, count))))
    }
}
