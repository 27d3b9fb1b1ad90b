import KithAPI
import KithIO
import KithIdentity
import KithNode
import KithTesting
import KithWire
import Testing

@testable import KithScreen

@Suite(.timeLimit(.minutes(8))) struct ScreenChatTests {
    private typealias Talk = MethodStream<ScreenSessions.Talk.Line, Screen.ChatLine>

    /// A viewer with a place for lines.
    private func viewer(_ stage: Stage, _ device: DeviceID = Stage.foreign) -> ScreenViewer {
        var options = ScreenViewer.Options()
        options.readsChat = true
        return ScreenViewer(Client(stage.carrier(device)), of: nil, options: options)
    }

    private func talk(_ stage: Stage, _ session: String? = nil) async throws -> Talk {
        try await Client(stage.owner()).open(ScreenSessions.Talk.self, .init(session: session)).stream
    }

    /// Writes a line, once the session has a way for it.
    private func say(_ text: String, by viewer: ScreenViewer) async throws {
        let line = try Screen.ChatLine(text)
        try await eventually { (try? viewer.say(line)) != nil }
    }

    @Test func `lines go both ways, are seen on the screen, and are gone with the session`() async throws {
        let stage = try Stage(.init(consent: .unattended))
        let viewer = viewer(stage)
        let talk = try await talk(stage)
        defer { talk.abort(.cancelled) }
        try await viewer.following { witness in
            try await say("Is this the\nright window?", by: viewer)
            let line = try await talk.receive()
            #expect(line?.name == "phone" && line?.line.text == "Is this the right window?")
            try await eventually {
                stage.source.notices.contains(.said(name: "phone", "Is this the right window?"))
            }
            try await talk.send(Screen.ChatLine("The one behind it"))
            try await eventually { witness.lines == ["The one behind it"] }
            let own = try await talk.receive()
            #expect(own?.name == nil && own?.line.text == "The one behind it")
            // Whoever comes later reads it, too.
            let late = try await self.talk(stage, witness.opened?.session)
            let first = try await late.receive()
            #expect(first == line)
            late.abort(.cancelled)
        }
        try await eventually { stage.source.timesClosed == 1 }
        // Only what is said from now on: it is gone.
        let later = try await self.talk(stage)
        defer { later.abort(.cancelled) }
        let other = self.viewer(stage, Stage.own)
        try await other.following { _ in
            try await say("Hello", by: other)
            let line = try await later.receive()
            #expect(line?.line.text == "Hello")
        }
    }

    @Test func `a line that nobody can read is refused`() async throws {
        let stage = try Stage(.init(consent: .unattended))
        let talk = try await talk(stage)
        defer { talk.abort(.cancelled) }
        try await talk.send(Screen.ChatLine("Hello?"))
        let nobody = try await talk.receive()
        #expect(nobody?.failure == "Nobody sees this screen.")
        // Such as a VNC viewer.
        let viewer = ScreenViewer(Client(stage.carrier()), of: nil, options: .init())
        try await viewer.following { witness in
            try await eventually { witness.opened != nil }
            try await talk.send(Screen.ChatLine("Hello?"))
            let unread = try await talk.receive()
            #expect(unread?.failure?.contains("phone") == true, "\(unread?.failure ?? "it was read")")
        }
    }

    @Test func `a device that floods the screen with lines is slowed down, and is over when its session is`()
        async throws
    {
        let stage = try Stage(.init(consent: .unattended))
        let client = Client(stage.carrier())
        let view = try await client.open(Screen.View.self, .init())
        defer { view.stream.abort(.cancelled) }
        let chat = try await client.open(Screen.Chat.self, .init(session: view.output.session)).stream
        let talk = try await talk(stage)
        defer { talk.abort(.cancelled) }
        let flood = Task(name: "flood") {
            for number in 0..<10_000 { try await chat.send(Screen.ChatLine("\(number)")) }
        }
        for number in 0..<5 {
            let line = try await talk.receive()
            #expect(line?.line.text == "\(number)")
        }
        _ = try await Client(stage.owner()).call(ScreenSessions.End.self, .init())
        // It ends with the session, not with the viewer's leaving.
        while let _ = try await chat.receive() {}
        flood.cancel()
        _ = await flood.result
        #expect(stage.source.notices.filter { if case .said = $0 { true } else { false } }.count <= 3)
    }

    @Test func `a session that was ended types nothing and hears nothing, though another one is shown`() async throws {
        let stage = try Stage(.init(consent: .unattended))
        let client = Client(stage.carrier())
        let wants = Screen.Permissions(control: true, clipboard: true)
        let (kept, ended) = (
            try await client.open(Screen.View.self, .init(wants: wants)),
            try await client.open(Screen.View.self, .init(wants: wants))
        )
        defer { kept.stream.abort(.cancelled) }
        let session = ended.output.session
        let control = try await client.open(Screen.Control.self, .init(session: session)).stream
        let clipboard = try await client.open(Screen.Clipboard.self, .init(session: session)).stream
        try await control.send(.button(.left, isDown: true))
        try await eventually { stage.source.performed.count == 1 }
        _ = try await Client(stage.owner()).call(ScreenSessions.End.self, .init(session: session))
        // Both are over, whatever the viewer does with the pictures' stream.
        while let _ = try await control.receive() {}
        while let _ = try await clipboard.receive() {}
        try? await control.send(.button(.right, isDown: true))  // as a device would that goes on
        let other = try await client.open(Screen.Control.self, .init(session: kept.output.session)).stream
        try await other.send(.move(x: 1, y: 1))
        try await eventually { stage.source.performed.last == .move(x: 1, y: 1) }
        #expect(stage.source.performed == [.button(.left, isDown: true), .move(x: 1, y: 1)])
        #expect(stage.source.releases == 1)
    }

    @Test func `the button beside who looks ends the session`() async throws {
        let stage = try Stage(.init(consent: .unattended))
        let view = try await Client(stage.carrier()).open(Screen.View.self, .init())
        try await eventually { stage.source.notices.count == 1 }
        stage.source.answer(.decided(session: view.output.session, isLetIn: false))
        try await eventually {
            try await Client(stage.owner()).call(ScreenSessions.List.self, Nothing()).sessions.isEmpty
        }
        view.stream.abort(.cancelled)
    }

    @Test(arguments: [
        ("\u{1B}[2J hi", "[2J hi"), ("a\r\nb", "a  b"), ("\u{202E}evil", "evil"), ("  mother 👩‍👧 ", "mother 👩‍👧"),
    ])
    func `a line is one line, and moves nothing`(text: String, expected: String) throws {
        let line = try Screen.ChatLine(text)
        #expect(line.text == expected)
    }

    @Test(arguments: ["", " \n\t", "\u{202E}", String(repeating: "x", count: 501)])
    func `no line is empty or long`(text: String) {
        #expect(throws: KithError.self) { try Screen.ChatLine(text) }
    }
}
