import KithWire

/// Cuts arriving bytes into messages, holding back no more than one small message.
package struct TransferParser: Sendable {
    private var pending: [UInt8] = []
    private var chunk: ArraySlice<UInt8> = []
    /// How many bytes of a data message have not come yet.
    private var dataLeft = 0

    package init() {}

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

    /// Whether the bytes ended between two messages.
    package var isBetweenFrames: Bool { pending.isEmpty && chunk.isEmpty && dataLeft == 0 }

    /// The next message; `nil` when more bytes are needed.
    ///
    /// - Throws: `.invalid` for one that is malformed or too long, before anything is allocated for it.
    package mutating func next() throws -> TransferFrame? {
        if dataLeft > 0 {
            guard !chunk.isEmpty else { return nil }
            return takeData()
        }
        guard let type = chunk.first, chunk.count >= 2 else { return hold() }
        let first = chunk[chunk.startIndex + 1]
        let prefix = 1 << Int(first >> 6)
        guard chunk.count > prefix else { return hold() }
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
            return try next()
        }
        guard chunk.count >= 1 + prefix + Int(length) else { return hold() }
        let body = chunk.dropFirst(1 + prefix).prefix(Int(length))
        chunk = chunk.dropFirst(1 + prefix + Int(length))
        do {
            return try TransferFrame(type: type, body: body)
        } catch let error as WireError {
            throw KithError(.invalid, "The other end sent a malformed message.", cause: error)
        }
    }

    private mutating func takeData() -> TransferFrame {
        let data = chunk.prefix(dataLeft)
        chunk = chunk.dropFirst(data.count)
        dataLeft -= data.count
        return .data(data)
    }

    private mutating func hold() -> TransferFrame? {
        pending = Array(chunk)
        chunk = []
        return nil
    }
}
