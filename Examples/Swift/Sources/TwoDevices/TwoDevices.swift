import Foundation
public import Kith

/// Runs two devices in one process, paired over UDP, while `body` runs: what the other examples need before they begin.
///
/// Each may do `grants` on the other.
public func withTwoDevices(
    _ grants: [Grant], laptop services: Device.Services = .only([]),
    _ body: @Sendable (_ phone: Device, _ laptop: Device) async throws -> Void
) async throws {
    let folder = FileManager.default.temporaryDirectory.appending(path: "kith-example-\(UUID().uuidString)").path
    defer { try? FileManager.default.removeItem(atPath: folder) }
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)

    var options = Device.Options()
    options.endpoint.bindAddresses = [NetworkAddress(ipv4: (127, 0, 0, 1), port: 0)]
    options.name = "phone"
    let phone = try await Device.open(directory: folder + "/phone", options: options)
    options.name = "laptop"
    options.services = services
    let laptop = try await Device.open(directory: folder + "/laptop", options: options)

    try await laptop.whileRunning {
        try await phone.whileRunning {
            try await pair(phone, with: laptop, grants)
            try await body(phone, laptop)
        }
    }
}

/// Invites the phone and has it accept; two people would compare the codes.
private func pair(_ phone: Device, with laptop: Device, _ grants: [Grant]) async throws {
    let invitation = try await laptop.client.call(
        Invitations.Create.self, .init(grants: grants, lifetimeSeconds: 60, isAutomatic: true))
    let joining = try await phone.client.open(
        PairingMethods.Join.self, .init(invitation: invitation.text, grants: grants)
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
