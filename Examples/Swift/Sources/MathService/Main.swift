import Foundation
import Kith

/// Two devices in one process, over UDP: one serves `math.add` and `math.sum`, the other pairs with it and calls them.
@main struct Main {
    static func main() async throws {
        let folder = FileManager.default.temporaryDirectory.appending(path: "kith-math-\(UUID().uuidString)").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)

        var options = Device.Options()
        options.endpoint.bindAddresses = [NetworkAddress(ipv4: (127, 0, 0, 1), port: 0)]
        let phone = try await Device.open(directory: folder + "/phone", options: options)
        options.name = "laptop"
        // None of ours: this device does sums, and opens no shells.
        options.services = .only([MathService()])
        let laptop = try await Device.open(directory: folder + "/laptop", options: options)

        try await laptop.whileRunning {
            try await phone.whileRunning {
                try await pair(phone, with: laptop)
                print("2 + 3 =", try await phone.client.call(Math.Add.self, .init(a: 2, b: 3), on: "laptop"))

                let stream = try await phone.client.open(Math.Sum.self, Nothing(), on: "laptop").stream
                for value in 1...4 {
                    try await stream.send(.init(value: value))
                    guard let sum = try await stream.receive() else { break }
                    print("so far", sum.value)
                }
                try await stream.finish()
            }
        }
    }

    /// Invites the phone and has it accept; two people would compare the codes.
    static func pair(_ phone: Device, with laptop: Device) async throws {
        let invitation = try await laptop.client.call(
            Invitations.Create.self,
            .init(grants: [.node(pattern: "math.*")], lifetimeSeconds: 60, isAutomatic: true))
        let joining = try await phone.client.open(
            PairingMethods.Join.self, .init(invitation: invitation.text, grants: [])
        ).stream
        for try await event in joining.messages {
            switch event {
            case .compare: try await joining.send(.init(accept: true))
            case .paired(let device): return print("paired with", device.name)
            case .failed(let code, let message): throw KithError(code, message)
            @unknown default: throw KithError(.unsupported, "The other device is of a later version.")
            }
        }
    }
}
