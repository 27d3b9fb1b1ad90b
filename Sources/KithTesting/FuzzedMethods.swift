internal import KithAPI
internal import KithIdentity
internal import KithWire

/// Every method's input and output, and every message on a stream, as CBOR and as JSON.
enum FuzzedMethods {
    /// All there are.
    static let all = API.methods

    /// The messages sent on streams once a method has been answered.
    private static let messages: [any (Codable & Sendable).Type] = [
        Files.Followed.self, Files.Found.self, Files.Progress.self, Files.Used.self, Files.Write.Written.self,
        Forward.Arrival.self, Forward.Running.self, Inbox.Entry.self, Offers.Answer.self, Offers.Delivery.self,
        PairingMethods.Decision.self, PairingMethods.Event.self, PairingMethods.FromInviter.self,
        PairingMethods.FromJoiner.self, PairingMethods.JoinEvent.self, Reach.Measure.Report.self, Reach.Step.self,
        Screen.ControlNotice.self, ScreenClipboard.self, ScreenInput.self, ScreenReply.self,
        ScreenSessions.Watch.Update.self,
        ScreenUpdate.self,
    ]

    /// The first byte says which method, the second in which form and whether it is the output.
    static func run(_ bytes: [UInt8]) {
        guard bytes.count > 1 else { return }
        let body = Array(bytes.dropFirst(2))
        let method = all[Int(bytes[0]) % all.count]
        let payload: Payload = bytes[1] & 1 == 0 ? .cbor(body) : .json(body)
        if bytes[1] & 2 == 0 {
            // A refusal is an answer.
            if let input = try? method.input.decode(payload) {
                _ = try? method.access(input)
                survives(input, method.input)
            }
        } else if let output = try? method.output.decode(payload) {
            survives(output, method.output)
        }
        for message in messages { _ = try? decode(message, from: body) }
    }

    private static func decode<Message: Codable & Sendable>(_ type: Message.Type, from bytes: [UInt8]) throws {
        let message = try CBORDecoder().decode(type, from: bytes)
        precondition((try? CBOREncoder().encode(message)) != nil, "What was read can be written")
    }

    private static func survives(_ value: any Sendable, _ coding: AnyMethod.Coding) {
        guard case .cbor(let written)? = try? coding.encode(value, .cbor) else {
            preconditionFailure("What was read can be written")
        }
        guard let again = try? coding.decode(.cbor(written)), case .cbor(let second)? = try? coding.encode(again, .cbor)
        else { preconditionFailure("What was written can be read") }
        precondition(second == written, "The second writing is the first")
        // JSON has no word for what is not a number, and may refuse.
        _ = try? coding.encode(value, .json)
    }
}
