import ArgumentParser
import Foundation
import KithAPI
import KithIdentity
import KithWire

/// Runs `body`, and gives up on it with `.timedOut` after `seconds`.
func withTimeout(seconds: Int64, _ body: @escaping @Sendable () async throws -> Void) async throws {
    try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { try await body() }
        group.addTask {
            try await Task.sleep(for: .seconds(seconds))
            throw KithError(.timedOut, "Nobody used the invitation in time. `kith invite` makes another.")
        }
        defer { group.cancelAll() }
        try await group.next()
    }
}

/// The messages and questions of a pairing at the inviting end.
enum PairingPrompts {
    /// The question at both ends.
    static let question = "Do the codes match, and do you want to pair?"

    /// Shows who wants to pair, what it would be allowed, and the code.
    static func describe(_ request: PairingMethods.Request) {
        let grants = request.grants.map(\.description).joined(separator: ", ")
        note("")
        note(
            "\(styled(printable(request.name), .bold, on: STDERR_FILENO)) wants to pair. Its DeviceID is \(request.device)."
        )
        noteHeldGrants(request.held)
        note("It may then: \(grants.isEmpty ? "nothing yet" : grants)")
        noteWarnings(request.warnings)
        note("Both devices must show the code  \(styled(request.code, .bold, on: STDERR_FILENO))")
    }

    /// Says how a pairing ended.
    static func show(_ outcome: Outcome) {
        switch outcome {
        case .paired(let request):
            note("Paired with \(styled(printable(request.name), .green, on: STDERR_FILENO)).")
        case .ended(let request, let reason):
            note("Not paired with \(printable(request.name)) (\(request.device.short)): \(printable(reason))")
        }
    }

    /// The outcome of a pairing.
    enum Outcome {
        case paired(PairingMethods.Request)
        case ended(PairingMethods.Request, reason: String)
    }
}

/// Says what becomes of the grants of a device that is paired already; `nil`: it is not.
func noteHeldGrants(_ held: [Grant]?) {
    guard let held else { return }
    let grants = held.map(\.description).joined(separator: ", ")
    note("It is paired already, and keeps what it may do here: \(grants.isEmpty ? "nothing" : grants).")
}

/// Follows the pairings at this end for as long as `goesOn` wants after an event.
///
/// With `asks` it asks the person at the terminal, one pairing at a time, and withdraws the question when that pairing
/// ends; otherwise it only reports them.
func watchPairings(
    _ client: Client, asks: Bool, while goesOn: (PairingMethods.Event) async throws -> Bool
) async throws {
    let events = try await client.open(PairingMethods.Watch.self, Nothing()).stream
    defer { events.abort(.cancelled) }
    enum Input {
        case event(PairingMethods.Event?)
        case answer(PairingMethods.Request, isAccepted: Bool)
        /// Nobody need answer any more.
        case withdrawn(PairingMethods.Request)
    }
    try await withThrowingTaskGroup(of: Input.self) { group in
        defer { group.cancelAll() }
        var waiting: [PairingMethods.Request] = []
        var asked: (id: String, question: Task<Bool, any Error>)?

        func askNext() {
            guard asked == nil, !waiting.isEmpty else { return }
            let request = waiting.removeFirst()
            PairingPrompts.describe(request)
            let question = Task(name: "kith question") {
                try await TerminalPrompt.agrees(to: PairingPrompts.question)
            }
            asked = (request.id, question)
            group.addTask {
                let answer = await withTaskCancellationHandler {
                    await question.result
                } onCancel: {
                    question.cancel()
                }
                // It fails only when it is withdrawn.
                guard case .success(let isAccepted) = answer else { return .withdrawn(request) }
                return .answer(request, isAccepted: isAccepted)
            }
        }

        /// The pairing is over: nobody need be asked any more.
        func forget(_ request: PairingMethods.Request) {
            waiting.removeAll { $0.id == request.id }
            guard asked?.id == request.id else { return }
            asked?.question.cancel()
            asked = nil
            note("")
        }

        group.addTask { .event(try await events.receive()) }
        while let input = try await group.next() {
            switch input {
            case .answer(let request, let isAccepted):
                if asked?.id == request.id { asked = nil }
                do {
                    _ = try await client.call(
                        PairingMethods.Decide.self,
                        PairingMethods.Decide.Input(id: request.id, accept: isAccepted))
                    if isAccepted { note("Waiting for the other end to agree.") }
                } catch let error as KithError where error.code == .notFound {
                    // It ended meanwhile, or was answered elsewhere: an event of its own says so.
                }
                askNext()
            case .withdrawn(let request):
                if asked?.id == request.id { asked = nil }
                askNext()
            case .event(nil):
                return
            case .event(let event?):
                group.addTask { .event(try await events.receive()) }
                switch event {
                case .requested(let request) where request.isAutomatic:
                    note(
                        "\(printable(request.name)) (\(request.device.short)) uses an invitation; code \(styled(request.code, .bold, on: STDERR_FILENO))"
                    )
                    noteHeldGrants(request.held)
                    noteWarnings(request.warnings)
                case .requested(let request) where asks && canAsk:
                    waiting.append(request)
                case .requested(let request):
                    PairingPrompts.describe(request)
                    note("Answer with: kith accept \(request.id)    (or: kith accept --refuse \(request.id))")
                case .paired(let request):
                    forget(request)
                    PairingPrompts.show(.paired(request))
                case .ended(let request, let reason):
                    forget(request)
                    PairingPrompts.show(.ended(request, reason: reason))
                case .brokenOff(let attempt):
                    if asked != nil { note("") }
                    note(
                        "\(attempt.device) presented invitation \(attempt.invitation)\(PendingRequests.origin(attempt)), and was not paired: \(printable(attempt.reason))"
                    )
                }
                guard try await goesOn(event) else { return }
                askNext()
            }
        }
    }
}
