import KithAPI
import KithIO
import KithTesting
import KithWire
import Synchronization

@testable import KithScreen

/// A screen that tests draw on, and that notes what is done to it.
final class ScriptedSource: ScreenSource {
    private struct State {
        var width: Int
        var height: Int
        var pixels: [UInt32]
        var isGone = false
        var performed: [ScreenInput] = []
        var releases = 0
        var notices: [ScreenNotice] = []
        var decide: (@Sendable (ScreenNotice.Answer) -> Void)?
        var clipboards: [ScreenClipboard.Format: [UInt8]] = [:]
        var reads = 0
        var offered: [ScreenClipboard.Format] = []
        var content: (@Sendable (ScreenClipboard.Format) async throws -> [UInt8])?
        var closed = 0
        var monitor: UInt32? = 1
        var canBeDark = true
        var darkness: [Bool] = []
    }

    let name = "a script"
    private let state: Mutex<State>
    private let changes = BoundedQueue<ScreenChange>(capacity: 4_096)

    init(width: Int = 320, height: Int = 200) {
        state = Mutex(
            State(
                width: width, height: height,
                pixels: [UInt32](repeating: 0xFF20_3040, count: width * height)))
    }

    // MARK: - What tests do and see

    var size: (width: Int, height: Int) { state.withLock { ($0.width, $0.height) } }
    var pixels: [UInt32] { state.withLock { $0.pixels } }
    var performed: [ScreenInput] { state.withLock { $0.performed } }
    var releases: Int { state.withLock { $0.releases } }
    var notices: [ScreenNotice] { state.withLock { $0.notices } }
    var offered: [ScreenClipboard.Format] { state.withLock { $0.offered } }
    var clipboardReads: Int { state.withLock { $0.reads } }
    /// Each time it was darkened or lit.
    var darkness: [Bool] { state.withLock { $0.darkness } }
    var timesClosed: Int { state.withLock { $0.closed } }

    /// Fills a rectangle and says that it changed.
    func fill(x: Int, y: Int, width: Int, height: Int, with colour: (Int, Int) -> UInt32) {
        state.withLock { state in
            for row in y..<min(y + height, state.height) {
                for column in x..<min(x + width, state.width) {
                    state.pixels[row * state.width + column] = colour(column, row) | 0xFF00_0000
                }
            }
        }
        change(.damage([Screen.Rectangle(x: Int32(x), y: Int32(y), width: UInt32(width), height: UInt32(height))]))
    }

    /// Fills rectangles with one colour or with noise, some of them together.
    func scribble(_ count: Int) async throws {
        var random = SeededRandom.fromEnvironment()
        for _ in 0..<count {
            let (x, y) = (Int.random(in: 0..<300, using: &random), Int.random(in: 0..<180, using: &random))
            let noise = Bool.random(using: &random)
            let colour = UInt32.random(in: 0...0xFF_FFFF, using: &random)
            fill(
                x: x, y: y, width: Int.random(in: 1...120, using: &random),
                height: Int.random(in: 1...90, using: &random)
            ) { noise ? colour &* UInt32($0 &+ 1) &+ UInt32($1) & 0xFF_FFFF : colour }
            // Real time: changes come while others are on their way, or together.
            if Bool.random(using: &random) { try await Task.sleep(for: .milliseconds(3)) }
        }
    }

    func resize(width: Int, height: Int) {
        state.withLock { state in
            (state.width, state.height) = (width, height)
            state.pixels = (0..<width * height).map { 0xFF00_0000 | UInt32($0 & 0xFFFF) }
        }
        change(.displays(all))
    }

    /// Takes the one monitor away, or brings it back with a number.
    func plug(_ isThere: Bool, as number: UInt32 = 1) {
        state.withLock { $0.monitor = isThere ? number : nil }
        change(.displays(all))
    }

    func copy(_ contents: [ScreenClipboard.Format: [UInt8]]) {
        state.withLock { $0.clipboards = contents }
        change(.clipboard(.clipboard, contents.keys.sorted { $0.rawValue < $1.rawValue }))
    }

    func paste(_ format: ScreenClipboard.Format) async throws -> [UInt8] {
        guard let content = state.withLock({ $0.content }) else { throw KithError(.notFound, "nothing is offered") }
        return try await content(format)
    }

    func answer(_ answer: ScreenNotice.Answer) { state.withLock { $0.decide }?(answer) }

    func change(_ change: ScreenChange) { _ = changes.offered(change) }

    /// The screen goes away, as a server does that is killed.
    func vanish() {
        state.withLock { $0.isGone = true }
        changes.finish(throwing: KithError(.unreachable, "The screen is gone."))
    }

    private var all: [Screen.Display] {
        state.withLock { state in
            let whole = Screen.Rectangle(width: UInt32(state.width), height: UInt32(state.height))
            let half = Screen.Rectangle(
                x: Int32(state.width / 2), y: 0, width: UInt32(state.width / 2), height: UInt32(state.height))
            let monitor = state.monitor.map {
                Screen.Display(number: $0, name: "RIGHT-1", bounds: half, isPrimary: true)
            }
            return [Screen.Display(number: 0, name: "all", bounds: whole, isPrimary: false)]
                + (monitor.map { [$0] } ?? [])
        }
    }

    private func check() throws(KithError) {
        if state.withLock({ $0.isGone }) { throw KithError(.unreachable, "The screen is gone.") }
    }

    // MARK: - What a host asks

    var displays: [Screen.Display] {
        get async throws(KithError) {
            try check()
            return all
        }
    }

    func nextChanges() async throws(KithError) -> [ScreenChange] {
        do {
            if let change = try await changes.receive() { return [change] }
        } catch let error as KithError {
            throw error
        } catch {
            throw KithError(.cancelled, "cancelled")
        }
        throw KithError(.closed, "The screen was closed.")
    }

    func capture(
        _ area: Screen.Rectangle, into target: UnsafeMutableRawBufferPointer, stride: Int
    ) async throws(KithError) {
        try check()
        state.withLock { state in
            for row in 0..<Int(area.height) {
                for column in 0..<Int(area.width) {
                    let (x, y) = (Int(area.x) + column, Int(area.y) + row)
                    guard x < state.width, y < state.height else { continue }
                    target.storeBytes(
                        of: state.pixels[y * state.width + x], toByteOffset: row * stride + column * 4, as: UInt32.self)
                }
            }
        }
    }

    func perform(_ input: ScreenInput) async throws(KithError) {
        try check()
        state.withLock { $0.performed.append(input) }
    }

    func releaseAll() async { state.withLock { $0.releases += 1 } }

    func clipboard(
        _ selection: ScreenClipboard.Selection, as format: ScreenClipboard.Format
    ) async throws(KithError) -> [UInt8] {
        let bytes = state.withLock { state in
            state.reads += 1
            return state.clipboards[format]
        }
        guard let bytes else { throw KithError(.notFound, "Nothing was copied in that format.") }
        return bytes
    }

    func offerClipboard(
        _ selection: ScreenClipboard.Selection, formats: [ScreenClipboard.Format],
        content: @escaping @Sendable (ScreenClipboard.Format) async throws -> [UInt8]
    ) async throws(KithError) {
        state.withLock { state in
            state.offered = formats
            state.content = content
        }
    }

    func show(_ notices: [ScreenNotice], decide: @escaping @Sendable (ScreenNotice.Answer) -> Void) async -> Bool {
        state.withLock { state in
            state.notices = notices
            state.decide = decide
        }
        return true
    }

    /// It cannot be darkened, as most cannot.
    func isAlwaysLit() { state.withLock { $0.canBeDark = false } }

    func setDark(_ isDark: Bool) async throws(KithError) {
        guard state.withLock({ $0.canBeDark }) else { throw KithError(.unsupported, "It cannot be kept dark.") }
        state.withLock { $0.darkness.append(isDark) }
    }

    func close() async {
        state.withLock { $0.closed += 1 }
    }
}
