import Kith
import KithTesting
import KithWire
import Logging
import Synchronization

/// Three devices on loopback, each paired with the next, which it may ask anything.
struct ThreeDevices {
    let phone: Device
    let laptop: Device
    let server: Device

    /// Runs `body` while they are up.
    static func run(
        phone: Device.Options = Device.Options(), laptop: Device.Options = Device.Options(),
        server: Device.Options = Device.Options(), _ body: (ThreeDevices) async throws -> Void
    ) async throws {
        let folders = try [TemporaryFolder(), TemporaryFolder(), TemporaryFolder()]
        let names = ["phone", "laptop", "server"]
        var devices: [Device] = []
        for (index, options) in [phone, laptop, server].enumerated() {
            var options = options
            options.name = names[index]
            options.endpoint.bindAddresses = [NetworkAddress(ipv4: (127, 0, 0, 1), port: 0)]
            devices.append(try await Device.open(directory: folders[index].path, options: options))
        }
        let three = ThreeDevices(phone: devices[0], laptop: devices[1], server: devices[2])
        try await three.server.whileRunning {
            try await three.laptop.whileRunning {
                try await three.phone.whileRunning {
                    try await pair(three.phone, with: three.laptop)
                    try await pair(three.laptop, with: three.server)
                    try await body(three)
                }
            }
        }
    }

    /// Pairs a device with another one, where it may do anything; gives the code the people compare.
    @discardableResult static func pair(
        _ phone: Device, with laptop: Device, grants: [Grant] = [.shell, .node(pattern: "test.*")],
        invited: (String) -> Void = { _ in }
    ) async throws -> String {
        let invitation = try await laptop.client.call(
            Invitations.Create.self, .init(grants: grants, lifetimeSeconds: 60, isAutomatic: true))
        invited(invitation.text)
        let joining = try await phone.client.open(
            PairingMethods.Join.self, .init(invitation: invitation.text, grants: [])
        ).stream
        var shown = ""
        for try await event in joining.messages {
            switch event {
            case .compare(let code, _, _, _):
                shown = code
                try await joining.send(.init(accept: true))
            case .paired: return shown
            case .failed(let code, let message): throw KithError(code, message)
            }
        }
        throw KithError(.closed, "The pairing ended without a word.")
    }
}

/// Asks the next device, which answers.
enum Relay: Method {
    typealias Input = String
    typealias Output = String
    static let header = MethodHeader.query("test.relay", by: .grant(.node), "Asks another device.")
}

/// Answers on a stream with a piece of text.
enum Tell: StreamMethod {
    struct Word: StreamMessage, Hashable {
        var text: String
    }
    typealias Input = Nothing
    typealias Output = Nothing
    typealias Upstream = Nothing
    typealias Downstream = Word
    static let header = MethodHeader.stream("test.tell", by: .grant(.node), "Says a word.")
}

struct RelayService: Service {
    let next: String?

    var handlers: [Handler] {
        [
            .call(Relay.self) { input, context in
                guard let next else {
                    if input == "fail" { throw KithError(.conflict, "Secret reason.") }
                    return "answer"
                }
                return try await context.client.call(Relay.self, input, on: next)
            },
            .stream(Tell.self) { _, context, pending in
                let stream = try await pending.accept()
                guard let next else { return try await stream.send(Tell.Word(text: "word")) }
                let words = try await context.client.open(Tell.self, Nothing(), on: next).stream
                for try await word in words.messages { try await stream.send(word) }
            },
        ]
    }
}
