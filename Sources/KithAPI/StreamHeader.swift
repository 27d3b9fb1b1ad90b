package import KithWire

/// The first bytes the caller sends on a fresh stream to another device.
///
/// | field | bytes |
/// | --- | --- |
/// | version, 1 | varint |
/// | method | varint length ≤ 128, UTF-8 |
/// | milliseconds the caller still waits, 0 for no limit | varint |
/// | flags: bit 0 says a trace follows | varint |
/// | trace: 16 bytes of trace, 8 of span, 1 of flags | 25, only with bit 0 |
/// | input, CBOR | varint length ≤ 1 MiB, bytes |
///
/// After it, the caller of a query or an action keeps its direction open, sends nothing, and finishes it when it has
/// the answer: resetting it meanwhile calls the work off, which would be impossible on a direction that has ended.
/// Varints are those of RFC 9000 §16. An unknown version or flag is refused: nothing is guessed.
package struct StreamHeader: Hashable, Sendable {
    package static let version: UInt64 = 1
    package static let methodLimit = 128
    package static let inputLimit = 1 << 20
    /// The longest input of an unpaired peer, in bytes.
    package static let unpairedInputLimit = 1 << 10
    /// The longest header, in bytes, without its input.
    package static let frameLimit = 8 + 2 + methodLimit + 8 + 8 + 25 + 8

    /// The method called.
    package var method: String
    /// The time the caller still waits, in milliseconds, 1…; `nil`: no limit.
    package var millisecondsLeft: UInt64?
    /// The trace the call belongs to.
    package var trace: TraceContext?
    /// The input, as CBOR.
    package var input: [UInt8]

    /// Makes a header.
    package init(method: String, millisecondsLeft: UInt64? = nil, trace: TraceContext? = nil, input: [UInt8]) {
        self.method = method
        self.millisecondsLeft = millisecondsLeft
        self.trace = trace
        self.input = input
    }

    /// The bytes of the header.
    ///
    /// - Throws: `KithError` `.invalid` when a field is longer than the table allows.
    package func encoded() throws(KithError) -> [UInt8] {
        let name = Array(method.utf8)
        guard (1...Self.methodLimit).contains(name.count) else {
            throw KithError(.invalid, "A method name has 1 to \(Self.methodLimit) bytes; this one has \(name.count).")
        }
        guard input.count <= Self.inputLimit else {
            throw KithError(
                .invalid, "The input of \(method) is \(input.count) bytes; at most \(Self.inputLimit) may be sent.")
        }
        var writer = ByteWriter(capacity: input.count + name.count + 64)
        writer.varint(Self.version)
        writer.prefixedBytes(name)
        writer.varint(min(millisecondsLeft ?? 0, (1 << 62) - 1))
        if let trace, trace.traceID.count == 16, trace.spanID.count == 8 {
            writer.varint(1)
            writer.bytes(trace.traceID)
            writer.bytes(trace.spanID)
            writer.integer(trace.flags)
        } else {
            writer.varint(0)
        }
        writer.prefixedBytes(input)
        return writer.bytes
    }

    /// Reads a header from the beginning of `bytes`.
    ///
    /// - Returns: the header and how many bytes it took, or `nil` while it is not complete.
    /// - Throws: ``WireError`` when no continuation could make a header of it, as an input longer than `inputLimit` makes
    ///   sure of, `KithError` `.unsupported` for another version.
    package static func parse(
        _ bytes: [UInt8], inputLimit: Int = Self.inputLimit
    ) throws -> (header: StreamHeader, count: Int)? {
        var reader = ByteReader(bytes)
        do {
            let version = try reader.varint()
            guard version == Self.version else {
                throw KithError(.unsupported, "The caller speaks version \(version) of the protocol, this device 1.")
            }
            let name = try reader.prefixedBytes(limit: methodLimit)
            guard !name.isEmpty, let method = String(validating: name, as: UTF8.self) else {
                throw WireError.invalid("method name")
            }
            let left = try reader.varint()
            let flags = try reader.varint()
            guard flags <= 1 else { throw WireError.invalid("unknown flags") }
            var trace: TraceContext?
            if flags == 1 {
                trace = TraceContext(
                    traceID: try reader.bytes(16), spanID: try reader.bytes(8), flags: try reader.integer())
            }
            let input = try reader.prefixedBytes(limit: inputLimit)
            let header = StreamHeader(
                method: method, millisecondsLeft: left == 0 ? nil : left, trace: trace, input: input)
            return (header, bytes.count - reader.remaining)
        } catch WireError.truncated {
            return nil
        }
    }
}

/// The first bytes the service sends back: that it did the call or accepted the stream, or why not.
///
/// A status byte, 0 for done and 1 for an error, then CBOR with its varint length ≤ 4 MiB:
/// the output, or a map of `code` and `message`, and of an application's own `detail` (a map of `code` and CBOR `data`).
package enum ResponseHead: Hashable, Sendable {
    /// Done; the output as CBOR.
    case success([UInt8])
    /// Refused or failed.
    case failure(code: KithError.Code, message: String, detail: KithError.Detail? = nil)

    package static let outputLimit = 4 << 20
    package static let messageLimit = 4096

    /// A body with a detail is no longer than one without: the message is cut.
    private static let bodyLimit = messageLimit + 128

    private struct Failure: Codable {
        struct Detail: Codable {
            var code: String
            var data: ByteString?
        }

        var code: String
        var message: String
        var detail: Detail?
    }

    /// Makes the head for an error of any type; its cause is not sent.
    package init(_ error: any Error) {
        switch error {
        case let error as KithError:
            self = .failure(code: error.code, message: error.message, detail: error.detail)
        case is CancellationError: self = .failure(code: .cancelled, message: "The call was cancelled.")
        case is WireError: self = .failure(code: .invalid, message: "The request is malformed.")
        default: self = .failure(code: .internal, message: "The service failed.")
        }
    }

    /// The bytes of the head.
    package func encoded() throws -> [UInt8] {
        var writer = ByteWriter()
        switch self {
        case .success(let output):
            guard output.count <= Self.outputLimit else {
                throw KithError(
                    .exhausted, "The answer is \(output.count) bytes; at most \(Self.outputLimit) may be sent.")
            }
            writer = ByteWriter(capacity: output.count + 9)
            writer.integer(UInt8(0))
            writer.prefixedBytes(output)
        case .failure(let code, let message, let detail):
            let own = detail.map { Failure.Detail(code: $0.code, data: $0.data.map { ByteString($0) }) }
            let size = detail.map { 64 + $0.code.utf8.count + ($0.data?.count ?? 0) } ?? 0
            // Whole characters only, so that what arrives is a string.
            let text = message.prefix(bytes: Self.messageLimit - size)
            writer.integer(UInt8(1))
            writer.prefixedBytes(try CBOREncoder().encode(Failure(code: code.rawValue, message: text, detail: own)))
        }
        return writer.bytes
    }

    /// Reads a head from the beginning of `bytes`.
    ///
    /// - Returns: the head and how many bytes it took, or `nil` while it is not complete.
    /// - Throws: ``WireError`` when no continuation could make a head of it. An unknown error code reads as `internal`.
    package static func parse(_ bytes: [UInt8]) throws -> (head: ResponseHead, count: Int)? {
        var reader = ByteReader(bytes)
        do {
            let status: UInt8 = try reader.integer()
            let head: ResponseHead
            switch status {
            case 0: head = .success(try reader.prefixedBytes(limit: outputLimit))
            case 1:
                let body = try reader.prefixedBytes(limit: bodyLimit)
                let failure: Failure
                do {
                    failure = try CBORDecoder().decode(Failure.self, from: body)
                } catch {
                    throw WireError.invalid("error body")
                }
                head = .failure(
                    code: KithError.Code(rawValue: failure.code) ?? .internal, message: failure.message,
                    detail: failure.detail.flatMap { KithError.Detail(code: $0.code, cbor: $0.data?.bytes) })
            default: throw WireError.invalid("status \(status)")
            }
            return (head, bytes.count - reader.remaining)
        } catch WireError.truncated {
            return nil
        }
    }
}
