import Foundation
import KithRFB
import KithRFBCodecs
import Synchronization

/// A viewer of a VNC server, with our own client: what is compared are the servers.
final class VNCSeat: Seat {
    static let name = "vnc"
    let host: Program
    let desktop: Desktop
    private let (address, port): (UInt32, UInt16)
    private var connection: RFBConnection?

    /// One whose server listens at an IPv4 address.
    init(_ host: Program, _ desktop: Desktop, at address: UInt32, port: UInt16) {
        (self.host, self.desktop, self.address, self.port) = (host, desktop, address, port)
    }

    func connect(_ arrived: @escaping @Sendable (Arrival) -> Void) async throws {
        connection = try RFBConnection(address, port, arrived)
    }

    var pixels: [UInt32] { connection?.pixels ?? [] }

    func disconnect() async { connection?.end() }

    func type(_ symbol: UInt32) async throws { connection?.type(symbol) }
}

/// A connection to a VNC server, on a thread of its own.
private final class RFBConnection: Sendable {
    private let descriptor: Int32
    private let client: Mutex<RFBClient>

    init(_ address: UInt32, _ port: UInt16, _ arrived: @escaping @Sendable (Arrival) -> Void) throws {
        let descriptor = try Self.connected(address, port)
        self.descriptor = descriptor
        var options = RFBClient.Options()
        options.encodings = [.tight, .copyRect, .zrle, .raw]
        let client = try RFBClient(options, jpeg: TurboJPEG())
        self.client = Mutex(client)
        let thread = Thread { [self] in
            var bytes: UInt64 = 0
            var buffer = [UInt8](repeating: 0, count: 1 << 18)
            send()
            while true {
                let count = read(descriptor, &buffer, buffer.count)
                guard count > 0 else { return }
                bytes += UInt64(count)
                let total = bytes
                let arrivals = self.client.withLock { client in
                    // A server that says what makes no sense is out of the measurement.
                    guard (try? client.receive(Array(buffer[..<count]))) != nil else { return [Arrival]() }
                    var arrivals: [Arrival] = []
                    while let event = try? client.nextEvent() {
                        guard case .updated(let region) = event else { continue }
                        let parts = region.rectangles.map { (width: $0.width, height: $0.height, y: $0.y) }
                        arrivals.append(Arrival(parts, bytes: total, isExact: true))
                    }
                    return arrivals
                }
                for arrival in arrivals { arrived(arrival) }
                send()
            }
        }
        thread.start()
    }

    func type(_ symbol: UInt32) {
        client.withLock { client in
            client.sendKey(symbol, isDown: true)
            client.sendKey(symbol, isDown: false)
        }
        send()
    }

    var pixels: [UInt32] { client.withLock { $0.frameBuffer.pixels } }

    func end() { shutdown(descriptor, Int32(SHUT_RDWR)) }

    deinit { close(descriptor) }

    private func send() {
        client.withLock { client in
            let output = client.takeOutput()
            var offset = 0
            while offset < output.count {
                let count = output[offset...].withUnsafeBytes { write(descriptor, $0.baseAddress, $0.count) }
                guard count > 0 else { return }
                offset += count
            }
        }
    }

    private struct NoServer: Error {}

    /// A socket at a port, once somebody listens there.
    private static func connected(_ host: UInt32, _ port: UInt16) throws -> Int32 {
        for _ in 0..<300 {
            let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = port.bigEndian
            address.sin_addr.s_addr = host.bigEndian
            let status = withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                    Glibc.connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
            if status == 0 {
                var isOn: Int32 = 1
                setsockopt(descriptor, Int32(IPPROTO_TCP), TCP_NODELAY, &isOn, socklen_t(MemoryLayout<Int32>.size))
                return descriptor
            }
            close(descriptor)
            usleep(20_000)
        }
        throw NoServer()
    }
}
