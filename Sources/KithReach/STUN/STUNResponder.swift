package import KithWire

/// Answers Binding requests (RFC 8489), with nothing remembered between two of them.
///
/// An answer has never more bytes than the request, so that nobody can make it send more to a forged source than they
/// send themselves; a request that is too short for its answer gets none, unless ``answersShortRequests`` is set.
package struct STUNResponder: Hashable, Sendable {
    /// An answer, and the address it is to be sent from.
    package struct Answer: Hashable, Sendable {
        /// The datagram.
        package let bytes: [UInt8]
        /// The address of the server that it is to leave from.
        package let origin: NetworkAddress
    }

    /// The server's other IP address and port, when it listens at all four combinations (RFC 5780 §6); `nil` when it
    /// has one address.
    package var alternate: NetworkAddress?
    /// True to answer the bare request of 20 bytes that most clients send, with up to 44: 2.2 times what was asked.
    ///
    /// For a server that anybody may ask; off by default.
    package var answersShortRequests: Bool

    /// Makes a responder.
    package init(alternate: NetworkAddress? = nil, answersShortRequests: Bool = false) {
        (self.alternate, self.answersShortRequests) = (alternate, answersShortRequests)
    }

    /// The answer to a datagram that came from `source` to this server's address `local`; `nil` for none.
    package func answer(_ datagram: [UInt8], from source: NetworkAddress, to local: NetworkAddress) -> Answer? {
        guard source.port != 0, !source.isMulticast, !source.isUnspecified else { return nil }
        do {
            let request = try STUNMessage(parsing: datagram)
            guard request.kind == .request else { return nil }
            return answer(request, of: datagram.count, from: source, to: local)
        } catch {
            guard let transaction = error.request else { return nil }
            var answer = STUNMessage(.failure, transaction: transaction)
            answer.refusal = STUNMessage.Refusal(code: 400)
            return fitting(answer, in: datagram.count).map { Answer(bytes: $0, origin: local) }
        }
    }

    private func answer(
        _ request: STUNMessage, of length: Int, from source: NetworkAddress, to local: NetworkAddress
    ) -> Answer? {
        let unknown =
            request.unknownAttributes
            // A server with one address says that it does not know the attribute (RFC 5780 §6.1).
            + (request.changeRequest != nil && alternate == nil ? [STUNMessage.Attribute.changeRequest] : [])
        guard unknown.isEmpty else {
            var answer = STUNMessage(.failure, transaction: request.transaction)
            // As many as there is room for; two bytes each, in fours of bytes, after 32 of header and heads.
            let room = max(1, (length - 32) / 4 * 2)
            answer.refusal = STUNMessage.Refusal(code: 420, unknownAttributes: Array(unknown.prefix(room)))
            return fitting(answer, in: length).map { Answer(bytes: $0, origin: local) }
        }
        var answer = STUNMessage(.success, transaction: request.transaction)
        answer.xorMappedAddress = source
        guard length >= answer.encoded.count || answersShortRequests else { return nil }
        let room = max(length, answer.encoded.count)
        let origin = origin(request.changeRequest, at: local)
        /// Sets one more attribute, when there is room for it.
        func add(_ set: (inout STUNMessage) -> Void) {
            var longer = answer
            set(&longer)
            if longer.encoded.count <= room { answer = longer }
        }
        if request.hasFingerprint { add { $0.hasFingerprint = true } }
        if let alternate {
            add { $0.otherAddress = alternate }
            add { $0.responseOrigin = origin }
        }
        return Answer(bytes: answer.encoded, origin: origin)
    }

    private func fitting(_ answer: STUNMessage, in length: Int) -> [UInt8]? {
        let bytes = answer.encoded
        return bytes.count <= length ? bytes : nil
    }

    private func origin(_ change: STUNMessage.ChangeRequest?, at local: NetworkAddress) -> NetworkAddress {
        guard let change, var other = alternate else { return local }
        if !change.changesPort { other.port = local.port }
        guard !change.changesIP else { return other }
        var same = local
        same.port = other.port
        return same
    }
}
