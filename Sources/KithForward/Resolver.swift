import CKithSystem
import Foundation
import KithIO
import KithIdentity
import KithNode
import KithWire
import Synchronization

/// Looks names up with the system's resolver, which blocks: each lookup in a thread of its own, and not too many.
final class Resolver: Sendable {
    private struct State {
        var running: [String: Int] = [:]
        var total = 0
    }

    /// The most lookups that may run at once, and for one caller.
    static let limit = 64
    static let limitPerCaller = 24

    private let state = Mutex(State())
    private let lookUp: @Sendable (String) -> Result<[NetworkAddress], SystemError>

    /// Makes a resolver; tests bring answers of their own.
    init(lookUp: @escaping @Sendable (String) -> Result<[NetworkAddress], SystemError> = Resolver.system) {
        self.lookUp = lookUp
    }

    /// The addresses of a normalised name, best first, with `port`; empty when it has none.
    ///
    /// `localhost` and the names beneath it are nobody else's to answer for (RFC 6761 §6.3).
    ///
    /// - Throws: `.exhausted` when too many lookups run, `SystemError` when nobody could be asked.
    func addresses(of name: String, port: UInt16, for caller: String) async throws -> [NetworkAddress] {
        if HostName.isLocalhost(name) {
            return [NetworkAddress(ipv6: 0, 1, port: port), NetworkAddress(ipv4: 0x7F00_0001, port: port)]
        }
        try begin(caller)
        let answer = Promise<Result<[NetworkAddress], SystemError>>()
        let lookUp = lookUp
        let thread = Thread { [self] in
            let result = lookUp(name)
            end(caller)
            answer.fulfil(result)
        }
        thread.name = "kith-resolve"
        thread.start()
        return try await answer.valueUnlessCancelled().get().map { address in
            var address = address
            address.port = port
            return address
        }
    }

    private func begin(_ caller: String) throws(KithError) {
        let isAdmitted = state.withLock { state in
            guard state.total < Self.limit, state.running[caller, default: 0] < Self.limitPerCaller else {
                return false
            }
            state.total += 1
            state.running[caller, default: 0] += 1
            return true
        }
        if !isAdmitted { throw KithError(.exhausted, "Too many names are being looked up. Try again.") }
    }

    private func end(_ caller: String) {
        state.withLock { state in
            state.total -= 1
            state.running[caller, default: 1] -= 1
            if state.running[caller] == 0 { state.running[caller] = nil }
        }
    }

    /// Asks the system.
    private static func system(_ name: String) -> Result<[NetworkAddress], SystemError> {
        var found = [kith_udp_address](repeating: kith_udp_address(), count: 16)
        let count = unsafe kith_resolve(name, &found, 16)
        return count >= 0
            ? .success(found.prefix(Int(count)).map { NetworkAddress($0) }) : .failure(SystemError(-count))
    }
}
