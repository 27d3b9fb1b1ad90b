import KithRPC
import KithWire
import Synchronization

/// The answers of one batch, sent together when the last is there.
final class AnswerBatch: Sendable {
    /// The most bytes of the answers, together; those beyond are refused.
    private static let limit = LineFramer.defaultLimit / 2
    private let state: Mutex<State>

    private struct State {
        /// How many answers are missing.
        var missing: Int
        var line = [UInt8(ascii: "[")]
    }

    /// Waits for `count` answers.
    init(count: Int) { state = Mutex(State(missing: count)) }

    /// Keeps an answer; gives the line of all of them when it is the last.
    func line(with response: RPCResponse) -> [UInt8]? {
        var answer = response.json
        return state.withLock { state in
            if state.line.count + answer.count > Self.limit {
                let error = KithError(
                    .exhausted, "The answers of the batch are longer than 2 MiB. Ask for less, or one after the other.")
                answer = RPCResponse(id: response.id, result: .failure(RPCError(error))).json
            }
            state.line += answer
            state.missing -= 1
            guard state.missing == 0 else {
                state.line.append(UInt8(ascii: ","))
                return nil
            }
            state.line.append(UInt8(ascii: "]"))
            return state.line
        }
    }
}
