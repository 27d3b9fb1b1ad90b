package import KithWire

/// Reads control messages from the pieces in which a stream delivers them.
///
/// Keeps no more than one message, ``ControlMessage/maxLength`` bytes and its head. After an error the stream is to be
/// stopped: nothing more is read.
package struct ControlReader: Sendable {
    /// How many messages were passed over, of types that are not known.
    package private(set) var unknownCount = 0

    private var buffer: [UInt8] = []
    private var hasVersion = false
    private var failure: WireError?

    /// Starts at the beginning of a stream.
    package init() {}

    /// Takes the next piece of the stream in; returns the messages that it completes.
    ///
    /// - Throws: what breaks a rule; the same again for every piece that follows.
    package mutating func receive(_ piece: [UInt8]) throws(WireError) -> [ControlMessage] {
        if let failure { throw failure }
        var messages: [ControlMessage] = []
        do throws(WireError) {
            buffer += piece
            var start = 0
            while let (end, part) = try Self.part(of: buffer, from: start, hasVersion: hasVersion) {
                start = end
                switch part {
                case .version: hasVersion = true
                case .message(let message): messages.append(message)
                case .unknown: unknownCount.saturatingAdd(1)
                }
            }
            buffer.removeFirst(start)
        } catch {
            (failure, buffer) = (error, [])
            throw error
        }
        return messages
    }

    private enum Part {
        case version
        case message(ControlMessage)
        case unknown
    }

    /// The version or message that begins at `start`, and where it ends; `nil` while bytes are missing.
    private static func part(
        of buffer: [UInt8], from start: Int, hasVersion: Bool
    ) throws(WireError) -> (end: Int, part: Part)? {
        var reader = ByteReader(buffer)
        try reader.skip(start)
        guard let first = try varint(&reader) else { return nil }
        guard hasVersion else {
            guard first >= 1 else { throw .invalid("the versions of control streams begin with 1") }
            // A later version has the same messages, and more of them.
            return (reader.position, .version)
        }
        guard let length = try varint(&reader) else { return nil }
        guard length <= UInt64(ControlMessage.maxLength) else {
            throw .tooLong(limit: ControlMessage.maxLength, actual: Int(clamping: length))
        }
        guard reader.remaining >= Int(length) else { return nil }
        let message = try ControlMessage(type: first, body: try reader.bytes(Int(length)))
        return (reader.position, message.map { .message($0) } ?? .unknown)
    }

    /// The next varint; `nil` while bytes of it are missing.
    private static func varint(_ reader: inout ByteReader) throws(WireError) -> UInt64? {
        do {
            return try reader.varint()
        } catch .truncated {
            return nil
        } catch {
            throw error
        }
    }
}
