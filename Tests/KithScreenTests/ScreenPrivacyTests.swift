import KithAPI
import KithIO
import KithIdentity
import KithNode
import KithTesting
import KithWire
import Testing

@testable import KithScreen

@Suite(.timeLimit(.minutes(8))) struct ScreenPrivacyTests {
    private static let granted: [Grant] = [.screen(.view), .screen(.privacy)]
    private static let wants = Screen.Permissions(privacy: true)

    private func client(_ stage: Stage, _ id: DeviceID = Stage.foreign, _ grants: [Grant] = granted) -> Client {
        Client(stage.carrier(id, grants))
    }

    private func end(_ stage: Stage, _ session: String) async throws {
        _ = try await Client(stage.owner()).call(ScreenSessions.End.self, .init(session: session))
    }

    @Test func `the screen is dark while anybody sees it who wants that, and lit after the last of them`() async throws
    {
        let stage = try Stage(.init(consent: .unattended))
        let plain = try await client(stage).open(Screen.View.self, .init())
        #expect(stage.source.darkness.isEmpty)
        let first = try await client(stage).open(Screen.View.self, .init(wants: Self.wants))
        // Before the answer, and so before any picture.
        #expect(stage.source.darkness == [true] && first.output.permissions.privacy == true)
        try await eventually {
            stage.source.notices.contains {
                if case .active(_, _, let permissions) = $0 { permissions.privacy == true } else { false }
            }
        }
        let second = try await client(stage, Stage.own).open(Screen.View.self, .init(wants: Self.wants))
        try await end(stage, first.output.session)
        while let _ = try? await first.stream.receive() {}
        #expect(stage.source.darkness == [true])
        try await end(stage, second.output.session)
        try await eventually { stage.source.darkness == [true, false] }
        plain.stream.abort(.cancelled)
    }

    @Test func `without the grant nobody is asked, and it stays lit`() async throws {
        let stage = try Stage()
        let refused = await #expect(throws: KithError.self) {
            try await client(stage, Stage.foreign, [.screen(.control)]).open(
                Screen.View.self, .init(wants: Self.wants))
        }
        #expect(refused?.code == .denied && refused?.message.contains("screen:privacy") == true)
        #expect(stage.source.darkness.isEmpty && stage.source.notices.isEmpty)
    }

    @Test func `a screen that cannot be dark is not shown to who wants that`() async throws {
        let stage = try Stage(.init(consent: .unattended))
        stage.source.isAlwaysLit()
        let refused = await #expect(throws: KithError.self) {
            try await client(stage).open(Screen.View.self, .init(wants: Self.wants))
        }
        #expect(refused?.code == .unsupported)
        let sessions = try await Client(stage.owner()).call(ScreenSessions.List.self, Nothing()).sessions
        #expect(sessions.isEmpty)
    }

    @Test func `a person lets it in only without: it is told so, and nothing is shown`() async throws {
        let stage = try Stage()
        let opening = Task(name: "open") {
            try await client(stage).open(Screen.View.self, .init(wants: Self.wants))
        }
        let owner = Client(stage.owner())
        try await eventually { try await owner.call(ScreenSessions.List.self, Nothing()).sessions.count == 1 }
        let waiting = try await owner.call(ScreenSessions.List.self, Nothing()).sessions
        let session = try #require(waiting.first)
        #expect(session.permissions.privacy == true)
        _ = try await owner.call(ScreenSessions.Decide.self, .init(session: session.id, permissions: .init()))
        let refused = await #expect(throws: KithError.self) { try await opening.value }
        #expect(refused?.code == .denied && stage.source.darkness.isEmpty)
    }

    @Test func `its owner, and a grant that is taken away, light it in a running session`() async throws {
        let stage = try Stage(.init(consent: .unattended))
        let view = try await client(stage).open(Screen.View.self, .init(wants: Self.wants))
        defer { view.stream.abort(.cancelled) }
        _ = try await Client(stage.owner()).call(
            ScreenSessions.Change.self, .init(session: view.output.session, permissions: .init()))
        #expect(stage.source.darkness == [true, false])
        // Nothing darkens it for a session that is seen already, and none says so.
        let changed = try await Client(stage.owner()).call(
            ScreenSessions.Change.self, .init(session: view.output.session, permissions: Self.wants))
        #expect(changed.permissions.privacy == nil)
        let other = try await client(stage).open(Screen.View.self, .init(wants: Self.wants))
        defer { other.stream.abort(.cancelled) }
        stage.service.grantsChanged(for: Stage.foreign, to: [.screen(.view)])
        try await eventually { stage.source.darkness == [true, false, true, false] }
    }

    @Test func `a screen that is lit by itself is said to be, and darkened anew for the next`() async throws {
        let stage = try Stage(.init(consent: .unattended))
        let view = try await client(stage).open(Screen.View.self, .init(wants: Self.wants))
        defer { view.stream.abort(.cancelled) }
        #expect(view.output.permissions.privacy == true)
        stage.source.change(.lit)
        while let update = try await view.stream.receive() {
            guard case .permissions(let permissions) = update else { continue }
            #expect(permissions.privacy == nil)
            break
        }
        let next = try await client(stage).open(Screen.View.self, .init(wants: Self.wants))
        defer { next.stream.abort(.cancelled) }
        #expect(stage.source.darkness == [true, true] && next.output.permissions.privacy == true)
    }

    @Test func `a viewer whose connection is lost leaves no dark screen, and has it dark when it comes back`()
        async throws
    {
        let stage = try Stage(.init(consent: .unattended))
        let carrier = stage.carrier(Stage.foreign, Self.granted)
        let view = try await Client(carrier).open(Screen.View.self, .init(wants: Self.wants))
        carrier.cut()
        try await eventually { stage.source.darkness == [true, false] }
        let again = try await client(stage).open(
            Screen.View.self, .init(wants: Self.wants, resumes: view.output.session))
        #expect(stage.source.darkness == [true, false, true] && again.output.permissions.privacy == true)
        again.stream.abort(.cancelled)
    }
}
