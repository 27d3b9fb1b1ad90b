/// The cases of the QUIC interop runner, by its names.
enum Case: String, CaseIterable, Sendable {
    case handshake, transfer, longrtt, chacha20, multiplexing, retry, resumption, zerortt, blackhole, keyupdate, ecn
    case amplificationlimit, handshakeloss, transferloss, handshakecorruption, transfercorruption, ipv6, v2
    case rebindPort = "rebind-port"
    case rebindAddress = "rebind-addr"
    case connectionmigration, goodput, crosstraffic
}

/// Whom a case is run against.
enum Peer: String, CaseIterable, Sendable {
    case ourselves
    case aioquicServer = "aioquic serves"
    case aioquicClient = "aioquic dials"
    case ngtcp2Server = "ngtcp2 serves"
    case ngtcp2Client = "ngtcp2 dials"
    case irohServer = "iroh serves"
    case irohClient = "iroh dials"
}

/// Which cases are run against which peer, and why the others are not.
enum Plan {
    /// The cases to run against `peer`.
    static func cases(with peer: Peer) -> [Case] { Case.allCases.filter { obstacle($0, peer) == nil } }

    /// Why a case cannot be run, or nil.
    static func obstacle(_ name: Case, _ peer: Peer) -> String? {
        switch peer {
        case .ourselves: return nil
        case .aioquicServer: return server[name]
        case .aioquicClient: return aioquicClient[name]
        case .ngtcp2Server: return server[name] ?? ngtcp2[name]
        case .ngtcp2Client: return ngtcp2[name]
        case .irohServer: return server[name] ?? irohServer[name] ?? iroh[name]
        case .irohClient: return iroh[name] ?? irohClient[name]
        }
    }

    private static let server: [Case: String] = [
        .amplificationlimit: "the server's limit is not ours"
    ]

    private static let aioquicClient: [Case: String] = [
        .connectionmigration: "aioquic's client does not move"
    ]

    private static let ngtcp2: [Case: String] = [
        .v2: "ngtcp2 0.12 has the number of a draft of version 2"
    ]

    private static let iroh: [Case: String] = [
        .v2: "iroh speaks version 1"
    ]

    private static let irohServer: [Case: String] = [
        .retry: "the binding cannot ask for Retry"
    ]

    private static let irohClient: [Case: String] = [
        .amplificationlimit: "with raw public keys a server's first flight is too small to reach the limit",
        .resumption: "iroh takes raw public keys only, and BoringSSL does not say so when it resumes: see handshake",
        .zerortt: "the binding has no early data",
        .connectionmigration: "the binding cannot ask for one",
    ]
}
