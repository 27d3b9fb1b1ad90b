import KithWire

/// Cuts arriving bytes into messages, holding back no more than one message.
package struct TransferParser: Sendable {
    private let takesCompressed: Bool
    private var pending: [UInt8] = []
    private var chunk: ArraySlice<UInt8> = []
    /// The bytes of a data message that have not come yet.
    private var dataLeft = 0
    /// The bytes behind the compressed message that ``chunk`` is a part of; `nil` outside of one.
    private var behind: ArraySlice<UInt8>?

    /// Begins; compressed messages are taken only where this end has said that it does.
    package init(takesCompressed: Bool = false) { self.takesCompressed = takesCompressed }

    /// Takes the next bytes in; ask ``next()`` until it has no more before feeding again.
    package mutating func feed(_ bytes: [UInt8]) {
        if pending.isEmpty {
            chunk = bytes[...]
        } else {
            pending += bytes
            chunk = pending[...]
            pending = []
        }
    }

    /// True when the bytes ended between two messages.
    package var isBetweenFrames: Bool { pending.isEmpty && chunk.isEmpty && dataLeft == 0 && behind == nil }

    /// The next message; `nil` when more bytes are needed.
    ///
    /// - Throws: `.invalid` for one that is malformed or too long, before anything is allocated for it.
    package mutating func next() throws -> TransferFrame? {
        while true {
            if chunk.isEmpty, let rest = behind {
                guard dataLeft == 0 else { throw Self.cutShort }
                (chunk, behind) = (rest, nil)
            }
            if dataLeft > 0 {
                guard !chunk.isEmpty else { return nil }
                return takeData()
            }
            guard let (type, body) = try takeMessage() else { return try hold() }
            switch type {
            case 4: continue
            case TransferFrame.compressedType:
                guard takesCompressed, behind == nil else {
                    throw KithError(.invalid, "The other end sent compressed data where none may be.")
                }
                behind = chunk
                chunk = try BlockCompression.expand(body)[...]
                continue
            default: break
            }
            do {
                return try TransferFrame(type: type, body: body)
            } catch let error as WireError {
                throw KithError(.invalid, "The other end sent a malformed message.", cause: error)
            }
        }
    }

    /// Takes the next message off, of a data message only its head; `nil` when not all of it is there.
    private mutating func takeMessage() throws(KithError) -> (type: UInt8, body: ArraySlice<UInt8>)? {
        guard let type = chunk.first, chunk.count >= 2 else { return nil }
        let first = chunk[chunk.startIndex + 1]
        let prefix = 1 << Int(first >> 6)
        guard chunk.count > prefix else { return nil }
        var length = UInt64(first & 0x3F)
        for byte in chunk.dropFirst(2).prefix(prefix - 1) { length = length << 8 | UInt64(byte) }
        let limit = TransferFrame.limit(type: type)
        guard length <= UInt64(limit) else {
            throw KithError(
                .invalid, "The other end announced a message of \(length) bytes; at most \(limit) may come.")
        }
        if type == 4 {
            chunk = chunk.dropFirst(1 + prefix)
            dataLeft = Int(length)
            return (type, [])
        }
        guard chunk.count >= 1 + prefix + Int(length) else { return nil }
        let body = chunk.dropFirst(1 + prefix).prefix(Int(length))
        chunk = chunk.dropFirst(1 + prefix + Int(length))
        return (type, body)
    }

    private mutating func takeData() -> TransferFrame {
        let data = chunk.prefix(dataLeft)
        chunk = chunk.dropFirst(data.count)
        dataLeft -= data.count
        return .data(data)
    }

    private mutating func hold() throws(KithError) -> TransferFrame? {
        guard behind == nil else { throw Self.cutShort }
        pending = Array(chunk)
        chunk = []
        return nil
    }

    private static var cutShort: KithError {
        KithError(.invalid, "The other end sent compressed data that ends in the middle of a message.")
    }
}
