import ArgumentParser
import KithAPI
import KithForward
import KithWire

/// The forwards a command may keep up while it lasts, as ssh names them.
struct ForwardOptions: ParsableArguments {
    @Option(
        name: .customShort("L", allowingJoined: true),
        help: ArgumentHelp(
            "Listen here, connect from the device (repeatable).", valueName: "[bind:]port:host:hostport"))
    var local: [String] = []

    @Option(
        name: .customShort("R", allowingJoined: true),
        help: ArgumentHelp(
            "Listen on the device, connect from here (repeatable); a port alone is a proxy here.",
            valueName: "[bind:]port:host:hostport"))
    var remote: [String] = []

    @Option(
        name: .customShort("D", allowingJoined: true),
        help: ArgumentHelp(
            "Listen here as a SOCKS5 and HTTP proxy on the device (repeatable).", valueName: "[bind:]port"))
    var dynamic: [String] = []

    /// The forwards, in the order of the options' kinds.
    func forwards() throws -> ForwardSet {
        ForwardSet(
            try local.map { try Forward.Rule(.local, parsing: $0) }
                + remote.map { try Forward.Rule(.remote, parsing: $0) }
                + dynamic.map { try Forward.Rule(.dynamic, parsing: $0) })
    }
}
