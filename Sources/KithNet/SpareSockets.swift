import CKithSystem
import KithWire
import NIOCore

/// Sockets opened for a while to be found by chance behind a NAT: see ``Puncher``.
///
/// They carry nothing but probes. One by which a path is found becomes a socket like the others, for as long as a
/// connection is at it; the others are closed at once, because home routers hold few mappings.
struct SpareSockets {
    /// The most that are open at a time, whoever wants them.
    static let limit = 256
    /// The part of the descriptors this process may have that is left to everything else.
    private static let reserve = 512

    /// The sockets by number.
    var open: [UInt32: UDPSocket] = [:]
    /// Those that are about to be open.
    var opening = 0

    /// The number of sockets one attempt may use.
    static let count = min(limit, max(0, Int(kith_descriptor_limit()) - reserve))
}

extension EndpointDriver {
    /// Opens a socket beside another one, at any port.
    ///
    /// `then` gets `nil` when there are enough, or the system gives none.
    func openSpare(like socket: UDPSocket, _ then: @escaping @Sendable (UDPSocket?) -> Void) {
        guard !isClosing, spares.open.count + spares.opening < SpareSockets.count else { return then(nil) }
        var address = socket.address
        address.port = 0
        // A small buffer: what comes is counted in datagrams.
        guard let bound = try? UDPSocket.open(at: address, buffer: 64 << 10) else { return then(nil) }
        spares.opening += 1
        start(bound) { [weak self] socket in
            self?.spares.opening -= 1
            if let self, let socket { self.spares.open[socket.number] = socket }
            then(socket)
        }
    }

    /// Closes spare sockets.
    func closeSpares(_ numbers: some Sequence<UInt32>) {
        for number in numbers {
            guard let socket = spares.open.removeValue(forKey: number) else { continue }
            socket.close()
            for driver in Array(drivers.values) { driver.spareIsGone(number) }
        }
    }

    /// Makes a spare socket one like the others, until no connection is at it any more.
    func keepSpare(_ number: UInt32) {
        guard let socket = spares.open.removeValue(forKey: number) else { return }
        sockets.append(socket)
        closeWhenUnused([socket])
    }
}
