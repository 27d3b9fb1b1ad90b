import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// `kith accept`.
struct AcceptCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "accept",
        abstract: "Answer a pairing that waits at this device.",
        discussion: helpText(
            """
            Needed only when `kith up` has no terminal to ask on. Shows who wants to pair and the code, and asks; --yes
            says that you have compared the codes already. Without the pairing's number it takes the only one that waits,
            or lists them.

              kith accept
              kith accept 1f6c02aa --yes
              kith accept --refuse
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The pairing, as shown with its code. Default: the only one that waits.")
    var id: String?

    @Flag(name: .shortAndLong, help: "Do not ask: the codes are the same at both devices.")
    var yes = false

    @Flag(help: "Refuse it.")
    var refuse = false

    func validate() throws {
        if yes, refuse { throw ValidationError("--yes and --refuse contradict each other.") }
    }

    func run() async throws {
        let client = try await runningClient(globals, ", so no pairing waits")
        // Before the pairing is looked for: how it ends is not missed.
        let events = try await client.open(PairingMethods.Watch.self, Nothing()).stream
        defer { events.abort(.cancelled) }
        let request = try await request(client)
        PairingPrompts.describe(request)
        guard yes || refuse || TerminalPrompt.isPossible else {
            throw KithError(
                .invalid,
                "There is no terminal to ask on. Compare the code with the other device's, then: kith accept \(request.id) --yes"
            )
        }
        try await resolve(request, answer: yes ? .accept : refuse ? .refuse : .ask, client, events)
    }

    /// The answer, or that the person at the terminal is asked.
    private enum Answer { case accept, refuse, ask }

    /// Answers a pairing and waits for its end.
    private func resolve(
        _ request: PairingMethods.Request, answer: Answer, _ client: Client,
        _ events: MethodStream<PairingMethods.Event, Nothing>
    ) async throws {
        enum Input { case answer(Bool), event(PairingMethods.Event?) }
        try await withThrowingTaskGroup(of: Input.self) { group in
            defer { group.cancelAll() }
            var isAsked = false
            group.addTask { .event(try await events.receive()) }
            switch answer {
            case .accept: group.addTask { .answer(true) }
            case .refuse: group.addTask { .answer(false) }
            case .ask:
                isAsked = true
                group.addTask { .answer(try await TerminalPrompt.agrees(to: PairingPrompts.question)) }
            }
            while let input = try await group.next() {
                switch input {
                case .answer(let accept):
                    isAsked = false
                    _ = try await client.call(
                        PairingMethods.Decide.self, PairingMethods.Decide.Input(id: request.id, accept: accept))
                    if accept { note("Waiting for the other end to agree.") }
                case .event(.paired(let ended)?) where ended.id == request.id:
                    return PairingPrompts.show(.paired(request))
                case .event(.ended(let ended, let reason)?) where ended.id == request.id:
                    if isAsked { note("") }
                    guard refuse else {
                        throw KithError(.cancelled, "Not paired with \(request.name): \(reason)")
                    }
                    return PairingPrompts.show(.ended(request, reason: reason))
                case .event(nil):
                    throw KithError(.closed, "This device was stopped before the pairing was done.")
                case .event:
                    group.addTask { .event(try await events.receive()) }
                }
            }
        }
    }

    /// The pairing that is meant.
    ///
    /// - Throws: `.notFound` when it does not wait, `.invalid` with all of them when several do and none was named.
    private func request(_ client: Client) async throws -> PairingMethods.Request {
        let waiting = try await client.call(PairingMethods.Waiting.self, Nothing())
        if let id {
            guard let request = waiting.first(where: { $0.id == id }) else {
                try await PendingRequests(client).showAttempts()
                throw KithError(.notFound, "No pairing \(id) waits: it was answered, or the other device gave up.")
            }
            return request
        }
        guard let request = waiting.first else {
            try await PendingRequests(client).showAttempts()
            throw KithError(.notFound, "No pairing waits for an answer. `kith invite` makes an invitation.")
        }
        guard waiting.count == 1 else {
            for request in waiting { note(PendingRequests.line(request)) }
            throw KithError(.invalid, "\(waiting.count) pairings wait. Say which one: kith accept \(request.id)")
        }
        return request
    }
}
