import KithAPI
import KithNode
import KithTesting
import KithWire
import Testing

@testable import KithScreen

/// A screen that is dark for a viewer that stands still.
@Suite(.timeLimit(.minutes(4))) struct ViewerWatchTests {
    private static let granted: [Grant] = [.screen(.view), .screen(.privacy)]
    private let start = ContinuousClock.now

    @Test func `who confirms nothing for a while is asked once, and then counts as gone`() {
        var watch = ViewerWatch(patience: .seconds(30), at: start)
        #expect(watch.next(at: start) == .wait(until: start + .seconds(10)))
        #expect(watch.next(at: start + .seconds(10)) == .ask)
        #expect(watch.next(at: start + .seconds(10)) == .wait(until: start + .seconds(30)))
        #expect(watch.next(at: start + .seconds(29)) == .wait(until: start + .seconds(30)))
        #expect(watch.next(at: start + .seconds(30)) == .isGone)
    }

    @Test func `each sign of it counts anew, and it is asked again`() {
        var watch = ViewerWatch(patience: .seconds(30), at: start)
        var (now, asked) = (start, 0)
        for _ in 0..<1_000 {
            switch watch.next(at: now) {
            case .wait(let until): now = until
            case .ask:
                asked += 1
                // It answers late, and in time.
                now += .seconds(19)
                watch.confirmed(at: now)
            case .isGone: Issue.record("it is there")
            }
        }
        #expect(asked == 500)
        // What was confirmed earlier does not take back what came later.
        watch.confirmed(at: start)
        #expect(watch.next(at: now) != .isGone)
    }

    @Test func `a viewer that stands still leaves no dark screen, and has its session yet`() async throws {
        let stage = try Stage(.init(consent: .unattended), patience: .milliseconds(300))
        // It reads nothing, and confirms nothing.
        let view = try await Client(stage.carrier(Stage.foreign, Self.granted)).open(
            Screen.View.self, .init(wants: .init(privacy: true)))
        #expect(stage.source.darkness == [true])
        try await eventually { stage.source.darkness == [true, false] }
        // When it goes on it sees the screen, and that this is lit.
        var isTold = false
        while !isTold, let update = try await view.stream.receive() {
            if case .permissions(let permissions) = update { isTold = permissions.privacy == nil }
        }
        let sessions = try await Client(stage.owner()).call(ScreenSessions.List.self, Nothing()).sessions
        #expect(isTold && sessions.count == 1 && sessions.first?.permissions.privacy == nil)
        view.stream.abort(.cancelled)
    }

    @Test func `what a viewer holds that gives no sign is let go, and its session goes on`() async throws {
        let stage = try Stage(.init(consent: .unattended), holdingPatience: .milliseconds(300))
        let client = Client(stage.carrier(Stage.foreign, Stage.all))
        // It reads nothing, and confirms nothing.
        let view = try await client.open(Screen.View.self, .init(wants: .init(control: true)))
        let control = try await client.open(Screen.Control.self, .init(session: view.output.session)).stream
        try await control.send(.button(.left, isDown: true))
        try await eventually { stage.source.performed.count == 1 }
        try await eventually { stage.source.releases == 1 }
        let sessions = try await Client(stage.owner()).call(ScreenSessions.List.self, Nothing()).sessions
        #expect(sessions.map(\.id) == [view.output.session])
        // Again for the next.
        try await control.send(.key(.init(symbol: 0x61), isDown: true))
        try await eventually { stage.source.releases == 2 }
        control.abort(.cancelled)
        view.stream.abort(.cancelled)
    }

    @Test func `what a viewer holds that is there stays held, for as long as it likes`() async throws {
        let stage = try Stage(.init(consent: .unattended), holdingPatience: .seconds(8))
        var options = ScreenViewer.Options()
        options.wants.control = true
        let viewer = ScreenViewer(Client(stage.carrier()), of: nil, options: options)
        try await viewer.following { witness in
            try await eventually { viewer.colours == stage.source.pixels && witness.isExact }
            try await viewer.send(.key(.init(symbol: 0xFFE1), isDown: true))
            try await eventually { stage.source.performed.count == 1 }
            // Longer than the host is patient.
            let before = viewer.traffic.pictures
            try await eventually { viewer.traffic.pictures >= before + 4 }
            #expect(stage.source.releases == 0)
        }
    }

    @Test func `a viewer of a screen at rest confirms that it is there, until its window stands still`() async throws {
        let stage = try Stage(.init(consent: .unattended), patience: .seconds(8))
        var options = ScreenViewer.Options()
        options.wants.privacy = true
        let viewer = ScreenViewer(
            Client(stage.carrier(Stage.foreign, Self.granted)), of: nil, options: options)
        try await viewer.following { witness in
            try await eventually { viewer.colours == stage.source.pixels && witness.isExact }
            // Longer than the host is patient, and nothing moves.
            let before = viewer.traffic.pictures
            try await eventually { viewer.traffic.pictures >= before + 4 }
            #expect(stage.source.darkness == [true])
            viewer.showing(false)
            try await eventually { stage.source.darkness == [true, false] }
            #expect(viewer.colours == stage.source.pixels)
            // The pictures go on when the window does.
            viewer.showing(true)
            try await stage.source.scribble(3)
            try await eventually { viewer.colours == stage.source.pixels && witness.permissions?.privacy == nil }
        }
    }
}
