import KithWire

/// The names and addresses at which a browser reaches the page, and no others: a name that somebody else made point here
/// is not among them.
struct WebNames: Hashable, Sendable {
    /// The port in all of them.
    let port: UInt16
    private let name: String
    private let hosts: Set<String>

    /// The names of this machine's own addresses, and of a device.
    ///
    /// `label` makes a name below `localhost` that links lead to, `nil` for `localhost` itself. What another program has left
    /// in a browser while the port was its own is left for other names: a new one owes nothing to it.
    init(port: UInt16, device: String, label: String? = nil) {
        self.port = port
        name = label.map { "\($0).localhost" } ?? "localhost"
        var names = ["localhost", "127.0.0.1", "[::1]", name]
        if let label = Self.label(device) { names.append("\(label).localhost") }
        hosts = Set(names.map { port == 80 ? $0 : "\($0):\(port)" })
    }

    /// A label for the time that the door is open; `nil` on Apple's systems, whose Safari knows no names below `localhost`.
    static func newLabel() -> String? {
        #if canImport(Darwin)
        nil
        #else
        let letters = Array("abcdefghijklmnopqrstuvwxyz234567")
        return "kith-" + String((0..<8).map { _ in letters[Int.random(in: 0..<32)] })
        #endif
    }

    /// The page's own address.
    var page: String { port == 80 ? "http://\(name)/" : "http://\(name):\(port)/" }

    /// Tells whether the value of a `Host` field is one of ours.
    func admits(host: String) -> Bool { hosts.contains(Self.lowercased(host)) }

    /// Tells whether the value of an `Origin` field is that of the page at `host`, which is one of ours.
    func admits(origin: String, at host: String) -> Bool {
        admits(host: host) && Self.lowercased(origin) == "http://" + Self.lowercased(host)
    }

    /// A device's name as a label of DNS; `nil` when it is none.
    private static func label(_ name: String) -> String? {
        let label = lowercased(name)
        let isLabel =
            !label.isEmpty && label.utf8.count <= 63 && label.first != "-" && label.last != "-"
            && label.utf8.allSatisfy { byte in
                (0x61...0x7A).contains(byte) || (0x30...0x39).contains(byte) || byte == 0x2D
            }
        return isLabel ? label : nil
    }

    /// In small letters, those of ASCII: others are nobody's.
    private static func lowercased(_ text: String) -> String {
        String(decoding: text.utf8.map { (0x41...0x5A).contains($0) ? $0 | 0x20 : $0 }, as: UTF8.self)
    }
}
