import KithAPI
import KithIO
import KithIdentity
import KithNode
import KithPixels
import KithRFB
import KithTesting
import KithWire
import Synchronization

@testable import KithScreen

/// A scripted screen that is shown to VNC viewers, with the service and the session between.
final class RFBStage: Sendable {
    let stage: Stage
    let display: RFBDisplay
    let viewer: ScreenViewer
    let notices: Locked<[RFBDisplay.Notice]>
    static let password = "s3cret!!"

    init(
        width: Int = 320, height: Int = 200, wants: Screen.Permissions = .init(control: true, clipboard: true),
        at endpoint: RFBDisplay.Endpoint = .loopback(port: 0, password: Array(RFBStage.password.utf8))
    ) throws {
        stage = try Stage(source: ScriptedSource(width: width, height: height))
        let notices = Locked<[RFBDisplay.Notice]>([])
        self.notices = notices
        display = try RFBDisplay(at: endpoint, name: "laptop") { notice in notices.change { $0.append(notice) } }
        var options = ScreenViewer.Options()
        options.wants = wants
        viewer = ScreenViewer(Client(stage.owner()), of: nil, options: options, clipboard: display.clipboard)
    }

    var source: ScriptedSource { stage.source }

    /// The port on 127.0.0.1.
    var port: UInt16 {
        if case .address(let address)? = display.endpoints.first { address.port } else { 0 }
    }

    /// Shows it while `body` runs.
    func shown<Result: Sendable>(_ body: @escaping @Sendable () async throws -> Result) async throws -> Result {
        try await withThrowingTaskGroup(of: Result?.self) { group in
            group.addTask { [self] in
                try await viewer.show(on: display)
                return nil
            }
            group.addTask { try await body() }
            defer { group.cancelAll() }
            while let result = try await group.next() {
                if let result { return result }
            }
            throw KithError(.internal, "nothing was done")
        }
    }

    /// The screen as our own client sees it through the adapter.
    func source(_ name: String = "127.0.0.1", password: String = RFBStage.password) async throws -> RFBSource {
        let folder = try TemporaryFolder()
        try folder.write(Array("\(password)\n".utf8), to: "password")
        // Other tests may keep every thread for a while.
        return try await RFBSource.open(
            RFBAddress(parsing: "vnc://\(name):\(port)", passwordFile: folder.path + "/password"),
            patience: .seconds(120))
    }
}

/// A client that does what a test says, over a socket.
final class RFBCaller: Sendable {
    let socket: StreamSocket

    init(_ port: UInt16, on reactor: Reactor) async throws {
        let address = try RFBAddress(parsing: "vnc://127.0.0.1:\(port)")
        socket = try await address.connect(on: reactor)
    }

    /// What arrives until so many bytes are there, or the end.
    func read(_ count: Int) async throws -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count, let more = try await socket.read(upTo: count - bytes.count) { bytes += more }
        return bytes
    }
}

/// All of a source's pixels, 0xFFRRGGBB.
func colours(of source: any ScreenSource) async throws -> [UInt32] {
    let bounds = try await source.displays[0].bounds
    let count = Int(bounds.width) * Int(bounds.height)
    let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: count * 4, alignment: 16)
    defer { memory.deallocate() }
    try await source.capture(bounds, into: memory, stride: Int(bounds.width) * 4)
    return Array(memory.bindMemory(to: UInt32.self))
}
