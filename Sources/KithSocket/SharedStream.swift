import KithAPI
import KithIO
import KithRPC
import KithWire

/// The server's end of a stream on a connection that carries others as well: messages in JSON, or bytes in base64.
///
/// Messages from the caller wait here, at most ``StreamNotice/initialCredit`` of them, until the service takes them;
/// messages from the service are sent as far as the caller's credit allows.
final class SharedStream: Sendable {
    private let id: RPCIdentifier
    private let connection: LineConnection
    private let received = BoundedQueue<Received>(capacity: StreamNotice.initialCredit)
    /// `nil`: no limit.
    private let credit: AsyncSemaphore?
    private let pumps = Locked<Task<Void, any Error>?>(nil)
    private let fault = Locked<KithError?>(nil)

    /// The items received from the caller.
    private enum Received: Sendable {
        case message(JSONText)
        case bytes([UInt8])
        case finish
    }

    init(_ id: RPCIdentifier, _ connection: LineConnection, credit: Int?) {
        self.id = id
        self.connection = connection
        self.credit = credit.map { AsyncSemaphore($0) }
    }

    /// Takes a message of the caller about the stream; waits while the caller is ahead of the service.
    func take(_ notice: StreamNotice) async throws {
        switch notice {
        case .message(let message): try await enqueue(.message(message))
        case .bytes(let bytes): try await enqueue(.bytes(bytes))
        case .finish: try await enqueue(.finish)
        case .credit(let count): credit?.add(count)
        case .cancel, .end: break  // the call's, or not for us
        }
    }

    private func enqueue(_ part: Received) async throws {
        let count = Self.size(part)
        // A stream that has ended meanwhile takes no more, which is not an error.
        do {
            if connection.room.offer(count) {
                do {
                    if try received.offer(part) { return }
                } catch {
                    connection.room.giveBack(count)
                    throw error
                }
                connection.room.giveBack(count)
            }
            try await connection.whileThere { [connection, received] in
                try await connection.room.take(count)
                do {
                    try await received.send(part)
                } catch {
                    connection.room.giveBack(count)
                    throw error
                }
            }
        } catch is Ended {}
    }

    private static func size(_ part: Received) -> Int {
        switch part {
        case .message(let message): message.bytes.count
        case .bytes(let bytes): bytes.count
        case .finish: 0
        }
    }

    private struct Ended: Error {}

    /// Ends the stream because of an error of its caller.
    func fail(_ error: KithError) {
        if fault.value == nil { fault.set(error) }
        received.finish(throwing: error)
    }

    /// Tells the caller that the service has accepted, and gives the service's end.
    func accept(_ output: JSONText, as method: AnyMethod) async throws -> any ByteStream {
        let pipe = Pipe()
        // The other end is the service's alone: what it lets go of ends.
        let near = pipe.left
        let sent = TranscodedStream(near, incoming: method.downstream, outgoing: method.upstream)
        try await connection.send(RPCResponse(id: id, result: .success(output)).json)
        pumps.set(
            Task(name: "kith stream") {
                do {
                    try await withThrowingTaskGroup { group in
                        group.addTask { try await self.pumpIn(to: near, of: method) }
                        group.addTask {
                            try await self.pumpOut(from: sent)
                            // Where nothing flows, the caller need not say that nothing more comes: it is there until
                            // the service has ended.
                            if method.upstream.form == .nothing { try? await near.finish() }
                        }
                        // The first failure calls the other off; waitForAll would wait for it.
                        while try await group.next() != nil {}
                    }
                } catch {
                    near.abort((error as? KithError)?.code ?? .cancelled)
                    throw error
                }
            })
        return pipe.right
    }

    private func pumpIn(to stream: any ByteStream, of method: AnyMethod) async throws {
        var isHeard = true
        var taken = 0
        func next() async throws -> Received? {
            do { return try await received.receive() } catch is Ended { return nil }
        }
        while let part = try await next() {
            defer { connection.room.giveBack(Self.size(part)) }
            guard let bytes = try bytes(part, of: method) else {
                try? await stream.finish()  // it has ended already: as wanted
                return
            }
            if isHeard {
                // A service that has ended its reading may still have something to say.
                do { try await stream.write(bytes) } catch let error as KithError where error.code == .closed {
                    isHeard = false
                }
            }
            taken += 1
            if taken == StreamNotice.initialCredit / 4 {
                try await connection.send(StreamNotice.credit(taken).request(id).json)
                taken = 0
            }
        }
    }

    /// The bytes of what the caller has sent.
    ///
    /// - Throws: `KithError` `.invalid` for content that this direction does not carry; the stream ends with it.
    private func bytes(_ part: Received, of method: AnyMethod) throws -> [UInt8]? {
        do {
            switch part {
            case .message(let message): return try method.upstream.bytes(fromJSON: message.bytes)
            case .bytes(let bytes):
                guard method.upstream.form == .bytes else {
                    throw KithError(.invalid, "\(method.name) takes \(method.upstream.form.rawValue) here, not bytes.")
                }
                return bytes
            case .finish: return nil
            }
        } catch let error as KithError {
            if fault.value == nil { fault.set(error) }
            throw error
        }
    }

    private func pumpOut(from stream: TranscodedStream) async throws {
        while let item = try await stream.receive() {
            switch item {
            case .message(let message): try await send(.message(JSONText(scanned: message)))
            case .bytes(let bytes): try await send(.bytes(bytes))
            }
        }
        try await connection.send(StreamNotice.finish.request(id).json)
    }

    private func send(_ notice: StreamNotice) async throws {
        _ = try await credit?.take()
        try await connection.send(notice.request(id).json)
    }

    /// Forgets what its service has not taken.
    func letGo() {
        received.finish(throwing: Ended())
        while let part = try? received.poll() { connection.room.giveBack(Self.size(part)) }
    }

    /// Waits until everything the service has sent is on its way to the caller, then reports the end.
    ///
    /// `failure` is the reason, unless it ended well.
    func end(_ failure: (any Error)?) async {
        received.finish(throwing: Ended())
        let pump = pumps.value
        if failure != nil { pump?.cancel() }
        let result = await withTaskCancellationHandler {
            await pump?.result
        } onCancel: {
            pump?.cancel()
        }
        var failure = fault.value ?? failure
        if failure == nil, case .failure(let error) = result { failure = error }
        // The caller may be gone; then nobody wants to know.
        try? await connection.send(StreamNotice.end(failure.map { RPCCall.failure($0) }).request(id).json)
    }
}
