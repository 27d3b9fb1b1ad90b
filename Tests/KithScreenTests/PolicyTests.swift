import KithAPI
import KithIdentity
import KithNode
import KithWire
import Testing

@testable import KithScreen

@Suite("Consent and control")
struct PolicyTests {
    private typealias Rules = ScreenSessions.Rules

    private static let phone = Caller.device(Stage.foreign, name: "phone", paired: true)
    private static let noon = ConsentPolicy.Moment(day: 3, minute: 720)

    @Test("A person is asked unless the device's grants or the rules say otherwise")
    func asks() {
        func decide(_ consent: Rules.Consent, _ grants: [Grant], isOwn: Bool = false) -> ConsentPolicy.Decision {
            ConsentPolicy(rules: Rules(consent: consent)).decide(
                Self.phone, holding: grants, isOwn: isOwn, at: Self.noon)
        }
        #expect(decide(.ask, [.screen(.control)]) == .ask)
        #expect(decide(.ask, [.screen(.control)], isOwn: true) == .ask)
        #expect(decide(.ask, [.screen(.view), .screen(.unattended)]) == .letIn)
        #expect(decide(.trusted, [.screen(.view)]) == .ask)
        #expect(decide(.trusted, [.screen(.view)], isOwn: true) == .letIn)
        #expect(decide(.unattended, [.screen(.view)]) == .letIn)
        #expect(ConsentPolicy(rules: Rules()).decide(.owner, holding: [], isOwn: true, at: Self.noon) == .letIn)
    }

    @Test("Nobody is let in outside the hours, whatever its grants")
    func hours() {
        let night = Rules.Window(days: [5], from: 1_320, to: 120)
        let day = Rules.Window(days: [1, 2], from: 540, to: 1_020)
        let policy = ConsentPolicy(rules: Rules(windows: [night, day]))
        func isOpen(_ day: UInt8, _ minute: UInt16) -> Bool {
            policy.decide(
                Self.phone, holding: [.screen(.unattended)], isOwn: true,
                at: ConsentPolicy.Moment(day: day, minute: minute)) == .letIn
        }
        #expect(isOpen(1, 540) && isOpen(2, 1_019) && !isOpen(2, 1_020) && !isOpen(3, 600))
        // Friday night is Saturday morning, too, and no other morning.
        #expect(isOpen(5, 1_320) && isOpen(6, 119) && !isOpen(6, 120) && !isOpen(5, 60))
        #expect(!isOpen(7, 1_400))
    }

    @Test("A session ends with its hours, and after eight of them or what is said; its owner's own does not")
    func endings() {
        func ends(_ rules: Rules, _ caller: Caller = Self.phone, after seconds: Int64) -> Bool {
            ConsentPolicy(rules: rules).ends(caller, lasting: seconds, at: Self.noon) != nil
        }
        #expect(!ends(Rules(), after: 8 * 3_600 - 1) && ends(Rules(), after: 8 * 3_600))
        #expect(!ends(Rules(longestSeconds: 0), after: .max))
        #expect(!ends(Rules(longestSeconds: 60), after: 59) && ends(Rules(longestSeconds: 60), after: 60))
        let morning = Rules(windows: [.init(days: [3], from: 0, to: 720)])
        #expect(ends(morning, after: 0) && !ends(morning, .owner, after: .max))
    }

    @Test("Rules that fit no clock are refused")
    func nonsense() {
        for rules in [
            Rules(longestSeconds: 59), Rules(limit: 0), Rules(limit: 17), Rules(waitSeconds: 4),
            Rules(waitSeconds: 601),
            Rules(windows: [.init(days: [], from: 0, to: 1)]), Rules(windows: [.init(days: [8], from: 0, to: 1)]),
            Rules(windows: [.init(days: [1], from: 1_440, to: 1)]),
            Rules(windows: .init(repeating: .init(days: [1], from: 0, to: 1), count: 33)),
        ] {
            #expect(throws: KithError.self) { try ConsentPolicy.check(rules) }
        }
        #expect(throws: Never.self) { try ConsentPolicy.check(Rules()) }
        #expect(throws: Never.self) { try ConsentPolicy.check(Rules(longestSeconds: 0)) }
    }

    @Test("A device begins twelve sessions a minute, and waits longer after each refusal, up to ten minutes")
    func attempts() throws {
        var attempts = SessionAttempts()
        var now = ContinuousClock.now
        for _ in 0..<12 {
            try attempts.begin(Stage.foreign, at: now)
            now += .seconds(2)
        }
        #expect(throws: KithError(.exhausted, "")) { try attempts.begin(Stage.foreign, at: now) }
        try attempts.begin(Stage.own, at: now)
        now += .seconds(36)
        try attempts.begin(Stage.foreign, at: now)

        for pause in [10, 20, 40, 80, 160, 320, 600, 600, 600] {
            try attempts.ask(Stage.foreign, at: now)
            attempts.answered(Stage.foreign, isLetIn: false, at: now)
            now += .seconds(pause) - .milliseconds(1)
            #expect(throws: KithError(.denied, "")) { try attempts.ask(Stage.foreign, at: now) }
            now += .milliseconds(1)
            // Sessions that a grant lets in do not make it forget.
            try attempts.begin(Stage.foreign, at: now)
        }
        try attempts.ask(Stage.foreign, at: now)
        attempts.answered(Stage.foreign, isLetIn: true, at: now)
        try attempts.ask(Stage.foreign, at: now)
        attempts.calledOff(Stage.foreign)
        try attempts.ask(Stage.foreign, at: now)
        attempts.answered(Stage.foreign, isLetIn: false, at: now)
        #expect(throws: KithError(.denied, "")) { try attempts.ask(Stage.foreign, at: now + .seconds(9)) }
        try attempts.ask(Stage.foreign, at: now + .seconds(10))
    }

    @Test("One viewer controls until it rests; then another takes over")
    func arbiter() {
        var arbiter = ControlArbiter()
        let start = ContinuousClock.now
        #expect(arbiter.received(from: "a", at: start) == .perform)
        #expect(arbiter.received(from: "b", at: start + .milliseconds(499)) == .leaveOut)
        #expect(arbiter.received(from: "a", at: start + .milliseconds(499)) == .perform)
        // What was left out does not keep the one in control from resting.
        #expect(arbiter.received(from: "b", at: start + .milliseconds(998)) == .leaveOut)
        #expect(arbiter.received(from: "b", at: start + .milliseconds(999)) == .takeOver)
        #expect(arbiter.controller == "b")
        let (first, last) = (arbiter.left("a"), arbiter.left("b"))
        #expect(!first && last)
        #expect(arbiter.received(from: "a", at: start + .seconds(1)) == .perform)
    }
}
