internal import CQUICCrypto
import KithWire

/// One TLS 1.3 handshake for QUIC, and what it leaves behind (RFC 9001 §4).
///
/// Bytes of CRYPTO frames go in level by level, in order; secrets, bytes to send and tickets come out by asking.
/// It sends nothing, waits for nothing, and reads the clock only to date tickets.
///
///     provide(level, bytes) ─▶ advance() ─▶ nextSecret() … nil ─▶ nextOutput() … nil
///
/// A client calls `advance()` once to begin. A failure is thrown once, as the alert to close the connection with.
@safe package final class TLSSession {
    private let session: OpaquePointer
    private let verify: @Sendable (PeerCredential) -> Bool

    /// Tells whether both Finished messages are verified and `verify` has said yes.
    package private(set) var isComplete = false

    /// Tells whether a server has read the ClientHello and waits for ``answer(parameters:scope:context:)``.
    package private(set) var isAskingForParameters = false

    /// Tells whether early data waits for ``allowEarlyData(isFresh:)``.
    package private(set) var isAskingAboutEarlyData = false

    /// Prepares a session; nothing is sent before `advance()`.
    ///
    /// - Throws: Alert 80 when a credential or an option is malformed.
    package init(_ configuration: TLSConfiguration) throws(TLSAlert) {
        guard let session = unsafe Self.make(configuration) else {
            throw TLSAlert(code: TLSAlert.internalError, reason: "malformed option")
        }
        unsafe self.session = session
        verify = configuration.verify
        for credential in configuration.credentials {
            guard unsafe Self.add(credential, to: session) else {
                throw TLSAlert(code: TLSAlert.internalError, reason: "malformed credential: \(credential)")
            }
        }
    }

    deinit { unsafe kith_tls_free(session) }

    // MARK: - The handshake

    /// Hands over CRYPTO bytes of one level, the next in order; `advance()` then works on them.
    ///
    /// - Throws: Alert 10 when nothing is expected at that level or too much has come.
    package func provide(_ level: EncryptionLevel, _ bytes: UnsafeRawBufferPointer) throws(TLSAlert) {
        guard unsafe kith_tls_provide(session, Int32(level.rawValue), bytes.bytePointer, bytes.count) == 1 else {
            throw failure
        }
    }

    /// Hands over CRYPTO bytes of one level, the next in order; `advance()` then works on them.
    ///
    /// - Throws: Alert 10 when nothing is expected at that level or too much has come.
    package func provide(_ level: EncryptionLevel, _ bytes: [UInt8]) throws(TLSAlert) {
        guard unsafe kith_tls_provide(session, Int32(level.rawValue), bytes, bytes.count) == 1 else { throw failure }
    }

    /// Goes on as far as the bytes provided so far allow, asking `verify` when the peer has shown who it is.
    ///
    /// - Throws: The alert to close the connection with. What was produced before can still be taken.
    package func advance() throws(TLSAlert) {
        var step = unsafe kith_tls_advance(session)
        if step == KITH_STEP_ASKS_VERDICT {
            unsafe kith_tls_give_verdict(session, verify(peerCredential) ? 1 : 0)
            step = unsafe kith_tls_advance(session)
        }
        guard step != KITH_STEP_FAILED else { throw failure }
        isComplete = step == KITH_STEP_COMPLETE
        isAskingForParameters = step == KITH_STEP_ASKS_PARAMETERS
        isAskingAboutEarlyData = step == KITH_STEP_ASKS_EARLY_VERDICT
    }

    /// Answers ``isAskingAboutEarlyData``: lets early data flow if these bytes repeat nothing and `verify` agrees.
    ///
    /// `verify` is asked about the resumed session's peer. A refusal is alert 49 of the next `advance()`.
    package func allowEarlyData(isFresh: Bool) {
        unsafe kith_tls_give_early_verdict(session, isFresh && verify(peerCredential) ? 1 : 0)
        isAskingAboutEarlyData = false
    }

    /// Answers ``isAskingForParameters``: what the server says, now that it knows what the client said.
    ///
    /// - Parameters:
    ///   - parameters: the server's encoded transport parameters.
    ///   - scope: at most 32 bytes that must be equal where a session is resumed.
    ///   - context: must be equal, too, where its early data is accepted; empty accepts none.
    /// - Throws: Alert 80 when there is no memory, or `scope` is too long.
    package func answer(parameters: [UInt8], scope: [UInt8], context: [UInt8]) throws(TLSAlert) {
        guard
            unsafe kith_tls_set_parameters(
                session, parameters, parameters.count, scope, scope.count, context, context.count) == 1
        else { throw TLSAlert(code: TLSAlert.internalError, reason: "malformed parameters") }
        isAskingForParameters = false
    }

    private var failure: TLSAlert {
        unsafe TLSAlert(code: kith_tls_alert(session), reason: String(cString: kith_tls_reason(session)))
    }

    // MARK: - What waits to be taken

    /// Takes the oldest new secret.
    ///
    /// Ask until nil after every `advance()`, before ``nextOutput()``: the bytes may need the keys.
    package func nextSecret() -> TrafficSecret? {
        var level: Int32 = 0
        var isWrite: Int32 = 0
        var suite: Int32 = 0
        return unsafe withUnsafeTemporaryAllocation(byteCount: 48, alignment: 16) { room -> TrafficSecret? in
            var count = 0
            defer { unsafe kith_zero(room.bytePointer, room.count) }
            guard
                unsafe kith_tls_take_secret(session, &level, &isWrite, &suite, room.bytePointer, &count) == 1,
                let level = EncryptionLevel(rawValue: Int(level)), let suite = CipherSuite(code: suite)
            else { return nil }
            return unsafe TrafficSecret(
                level: level, direction: isWrite == 1 ? .write : .read, suite: suite,
                bytes: SecretBytes(count: count) {
                    unsafe $0.copyMemory(
                        from: UnsafeRawBufferPointer(rebasing: UnsafeRawBufferPointer(room).prefix(count)))
                })
        }
    }

    /// Takes the bytes to append to a level's CRYPTO stream, the lowest level first; nil when there are none.
    package func nextOutput() -> (level: EncryptionLevel, bytes: [UInt8])? {
        var code: Int32 = 0
        var start: UnsafePointer<UInt8>?
        var count = 0
        guard
            unsafe kith_tls_output(session, &code, &start, &count) == 1,
            let level = EncryptionLevel(rawValue: Int(code))
        else { return nil }
        let bytes = unsafe Array(UnsafeBufferPointer(start: start, count: count))
        unsafe kith_tls_output_taken(session, code)
        return (level, bytes)
    }

    /// Takes a session ticket the server has sent: opaque, secret, good for one ``TLSConfiguration/ticket``.
    ///
    /// At most 16 wait; later ones are dropped.
    package func nextTicket() -> [UInt8]? { nextItem(KITH_ITEM_TICKET) }

    /// Takes a line of the NSS key log, when ``TLSConfiguration/wantsKeyLog`` asked for them.
    package func nextKeyLogLine() -> String? {
        nextItem(KITH_ITEM_KEY_LOG_LINE).map { String(decoding: $0, as: UTF8.self) }
    }

    private func nextItem(_ item: Int32) -> [UInt8]? {
        var count = 0
        guard let start = unsafe kith_tls_item(session, item, &count) else { return nil }
        defer { unsafe kith_tls_item_taken(session, item) }
        return unsafe Array(UnsafeBufferPointer(start: start, count: count))
    }

    // MARK: - What is known

    /// The level whose CRYPTO bytes are expected now.
    package var readLevel: EncryptionLevel {
        unsafe EncryptionLevel(rawValue: Int(kith_tls_read_level(session))) ?? .initial
    }

    /// The most CRYPTO bytes a peer may send at one level: the bound of a reassembly buffer (RFC 9000 §7.5).
    package func maxFlightLength(_ level: EncryptionLevel) -> Int {
        unsafe kith_tls_max_flight(session, Int32(level.rawValue))
    }

    /// The peer's encoded transport parameters; nil until they have come.
    package var peerTransportParameters: [UInt8]? { value(KITH_VALUE_PEER_TRANSPORT_PARAMETERS) }

    /// The application protocol agreed on; nil until it is.
    package var negotiatedALPN: String? { value(KITH_VALUE_ALPN).map { String(decoding: $0, as: UTF8.self) } }

    /// The name the client asked for in SNI, at both ends.
    package var serverName: String? { value(KITH_VALUE_SERVER_NAME).map { String(decoding: $0, as: UTF8.self) } }

    /// Server: the random bytes of the ClientHello, by which a repeated one is known.
    package var clientRandom: [UInt8]? { value(KITH_VALUE_CLIENT_RANDOM) }

    /// The credential the peer has shown; proved once ``isComplete``.
    package var peerCredential: PeerCredential {
        var key = [UInt8](repeating: 0, count: 32)
        if unsafe kith_tls_peer_key(session, &key) == 1 { return .rawPublicKey(key) }
        var chain: [[UInt8]] = []
        var count = 0
        while let start = unsafe kith_tls_peer_certificate(session, chain.count, &count) {
            unsafe chain.append(Array(UnsafeBufferPointer(start: start, count: count)))
        }
        return chain.isEmpty ? .none : .x509(chain)
    }

    /// Tells whether the session resumed an earlier one.
    package var isResumed: Bool { unsafe kith_tls_fact(session, KITH_FACT_RESUMED) == 1 }

    /// Tells whether the server took the early data of a resumed session.
    package var isEarlyDataAccepted: Bool { unsafe kith_tls_fact(session, KITH_FACT_EARLY_DATA_ACCEPTED) == 1 }

    /// Tells whether a client's early data was offered and the server has said that it does not take it.
    package var isEarlyDataRejected: Bool { unsafe kith_tls_fact(session, KITH_FACT_EARLY_DATA_REJECTED) == 1 }

    /// The TLS number of the key exchange group: 0x001d is X25519, 0x11ec X25519MLKEM768; nil before one is chosen.
    package var keyExchangeGroup: UInt16? {
        let group = unsafe kith_tls_fact(session, KITH_FACT_GROUP)
        return group == 0 ? nil : UInt16(group)
    }

    /// Derives `count` bytes that both ends, and nobody else, can derive (RFC 8446 §7.5); nil before completion.
    package func exportKeyingMaterial(label: String, context: [UInt8], count: Int) -> [UInt8]? {
        guard isComplete, count > 0 else { return nil }
        var material = [UInt8](repeating: 0, count: count)
        let name = Array(label.utf8)
        let written = unsafe name.withUnsafeBufferPointer { name in
            unsafe name.withMemoryRebound(to: CChar.self) { name in
                guard let start = name.baseAddress else { return Int32(0) }
                return unsafe kith_tls_export(session, start, name.count, context, context.count, &material, count)
            }
        }
        return written == 1 ? material : nil
    }

    private func value(_ value: Int32) -> [UInt8]? {
        var count = 0
        guard let start = unsafe kith_tls_value(session, value, &count) else { return nil }
        return unsafe Array(UnsafeBufferPointer(start: start, count: count))
    }
}

// MARK: - Into C

extension TLSSession {
    private static func make(_ configuration: TLSConfiguration) -> OpaquePointer? {
        var protocols: [UInt8] = []
        for name in configuration.alpn {
            guard let count = UInt8(exactly: name.utf8.count) else { return nil }
            protocols.append(count)
            protocols.append(contentsOf: name.utf8)
        }
        if let key = configuration.ticketKey, key.count != 48 { return nil }
        let kinds = configuration.acceptedPeerKinds.map { kind in
            UInt8(kind == .x509 ? KITH_KIND_X509 : KITH_KIND_RAW_PUBLIC_KEY)
        }
        return unsafe kinds.withUnsafeBytes { kinds in
            unsafe protocols.withUnsafeBytes { protocols in
                unsafe withFixedOptions(configuration, kinds: kinds, protocols: protocols) { unsafe kith_tls_new($0) }
            }
        }
    }

    /// Builds the C options and lends them, with everything they point to, for the length of a call.
    private static func withFixedOptions(
        _ configuration: TLSConfiguration, kinds: UnsafeRawBufferPointer, protocols: UnsafeRawBufferPointer,
        _ body: (UnsafePointer<kith_tls_options>) -> OpaquePointer?
    ) -> OpaquePointer? {
        unsafe withBytes(configuration.transportParameters) { parameters in
            unsafe withBytes(configuration.ticket) { ticket in
                unsafe withBytes(configuration.earlyDataContext) { context in
                    unsafe withText(configuration.serverName) { name in
                        unsafe withBytes(configuration.ticketKey) { ticketKey in
                            var options = unsafe kith_tls_options(
                                is_server: configuration.role == .server ? 1 : 0,
                                require_peer_credential: configuration.requirePeerCredential ? 1 : 0,
                                key_exchange: configuration.keyExchange.code, ciphers: configuration.ciphers.code,
                                wants_key_log: configuration.wantsKeyLog ? 1 : 0,
                                early_data: configuration.earlyData ? 1 : 0,
                                accepted_kinds: kinds.bytePointer, accepted_kinds_count: kinds.count,
                                alpn: protocols.bytePointer, alpn_count: protocols.count,
                                transport_parameters: parameters.bytePointer,
                                transport_parameters_count: parameters.count,
                                server_name: name,
                                ticket_key: ticketKey.isEmpty ? nil : ticketKey.bytePointer,
                                ticket: ticket.isEmpty ? nil : ticket.bytePointer, ticket_count: ticket.count,
                                early_data_context: context.isEmpty ? nil : context.bytePointer,
                                early_data_context_count: context.count,
                                asks_parameters: configuration.asksForParameters ? 1 : 0)
                            return unsafe body(&options)
                        }
                    }
                }
            }
        }
    }

    private static func withBytes<Result>(_ bytes: [UInt8]?, _ body: (UnsafeRawBufferPointer) -> Result) -> Result {
        unsafe (bytes ?? []).withUnsafeBytes(body)
    }

    private static func withBytes<Result>(
        _ secret: SecretBytes?, _ body: (UnsafeRawBufferPointer) -> Result
    ) -> Result {
        unsafe secret?.withUnsafeBytes(body) ?? body(UnsafeRawBufferPointer(start: nil, count: 0))
    }

    private static func withText<Result>(_ text: String?, _ body: (UnsafePointer<CChar>?) -> Result) -> Result {
        unsafe text?.withCString(body) ?? body(nil)
    }

    private static func add(_ credential: Credential, to session: OpaquePointer) -> Bool {
        switch credential {
        case .rawPublicKey(let seed):
            guard seed.count == 32 else { return false }
            return unsafe seed.withUnsafeBytes { unsafe kith_tls_add_raw_public_key(session, $0.bytePointer) == 1 }
        case .x509(let chain, let seed):
            guard seed.count == 32 else { return false }
            return unsafe add(chain, key: seed, isSeed: true, to: session)
        case .certificate(let chain, let key): return unsafe add(chain, key: key, isSeed: false, to: session)
        }
    }
}

extension TLSSession {
    private static func add(
        _ chain: [[UInt8]], key: SecretBytes, isSeed: Bool, to session: OpaquePointer
    ) -> Bool {
        let counts = chain.map(\.count)
        let joined = Array(chain.joined())
        guard !joined.isEmpty else { return false }
        return unsafe key.withUnsafeBytes { key in
            unsafe isSeed
                ? kith_tls_add_certificates(session, key.bytePointer, joined, counts, counts.count) == 1
                : kith_tls_add_certificates_with_key(
                    session, key.bytePointer, key.count, joined, counts, counts.count) == 1
        }
    }
}

extension TLSConfiguration.KeyExchange {
    fileprivate var code: Int32 {
        switch self {
        case .classical: KITH_EXCHANGE_CLASSICAL
        case .postQuantum: KITH_EXCHANGE_POST_QUANTUM
        case .classicalOnly: KITH_EXCHANGE_CLASSICAL_ONLY
        }
    }
}

extension CipherPreference {
    /// Indicates whether this machine's processor does AES-GCM itself, fast and in constant time.
    public static var isAESFast: Bool { kith_has_aes_hardware() == 1 }

    fileprivate var code: Int32 {
        switch self {
        case .automatic: KITH_CIPHERS_AUTOMATIC
        case .aes: KITH_CIPHERS_AES
        case .chaCha20: KITH_CIPHERS_CHACHA20
        case .chaCha20Only: KITH_CIPHERS_CHACHA20_ONLY
        }
    }
}
