import Foundation
import KithAPI
import KithIO
import KithIdentity
import KithNode
import KithPixels
import KithTesting
import KithWire
import Logging
import Testing

@testable import KithScreen

@Suite("A screen, from the host to the viewer", .timeLimit(.minutes(8)))
struct ScreenServiceTests {
    @Test("The viewer's picture is the host's, bit for bit, whatever is drawn")
    func exact() async throws {
        let stage = try Stage()
        let viewer = ScreenViewer(Client(stage.owner()), of: nil, options: .init())
        try await viewer.following { _ in
            try await stage.source.scribble(60)
            try await eventually { viewer.colours == stage.source.pixels }
        }
        try await eventually { stage.source.timesClosed == 1 }
    }

    @Test("A screen is not closed by the end of one session while another begins")
    func closing() async throws {
        let source = ScriptedSource()
        let host = ScreenHost(logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }) { source }
        try await host.withSource { _ in
            await host.closeIfUnused()
            try await host.withSource { _ in }
            #expect(source.timesClosed == 0)
        }
        #expect(source.timesClosed == 1)
    }

    @Test("A screen that changes its size, and a display that is chosen, are followed")
    func displays() async throws {
        let stage = try Stage()
        let viewer = ScreenViewer(Client(stage.owner()), of: nil, options: .init())
        try await viewer.following { witness in
            try await eventually { viewer.colours == stage.source.pixels }
            stage.source.resize(width: 200, height: 300)
            try await eventually { viewer.colours == stage.source.pixels }
            try await viewer.send(.show(display: 1))
            try await eventually { witness.shown == 1 && viewer.colours.count == 100 * 300 }
            let right = stage.source.pixels.enumerated().filter { $0.offset % 200 >= 100 }.map(\.element)
            try await eventually { viewer.colours == right }
        }
    }

    @Test("A monitor that is unplugged is no reason to refuse a session that goes on, and is shown when it is back")
    func unplugged() async throws {
        let stage = try Stage(.init(consent: .unattended))
        var options = ScreenViewer.Options()
        options.display = 1
        let carrier = stage.carrier()
        let viewer = ScreenViewer(Client(carrier), of: nil, options: options)
        let witness = ViewerWitness()
        let first = Task { try await viewer.run { witness.note($0) } }
        try await eventually { viewer.colours.count == 160 * 200 }
        stage.source.plug(false)
        try await eventually { witness.shown == 0 && viewer.colours == stage.source.pixels }
        stage.source.plug(true)
        try await eventually { witness.shown == 1 && viewer.colours.count == 160 * 200 }
        carrier.cut()
        await #expect(throws: KithError.self) { try await first.value }
        stage.source.plug(false)
        let second = Task { try await viewer.run { witness.note($0) } }
        try await eventually { witness.opened?.display.number == 0 && viewer.colours == stage.source.pixels }
        // Back again, with another number.
        stage.source.plug(true, as: 2)
        try await eventually { witness.shown == 2 && viewer.colours.count == 160 * 200 }
        carrier.cut()
        await #expect(throws: KithError.self) { try await second.value }
        stage.source.plug(true, as: 3)
        let third = Task { try await viewer.run { witness.note($0) } }
        try await eventually { witness.opened?.display.number == 3 && viewer.colours.count == 160 * 200 }
        third.cancel()
        _ = await third.result
        // One that begins asks for what is not there.
        let refused = await #expect(throws: KithError.self) {
            try await Client(stage.carrier()).open(Screen.View.self, .init(display: 1))
        }
        #expect(refused?.code == .notFound)
    }

    @Test("What is typed reaches the screen in order, on the display that is seen, and is let go at the end")
    func control() async throws {
        let stage = try Stage()
        var options = ScreenViewer.Options()
        options.display = 1
        options.wants.control = true
        let viewer = ScreenViewer(Client(stage.owner()), of: nil, options: options)
        let key = ScreenInput.Key(symbol: 0x61, code: 30)
        try await viewer.following { witness in
            try await eventually { witness.opened != nil }
            try await viewer.send(.move(x: 5, y: 7))
            try await viewer.send(.move(x: 9_999, y: -9_999))
            try await viewer.send(.key(key, isDown: true))
            try await eventually { stage.source.performed.count == 3 }
            #expect(
                stage.source.performed == [
                    .move(x: 165, y: 7), .move(x: 319, y: 0), .key(key, isDown: true),
                ])
        }
        try await eventually { stage.source.releases >= 1 }
    }

    @Test("A device is let in by a person, with no more than it asked for and was granted")
    func consent() async throws {
        let stage = try Stage()
        let owner = Client(stage.owner())
        var options = ScreenViewer.Options()
        options.wants = .init(control: true, clipboard: true)
        let viewer = ScreenViewer(Client(stage.carrier(Stage.foreign, [.screen(.control)])), of: nil, options: options)
        try await viewer.following { witness in
            try await eventually { try await owner.call(ScreenSessions.List.self, Nothing()).sessions.count == 1 }
            let waiting = try await owner.call(ScreenSessions.List.self, Nothing()).sessions[0]
            #expect(waiting.state == .waiting && waiting.device == Stage.foreign)
            #expect(waiting.permissions == .init(control: true))
            try await eventually { stage.source.notices.count == 1 }
            #expect(witness.opened == nil && viewer.colours.isEmpty)
            _ = try await owner.call(
                ScreenSessions.Decide.self,
                .init(session: waiting.id, permissions: .init(control: true, clipboard: true)))
            try await eventually { witness.opened?.permissions == .init(control: true) }
            try await eventually { viewer.colours == stage.source.pixels }
        }
    }

    @Test("A refusal, and nobody's answer, show nothing")
    func refusal() async throws {
        let stage = try Stage(.init(waitSeconds: 5))
        let owner = Client(stage.owner())
        let viewer = ScreenViewer(Client(stage.carrier()), of: nil, options: .init())
        let run = Task { try await viewer.run { _ in Issue.record("nothing is shown") } }
        try await eventually { stage.source.notices.count == 1 }
        let waiting = try await owner.call(ScreenSessions.List.self, Nothing()).sessions[0]
        stage.source.answer(.decided(session: waiting.id, isLetIn: false))
        await #expect(throws: KithError(.denied, "")) { try await run.value }
        let other = ScreenViewer(Client(stage.carrier(Stage.own)), of: nil, options: .init())
        await #expect(throws: KithError(.denied, "")) {
            try await other.run { _ in Issue.record("nothing is shown") }
        }
        #expect(try await owner.call(ScreenSessions.List.self, Nothing()).sessions.isEmpty)
    }

    @Test("Nobody is asked again at once about a device that was refused, nor twice at a time")
    func insistence() async throws {
        let stage = try Stage()
        let owner = Client(stage.owner())
        func ask(_ device: DeviceID) -> Task<Void, any Error> {
            let viewer = ScreenViewer(Client(stage.carrier(device)), of: nil, options: .init())
            return Task { try await viewer.run { _ in Issue.record("nothing is shown") } }
        }
        func waiting() async throws -> [ScreenSessions.Session] {
            try await owner.call(ScreenSessions.List.self, Nothing()).sessions
        }
        let first = ask(Stage.foreign)
        try await eventually { try await waiting().count == 1 }
        await #expect(throws: KithError(.denied, "")) { try await ask(Stage.foreign).value }
        _ = try await owner.call(ScreenSessions.Decide.self, .init(session: waiting()[0].id, permissions: nil))
        await #expect(throws: KithError(.denied, "")) { try await first.value }
        await #expect(throws: KithError(.denied, "")) { try await ask(Stage.foreign).value }
        #expect(try await waiting().isEmpty)
        // Others are not charged for it, nor is the device once its grants are other ones.
        let other = ask(Stage.own)
        try await eventually { try await waiting().map(\.device) == [Stage.own] }
        other.cancel()
        _ = await other.result
        stage.service.grantsChanged(for: Stage.foreign, to: Stage.all)
        let again = ask(Stage.foreign)
        try await eventually { try await waiting().map(\.device) == [Stage.foreign] }
        again.cancel()
        _ = await again.result
    }

    @Test("A session's name is of no use to another device, and control not without the permission")
    func names() async throws {
        let stage = try Stage(.init(consent: .unattended))
        let viewer = ScreenViewer(Client(stage.carrier()), of: nil, options: .init())
        try await viewer.following { witness in
            try await eventually { witness.opened != nil }
            let session = try #require(witness.opened?.session)
            let other = Client(stage.carrier(Stage.own))
            await #expect(throws: KithError(.notFound, "")) {
                _ = try await other.open(Screen.Control.self, .init(session: session))
            }
            await #expect(throws: KithError(.notFound, "")) {
                _ = try await other.open(Screen.Clipboard.self, .init(session: session))
            }
            // It did not ask for it.
            let own = Client(stage.carrier())
            await #expect(throws: KithError(.denied, "")) {
                _ = try await own.open(Screen.Control.self, .init(session: session))
            }
        }
    }

    @Test("Control that is taken away in a session has no more effect, and lets go of what is held")
    func limiting() async throws {
        let stage = try Stage(.init(consent: .unattended))
        let owner = Client(stage.owner())
        var options = ScreenViewer.Options()
        options.wants.control = true
        let viewer = ScreenViewer(Client(stage.carrier()), of: nil, options: options)
        try await viewer.following { witness in
            try await eventually { witness.opened != nil }
            let session = try #require(witness.opened?.session)
            try await viewer.send(.button(.left, isDown: true))
            try await eventually { stage.source.performed.count == 1 }
            _ = try await owner.call(
                ScreenSessions.Change.self, .init(session: String(session.prefix(8)), permissions: .init()))
            #expect(stage.source.releases == 1)
            try await eventually { witness.permissions == .init() }
            try await viewer.send(.button(.right, isDown: true))
            // The picture goes on.
            stage.source.fill(x: 0, y: 0, width: 50, height: 50) { _, _ in 0x00FF00 }
            try await eventually { viewer.colours == stage.source.pixels }
            #expect(stage.source.performed.count == 1)
        }
    }

    @Test("Of two viewers who control, one waits until the other rests")
    func fight() async throws {
        let stage = try Stage(.init(consent: .unattended))
        func open(_ id: DeviceID) async throws -> (
            OpenedStream<Screen.View>, MethodStream<Screen.ControlNotice, ScreenInput>
        ) {
            let client = Client(stage.carrier(id))
            let view = try await client.open(Screen.View.self, .init(wants: .init(control: true)))
            let control = try await client.open(Screen.Control.self, .init(session: view.output.session))
            return (view, control.stream)
        }
        let (first, one) = try await open(Stage.own)
        let (second, two) = try await open(Stage.foreign)
        defer {
            first.stream.abort(.cancelled)
            second.stream.abort(.cancelled)
        }
        let controls = [one, two]
        let told = Promise<(viewer: Int, notice: Screen.ControlNotice)>()
        for (viewer, control) in controls.enumerated() {
            Task(name: "notices of a viewer") {
                while let notice = try await control.receive() {
                    if !notice.isInControl { told.fulfil((viewer, notice)) }
                }
            }
        }
        // Real time: half a second of rest, which may be over between two lines on a slow machine. So both go on until
        // one of them is told to wait.
        var sent = 0
        try await eventually {
            for (viewer, control) in controls.enumerated() {
                try await control.send(.move(x: Int32(viewer), y: 1))
                sent += 1
            }
            return told.isFulfilled
        }
        let (late, notice) = await told.value()
        #expect(notice.controller == "phone")
        try await eventually {
            // Until the other one has rested; what is left out changes nothing.
            try await controls[late].send(.move(x: 3, y: 3))
            sent += 1
            // Real time: that rest is half a second.
            try await Task.sleep(for: .milliseconds(50))
            return stage.source.performed.last == .move(x: 3, y: 3)
        }
        #expect(stage.source.performed.count < sent && stage.source.releases >= 1)
    }

    @Test("A viewer that lost its connection goes on without a question; one that lost its grant does not")
    func resuming() async throws {
        let stage = try Stage()
        let carrier = stage.carrier()
        let viewer = ScreenViewer(Client(carrier), of: nil, options: .init())
        let witness = ViewerWitness()
        let first = Task { try await viewer.run { witness.note($0) } }
        try await eventually { stage.source.notices.count == 1 }
        guard case .waiting(let id, _, _)? = stage.source.notices.first else {
            Issue.record("nobody is asked")
            return
        }
        stage.source.answer(.decided(session: id, isLetIn: true))
        try await eventually { viewer.colours == stage.source.pixels }
        carrier.cut()
        await #expect(throws: KithError.self) { try await first.value }
        let second = Task { try await viewer.run { witness.note($0) } }
        try await eventually { witness.openings == 2 && viewer.colours == stage.source.pixels }
        carrier.cut()
        await #expect(throws: KithError.self) { try await second.value }
        stage.service.grantsChanged(for: Stage.foreign, to: [.screen(.view)])
        let third = Task { try await viewer.run { witness.note($0) } }
        try await eventually { if case .waiting? = stage.source.notices.first { true } else { false } }
        third.cancel()
        _ = await third.result
        #expect(witness.openings == 2)
    }

    @Test("Control that is taken away and given back works again, whatever was on its way meanwhile")
    func controlAgain() async throws {
        let stage = try Stage(.init(consent: .unattended))
        let client = Client(stage.carrier())
        let view = try await client.open(Screen.View.self, .init(wants: .init(control: true)))
        defer { view.stream.abort(.cancelled) }
        let control = try await client.open(Screen.Control.self, .init(session: view.output.session)).stream
        defer { control.abort(.cancelled) }
        func permit(_ permissions: Screen.Permissions) async throws {
            _ = try await Client(stage.owner()).call(
                ScreenSessions.Change.self, .init(session: view.output.session, permissions: permissions))
        }
        try await permit(.init())
        try await control.send(.move(x: 1, y: 1))
        try await control.send(.release)
        #expect(try await control.receive()?.isInControl == false)
        try await permit(.init(control: true))
        try await control.send(.move(x: 2, y: 2))
        try await eventually { stage.source.performed == [.move(x: 2, y: 2)] }
    }

    @Test("What is typed in a session that may not control is left out, and nobody waits for it")
    func viewOnly() async throws {
        let stage = try Stage(.init(consent: .unattended))
        let viewer = ScreenViewer(Client(stage.carrier()), of: nil, options: .init())
        try await viewer.following { witness in
            try await eventually { witness.opened != nil }
            for _ in 0..<3_000 { try await viewer.send(.move(x: 1, y: 1)) }
        }
        #expect(stage.source.performed.isEmpty)
    }

    @Test("The pointer is followed in a session that goes on, too")
    func pointer() async throws {
        let stage = try Stage(.init(consent: .unattended))
        let carrier = stage.carrier()
        let viewer = ScreenViewer(Client(carrier), of: nil, options: .init())
        let witness = ViewerWitness()
        let first = Task { try await viewer.run { witness.note($0) } }
        try await eventually { viewer.colours == stage.source.pixels }
        for x in 1...20 as ClosedRange<Int32> {
            stage.source.change(.pointer(x: x, y: 5))
            try await eventually { viewer.pointer.position?.x == Int(x) }
        }
        carrier.cut()
        await #expect(throws: KithError.self) { try await first.value }
        let second = Task { try await viewer.run { witness.note($0) } }
        try await eventually { witness.openings == 2 }
        stage.source.change(.pointer(x: 100, y: 6))
        try await eventually { viewer.pointer.position?.x == 100 }
        second.cancel()
        _ = await second.result
    }

    @Test("Sessions that are about to begin count among those there may be")
    func beginning() throws {
        let host = ScreenHost(logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }) { ScriptedSource() }
        try host.beginSession(within: 2)
        try host.beginSession(within: 2)
        #expect(throws: KithError(.exhausted, "")) { try host.beginSession(within: 2) }
        host.sessionDidNotBegin()
        try host.beginSession(within: 2)
    }

    @Test("A viewer that comes back before its loss was noticed takes its session's place")
    func replacing() async throws {
        let stage = try Stage(.init(consent: .unattended, limit: 1))
        let client = Client(stage.carrier())
        let first = try await client.open(Screen.View.self, .init(wants: .init(control: true)))
        _ = try await Client(stage.owner()).call(ScreenSessions.SetRules.self, .init(consent: .ask, limit: 1))
        let other = Client(stage.carrier(Stage.own))
        await #expect(throws: KithError(.exhausted, "")) {
            _ = try await other.open(Screen.View.self, .init(resumes: first.output.session))
        }
        let second = try await client.open(
            Screen.View.self, .init(wants: .init(control: true), resumes: first.output.session))
        #expect(second.output.permissions.control && second.output.session != first.output.session)
        var last: ScreenUpdate?
        while let update = try await first.stream.receive() { last = update }
        guard case .ended(.closed, _)? = last else {
            Issue.record("the first session's last word is \(String(describing: last))")
            return
        }
        // Nobody takes the place of what is over.
        await #expect(throws: KithError(.exhausted, "")) {
            _ = try await client.open(Screen.View.self, .init(resumes: first.output.session))
        }
        second.stream.abort(.cancelled)
    }

    @Test("What somebody ended is handed over to nobody, and neither is what is to be asked about anew")
    func handingOver() {
        let rectangle = Screen.Rectangle(x: 0, y: 0, width: 8, height: 8)
        func session() -> HostSession {
            HostSession(
                id: "a", caller: .device(Stage.foreign, name: "phone", paired: true), since: 0,
                display: Screen.Display(number: 0, name: "all", bounds: rectangle, isPrimary: true),
                permissions: .init(control: true))
        }
        let (ended, asked, lost) = (session(), session(), session())
        ended.end(KithError(.denied, "Somebody at the screen ended it."))
        asked.forbidResuming()
        #expect(ended.handOver() == nil && asked.handOver() == nil)
        #expect(lost.handOver() == FormerSession(permissions: .init(control: true), chosen: "all", since: 0))
        #expect(lost.handOver() == nil && !lost.mayResume)
    }

    @Test("Who is put out is told why, and does not come back by itself")
    func panic() async throws {
        let stage = try Stage(.init(consent: .unattended))
        let viewer = ScreenViewer(Client(stage.carrier()), of: nil, options: .init())
        let witness = ViewerWitness()
        let run = Task { try await viewer.run { witness.note($0) } }
        try await eventually { viewer.colours == stage.source.pixels }
        stage.source.answer(.panic)
        let error = await #expect(throws: KithError.self) { try await run.value }
        #expect(error?.code == .denied && error?.cause is EndedByHost)
    }

    @Test("A screen that is gone ends its sessions with the reason; the next one opens it anew")
    func vanishing() async throws {
        let stage = try Stage(.init(consent: .unattended))
        let viewer = ScreenViewer(Client(stage.carrier()), of: nil, options: .init())
        let run = Task { try await viewer.run { _ in } }
        try await eventually { viewer.colours == stage.source.pixels }
        stage.source.vanish()
        let error = await #expect(throws: KithError.self) { try await run.value }
        #expect(error?.code == .unreachable)
    }

    @Test("A session ends with the hours in which the screen may be seen; its owner's own does not")
    func hours() async throws {
        let stage = try Stage(.init(consent: .unattended))
        let own = ScreenViewer(Client(stage.owner()), of: nil, options: .init())
        try await own.following { _ in
            let viewer = ScreenViewer(Client(stage.carrier()), of: nil, options: .init())
            let witness = ViewerWitness()
            async let ending = #expect(throws: KithError.self) {
                try await viewer.run { event in witness.note(event) }
            }
            try await eventually { witness.opened != nil }
            // One that reads nothing is not told, and is over all the same.
            let deaf = try await Client(stage.carrier(Stage.device(3))).open(Screen.View.self, .init())
            // The day after tomorrow.
            let today = Calendar(identifier: .iso8601).component(.weekday, from: Date())
            let later = ScreenSessions.Rules.Window(days: [UInt8(today % 7 + 1)], from: 0, to: 1_440)
            _ = try await Client(stage.owner()).call(
                ScreenSessions.SetRules.self, .init(consent: .unattended, windows: [later]))
            let error = await ending
            #expect(error?.code == .denied && error?.message.contains("this time of the week") == true)
            let left = try await Client(stage.owner()).call(ScreenSessions.List.self, Nothing()).sessions
            #expect(left.map(\.device) == [nil])
            deaf.stream.abort(.cancelled)
            try await stage.source.scribble(1)
            try await eventually { own.colours == stage.source.pixels }
        }
    }

    @Test("There are no more sessions than the rules say")
    func limit() async throws {
        let stage = try Stage(.init(consent: .unattended, limit: 1))
        let client = Client(stage.carrier())
        let first = try await client.open(Screen.View.self, .init())
        await #expect(throws: KithError(.exhausted, "")) { _ = try await client.open(Screen.View.self, .init()) }
        first.stream.abort(.cancelled)
        try await eventually {
            do {
                try await client.open(Screen.View.self, .init()).stream.abort(.cancelled)
                return true
            } catch let error as KithError where error.code == .exhausted {
                return false
            }
        }
    }

    @Test("A viewer that floods the host with replies sees the same picture")
    func flood() async throws {
        let stage = try Stage(.init(consent: .unattended))
        let viewer = ScreenViewer(Client(stage.carrier()), of: nil, options: .init())
        try await viewer.following { _ in
            for number in 0..<20_000 as Range<UInt64> {
                try await viewer.send(.received(number: number &* 977, first: .max, last: number))
                if number % 1_000 == 0 { try await viewer.send(.refresh) }
            }
            stage.source.fill(x: 3, y: 3, width: 90, height: 9) { x, y in UInt32(x * y) }
            try await eventually { viewer.colours == stage.source.pixels }
        }
    }
}
