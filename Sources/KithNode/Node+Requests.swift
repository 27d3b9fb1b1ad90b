public import KithAPI
import KithIdentity
import KithWire
import Logging

/// Requests by the paths of methods, to whichever device has them.
extension Node {
    /// Calls the query or the action at a path, here or on another device.
    public func request<Input: Codable & Sendable, Output: Codable & Sendable>(
        _ path: String, _ input: Input, from provider: Provider, as type: Output.Type, options: CallOptions
    ) async throws -> Output {
        let there: @Sendable (String, CallOptions) async throws -> Output = { device, options in
            try await self.asked(path, on: device) {
                let method = try await self.method(path, on: device, options: options)
                let bytes = try CBOREncoder().encode(input)
                return try Self.own(
                    type, cbor: try await self.call(method, bytes, on: device, options: options), of: path)
            }
        }
        switch provider {
        case .device(let device): return try await there(device, options)
        case .thisDevice: return try await requestHere(path, input, as: type, options: options)
        case .any:
            return try await anywhere(path, options) {
                try await self.requestHere(path, input, as: type, options: $0, known: $1)
            } there: {
                try await there($0, $1)
            }
        }
    }

    private func requestHere<Input: Codable & Sendable, Output: Codable & Sendable>(
        _ path: String, _ input: Input, as type: Output.Type, options: CallOptions, known: Handler? = nil
    ) async throws -> Output {
        guard case .value(let value) = try await callHere(path, .value(input), options: options, known: known) else {
            throw Self.otherForm
        }
        if let output = value as? Output { return output }
        guard let value = value as? any Encodable else { throw Self.otherForm }
        return try Self.own(type, cbor: CBOREncoder().encode(value), of: path)
    }

    /// Opens the stream at a path, here or on another device.
    public func open<Input: Codable & Sendable, Incoming: Codable & Sendable, Outgoing: Codable & Sendable>(
        path: String, _ input: Input, from provider: Provider, options: CallOptions
    ) async throws -> ValueStream<Incoming, Outgoing> {
        let there: @Sendable (String, CallOptions) async throws -> ValueStream<Incoming, Outgoing> = {
            device, options in
            try await self.asked(path, on: device) {
                let method = try await self.method(path, on: device, options: options)
                let bytes = try CBOREncoder().encode(input)
                return ValueStream(try await self.open(method, bytes, on: device, options: options).stream)
            }
        }
        switch provider {
        case .device(let device): return try await there(device, options)
        case .thisDevice: return ValueStream(try await openHere(path, .value(input), options: options).1)
        case .any:
            return try await anywhere(path, options) {
                ValueStream(try await self.openHere(path, .value(input), options: $0, known: $1).1)
            } there: {
                try await there($0, $1)
            }
        }
    }

    private static func own<Output: Codable & Sendable>(
        _ type: Output.Type, cbor bytes: [UInt8], of path: String
    ) throws -> Output {
        do {
            return try CBORDecoder().decode(type, from: bytes)
        } catch {
            throw KithError(
                .corrupt, "The answer of \(path.prefix(bytes: 128)) is not of the type the caller expects.",
                cause: error)
        }
    }

    // MARK: - Any provider

    /// Sets the way in which requests to the paths of a pattern find their provider; `nil` takes it back.
    ///
    /// Of several patterns that stand for a path, the narrowest counts.
    ///
    /// - Throws: `KithError` `.invalid` for what is no path.
    public func setPolicy(_ policy: RequestPolicy?, for pattern: String) throws {
        providers.setPolicy(policy, for: try TopicPath(method: pattern))
    }

    /// The method at a path, as this device or one that has announced it declares it.
    func method(anywhere path: String, options: CallOptions) async throws -> AnyMethod {
        if let method = knownMethod(path) { return method }
        guard let topic = try? TopicPath(method: path), let provider = providers.providers(of: topic).first else {
            throw Self.nobody(path)
        }
        return try await method(path, on: provider.device.description, options: options)
    }

    private static func nobody(_ path: String) -> KithError {
        KithError(
            .unsupported,
            "No device that is connected serves \(path.prefix(bytes: 128)). Only services with an `info` are announced, and only to devices that hold a grant for the method."
        )
    }

    /// Makes a request to this device or to another that has announced the path, as its policy says.
    ///
    /// `here` is given the handler of the path.
    func anywhere<Result: Sendable>(
        _ path: String, _ options: CallOptions,
        here: @Sendable (CallOptions, Handler?) async throws -> Result,
        there: @Sendable (_ device: String, CallOptions) async throws -> Result
    ) async throws -> Result {
        let own = methods.handler(path)
        if options.policy == nil, let own, own.calls?.isAvailable ?? true, !providers.hasPolicies {
            return try await here(options, own)
        }
        let topic = try TopicPath(method: path)
        let policy = options.policy ?? providers.policy(for: topic)
        var attempt = Attempt(path: topic.methodName, policy: policy)
        var options = options
        if let timeout = policy.timeout {
            options.timeout = min(options.timeout ?? .milliseconds(timeout), .milliseconds(timeout))
        }
        let deadline = options.timeout.map { clock.now + $0 }
        while true {
            let known = providers.providers(of: topic)
            var candidates: [DeviceID?] = known.map(\.device)
            let own = methods.handler(path)
            let isOwn = own.map { $0.calls?.isAvailable ?? true } ?? false
            if isOwn || (known.isEmpty && own != nil) { candidates.append(nil) }
            if known.isEmpty, own != nil, attempt.failure == nil { return try await here(options, own) }
            guard !candidates.isEmpty else { throw attempt.failure ?? Self.nobody(path) }
            attempt.isIdempotent = own?.method.header.isIdempotent ?? known.allSatisfy(\.action.isIdempotent)
            let choice = providers.choose(
                attempt.path, among: candidates, except: attempt.tried, by: policy, at: clock.now)
            switch choice {
            case .ask(let device):
                do {
                    var options = options
                    // It does not wait long for one when there is another.
                    if attempt.isIdempotent, policy.failsOver,
                        candidates.contains(where: { $0 != device && !attempt.tried.contains($0) })
                    {
                        options.silenceLimit = self.options.heartbeat
                    }
                    return try await ask(
                        device, attempt, options, until: deadline, here: { try await here($0, own) }, there: there)
                } catch {
                    guard try attempt.failed(device, Self.outward(error)) else { throw error }
                    logger.debug(
                        "a request goes to another provider",
                        metadata: ["path": "\(path)", "error": "\(Self.outward(error).code.rawValue)"])
                }
            case .allBroken where attempt.failure == nil:
                throw KithError(
                    .unreachable, "All providers of \(path.prefix(bytes: 128)) have failed lately. Try again soon.",
                    detail: KithError.Detail("provider.broken"))
            case .allBusy where attempt.failure == nil:
                throw KithError(
                    .exhausted, "All providers of \(path.prefix(bytes: 128)) are busy. Try again soon.",
                    detail: KithError.Detail("provider.busy"))
            default:
                // All were tried: again, after a while, from the beginning.
                guard attempt.isIdempotent, attempt.round < policy.retries else {
                    throw attempt.failure ?? Self.nobody(path)
                }
                var random = SystemRandomNumberGenerator()
                let time = clock.now + ProviderTable.delay(after: attempt.round, policy, using: &random)
                if let deadline, time >= deadline { throw attempt.failure ?? Self.nobody(path) }
                try await clock.sleep(until: time, tolerance: nil)
                attempt.round += 1
                attempt.tried = []
            }
        }
    }

    /// One request, as far as its tries have come.
    private struct Attempt: Sendable {
        let path: String
        let policy: RequestPolicy
        var isIdempotent = false
        var tried: Set<DeviceID?> = []
        var round: UInt32 = 0
        /// The last failure of a provider.
        var failure: KithError?

        init(path: String, policy: RequestPolicy) {
            self.path = path
            self.policy = policy
        }

        /// Takes a failure; tells whether another provider may be asked.
        mutating func failed(_ device: DeviceID?, _ error: KithError) throws -> Bool {
            if Task.isCancelled { return false }
            // Whoever is paused has not done it.
            let isUntouched = error.detail?.code == "service.paused"
            guard isUntouched || (isIdempotent && Attempt.isOfProvider(error)) else { return false }
            tried.insert(device)
            failure = error
            return policy.failsOver || isUntouched
        }

        /// Tells whether an error is the provider's, and not the answer of its service.
        static func isOfProvider(_ error: KithError) -> Bool {
            switch error.code {
            case .unreachable, .timedOut, .closed, .exhausted, .internal: true
            // A service that was removed meanwhile.
            case .unsupported: true
            default: false
            }
        }
    }

    private func ask<Result: Sendable>(
        _ device: DeviceID?, _ attempt: Attempt, _ options: CallOptions, until deadline: ContinuousClock.Instant?,
        here: @Sendable (CallOptions) async throws -> Result,
        there: @Sendable (_ device: String, CallOptions) async throws -> Result
    ) async throws -> Result {
        let start = clock.now
        var options = options
        options.timeout = deadline.map { max(.milliseconds(1), $0 - start) }
        if attempt.isIdempotent, let limit = attempt.policy.tryTimeout {
            options.timeout = min(options.timeout ?? .milliseconds(limit), .milliseconds(limit))
        }
        func note(_ outcome: ProviderTable.Outcome) {
            let breaker = providers.ended(attempt.path, device, outcome, by: attempt.policy, at: clock.now)
            guard let breaker else { return }
            logger.info(
                "a provider's breaker has changed",
                metadata: [
                    "path": "\(attempt.path)", "device": "\(device?.short ?? "this")",
                    "state": "\(Registry.ProviderState.text(breaker))",
                ])
        }
        do {
            let result =
                if let device { try await there(device.description, options) } else { try await here(options) }
            note(.answered(clock.now - start))
            return result
        } catch {
            let failure = Self.outward(error)
            if Task.isCancelled || failure.code == .cancelled {
                note(.nothing)
            } else {
                note(Attempt.isOfProvider(failure) ? .failed : .answered(clock.now - start))
            }
            throw error
        }
    }
}

extension Registry.ProviderState {
    /// A breaker as a word.
    static func text(_ breaker: ProviderTable.Breaker) -> String {
        switch breaker {
        case .closed: "closed"
        case .open: "open"
        case .halfOpen: "half-open"
        }
    }
}
