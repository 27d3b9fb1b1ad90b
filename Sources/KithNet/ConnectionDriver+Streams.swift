import KithAPI
import KithIO
import KithQUIC

// Streams: what of them moves between the engine and the buffers of their users, and who waits for one.
extension ConnectionDriver {
    func streamOpened(_ id: StreamID) {
        guard let connection else { return }
        if handling != nil { return openedHandled(id) }
        guard id.direction == .bidirectional else { return controlOpened(id) }
        let core = StreamCore(id: id, driver: self)
        let stream = QUICStream(core, connection: connection, isEarly: !engine.isConnected)
        streams[id] = Entry(core: core)
        idleClosing?.began()
        // Letting go of a stream nobody can take aborts it.
        if isDraining || !connection.offer(stream) { stream.abort(.closed) }
    }

    func open(_ promise: Promise<Result<QUICStream, KithError>>) {
        if let closeReason {
            promise.fulfil(.failure(closeReason.error))
        } else if isDraining {
            promise.fulfil(.failure(KithError(.closed, "The connection is being closed.")))
        } else {
            pendingOpens.removeAll { $0.isFulfilled }
            pendingOpens.append(promise)
            openPending()
            service()
        }
    }

    func openPending() {
        guard let connection else { return }
        while let next = pendingOpens.first {
            if next.isFulfilled {
                pendingOpens.removeFirst()
                continue
            }
            guard let stream = makeStream(of: connection) else { return }
            pendingOpens.removeFirst()
            // When the caller was cancelled meanwhile, the stream is let go here and so aborted.
            next.fulfil(.success(stream))
        }
    }

    /// A stream that this end opens; nil while the peer allows no more.
    func makeStream(of connection: Connection) -> QUICStream? {
        guard let id = engine.openStream(.bidirectional) else { return nil }
        let core = StreamCore(id: id, driver: self)
        streams[id] = Entry(
            core: core, packetsBefore: engine.statistics.packetsReceived, isEarly: !engine.isConnected)
        idleClosing?.began()
        return QUICStream(core, connection: connection)
    }

    /// Takes the reason the other end gives for breaking off a stream of ours, before it does.
    func explain(_ id: StreamID, _ error: KithError) {
        guard id.isClientInitiated == isDialed, let entry = streams[id] else { return }
        entry.core.explain(error)
    }

    /// Follows the orders for one stream and moves its bytes.
    func serve(_ core: StreamCore) {
        let orders = core.takeOrders()
        guard let entry = streams[core.id], entry.core === core else { return }
        // The engine refuses only what has become pointless meanwhile: a stream that ended on its own.
        if let urgency = orders.priority { engine.setPriority(core.id, urgency) }
        if let code = orders.stopReading {
            if entry.hasInput { try? engine.stopSending(core.id, code: code) }
            end(core.id, input: true)
        }
        if let code = orders.reset {
            if entry.hasOutput { try? engine.reset(core.id, code: code) }
            end(core.id, output: true)
            return
        }
        drain(core)
        fill(core)
    }

    /// Moves bytes from the outbox to the engine, until it takes no more.
    func drain(_ core: StreamCore) {
        guard let entry = streams[core.id], entry.hasOutput, !entry.isFinishSent else { return }
        while true {
            switch core.nextOutput() {
            case .none: return
            case .finish:
                streams[core.id]?.isFinishSent = true
                do {
                    try engine.finish(core.id)
                } catch {
                    outputEnded(core, error)
                }
                return
            case .bytes(let chunk, let offset):
                do throws(StreamError) {
                    let taken = try write(chunk, from: offset, to: core.id)
                    if taken > 0 { core.outputTaken(taken) }
                    if taken < chunk.count - offset { return }
                } catch {
                    return outputEnded(core, error)
                }
            }
        }
    }

    func write(_ chunk: [UInt8], from offset: Int, to id: StreamID) throws(StreamError) -> Int {
        let result = unsafe chunk.withUnsafeBytes { bytes -> Result<Int, StreamError> in
            do throws(StreamError) {
                return .success(unsafe try engine.write(UnsafeRawBufferPointer(rebasing: bytes[offset...]), to: id))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    private func outputEnded(_ core: StreamCore, _ error: StreamError) {
        if case .stopped(let code) = error { return sendStopped(core.id, code: code) }
        core.outputFailed(KithError(.closed, "The other device takes no more of it."))
        end(core.id, output: true)
    }

    /// Moves bytes from the engine to the inbox, until there are none or it is full.
    func fill(_ core: StreamCore) {
        guard let entry = streams[core.id], entry.hasInput else { return }
        let scratch = unsafe endpoint.readBuffer
        if core.awaitsInputEnd {
            let result = unsafe try? engine.read(core.id, into: UnsafeMutableRawBufferPointer(rebasing: scratch[..<1]))
            if let result, result.count == 0, !result.isFinished { return }
            if result?.isFinished == false {
                // The engine refuses only what has become pointless meanwhile.
                try? engine.stopSending(core.id, code: KithError.Code.cancelled.wireCode)
            }
            return end(core.id, input: true)
        }
        while true {
            let room = core.roomForInput()
            guard room > 0 else { return }
            do {
                let target = unsafe UnsafeMutableRawBufferPointer(rebasing: scratch[..<min(room, scratch.count)])
                let result = unsafe try engine.read(core.id, into: target)
                if result.count > 0 || result.isFinished {
                    let finishes = unsafe core.received(
                        UnsafeRawBufferPointer(rebasing: target[..<result.count]), isFinished: result.isFinished)
                    if finishes {
                        ending.append(core)
                        if endingDeadline == .distantFuture {
                            endingDeadline = .now().advanced(nanoseconds: Self.endingDelay)
                        }
                    }
                }
                if result.isFinished { return end(core.id, input: true) }
                if result.count == 0 { return }
            } catch {
                switch error {
                case .reset(let code): streamReset(core.id, code: code)
                case .unknown, .wrongDirection, .finished, .stopped:
                    core.inputFailed(KithError(.closed, "No more can be read from the other device."))
                    end(core.id, input: true)
                }
                return
            }
        }
    }

    func streamReset(_ id: StreamID, code: UInt64) {
        guard let entry = streams[id], entry.hasInput else { return }
        // Early data was rejected, and there is no place for the stream any more: the peer has not seen it.
        if entry.isEarly, code == 0, engine.earlyDataState == .rejected { entry.core.neverDelivered() }
        entry.core.inputFailed(KithError(KithError.Code(wireCode: code), "The other device broke it off."))
        end(id, input: true)
    }

    func sendStopped(_ id: StreamID, code: UInt64) {
        guard let entry = streams[id], entry.hasOutput else { return }
        entry.core.outputFailed(
            KithError(
                KithError.Code(wireCode: code), "The other device stopped reading.", cause: ReadingStopped()))
        end(id, output: true)
    }

    /// Notes that directions of a stream are over, and forgets it when both are.
    func end(_ id: StreamID, input: Bool = false, output: Bool = false) {
        guard var entry = streams[id] else { return }
        if input { entry.hasInput = false }
        if output { entry.hasOutput = false }
        guard !entry.hasInput, !entry.hasOutput else {
            streams[id] = entry
            return
        }
        streams[id] = nil
        if !entry.isInBackground { idleClosing?.ended(at: .now()) }
        guard streams.isEmpty else { return }
        releaseDrainWaiters()
        if isRetired { endpoint.retirementIsDue(self) }
    }
}
