public import KithWire

extension NetworkAddress {
    /// An address of this machine that no other test has, so that nobody takes a port there when it is free again.
    ///
    /// 127.0.0.1 on macOS, which has no others.
    public static func ownLoopback(port: UInt16 = 0) -> NetworkAddress {
        #if os(Linux)
        NetworkAddress(
            ipv4: (127, .random(in: 16...250), .random(in: 0...255), .random(in: 1...254)), port: port)
        #else
        NetworkAddress(ipv4: (127, 0, 0, 1), port: port)
        #endif
    }

    /// The address without the port, as IPv4 writes it.
    public var ipv4Text: String { ip.map(String.init).joined(separator: ".") }
}
