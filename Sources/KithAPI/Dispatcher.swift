package import KithWire

/// A call as it arrives: names and bytes, nothing checked yet.
package struct IncomingCall: Sendable {
    /// The method's name.
    package var method: String
    /// Its input; the answer is given in the same form.
    package var input: Payload
    /// The device to ask, `nil` for this one.
    package var device: String?
    /// The time the answer may take, and the trace.
    package var options: CallOptions

    /// Makes a call.
    package init(method: String, input: Payload, device: String? = nil, options: CallOptions = CallOptions()) {
        self.method = method
        self.input = input
        self.device = device
        self.options = options
    }

    /// The same call to another device, or `nil` for this one.
    package func directed(to device: String?, _ options: CallOptions) -> IncomingCall {
        IncomingCall(method: method, input: input, device: device, options: options)
    }
}

/// The other end of a ``Carrier``: finds the entry of the table a call names, and runs it.
///
/// Both functions serve the caller for as long as their task lives: cancelling it stops the work.
package protocol Dispatcher: Sendable {
    /// The entry of the table with this name; `nil` when this end does not know it.
    func entry(_ method: String) -> AnyMethod?

    /// The entry of a method as the device to be asked declares it, when this end does not know the method or that device
    /// may declare it differently.
    ///
    /// - Throws: `KithError` `.unsupported` when that device does not know it either.
    func entry(_ method: String, on device: String, options: CallOptions) async throws -> AnyMethod

    /// Begins to serve the methods of a service in another process.
    ///
    /// - Returns: what ends that again, and the calls that run with the reason given.
    /// - Throws: `KithError` `.conflict` for a method that is served already, `.exhausted` for one service too many; nothing
    ///   is served then.
    func add(_ service: any ExternalService) throws -> @Sendable (KithError) async -> Void

    /// Serves a query or an action; the answer has the form of the input.
    func dispatch(_ call: IncomingCall) async throws -> Payload

    /// Serves a stream until it is over.
    ///
    /// `accept` is called at most once, with the answer in the form of the input; gives the bytes.
    func dispatch(stream call: IncomingCall, accept: @escaping @Sendable (Payload) async throws -> any ByteStream)
        async throws
}

extension Dispatcher {
    /// Finds only the methods this end knows itself.
    package func entry(_ method: String, on device: String, options: CallOptions) async throws -> AnyMethod {
        if let entry = entry(method) { return entry }
        throw KithError(.unsupported, "This device does not know the method \(method.prefix(128)).")
    }

    /// None.
    package func add(_ service: any ExternalService) throws -> @Sendable (KithError) async -> Void {
        throw KithError(.unsupported, "No service can be registered here.")
    }
}

/// Copies what each of two streams gives into the other until both directions have ended.
///
/// An end of one becomes an end of the other, an abort an abort with the same error. Where one takes no more, the other is
/// read no further, and what the first still says goes on.
///
/// Small pieces are passed on by the thread that reads them, because waking another thread delays a keystroke. Bulk
/// data is passed on by the first stream's thread, which leaves the second's free.
///
/// `carried` is called with the number of bytes passed on, and whether they came from the first stream.
package func splice(
    _ first: any ByteStream, _ second: any ByteStream,
    carried: (@Sendable (_ count: Int, _ isFromFirst: Bool) -> Void)? = nil
) async throws {
    /// Copies while the data is, or is not, bulk data; returns whether there is more.
    @Sendable func copy(
        from source: any ByteStream, to target: any ByteStream, isFromFirst: Bool, whileMass isMass: Bool
    ) async throws -> Bool {
        while let bytes = try await source.read(upTo: 256 << 10) {
            try await target.write(bytes)
            carried?(bytes.count, isFromFirst)
            if isMass ? bytes.count < 1 << 10 : bytes.count >= 32 << 10 { return true }
        }
        return false
    }
    @Sendable func copyAll(from source: any ByteStream, to target: any ByteStream, isFromFirst: Bool) async throws {
        var (isMass, hasMore) = (false, true)
        while hasMore {
            let place = (isMass ? first : source).executor ?? first.executor ?? second.executor
            hasMore = try await withTaskExecutorPreference(place) { [isMass] in
                try await copy(from: source, to: target, isFromFirst: isFromFirst, whileMass: isMass)
            }
            isMass.toggle()
        }
        // An end that takes no more may still send: the other direction finds out.
        try? await target.finish()
    }
    @Sendable func copy(from source: any ByteStream, to target: any ByteStream, isFromFirst: Bool) async throws {
        do {
            try await withThrowingTaskGroup(of: Bool.self) { group in
                group.addTask {
                    do {
                        try await copyAll(from: source, to: target, isFromFirst: isFromFirst)
                        return true
                    } catch let error as KithError where error.cause is ReadingStopped {
                        return true
                    }
                }
                group.addTask {
                    // When it ends otherwise, the copy finds out.
                    do { try await target.stopped() } catch { return false }
                    return true
                }
                while let isOver = try await group.next(), !isOver {}
                group.cancelAll()
                // What was read and cannot be written any more is nobody's.
                while await group.nextResult() != nil {}
            }
            source.stopReading(.closed)
        } catch {
            let failure =
                switch error {
                case let error as KithError: error
                case is CancellationError: KithError(.cancelled, "The call was cancelled.")
                default: KithError(.internal, "The stream failed.", cause: error)
                }
            // Neither direction can go on; each end learns why.
            source.abort(failure.code)
            target.fail(failure)
            throw error
        }
    }
    try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { try await copy(from: first, to: second, isFromFirst: true) }
        group.addTask { try await copy(from: second, to: first, isFromFirst: false) }
        // The first failure cancels the other copy.
        try await group.waitForAll()
    }
}
