import Foundation
import Kith
import KithAPI
import KithIdentity
import KithPixels
import KithScreen
import KithWire

/// A device that sees the screen of another, over an encrypted connection.
final class KithSeat: Seat {
    static let name = "kith"
    let host: Program
    let desktop: Desktop
    private let folder: String
    private let device: Device
    private let running: Task<Void, any Error>
    private var viewer: ScreenViewer?
    private var session: Task<Void, any Error>?

    /// Starts `kith up` for the screen, and a device that is paired with it.
    init(_ program: String, _ desktop: Desktop, _ line: Line) async throws {
        self.desktop = desktop
        folder = FileManager.default.temporaryDirectory.appending(path: "kith-screen-\(UUID().uuidString)").path
        let data = folder + "/host"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        host = try Program(
            line.space, program,
            ["up", "--data", data, "--name", "laptop", "--no-discovery", "--screen-source", "x11:" + desktop.display])
        // Asked earlier, a command would open the device itself.
        for _ in 0..<200 where !FileManager.default.fileExists(atPath: data + "/kith.sock") { usleep(50_000) }
        var invitation: String?
        for _ in 0..<100 where invitation == nil {
            invitation = try Program.output(
                program,
                [
                    "invite", "--data", data, "--yes", "--text", "--grant", "screen:control", "--grant",
                    "screen:unattended",
                ])
            usleep(50_000)
        }
        guard let invitation else { throw KithError(.unreachable, "kith up did not start.") }
        var options = Device.Options()
        if line.space == nil { options.endpoint.bindAddresses = [NetworkAddress(ipv4: (127, 0, 0, 1), port: 0)] }
        let device = try await Device.open(directory: folder + "/viewer", options: options)
        self.device = device
        running = Task { try await device.run() }
        let joining = try await device.client.open(
            PairingMethods.Join.self,
            .init(invitation: invitation.trimmingCharacters(in: .whitespacesAndNewlines), grants: [])
        ).stream
        for try await event in joining.messages {
            switch event {
            case .compare: try await joining.send(.init(accept: true))
            case .paired: return
            case .failed(let code, let message): throw KithError(code, message)
            }
        }
    }

    deinit {
        running.cancel()
        // What is left of a measurement is in nobody's way.
        try? FileManager.default.removeItem(atPath: folder)
    }

    func connect(_ arrived: @escaping @Sendable (Arrival) -> Void) async throws {
        var options = ScreenViewer.Options()
        options.wants = Screen.Permissions(control: true)
        options.display = 1
        let viewer = ScreenViewer(device.client, of: "laptop", options: options)
        self.viewer = viewer
        session = Task {
            do {
                try await viewer.run { event in
                    guard case .picture(let region, let isExact) = event else { return }
                    let parts = region.rectangles.map { (width: $0.width, height: $0.height, y: $0.y) }
                    arrived(Arrival(parts, bytes: viewer.traffic.bytes, isExact: isExact))
                }
            } catch {
                if !Task.isCancelled { print("kith: the session ended: \(error)") }
                throw error
            }
        }
    }

    var pixels: [UInt32] {
        viewer?.withPicture { picture in
            (0..<picture.size.height).flatMap { y in picture.withRow(y, 0..<picture.size.width) { Array($0) } }
        } ?? []
    }

    func disconnect() async {
        session?.cancel()
        // It ends by being cancelled.
        try? await session?.value
    }

    func type(_ symbol: UInt32) async throws {
        let key = ScreenInput.Key(symbol: symbol)
        try await viewer?.send(.key(key, isDown: true))
        try await viewer?.send(.key(key, isDown: false))
    }
}
