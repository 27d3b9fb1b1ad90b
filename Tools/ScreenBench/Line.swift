/// What lies between the viewer and the hosts.
struct Line {
    /// How it is called in the table.
    var name = "loopback"
    /// The network namespace of the hosts; `nil` is the viewer's own.
    var space: String?
    /// What is to be reached over it, by the names of the rows; over loopback the table says so.
    var goals: [String: Double] = [:]

    /// The IPv4 address of the hosts: in a namespace that of the right end of kith-link.
    var host: UInt32 { space == nil ? 0x7F00_0001 : 0x0A07_0002 }

    /// The same in decimals.
    var address: String { (0..<4).map { "\(host >> (24 - 8 * $0) & 255)" }.joined(separator: ".") }

    /// From the options `--host-space PATH`, `--line NAME` and `--goal ROW=NUMBER`.
    init(_ arguments: [String]) {
        for (option, value) in zip(arguments, arguments.dropFirst()) {
            switch option {
            case "--host-space": space = value
            case "--line": name = value
            case "--goal":
                let parts = value.split(separator: "=")
                if parts.count == 2 { goals[String(parts[0])] = Double(parts[1]) }
            default: break
            }
        }
    }
}
