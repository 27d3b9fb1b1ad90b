public import KithIdentity

/// All that is known of a method before it is called.
///
/// ```swift
/// static let header = MethodHeader.action("lamp.set", by: .grant(.node), isIdempotent: true, "Dims the lamp.")
/// ```
public struct MethodHeader: Hashable, Sendable {
    /// The callers of a method, whatever its input.
    @nonexhaustive
    public enum Callers: Hashable, Sendable {
        /// Any device that completes a handshake, paired or not; of our methods only the presentation of an invitation,
        /// and that of a certificate.
        case anyone
        /// Any paired device.
        case paired
        /// Only this device's own person, in this process or over its socket.
        case owner
        /// A paired device with a grant of this kind; the text narrows it, as `read` does of files.
        ///
        /// Of the kind `node` it is the grant that names the method.
        case grant(Grant.Kind, String? = nil)
    }

    /// What the two directions of a call carry, for a connection that cannot carry everything at once.
    ///
    /// What is nearer to a person's fingers goes first, on each device's own half of the call: a copy does not hold up a
    /// screen, nor either of them a key that is pressed.
    @nonexhaustive
    public enum Traffic: Hashable, Sendable {
        /// Questions and answers, pictures, whatever comes at its own pace.
        case ordinary
        /// A person's keys and movements from the caller; what they bring about comes back as ordinary traffic.
        case input
        /// Files, in either direction: after everything else.
        case bulk
    }

    /// The stable name on every wire: `service.verb`.
    public var name: String
    /// The kind of call it takes.
    public var kind: MethodKind
    /// The callers allowed, whatever the input.
    public var callers: Callers
    /// True when calling it twice has the same effect as once, so that it is retried after a lost connection.
    ///
    /// Always true for a query.
    public var isIdempotent: Bool
    /// What it carries.
    public var traffic: Traffic
    /// One line for a person, shown by help and by the table's own description.
    public var summary: String

    /// Makes a header.
    public init(
        name: String, kind: MethodKind, callers: Callers, isIdempotent: Bool, traffic: Traffic = .ordinary,
        summary: String
    ) {
        self.name = name
        self.kind = kind
        self.callers = callers
        self.isIdempotent = isIdempotent || kind == .query
        self.traffic = traffic
        self.summary = summary
    }

    /// The header of a query.
    public static func query(_ name: String, by callers: Callers, _ summary: String) -> MethodHeader {
        MethodHeader(name: name, kind: .query, callers: callers, isIdempotent: true, summary: summary)
    }

    /// The header of an action.
    public static func action(
        _ name: String, by callers: Callers, isIdempotent: Bool = false, _ summary: String
    ) -> MethodHeader {
        MethodHeader(name: name, kind: .action, callers: callers, isIdempotent: isIdempotent, summary: summary)
    }

    /// The header of a ``StreamMethod``.
    public static func stream(
        _ name: String, by callers: Callers, isIdempotent: Bool = false, carrying traffic: Traffic = .ordinary,
        _ summary: String
    ) -> MethodHeader {
        MethodHeader(
            name: name, kind: .stream, callers: callers, isIdempotent: isIdempotent, traffic: traffic,
            summary: summary)
    }

    /// True when a device that is not paired may call it at all.
    public var isOpenToUnpaired: Bool { callers == .anyone }

    /// The access a caller needs, as far as the header alone tells.
    ///
    /// A narrowed grant must be checked by the method, in ``Method/access(for:)``; without that only the owner may call.
    public var access: Access {
        switch callers {
        case .anyone: .anyone
        case .paired: .paired
        case .owner: .owner
        case .grant(.node, nil): .granted(.node(pattern: name))
        case .grant(let kind, nil): .holding(kind)
        case .grant: .owner
        }
    }

    /// The header of a method with this access, whatever the input.
    package init(
        name: String, kind: MethodKind, access: Access?, isIdempotent: Bool, summary: String
    ) {
        let callers: Callers =
            switch access {
            case nil: .grant(.node)
            case .anyone: .anyone
            case .paired: .paired
            case .owner: .owner
            case .granted(let grant):
                .grant(
                    grant.kind,
                    grant.description.split(separator: ":", maxSplits: 1).dropFirst().first
                        .map { String($0.prefix { $0 != "=" }) })
            case .holding(let kind, _): .grant(kind)
            }
        self.init(name: name, kind: kind, callers: callers, isIdempotent: isIdempotent, summary: summary)
    }

    /// The callers allowed, as a word: `owner`, `paired`, `anyone`, or `grant` and the grant needed.
    package var callersText: String {
        switch callers {
        case .anyone: "anyone"
        case .paired: "paired"
        case .owner: "owner"
        case .grant(.node, nil): "grant node:\(name)"
        case .grant(let kind, let part): "grant \(kind.rawValue)\(part.map { ":\($0)" } ?? "")"
        }
    }
}
