import Foundation
import Kith
import Observation
import SwiftUI

/// An app that holds a device: it shows the devices this one is paired with, and pairs with another.
///
/// It is the source of an app for iPhones and Macs; a project in Xcode adds it and the package. Its Info.plist has
/// NSLocalNetworkUsageDescription. On iPhones multicast needs Apple's entitlement
/// `com.apple.developer.networking.multicast`; without it devices are found where they were before.
@main struct DevicesApp: App {
    @State private var model = Model()
    @Environment(\.scenePhase) private var phase

    var body: some Scene {
        WindowGroup {
            DeviceList(model: model).task { await model.run() }
        }
        .onChange(of: phase) { _, phase in model.became(phase) }
    }
}

/// What the views show, and the device behind it.
@MainActor @Observable final class Model {
    private(set) var devices: [Devices.Info] = []
    private(set) var problem: String?
    /// The code that the two people compare, while they do.
    private(set) var code: String?

    private var device: Device?
    private var joining: MethodStream<PairingMethods.Join.Downstream, PairingMethods.Join.Upstream>?
    private let platform = AsyncStream.makeStream(of: LifecycleEvent.self)

    /// Opens the device, and holds it up while the app is on the screen.
    func run() async {
        do {
            let folder = Device.defaultDirectory(environment: ProcessInfo.processInfo.environment)
            let device = try await Device.open(directory: folder)
            self.device = device
            let runner = LifecycleRunner(device)
            // They go on when it has been in the background.
            let changes = try device.subscribe("$registry/peers/*/state", as: String.self)
            async let ended: Void = runner.run(platform.stream)
            await refresh()
            for try await _ in changes { await refresh() }
            await ended
        } catch {
            problem = "\(error)"
        }
    }

    /// Tells the device that the app comes or goes: it stops in the background, and is the same one afterwards.
    func became(_ phase: ScenePhase) {
        switch phase {
        case .active:
            platform.continuation.yield(.foreground)
            platform.continuation.yield(.becomeActive)
        case .inactive: platform.continuation.yield(.resignActive)
        case .background: platform.continuation.yield(.background)
        @unknown default: break
        }
    }

    /// Asks for the paired devices.
    func refresh() async {
        guard let device else { return }
        do {
            devices = try await device.client.call(Devices.List.self, .init(probe: false))
            problem = nil
        } catch {
            problem = "\(error)"
        }
    }

    /// Takes the invitation that another device shows.
    func join(_ invitation: String) async {
        guard let device, joining == nil else { return }
        defer { (joining, code) = (nil, nil) }
        do {
            let stream = try await device.client.open(
                PairingMethods.Join.self, .init(invitation: invitation, grants: [])
            ).stream
            joining = stream
            for try await event in stream.messages {
                switch event {
                case .compare(let code, _, _, _): self.code = code
                case .paired: await refresh()
                case .failed(_, let message): problem = message
                @unknown default: break
                }
            }
        } catch {
            problem = "\(error)"
        }
    }

    /// Says whether both devices show the same code.
    func answer(_ isSame: Bool) async {
        code = nil
        do {
            try await joining?.send(.init(accept: isSame))
        } catch {
            problem = "\(error)"
        }
    }
}

/// The paired devices, and a field for an invitation.
struct DeviceList: View {
    let model: Model
    @State private var invitation = ""

    var body: some View {
        List {
            if let problem = model.problem { Text(problem) }
            ForEach(model.devices, id: \.id) { device in
                HStack {
                    Text(device.name)
                    Spacer()
                    Text(device.isOnline ? "connected" : "away")
                }
            }
            if let code = model.code {
                Text("Does the other device show \(code)?")
                Button("Yes") { Task { await model.answer(true) } }
                Button("No") { Task { await model.answer(false) } }
            } else {
                TextField("Invitation", text: $invitation)
                Button("Pair") { Task { await model.join(invitation) } }
            }
        }
    }
}
