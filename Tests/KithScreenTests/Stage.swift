import KithAPI
import KithIO
import KithIdentity
import KithNode
import KithPixels
import KithTesting
import KithWire
import Logging
import Synchronization

@testable import KithScreen

/// A screen service on a script, and callers of it.
final class Stage: Sendable {
    let source: ScriptedSource
    let service: ScreenService

    init(
        _ rules: ScreenSessions.Rules? = nil, source: ScriptedSource = ScriptedSource(),
        patience: Duration = ScreenService.patience,
        holdingPatience: Duration = ScreenService.holdingPatience
    ) throws {
        self.source = source
        let kept = Locked(try rules.map { try JSONText.encode($0) }.map { String(decoding: $0, as: UTF8.self) })
        service = ScreenService(
            storage: ScreenService.Storage(
                load: { kept.value }, save: { kept.set($0) }, isOwn: { $0 == Stage.own }),
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }, patience: patience,
            holdingPatience: holdingPatience
        ) { source }
    }

    static let own = device(1)
    static let foreign = device(2)

    static func device(_ seed: UInt8) -> DeviceID {
        guard let key = try? DeviceKey(seed: [UInt8](repeating: seed, count: 32)) else {
            fatalError("a seed has 32 bytes")
        }
        return key.id
    }

    static let all: [Grant] = [.screen(.control), .screen(.clipboard)]

    /// Calls of this device's own person.
    func owner() -> CuttableCarrier { CuttableCarrier(service) }

    /// Calls of another device.
    func carrier(_ id: DeviceID = Stage.foreign, _ grants: [Grant] = Stage.all) -> CuttableCarrier {
        CuttableCarrier(service, caller: .device(id, name: "phone", paired: true), grants: grants)
    }
}

/// What a viewer was told, in order, to be waited for.
final class ViewerWitness: Sendable {
    private struct State {
        var opened: Screen.View.Output?
        var isExact = false
        var displays: [Screen.Display] = []
        var shown: UInt32?
        var permissions: Screen.Permissions?
        var control: [Bool] = []
        var openings = 0
        var lines: [String] = []
    }

    private let state = Mutex(State())

    var opened: Screen.View.Output? { state.withLock { $0.opened } }
    var openings: Int { state.withLock { $0.openings } }
    var shown: UInt32? { state.withLock { $0.shown } }
    var permissions: Screen.Permissions? { state.withLock { $0.permissions } }
    var isExact: Bool { state.withLock { $0.isExact } }
    var lines: [String] { state.withLock { $0.lines } }
    var control: [Bool] { state.withLock { $0.control } }

    func note(_ event: ScreenViewer.Event) {
        state.withLock { state in
            switch event {
            case .opened(let output):
                state.opened = output
                state.openings += 1
            case .picture(_, let isExact): state.isExact = isExact
            case .displays(let displays, let shown):
                state.displays = displays
                state.shown = shown
            case .permissions(let permissions): state.permissions = permissions
            case .control(let isInControl, _): state.control.append(isInControl)
            case .said(let line): state.lines.append(line.text)
            case .pointer: break
            }
        }
    }
}

extension ScreenViewer {
    /// Runs a session while `body` does.
    func following<Result: Sendable>(
        _ body: @escaping @Sendable (ViewerWitness) async throws -> Result
    ) async throws -> Result {
        let witness = ViewerWitness()
        return try await withThrowingTaskGroup(of: Result?.self) { group in
            group.addTask { [self] in
                try await run { witness.note($0) }
                return nil
            }
            group.addTask { try await body(witness) }
            defer { group.cancelAll() }
            while let result = try await group.next() {
                if let result { return result }
            }
            throw KithError(.internal, "nothing was done")
        }
    }

    /// The pixels, row by row, without the byte that means nothing.
    var colours: [UInt32] {
        withPicture { picture in
            (0..<picture.size.area).map {
                picture[x: $0 % picture.size.width, y: $0 / picture.size.width] | 0xFF00_0000
            }
        }
    }
}
