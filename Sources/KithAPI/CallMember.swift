import KithRPC

/// A member of a JSON-RPC request beside `params`, about the call itself and not its method.
///
/// | member | what |
/// | --- | --- |
/// | `on` | the device to ask: a name, a DeviceID or the beginning of one; absent for this one |
/// | `timeout` | how long the answer may take, in milliseconds; absent for no limit |
/// | `traceparent` | the W3C trace context the call belongs to |
/// | `credit` | of a stream: how many messages may come before `$/credit` allows more; absent for no limit |
/// | `raw` | of a stream, `true`: the connection carries nothing but its bytes from the answer on |
/// | `errors` | of a raw stream, `true`: one that fails says the whole error, not only its code |
package enum CallMember: String, CaseIterable, Sendable {
    case on, timeout, traceparent, credit, raw, errors

    /// The values of a member that is a whole number; `nil` of another.
    package var range: ClosedRange<Int64>? {
        switch self {
        case .timeout: 1...1 << 52
        case .credit: 1...1 << 31
        case .on, .traceparent, .raw, .errors: nil
        }
    }

    /// The form of its value.
    package var schema: JSONSchema {
        var keywords: [String: JSONValue] = ["description": .string(description)]
        switch self {
        case .on, .traceparent: keywords["type"] = "string"
        case .raw, .errors: keywords["type"] = "boolean"
        case .timeout, .credit: keywords["type"] = "integer"
        }
        if let range {
            keywords["minimum"] = .integer(range.lowerBound)
            keywords["maximum"] = .integer(range.upperBound)
        }
        return JSONSchema(keywords)
    }

    private var description: String {
        switch self {
        case .on: "The device to ask; this one without it."
        case .timeout: "How long the answer may take, in milliseconds."
        case .traceparent: "The W3C trace context the call belongs to."
        case .credit: "Of a stream: how many messages may come before $/credit allows more."
        case .raw: "Of a stream: whether the connection carries its bytes only, from the answer on."
        case .errors: "Of a raw stream: whether one that fails says the whole error."
        }
    }
}
