import KithWire

/// The names and addresses at which a browser reaches the page, and no others: a name that somebody else made point here
/// is not among them.
struct WebNames: Hashable, Sendable {
    /// The port in all of them.
    let port: UInt16
    private let hosts: Set<String>

    /// The names of this machine's own addresses, and of a device.
    init(port: UInt16, device: String) {
        self.port = port
        var names = ["localhost", "127.0.0.1", "[::1]"]
        if let label = Self.label(device) { names.append("\(label).localhost") }
        hosts = Set(names.map { port == 80 ? $0 : "\($0):\(port)" })
    }

    /// The page's own address.
    var page: String { port == 80 ? "http://localhost/" : "http://localhost:\(port)/" }

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
