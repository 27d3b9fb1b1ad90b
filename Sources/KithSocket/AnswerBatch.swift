import KithRPC
import KithWire

/// The answers of one batch, sent together when the last is there.
actor AnswerBatch {
    /// The most bytes of the answers, together; those beyond are refused.
    private static let limit = LineFramer.defaultLimit / 2
    private let count: Int
    private var answers: [[UInt8]] = []
    private var bytes = 0

    init(count: Int) { self.count = count }

    func add(_ response: RPCResponse, to connection: LineConnection) async {
        var answer = response.json
        if bytes + answer.count > Self.limit {
            let error = KithError(
                .exhausted, "The answers of the batch are longer than 2 MiB. Ask for less, or one after the other.")
            answer = RPCResponse(id: response.id, result: .failure(RPCError(error))).json
        }
        bytes += answer.count
        answers.append(answer)
        guard answers.count == count else { return }
        var line: [UInt8] = [UInt8(ascii: "[")]
        line += answers.joined(separator: [UInt8(ascii: ",")])
        line.append(UInt8(ascii: "]"))
        try? await connection.send(line)  // the caller may be gone
    }
}
