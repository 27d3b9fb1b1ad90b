import KithRFB
import Testing

/// A client and a server of ours whose bytes go straight from one to the other, in pieces if wished.
struct Conversation: ~Copyable {
    var client: RFBClient
    var server: RFBServer
    var now = ContinuousClock.now
    var clientEvents: [RFBClient.Event] = []
    var serverEvents: [RFBServer.Event] = []
    /// Everything the server sent, and the client.
    var fromServer: [UInt8] = []
    var fromClient: [UInt8] = []
    /// The largest piece in which bytes arrive.
    var piece = Int.max

    static let challenge: [UInt8] = (0..<16).map { $0 }

    init(
        _ frame: RFBFrameBuffer, client options: RFBClient.Options = .init(),
        server serverOptions: RFBServer.Options = .init(name: "Desk"), screens: [RFBScreen] = [],
        jpeg: (any JPEGCodec)? = nil
    ) throws {
        let viewer = try RFBClient(options, jpeg: jpeg)
        let screen = try RFBServer(
            serverOptions, width: frame.width, height: frame.height, screens: screens, challenge: Self.challenge,
            jpeg: jpeg)
        client = viewer
        server = screen
    }

    /// Lets both speak until neither has anything to say.
    mutating func settle(_ frame: RFBFrameBuffer, isExact: Bool = false) throws {
        for _ in 0..<1000 {
            var isQuiet = true
            server.update(from: frame, isExact: isExact)
            for part in Self.pieces(server.takeOutput(), piece) {
                isQuiet = false
                fromServer += part
                try client.receive(part)
                while let event = try client.nextEvent() { clientEvents.append(event) }
            }
            for part in Self.pieces(client.takeOutput(), piece) {
                isQuiet = false
                fromClient += part
                try server.receive(part)
                while let event = try server.nextEvent(at: now) { serverEvents.append(event) }
            }
            if isQuiet { return }
        }
        Issue.record("the two never fall silent")
    }

    private static func pieces(_ bytes: [UInt8], _ size: Int) -> [[UInt8]] {
        if bytes.isEmpty { return [] }
        guard size < bytes.count else { return [bytes] }
        return stride(from: 0, to: bytes.count, by: size).map { Array(bytes[$0..<min($0 + size, bytes.count)]) }
    }
}
