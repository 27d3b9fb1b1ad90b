import Kith

/// The methods, as both ends know them.
enum Math {
    /// An action: one answer.
    enum Add: Method {
        struct Input: Codable, Sendable {
            var a: Int
            var b: Int
        }
        typealias Output = Int
        /// A device needs a grant of this service's own: `kith grant phone --add node:math.add`, or `'node:math.*'`.
        static let header = MethodHeader.action("math.add", by: .grant(.node), "Adds two numbers.")
    }

    /// A stream: numbers go up, sums come down.
    enum Sum: StreamMethod {
        struct Number: StreamMessage {
            var value: Int
        }
        typealias Input = Nothing
        typealias Output = Nothing
        typealias Upstream = Number
        typealias Downstream = Number
        static let header = MethodHeader.stream(
            "math.sum", by: .grant(.node), "Answers each number with the sum so far.")
    }
}

/// The code that serves them.
struct MathService: Service {
    /// Connected devices that hold a grant for one of its methods are told of it, and find it by `.any`.
    let info = ServiceInfo("math", "Adds numbers.")

    var handlers: [Handler] {
        [
            .call(Math.Add.self) { input, context in
                let (sum, overflows) = input.a.addingReportingOverflow(input.b)
                if overflows { throw KithError(.invalid, "The sum of \(input.a) and \(input.b) is too large.") }
                return sum
            },
            .stream(Math.Sum.self) { _, context, pending in
                let stream = try await pending.accept()
                var sum = 0
                for try await number in stream.messages {
                    sum &+= number.value
                    try await stream.send(.init(value: sum))
                }
            },
        ]
    }
}
