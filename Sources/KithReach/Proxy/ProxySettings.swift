import KithIdentity
import KithWire

/// The proxies by which relays are reached, and those that are reached without.
///
/// A relay on this very machine is reached without one, unless ``includesLoopback`` says otherwise.
public struct ProxySettings: Hashable, Sendable {
    /// The way to a relay.
    @nonexhaustive
    public enum Route: Hashable, Sendable {
        /// This device connects to it.
        case direct
        /// The proxy connects to it, and passes on what both say.
        case through(ProxyServer)
        /// A proxy was named that cannot be used; without it nobody is to be asked.
        case impossible(ProxyProblem)
    }

    /// The way to relays that speak TLS.
    private var secure: Route
    /// The way to relays that do not.
    private var plain: Route
    private var exceptions: ProxyExceptions
    /// True to have the proxy connect to relays on the loopback address, too: its own, that is.
    public var includesLoopback = false

    /// One proxy for all relays, but those in `exceptions`; without a server all are reached directly.
    public init(_ server: ProxyServer?, exceptFor exceptions: ProxyExceptions = ProxyExceptions()) {
        secure = server.map { .through($0) } ?? .direct
        plain = secure
        self.exceptions = exceptions
    }

    /// Reads what the environment says, by the rules of curl.
    ///
    /// `https_proxy` or `HTTPS_PROXY`, else `all_proxy` or `ALL_PROXY`; for relays without TLS `http_proxy` in lower case
    /// only, as a server's own variable may have the other name (CVE-2016-5385), else the same two. `no_proxy` or
    /// `NO_PROXY` says who is reached without. The first that is not empty counts. One that cannot be read makes relays
    /// unreachable, with a reason that names it: its person wanted no direct connection.
    public init(environment value: (String) -> String?) {
        func first(_ names: String...) -> (name: String, text: String)? {
            for name in names {
                if let text = value(name), !text.isEmpty { return (name, text) }
            }
            return nil
        }
        func route(_ variable: (name: String, text: String)?) -> Route {
            guard let variable else { return .direct }
            do throws(ProxyProblem) {
                return .through(try ProxyServer(variable.text))
            } catch {
                return .impossible(ProxyProblem("\(variable.name) names no proxy: \(error)"))
            }
        }
        let all = first("all_proxy", "ALL_PROXY")
        secure = route(first("https_proxy", "HTTPS_PROXY") ?? all)
        plain = route(first("http_proxy") ?? all)
        exceptions = first("no_proxy", "NO_PROXY").map { ProxyExceptions($0.text) } ?? ProxyExceptions()
    }

    /// The way to a relay.
    public func route(to relay: RelayAddress) -> Route {
        if !includesLoopback, Self.isLoopback(relay.host) { return .direct }
        return exceptions.contains(relay.host) ? .direct : relay.isSecure ? secure : plain
    }

    private static func isLoopback(_ host: String) -> Bool {
        guard let address = NetworkAddress(host.contains(":") ? "[\(host)]:1" : "\(host):1") else {
            return HostName.isLocalhost(host)
        }
        return address.isLoopback
    }
}

/// The wish of a device's person for a proxy.
@nonexhaustive
public enum ProxyChoice: Hashable, Sendable {
    /// As the environment says.
    case environment
    /// None, whatever the environment says.
    case direct
    /// This one, but for those hosts that the environment excepts.
    case server(ProxyServer)

    /// Reads `environment`, `none`, or the URL of a proxy.
    ///
    /// - Throws: ``ProxyProblem`` for anything else.
    public init(_ text: String) throws(ProxyProblem) {
        switch text {
        case "environment": self = .environment
        case "none": self = .direct
        default: self = .server(try ProxyServer(text))
        }
    }

    /// What ``init(_:)`` reads, with the password: for a file that nobody else reads.
    public var textWithPassword: String {
        switch self {
        case .environment: "environment"
        case .direct: "none"
        case .server(let server): server.urlWithPassword
        }
    }

    /// The settings that come of it.
    public func settings(environment value: (String) -> String?) -> ProxySettings {
        switch self {
        case .environment: ProxySettings(environment: value)
        case .direct: ProxySettings(nil)
        case .server(let server):
            // As `curl --proxy` does.
            ProxySettings(server, exceptFor: ProxyExceptions(value("no_proxy") ?? value("NO_PROXY") ?? ""))
        }
    }
}
