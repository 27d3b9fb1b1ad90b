import KithAPI
import KithIdentity
import KithWire

/// What waits for this device's person: pairings to be accepted, and files that are offered.
struct WaitingThings {
    private let pairings: [PairingMethods.Request]
    private let offers: [Inbox.Entry]

    /// Asks the device.
    init(_ client: Client) async throws {
        pairings = try await client.call(PairingMethods.Waiting.self, Nothing())
        offers = try await client.call(Inbox.List.self, Nothing()).filter { $0.state == .waiting }
    }

    /// Says what waits, a line each, and how to answer; nothing when nothing does.
    func tell() {
        for request in pairings { note("\(Self.line(request)): kith accept \(request.id)") }
        for offer in offers {
            note(
                "\(printable(offer.device)) offers \(InboxList.what(offer)), \(ProgressLine.size(offer.bytes)): "
                    + "kith inbox accept \(offer.id)")
        }
    }

    /// One pairing that waits.
    static func line(_ request: PairingMethods.Request) -> String {
        "\(printable(request.name)) (\(request.device.short)) wants to pair; both devices must show the code \(request.code)"
    }
}
