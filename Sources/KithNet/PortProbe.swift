import CKithSystem
package import KithWire
import NIOCore

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// The machine at an address says that nobody listens there (ICMP port unreachable).
package struct PortClosed: Error, Hashable {
    /// Where that is.
    package let address: NetworkAddress

    /// What to tell whoever dialed it.
    var error: KithError { KithError(.unreachable, message, cause: self) }
    var message: String { "The machine at \(address) answers, but no Kith is running there." }
}

/// Asks the machine at an address whether anybody listens there.
///
/// A connected socket of its own sends one byte, which no protocol answers, and another one some time after the first
/// was refused: one refusal is a hint, as where the device is just being started; two are an answer.
/// The system takes a refusal only that quotes this socket's port, which is another one, by chance, each time. The
/// sockets that carry connections never listen to ICMP.
/// `@unchecked Sendable`: touched with the turn of the endpoint's loop only.
final class PortProbe: @unchecked Sendable {
    /// How often it is looked whether word came.
    private static let interval = TimeAmount.milliseconds(25)
    /// How many looks there are in all: what takes longer is not waited for.
    private static let limit = 36

    private let address: NetworkAddress
    private let socket: UDPSocket.Bound
    private let refused: @Sendable () -> Void
    /// How many looks lie between the first refusal and the second byte; nil when one refusal is enough.
    private let pause: Int?
    private var timer: RepeatedTask?
    private var looks = 0
    /// The look before which the second byte is sent; nil until the first was refused.
    private var next: Int?
    private var isSecond = false
    /// Whether any byte was refused.
    private(set) var isRefused = false
    /// Whether it still asks.
    var isAsking: Bool { timer != nil }

    /// Begins to ask; nil where there is no way to `address` at all.
    ///
    /// `refused` is called once, or never: at the second refusal, or at the first where there is no `pause`.
    init?(
        _ address: NetworkAddress, loop: EndpointLoop, pause: Int? = 8, refused: @escaping @Sendable () -> Void
    ) {
        var remote = kith_udp_address(address)
        let descriptor = unsafe kith_network_knock_open(&remote)
        guard descriptor >= 0 else { return nil }
        self.address = address
        self.pause = pause
        self.refused = refused
        socket = UDPSocket.Bound(descriptor: descriptor, features: 0, address: address)
        _ = kith_network_knock(descriptor)  // a failure is heard at the first look, or means nothing
        timer = loop.scheduleRepeatedTask(every: Self.interval) { [weak self] in self?.look() }
    }

    private func look() {
        guard timer != nil else { return }
        looks += 1
        if looks == next {
            isSecond = true
            next = nil
            _ = kith_network_knock(socket.descriptor)
        } else if next == nil, -kith_network_heard(socket.descriptor) == ECONNREFUSED {
            isRefused = true
            guard !isSecond, let pause else {
                stop()
                return refused()
            }
            next = looks + pause
        }
        if looks >= Self.limit { stop() }
    }

    /// Asks no more.
    func stop() {
        guard let timer else { return }
        timer.cancel()
        self.timer = nil
        socket.close()
    }

    deinit { stop() }
}
