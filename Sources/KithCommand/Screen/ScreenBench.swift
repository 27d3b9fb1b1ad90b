import Foundation
import KithAPI
import KithCommandLine
import KithIO
import KithPixels
import KithScreen
import KithWire

/// What `kith bench --screen` measures: how soon another device's screen is seen, and how soon a hand is felt there.
struct ScreenBench {
    /// The times of something that was done again and again, in milliseconds.
    struct Times: Encodable {
        var count: Int
        var median: Double
        var p95: Double
        var maximum: Double

        /// Describes times; `nil` when there are none.
        init?(_ times: [Duration]) {
            guard !times.isEmpty else { return nil }
            let sorted = times.map { $0 / .milliseconds(1) }.sorted()
            count = sorted.count
            median = sorted[count / 2]
            p95 = sorted[min(count - 1, count * 95 / 100)]
            maximum = sorted[count - 1]
        }
    }

    /// The output of `--json`.
    struct Report: Encodable {
        var device: String
        var source: String
        var width: Int
        var height: Int
        var firstMilliseconds: Double
        var firstBytes: UInt64
        /// The whole picture anew, and its bytes.
        var wholeMilliseconds: Times?
        var wholeBytes: UInt64
        /// A move of the pointer until it is seen; absent without the permission to control.
        var pointerMilliseconds: Times?
        /// What moved there meanwhile, by itself.
        var picturesPerSecond: Double
        var bytesPerSecond: Double
    }

    /// The times for which the whole picture is asked.
    private static let wholes = 5
    /// The time something may take before it is given up.
    private static let patience = Duration.seconds(10)

    let client: Client
    let device: String
    /// Seconds for which is watched what moves.
    let seconds: Double
    /// Moves of the pointer.
    let moves: Int

    /// Measures, and tells `progress` what is done.
    func run(_ progress: @escaping @Sendable (String) -> Void) async throws -> Report {
        var options = ScreenViewer.Options()
        options.rate = 240
        options.wants.control = true
        let viewer = ScreenViewer(client, of: device, options: options)
        let (events, mailbox) = AsyncStream.makeStream(of: ScreenViewer.Event.self)
        progress("asks to see it; a person there may be asked, too")
        return try await withThrowingTaskGroup(of: Report?.self) { group in
            group.addTask {
                defer { mailbox.finish() }
                try await viewer.run { mailbox.yield($0) }
                return nil
            }
            group.addTask { try await measure(viewer, events, progress) }
            defer { group.cancelAll() }
            while let report = try await group.next() {
                if let report { return report }
            }
            throw KithError(.closed, "The other device ended the session before everything was measured.")
        }
    }

    private func measure(
        _ viewer: ScreenViewer, _ events: AsyncStream<ScreenViewer.Event>, _ progress: @Sendable (String) -> Void
    ) async throws -> Report {
        // The first event is that it has begun: until then a person may have been asked, for ten minutes at the most.
        try await Self.next(in: events, within: .seconds(630)) { if case .opened = $0 { true } else { false } }
        guard let session = viewer.session else { throw KithError(.internal, "A session that has begun has a name.") }
        let began = ContinuousClock.now
        try await Self.whole(in: events, of: viewer)
        let first = ContinuousClock.now - began
        let firstBytes = viewer.traffic.bytes
        let size = viewer.withPicture { $0.size }

        var wholes: [Duration] = []
        for number in 1...Self.wholes {
            progress("the whole picture, \(number) of \(Self.wholes)")
            let asked = ContinuousClock.now
            try await viewer.send(.refresh)
            try await Self.whole(in: events, of: viewer)
            wholes.append(.now - asked)
        }
        let wholeBytes = (viewer.traffic.bytes - firstBytes) / UInt64(Self.wholes)

        var pointer: [Duration] = []
        if session.permissions.control { pointer = try await move(viewer, size, events, progress) }

        progress("what moves there by itself")
        let (before, start) = (viewer.traffic, ContinuousClock.now)
        try await Task.sleep(for: .seconds(seconds))
        let (after, took) = (viewer.traffic, (ContinuousClock.now - start) / .seconds(1))
        return Report(
            device: device, source: session.source, width: size.width, height: size.height,
            firstMilliseconds: first / .milliseconds(1), firstBytes: firstBytes, wholeMilliseconds: Times(wholes),
            wholeBytes: wholeBytes, pointerMilliseconds: Times(pointer),
            picturesPerSecond: Double(after.pictures + after.frames - before.pictures - before.frames) / took,
            bytesPerSecond: Double(after.bytes - before.bytes) / took)
    }

    /// Moves the pointer there by a pixel and back, and waits each time until it is seen.
    private func move(
        _ viewer: ScreenViewer, _ size: PixelSize, _ events: AsyncStream<ScreenViewer.Event>,
        _ progress: @Sendable (String) -> Void
    ) async throws -> [Duration] {
        var times: [Duration] = []
        let place = viewer.pointer.position ?? (size.width / 2, size.height / 2)
        // To where it is nothing would be told.
        let other = place.x > 0 ? place.x - 1 : place.x + 1
        for number in 0..<(moves + moves % 2) {
            if number % 10 == 0 { progress("the pointer, \(number) of \(moves)") }
            let x = number % 2 == 0 ? other : place.x
            let moved = ContinuousClock.now
            try await viewer.send(.move(x: Int32(clamping: x), y: Int32(clamping: place.y)))
            try await Self.next(in: events) { event in
                if case .pointer = event { viewer.pointer.position?.x == x } else { false }
            }
            times.append(.now - moved)
        }
        return times
    }

    /// Waits until each pixel has come, exactly or as video.
    private static func whole(in events: AsyncStream<ScreenViewer.Event>, of viewer: ScreenViewer) async throws {
        let seen = Locked(PixelRegion())
        try await next(in: events) { event in
            guard case .picture(let region, _) = event else { return false }
            var all = seen.value
            all.formUnion(region)
            seen.set(all)
            return all.area >= viewer.withPicture { $0.size.area }
        }
    }

    /// Waits for an event that is wanted; others pass.
    ///
    /// - Throws: `KithError` `.timedOut` when none comes, `.closed` when the session is over.
    private static func next(
        in events: AsyncStream<ScreenViewer.Event>, within patience: Duration = patience,
        _ isWanted: @escaping @Sendable (ScreenViewer.Event) -> Bool
    ) async throws {
        try await withDeadline(patience) {
            for await event in events where isWanted(event) { return }
            try Task.checkCancellation()
            throw KithError(.closed, "The session was over before everything was measured.")
        }
    }
}

extension ScreenBench.Report {
    /// The report as a person reads it.
    var text: String {
        func times(_ times: ScreenBench.Times) -> String {
            String(
                format: "median %.1f ms, p95 %.1f, maximum %.1f, of %d", times.median, times.p95, times.maximum,
                times.count)
        }
        var lines = [
            "screen    \(width)×\(height), \(printable(source))",
            "first     \(String(format: "%.1f ms", firstMilliseconds)) until the first picture, \(Wording.size(firstBytes))",
        ]
        if let wholeMilliseconds {
            lines.append("whole     \(times(wholeMilliseconds)); \(Wording.size(wholeBytes)) each")
        }
        lines.append(
            pointerMilliseconds.map { "pointer   \(times($0)) moves until they were seen" }
                ?? "pointer   not measured without the grant screen:control there")
        lines.append(
            "moving    \(String(format: "%.1f", picturesPerSecond)) pictures a second, \(Wording.rate(bytesPerSecond))")
        return lines.joined(separator: "\n")
    }
}
