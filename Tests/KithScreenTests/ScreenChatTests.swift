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
            #expect(line?.name == "phone" && line?.isOwn == false && line?.line.text == "Is this the right window?")
            try await eventually {
                stage.source.notices.contains(.said(name: "phone", "Is this the right window?"))
            }
            try await talk.send(Screen.ChatLine("The one behind it"))
            try await eventually { witness.lines == ["The one behind it"] }
            let own = try await talk.receive()
            #expect(own?.name == "phone" && own?.isOwn == true && own?.line.text == "The one behind it")
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

    @Test func `a device that floods the screen with lines is slowed down, and pushes out nobody else's`() async throws
    {
        let stage = try Stage(.init(consent: .unattended))
        let other = viewer(stage, Stage.own)
        let talk = try await talk(stage)
        defer { talk.abort(.cancelled) }
        try await other.following { _ in
            try await say("Mine", by: other)
            #expect(try await talk.receive()?.line.text == "Mine")
            let client = Client(stage.carrier())
            let view = try await client.open(Screen.View.self, .init())
            defer { view.stream.abort(.cancelled) }
            // By as many streams as there may be: the pace is the session's.
            var streams: [MethodStream<Screen.ChatLine, Screen.ChatLine>] = []
            for _ in 0..<3 {
                streams.append(try await client.open(Screen.Chat.self, .init(session: view.output.session)).stream)
            }
            let flood = Task(name: "flood") { [streams] in
                for number in 0..<10_000 {
                    for stream in streams { try await stream.send(Screen.ChatLine("\(number)")) }
                }
            }
            for _ in 0..<5 { #expect(try await talk.receive()?.name == "phone") }
            let shown = stage.source.notices.filter { if case .said = $0 { true } else { false } }
            #expect(shown.count <= 3 && shown.contains(.said(name: "phone", "Mine")), "\(shown)")
            _ = try await Client(stage.owner()).call(
                ScreenSessions.End.self, .init(session: view.output.session))
            // They end with the session, not with the viewer's leaving.
            for stream in streams { while let _ = try await stream.receive() {} }
            flood.cancel()
            _ = await flood.result
            try await eventually {
                stage.source.notices.filter { if case .said = $0 { true } else { false } }
                    == [.said(name: "phone", "Mine")]
            }
        }
    }

    @Test func `a viewer that reads nothing is put out all the same`() async throws {
        let stage = try Stage(.init(consent: .unattended))
        let client = Client(stage.carrier(Stage.foreign, Stage.all + [.screen(.privacy)]))
        let view = try await client.open(
            Screen.View.self, .init(wants: .init(control: true, privacy: true)))
        let control = try await client.open(Screen.Control.self, .init(session: view.output.session)).stream
        try await control.send(.button(.left, isDown: true))
        try await eventually { stage.source.performed.count == 1 }
        // More than fits into what it does not read.
        for number in 0..<200 {
            stage.source.fill(x: 0, y: 0, width: 320, height: 200) { x, y in
                UInt32(truncatingIfNeeded: (x &* 7_919 &+ y &* 104_729 &+ number) &* 2_654_435_761) & 0xFF_FFFF
            }
            try await view.stream.send(.refresh)
        }
        let owner = Client(stage.owner())
        _ = try await owner.call(ScreenSessions.End.self, .init(session: view.output.session))
        #expect(stage.source.darkness == [true, false] && stage.source.releases >= 1)
        #expect(try await owner.call(ScreenSessions.List.self, Nothing()).sessions.isEmpty)
        while let _ = try await control.receive() {}
        view.stream.abort(.cancelled)
        // Nor is it back at once, though nobody is asked.
        let refused = await #expect(throws: KithError.self) { try await client.open(Screen.View.self, .init()) }
        #expect(refused?.code == .denied && refused?.message.contains("again in") == true)
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
        #expect(stage.source.releases >= 1)
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
        ("\u{1B}[2J hi", "[2J hi"), ("a\r\nb", "a b"), ("\u{202E}evil", "evil"), ("  mother 👩‍👧 ", "mother 👩‍👧"),
        ("ok\u{3164}\u{2800}\u{A0}   \u{2003}so", "ok so"),
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
