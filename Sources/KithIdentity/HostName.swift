/// Names of hosts, as forwarding takes them.
public enum HostName {
    /// The name in lower case and without a dot at its end; `nil` when it is none that could be looked up.
    ///
    /// Letters, digits, hyphens and underscores in labels of at most 63, 253 in all (RFC 1035 §2.3.4). A name whose last
    /// label is a number (`127.1`, `0x7f.1`) is none: resolvers take it for an address.
    public static func normalised(_ text: some StringProtocol) -> String? {
        var bytes = text.utf8.prefix(256).map { byte in (65...90).contains(byte) ? byte | 0x20 : byte }
        if bytes.last == UInt8(ascii: "."), bytes.count > 1 { bytes.removeLast() }
        guard (1...253).contains(bytes.count) else { return nil }
        let labels = bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
        for label in labels {
            guard (1...63).contains(label.count), label.first != UInt8(ascii: "-"), label.last != UInt8(ascii: "-"),
                label.allSatisfy({ isDigit($0) || (97...122).contains($0) || $0 == 45 || $0 == 95 })
            else { return nil }
        }
        guard let last = labels.last, !last.allSatisfy(isDigit), !isHexadecimal(last) else { return nil }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Tells whether a normalised name stands for the device that looks it up (RFC 6761 §6.3).
    public static func isLocalhost(_ name: String) -> Bool { name == "localhost" || name.hasSuffix(".localhost") }

    private static func isDigit(_ byte: UInt8) -> Bool { (48...57).contains(byte) }

    private static func isHexadecimal(_ label: ArraySlice<UInt8>) -> Bool {
        label.starts(with: "0x".utf8) && label.dropFirst(2).allSatisfy { isDigit($0) || (97...102).contains($0) }
    }
}
