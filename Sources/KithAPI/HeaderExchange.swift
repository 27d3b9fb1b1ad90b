import KithWire

/// The caller's half of a call over a fresh stream: header out, head in, and then either done or the bytes.
package enum HeaderExchange {
    /// Sends a header and waits for the head.
    ///
    /// `isCall` finishes our direction after the answer, as queries and actions do.
    /// - Returns: the output as CBOR, and the stream positioned after the head.
    /// - Throws: the `KithError` the other end answered, or the stream's.
    package static func request(
        _ header: StreamHeader, over stream: any ByteStream, isCall: Bool
    ) async throws -> (output: [UInt8], stream: any ByteStream) {
        let request = try header.encoded()
        if isCall { (stream as? any CallStream)?.finishWithInput() }
        do {
            try await stream.write(request)
        } catch let error as KithError {
            // The other end may have answered before reading everything; its answer says more.
            guard let early = try? await stream.read(upTo: 64 << 10),  // no answer either: the first failure it is
                case .failure(let code, let message, let detail)? = try ResponseHead.parse(early)?.head
            else { throw error }
            throw KithError(code, message, detail: detail)
        }
        var answer = AnswerReader(method: header.method)
        while true {
            guard let (output, rest) = try answer.take(try await stream.read(upTo: 64 << 10)) else { continue }
            // The answer is there; it does not matter whether the other end has stopped reading, or both have ended.
            if isCall { try? await stream.finish() }
            return (output, rest.isEmpty ? stream : PrefixedStream(rest, before: stream))
        }
    }

    /// Waits for a header on a stream another device opened; one with more than `inputLimit` bytes of input is refused as
    /// soon as it says so.
    ///
    /// - Returns: the header, and the stream positioned after it; `nil` when the stream ended before its first byte.
    package static func receiveHeader(
        from stream: any ByteStream, inputLimit: Int = StreamHeader.inputLimit
    ) async throws -> (header: StreamHeader, stream: any ByteStream)? {
        var bytes: [UInt8] = []
        // Read in small pieces first: most headers are short, and the input's length is then known.
        while true {
            let limit = StreamHeader.frameLimit + inputLimit
            guard let more = try await stream.read(upTo: min(bytes.isEmpty ? 4096 : 64 << 10, limit)) else {
                guard bytes.isEmpty else {
                    throw KithError(.closed, "The other device hung up in the middle of a request.")
                }
                return nil
            }
            if bytes.isEmpty { bytes = more } else { bytes += more }
            if let (header, count) = try StreamHeader.parse(bytes, inputLimit: inputLimit) {
                let rest = Array(bytes[count...])
                return (header, rest.isEmpty ? stream : PrefixedStream(rest, before: stream))
            }
            guard bytes.count <= limit else { throw WireError.tooLong(limit: limit, actual: bytes.count) }
        }
    }
}

/// Puts a response's head together from what is read of a stream.
struct AnswerReader {
    let method: String
    private var bytes: [UInt8] = []

    init(method: String) { self.method = method }

    /// Takes what was read, `nil` for the stream's end.
    ///
    /// - Returns: the output as CBOR, and what was read after the head; `nil` before the head is whole.
    /// - Throws: the `KithError` the other end answered, `.corrupt` when its answer is malformed.
    mutating func take(_ more: [UInt8]?) throws -> (output: [UInt8], rest: [UInt8])? {
        guard let more else {
            throw KithError(.closed, "The other device hung up before it answered.")
        }
        if bytes.isEmpty { bytes = more } else { bytes += more }
        guard let (head, count) = try parsed() else {
            guard bytes.count <= ResponseHead.outputLimit + 16 else {
                throw KithError(.invalid, "The other device's answer never ends.")
            }
            return nil
        }
        switch head {
        case .failure(let code, let message, let detail): throw KithError(code, message, detail: detail)
        case .success(let output): return (output, Array(bytes[count...]))
        }
    }

    private func parsed() throws -> (head: ResponseHead, count: Int)? {
        do {
            return try ResponseHead.parse(bytes)
        } catch let error as WireError {
            throw KithError(.corrupt, "The other device's answer is malformed.", cause: error)
        }
    }
}

/// A stream with some bytes read ahead, given back first.
package final class PrefixedStream: StreamWrapper {
    package let base: any ByteStream
    private let prefix: ReadAhead

    /// Only the one reading task touches it.
    private final class ReadAhead: @unchecked Sendable {  // one reader at a time is the contract of `ByteStream`
        var bytes: [UInt8]
        init(_ bytes: [UInt8]) { self.bytes = bytes }
    }

    /// Puts `bytes` before the rest of `base`.
    package init(_ bytes: [UInt8], before base: any ByteStream) {
        self.base = base
        prefix = ReadAhead(bytes)
    }

    package func read(upTo limit: Int) async throws -> [UInt8]? {
        guard !prefix.bytes.isEmpty else { return try await base.read(upTo: limit) }
        let bytes = Array(prefix.bytes.prefix(limit))
        prefix.bytes.removeFirst(bytes.count)
        return bytes
    }
}
