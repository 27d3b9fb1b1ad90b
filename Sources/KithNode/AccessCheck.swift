package import KithAPI
package import KithIdentity
package import KithWire

extension Access {
    /// Returns the error with which to refuse `caller`, who holds `grants`; `nil` when the call is allowed.
    ///
    /// Anything that no case allows is refused.
    package func refusal(of caller: Caller, holding grants: [Grant]) -> KithError? {
        switch (caller, self) {
        case (.owner, _), (.device, .anyone):
            return nil
        case (.device(_, _, paired: false), _):
            return KithError(
                .unpaired, "This device is not paired with the other one. Use an invitation: `kith pair`.")
        case (.device(_, _, paired: true), .paired):
            return nil
        case (.device, .owner):
            return KithError(.denied, "Only the other device's own user may do that.")
        case (.device(_, let name, _), .granted(let grant)):
            if grants.allows(grant) { return nil }
            return Self.lacking(grant.description, name: name)
        case (.device(_, let name, _), .holding(let kind, let purpose)):
            if grants.contains(where: { $0.kind == kind }) { return nil }
            if kind == .files { return Self.lacking("files:\(purpose ?? "read")=PATH", name: name) }
            // A place that is wanted says more than the kind.
            let place = purpose.flatMap { Grant("\(kind.rawValue):to=\($0)") }
            return Self.lacking(place?.description ?? kind.rawValue, name: name)
        }
    }

    private static func lacking(_ grant: String, name: String) -> KithError {
        KithError(
            .denied,
            "This needs the grant \(grant). On the other device: kith grant \(name) --add \(shellWord(grant))")
    }

    /// The right that an allowed call relied on, for the audit log.
    var reason: String {
        switch self {
        case .anyone: "anyone"
        case .paired: "paired"
        case .owner: "owner"
        case .granted(let grant): grant.description
        case .holding(let kind, let purpose): purpose.map { "\(kind.rawValue) \($0)" } ?? kind.rawValue
        }
    }
}
