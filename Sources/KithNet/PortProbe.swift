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

/// The answer of a machine that nothing listens at an address (ICMP port unreachable).
package struct PortClosed: Error, Hashable {
    /// The address of the closed port.
    package let address: NetworkAddress

    /// The error for the caller that dialed it.
    var error: KithError { KithError(.unreachable, message, cause: self) }
    var message: String { "The machine at \(address) answers, but no Kith is running there." }
}

/// Asks the machine at an address whether anything listens there.
///
/// A connected socket of its own sends one byte, which no protocol answers, and another one some time after the first
/// was refused: one refusal is a hint, as where the device is just being started; two are an answer. A byte that brings
/// nothing is sent again: a machine may refuse no more than a few a second (Linux: six, then one).
/// The system takes a refusal only that quotes this socket's port, which is another one, by chance, each time. The
/// sockets that carry connections never listen to ICMP.
/// `@unchecked Sendable`: touched with the lock of the endpoint's loop only.
final class PortProbe: @unchecked Sendable {
    /// The interval between two checks for an answer.
    private static let interval = TimeAmount.milliseconds(25)
    /// The number of checks between two bytes that bring nothing.
    private static let patience = 8
    /// The number of checks in all: an answer that takes longer is not waited for.
    private static let limit = 120

    private let address: NetworkAddress
    private let socket: UDPSocket.Bound
    private let refused: @Sendable (_ count: Int) -> Void
    /// The number of refusals that make an answer.
    private let needed: Int
    /// The number of checks between a refusal and the next byte.
    private let pause: Int
    private var timer: RepeatedTask?
    private var looks = 0
    /// The check at which the next byte is sent.
    private var next: Int
    /// Indicates whether a byte has been sent since the last refusal.
    private var isWaiting = true
    private var refusals = 0
    /// Indicates whether it still asks.
    var isAsking: Bool { timer != nil }

    /// Begins to ask; nil where there is no way to `address` at all.
    ///
    /// `refused` is called at each refusal with their number; the one that is `needed` is the last.
    init?(
        _ address: NetworkAddress, loop: EndpointLoop, needed: Int = 2, pause: Int = 8, isRepeated: Bool = true,
        refused: @escaping @Sendable (_ count: Int) -> Void
    ) {
        var remote = kith_udp_address(address)
        let descriptor = unsafe kith_network_knock_open(&remote)
        guard descriptor >= 0 else { return nil }
        self.address = address
        (self.needed, self.pause, self.refused) = (needed, pause, refused)
        next = isRepeated ? Self.patience : .max
        socket = UDPSocket.Bound(descriptor: descriptor, features: 0, address: address)
        _ = kith_network_knock(descriptor)  // a failure is heard at the first look, or means nothing
        timer = loop.scheduleRepeatedTask(every: Self.interval) { [weak self] in self?.look() }
    }

    private func look() {
        guard timer != nil else { return }
        looks += 1
        // What is heard of a byte that was refused already says nothing new, and is taken away before the next.
        let isHeard = -kith_network_heard(socket.descriptor) == ECONNREFUSED
        if isHeard, isWaiting {
            refusals += 1
            isWaiting = false
            next = looks + pause
            if refusals >= needed { stop() }
            return refused(refusals)
        } else if looks >= next {
            isWaiting = true
            next = looks + Self.patience
            _ = kith_network_knock(socket.descriptor)
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
