import CKithSystem
import KithAPI
import KithIdentity
import KithNode
import KithWire
import Synchronization

/// The permission that a caller's grants give, now and whenever they change.
struct GrantedPermission: ForwardPermission {
    private let context: CallContext

    init(_ context: CallContext) { self.context = context }

    var caller: String {
        switch context.caller {
        case .owner: ""
        case .device(let id, _, _): id.description
        }
    }

    func checkSocket(_ path: String) throws {
        let refusal = refusal("to=unix:\(path)")
        try context.narrow("unix:\(path)") { $0.allowForwarding(toSocket: path) ? nil : refusal }
    }

    func checkName(_ name: String, port: UInt16) throws {
        let refusal = refusal("to=\(name):\(port)")
        try context.narrow("\(name):\(port)") { $0.mightAllowForwarding(toName: name, port: port) ? nil : refusal }
    }

    func allowed(_ addresses: [NetworkAddress], of endpoint: Forward.Endpoint) throws -> [NetworkAddress] {
        if context.caller == .owner { return addresses }
        let name: String? = if case .name(let name, _) = endpoint { name } else { nil }
        let marked = addresses.map { (address: $0, isOwn: Self.isOwn($0)) }
        let allowed = Locked<[NetworkAddress]>([])
        let refusal = name == nil ? refusal("to=\(endpoint)") : refusalOfAddress(endpoint)
        try context.narrow("\(endpoint)") { grants in
            let found = marked.filter {
                grants.allowForwarding(to: $0.address, name: name, isOwn: $0.isOwn)
            }
            allowed.set(found.map(\.address))
            return found.isEmpty ? refusal : nil
        }
        return allowed.value
    }

    func check(_ address: NetworkAddress, of endpoint: Forward.Endpoint) throws {
        if context.caller == .owner { return }
        let name: String? = if case .name(let name, _) = endpoint { name } else { nil }
        let isOwn = Self.isOwn(address)
        let refusal = refusal("to=\(endpoint)")
        try context.narrow("\(endpoint)") {
            $0.allowForwarding(to: address, name: name, isOwn: isOwn) ? nil : refusal
        }
    }

    /// Refuses to listen where the grants do not allow it.
    func checkListening(at addresses: [NetworkAddress], _ endpoint: Forward.Endpoint) throws {
        let refusal = refusal("listen=\(endpoint.port == 0 ? endpoint.withEveryPort : "\(endpoint)")")
        try context.narrow("listen \(endpoint)") { grants in
            addresses.allSatisfy { grants.allowListening(at: $0) } ? nil : refusal
        }
    }

    /// Refuses to listen at a Unix socket that no grant names.
    func checkListening(atSocket path: String) throws {
        let refusal = refusal("listen=unix:\(path)")
        try context.narrow("listen unix:\(path)") { $0.allowListening(atSocket: path) ? nil : refusal }
    }

    fileprivate var name: String {
        if case .device(_, let name, _) = context.caller { name } else { "" }
    }

    private func refusal(_ detail: String) -> KithError {
        let grant = "forward:\(detail)"
        return KithError(
            .denied,
            "This needs the grant \(grant). On the other device: kith grant \(name) --add \(shellWord("\(grant)"))")
    }

    /// The name would have been right: it leads to the device itself or a place like that, which is granted by address.
    private func refusalOfAddress(_ endpoint: Forward.Endpoint) -> KithError {
        KithError(
            .denied,
            """
            What \(endpoint) stands for there is not granted: names and * lead out, not to the device itself, its link or \
            a cloud's metadata. On the other device: kith grant \(name) --add forward:to=ADDRESS:\(endpoint.port ?? 0)
            """)
    }

    /// Tells whether an address is this device's own: then the system would send from it to itself.
    static func isOwn(_ address: NetworkAddress) -> Bool {
        if address.isLoopback { return true }
        var remote = kith_udp_address(address)
        var source = kith_udp_address()
        guard unsafe kith_network_source(&remote, &source) == 0 else { return false }
        return NetworkAddress(source).ip == address.ip
    }
}

extension Forward.Endpoint {
    /// The text form with `*` for the port, as a grant says that any will do.
    fileprivate var withEveryPort: String { "\(description.dropLast())*" }
}

/// The permission of a caller whose datagrams each say where they go.
///
/// What was decided for an address counts until the grants change.
struct RoamingPermission: ForwardPermission {
    private final class Memory: Sendable {
        struct State {
            var grants: [Grant]
            var isOwn: [[UInt8]: Bool] = [:]
        }
        let state: Mutex<State>
        init(_ grants: [Grant]) { state = Mutex(State(grants: grants)) }
    }

    private let inner: GrantedPermission
    private let isOwner: Bool
    private let memory: Memory

    /// Refuses a caller without any grant for forwarding.
    init(_ context: CallContext) throws {
        inner = GrantedPermission(context)
        isOwner = context.caller == .owner
        let memory = Memory(context.grants)
        self.memory = memory
        let name = inner.name
        try context.narrow("udp to any") { grants in
            memory.state.withLock { $0.grants = grants }
            return grants.contains { $0.kind == .forward }
                ? nil
                : KithError(
                    .denied,
                    "This needs the grant forward, or one like forward:to=HOST:PORT. On the other device: "
                        + "kith grant \(name) --add forward:to=HOST:PORT")
        }
    }

    var caller: String { inner.caller }

    func checkSocket(_ path: String) throws { throw Self.lost }

    func checkName(_ name: String, port: UInt16) throws {
        if isOwner { return }
        guard memory.state.withLock({ $0.grants.mightAllowForwarding(toName: name, port: port) }) else {
            throw Self.lost
        }
    }

    func allowed(_ addresses: [NetworkAddress], of endpoint: Forward.Endpoint) throws -> [NetworkAddress] {
        if isOwner { return addresses }
        let name: String? = if case .name(let name, _) = endpoint { name } else { nil }
        return addresses.filter { address in
            let isOwn = isOwn(address)
            return memory.state.withLock { $0.grants.allowForwarding(to: address, name: name, isOwn: isOwn) }
        }
    }

    func check(_ address: NetworkAddress, of endpoint: Forward.Endpoint) {}

    private func isOwn(_ address: NetworkAddress) -> Bool {
        if let known = memory.state.withLock({ $0.isOwn[address.ip] }) { return known }
        let isOwn = GrantedPermission.isOwn(address)
        memory.state.withLock { state in
            if state.isOwn.count >= 1_024 { state.isOwn = [:] }
            state.isOwn[address.ip] = isOwn
        }
        return isOwn
    }

    /// Nobody is told why a datagram is lost.
    private static let lost = KithError(.denied, "A UDP packet goes where no grant allows it.")
}
