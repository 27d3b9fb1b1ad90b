import CKithSystem
import KithIO
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
        let socket = NewsSocket()
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
}

/// A descriptor that can be read when something of the network has changed.
private final class NewsSocket: Sendable {
    private let descriptor: Int32
    private let watch: Watch

    /// Opens it; `nil` where the system tells of no changes, or gives no descriptor.
    init?() {
        let descriptor = kith_network_watch()
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
        var buffer = [UInt8](repeating: 0, count: 16 << 10)
        while !Task.isCancelled {
            let count = unsafe buffer.withUnsafeMutableBytes {
                unsafe kith_stream_receive(descriptor, $0.baseAddress, $0.count)
            }
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
}
