import Foundation
import KithCommandLine
import KithReach
import KithWire
import NIOSSL
import Synchronization

/// One who asks etcd: at one member until that fails, then at the next.
final class EtcdSession: Sendable {
    private struct State {
        var endpoints: EtcdEndpoints
        var connection: EtcdConnection?
        var token: String?
    }

    private let options: EtcdOptions
    private let tls: NIOSSLContext
    private let state: Mutex<State>

    /// The time for a connection, and for an answer: a member that has lost the others takes 7 seconds to say so.
    private static let patience = Duration.seconds(5)

    /// Begins at a member of its own choice.
    ///
    /// - Throws: `KithError` `.invalid` for certificates that cannot be read.
    init(_ options: EtcdOptions) throws(KithError) {
        self.options = options
        tls = try Self.context(options)
        state = Mutex(State(endpoints: EtcdEndpoints(options.endpoints.shuffled())))
    }

    /// The member that is asked now.
    var endpoint: RelayAddress { state.withLock { $0.endpoints.current } }

    private static func context(_ options: EtcdOptions) throws(KithError) -> NIOSSLContext {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.minimumTLSVersion = .tlsv12
        configuration.applicationProtocols = ["http/1.1"]
        do {
            if let roots = options.roots {
                configuration.trustRoots = .certificates(try NIOSSLCertificate.fromPEMBytes(roots))
            }
        } catch {
            throw KithError(
                .invalid, "The certificates of --etcd-ca cannot be read: the file is to be PEM.", cause: error)
        }
        do {
            if let (chain, key) = options.certificate {
                configuration.certificateChain = try NIOSSLCertificate.fromPEMFile(chain).map { .certificate($0) }
                configuration.privateKey = .privateKey(try NIOSSLPrivateKey(file: key, format: .pem))
            }
            return try NIOSSLContext(configuration: configuration)
        } catch {
            throw KithError(
                .invalid,
                "The files of --etcd-cert and --etcd-key cannot be used: both are PEM files, and belong together.",
                cause: error)
        }
    }

    // MARK: - Asking

    /// Asks, and reads the answer.
    ///
    /// - Throws: `KithError`; ``failed()`` then goes on to the next member.
    func call<Answer: Decodable>(
        _ path: String, _ request: some Encodable, as type: Answer.Type
    ) async throws(KithError) -> Answer {
        let body = EtcdMessages.json(request)
        let answer = try await authorised { token throws(KithError) in
            let connection = try await self.connection()
            return try await connection.answer(
                to: EtcdConnection.Request(path: path, body: body, token: token, patience: Self.patience))
        }
        return try read(type, answer)
    }

    /// Asks for what goes on: `onMessage` gets each message, in order, on a thread of its own until this returns.
    ///
    /// - Throws: `KithError` as ``call(_:_:as:)`` does, and what `onMessage` throws.
    func follow<Message: Decodable & Sendable>(
        _ path: String, _ request: some Encodable, as type: Message.Type,
        onMessage: @escaping @Sendable (Message) throws(KithError) -> Void
    ) async throws(KithError) {
        let body = EtcdMessages.json(request)
        let endpoint = endpoint
        let answer = try await authorised { token throws(KithError) in
            // A connection of its own: the other is for questions meanwhile.
            let connection = try await EtcdConnection.open(to: endpoint, tls: self.tls, patience: Self.patience)
            defer { connection.close() }
            return try await connection.answer(
                to: EtcdConnection.Request(path: path, body: body, token: token, patience: nil)
            ) { line throws(KithError) in
                let line = try self.decode(EtcdMessages.Line<Message>.self, line)
                if let refusal = line.error { throw EtcdFailure.refused(endpoint, refusal) }
                if let message = line.result { try onMessage(message) }
            }
        }
        guard answer.status != 200 else {
            throw KithError(.unreachable, "etcd at \(endpoint) has ended what it told.")
        }
        throw refusal(answer)
    }

    /// Goes on to the next member; returns how long to wait before.
    func failed() -> Duration {
        state.withLock { state in
            state.connection?.close()
            (state.connection, state.token) = (nil, nil)
            return state.endpoints.failed(jitter: .random(in: 0...1))
        }
    }

    /// True when each member has failed since the last answer.
    var haveAllFailed: Bool { state.withLock { $0.endpoints.haveAllFailed } }

    /// Notes that all is well.
    func succeeded() { state.withLock { $0.endpoints.succeeded() } }

    /// Closes the connection.
    func close() { state.withLock { $0.connection }?.close() }

    private func connection() async throws(KithError) -> EtcdConnection {
        let (endpoint, open) = state.withLock { ($0.endpoints.current, $0.connection) }
        if let open, open.isOpen { return open }
        let connection = try await EtcdConnection.open(to: endpoint, tls: tls, patience: Self.patience)
        let previous = state.withLock { state in
            let previous = state.connection
            state.connection = connection
            return previous
        }
        previous?.close()
        return connection
    }

    // MARK: - Who asks

    /// Runs `body` with a token, when a user is given; once more with a new one when the token has run out.
    private func authorised(
        _ body: (String?) async throws(KithError) -> (status: Int, body: [UInt8])
    ) async throws(KithError) -> (status: Int, body: [UInt8]) {
        guard let user = options.user else { return try await body(nil) }
        let known = state.withLock { $0.token }
        if let known {
            let answer = try await body(known)
            guard isTokenRefused(answer) else { return answer }
        }
        let connection = try await connection()
        let request = EtcdMessages.Authenticate(name: user.name, password: user.password)
        let answer = try await connection.answer(
            to: EtcdConnection.Request(
                path: "/v3/auth/authenticate", body: EtcdMessages.json(request), token: nil, patience: Self.patience))
        let token = try read(EtcdMessages.Token.self, answer).token
        // It goes in a header.
        guard token.utf8.count <= 4_096, token.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else {
            throw KithError(.corrupt, "etcd at \(endpoint) answered a password with what is no token.")
        }
        state.withLock { $0.token = token }
        return try await body(token)
    }

    private func isTokenRefused(_ answer: (status: Int, body: [UInt8])) -> Bool {
        guard answer.status != 200 else { return false }
        let refusal = try? EtcdMessages.read(EtcdMessages.Refusal.self, from: answer.body)  // others say nothing of it
        return answer.status == 401 || refusal?.code == 16
            || refusal?.message.contains("revision of auth store is old") == true
    }

    private func read<Answer: Decodable>(
        _ type: Answer.Type, _ answer: (status: Int, body: [UInt8])
    ) throws(KithError) -> Answer {
        guard answer.status == 200 else { throw refusal(answer) }
        return try decode(type, answer.body)
    }

    private func refusal(_ answer: (status: Int, body: [UInt8])) -> KithError {
        let body = answer.body
        do throws(WireError) {
            // A stream that is refused at once is refused in its form.
            if let refusal = try EtcdMessages.read(EtcdMessages.Line<EtcdMessages.Token>.self, from: body).error {
                return EtcdFailure.refused(endpoint, refusal)
            }
        } catch {
            // A refusal of a question has a text where that has a refusal.
        }
        do throws(WireError) {
            return EtcdFailure.refused(endpoint, try EtcdMessages.read(EtcdMessages.Refusal.self, from: body))
        } catch {
            // Its gateway, or a web server before it.
            let text = String(decoding: body.prefix(160), as: UTF8.self).split(whereSeparator: \.isWhitespace)
                .joined(separator: " ")
            return KithError(
                .corrupt,
                "What answers at \(endpoint) does not speak as etcd does (\(answer.status)): "
                    + "\(text.isEmpty ? "it says nothing" : Wording.printable(text)).", cause: error)
        }
    }

    private func decode<Answer: Decodable>(_ type: Answer.Type, _ bytes: [UInt8]) throws(KithError) -> Answer {
        do throws(WireError) {
            return try EtcdMessages.read(type, from: bytes)
        } catch {
            throw KithError(.corrupt, "What answers at \(endpoint) does not speak etcd's version 3.", cause: error)
        }
    }
}
