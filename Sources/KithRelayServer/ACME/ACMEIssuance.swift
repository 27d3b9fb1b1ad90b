import Foundation
package import KithWire

/// One certificate from an authority, from the first question to the chain (RFC 8555).
///
/// A pure state machine: it does no I/O and reads no clock. Do what an action says, and tell it what came of it.
///
///     directory ─▶ account ─▶ order ─▶ authorization ─▶ challenge ─▶ outcome ─┐
///         │ known account ▲   │ ▲           ▲ valid already, or the next name  │
///         └───────────────────┘ │           └─────────────────────────────────┤
///                               │            chain ◀─ issuance ◀─ finalize ◀─ readiness
///                               └── the authority no longer knows the account (once)
///
/// Before each signed request a nonce is fetched when none is left over from the answer before; one that the authority
/// refuses is replaced, and the request sent again.
package struct ACMEIssuance: Sendable {
    /// What is asked for.
    package struct Settings: Sendable {
        /// The authority's directory.
        package var directory: ACMEURL
        /// The names and addresses the certificate is for.
        package var identifiers: [ACMEIdentifier]
        /// The address of mail that the authority is told.
        package var email: String?
        /// True when a person has agreed to the authority's terms.
        package var agreesToTerms = false
        /// The request for a certificate (PKCS #10), DER.
        package var request: [UInt8]
    }

    /// A request to send.
    package struct Request: Hashable, Sendable {
        /// The methods.
        enum Method: Hashable, Sendable {
            case get
            case head
            case post
        }

        var method: Method
        var url: ACMEURL
        var body: [UInt8] = []
    }

    /// The parts of an answer that matter.
    package struct Response: Hashable, Sendable {
        /// The most bytes of a body.
        static let maxBody = 128 << 10

        var status: Int
        var nonce: String?
        var location: String?
        var retryAfter: String?
        var body: [UInt8] = []
    }

    /// A file that the authority wants to find at `/.well-known/acme-challenge/TOKEN` (RFC 8555 §8.3).
    package struct Challenge: Hashable, Sendable {
        var token: String
        var answer: String
    }

    /// What the driver does next.
    package enum Action: Sendable {
        /// Send the request, then call ``received(_:at:)``.
        case send(Request)
        /// Serve the file, then call ``published()``.
        case publish(Challenge)
        /// Wait, then call ``waited()``.
        case wait(seconds: Int)
        /// Done: the chain, in PEM.
        case finish(chain: [UInt8])
        /// Over: there is no certificate.
        case fail(ACMEFailure)
    }

    /// How far it is, for a person.
    package enum Stage: Hashable, Sendable {
        case asking
        /// A new account; the URL of the terms that are agreed to, if the authority has some.
        case registering(terms: String?)
        case ordering
        case proving(ACMEIdentifier)
        case issuing
    }

    private enum Step: Hashable {
        case directory
        case account
        case contact
        case order
        case authorization(Int)
        case challenge(Int)
        case outcome(Int)
        case readiness
        case finalization
        case issuance
        case chain
    }

    /// An answer that is not what RFC 8555 says.
    private struct Malformed: Error {}

    private struct Call {
        var step: Step
        var url: ACMEURL
        /// Empty to read (POST-as-GET).
        var payload: [UInt8]
    }

    /// The times in a row that a nonce may be refused.
    static let nonceLimit = 30
    /// The questions whether something has changed, in all.
    static let pollLimit = 60
    /// The longest pause between two of them, in seconds.
    static let longestWait = 30
    /// The most names that an order has parts for.
    static let authorizationLimit = 20

    /// How far it is.
    package private(set) var stage = Stage.asking
    /// The account: keep it whenever it changes.
    package private(set) var account: ACMEAccount

    private let settings: Settings
    private var call: Call?
    private var isFetchingNonce = false
    private var nonce: String?
    private var directory: (newNonce: ACMEURL, newAccount: ACMEURL, newOrder: ACMEURL)?
    private var terms: String?
    private var profile: String?
    private var hasRegisteredAnew = false
    private var order: (url: ACMEURL, finalize: ACMEURL, authorizations: [ACMEURL])?
    private var challenge: (index: Int, url: ACMEURL)?
    private var refusedNonces = 0
    private var polls = 0

    /// Makes one that has asked nothing yet.
    package init(_ settings: Settings, account: ACMEAccount) { (self.settings, self.account) = (settings, account) }

    // MARK: - What happens

    /// Begins.
    package mutating func start() -> Action {
        call = Call(step: .directory, url: settings.directory, payload: [])
        return .send(Request(method: .get, url: settings.directory))
    }

    /// Takes an answer in; `now` is in seconds since 1970.
    package mutating func received(_ response: Response, at now: Int64) -> Action {
        guard let call else { preconditionFailure("an answer, and nothing was asked") }
        guard response.body.count <= Response.maxBody else {
            return fail(.corrupt, "answered with more than \(Response.maxBody) bytes")
        }
        nonce = response.nonce.flatMap { Self.isNonce($0) ? $0 : nil }
        if isFetchingNonce {
            isFetchingNonce = false
            guard (200...299).contains(response.status) else { return refused(response, call, at: now) }
            guard nonce != nil else { return fail(.corrupt, "gave no number to sign with (Replay-Nonce)") }
            return send(call)
        }
        guard (200...299).contains(response.status) else { return refused(response, call, at: now) }
        refusedNonces = 0
        do {
            return try answered(response, call, at: now)
        } catch let failure as ACMEFailure {
            return .fail(failure)
        } catch {
            let noun = Self.noun(call.step)
            return fail(.corrupt, "answered with something else than RFC 8555 says, when asked for \(noun)")
        }
    }

    /// The file that ``Action/publish(_:)`` asked for is served.
    package mutating func published() -> Action {
        guard let challenge else { preconditionFailure("nothing was to be published") }
        return ask(.challenge(challenge.index), challenge.url, Array("{}".utf8))
    }

    /// The time of ``Action/wait(seconds:)`` is over.
    package mutating func waited() -> Action {
        guard let call else { preconditionFailure("nothing was waited for") }
        return send(call)
    }

    // MARK: - Asking

    private mutating func ask(_ step: Step, _ url: ACMEURL, _ payload: [UInt8] = []) -> Action {
        let call = Call(step: step, url: url, payload: payload)
        self.call = call
        return send(call)
    }

    /// Signs a request and sends it, or fetches a nonce for it first.
    private mutating func send(_ call: Call) -> Action {
        guard let nonce = nonce.take() else {
            guard let directory else { preconditionFailure("only the directory is read unsigned") }
            isFetchingNonce = true
            return .send(Request(method: .head, url: directory.newNonce))
        }
        return .send(
            Request(method: .post, url: call.url, body: account.signed(call.payload, for: call.url, nonce: nonce)))
    }

    /// Asks the same again after a pause.
    private mutating func poll(
        _ step: Step, _ url: ACMEURL, _ response: Response, at now: Int64
    ) -> Action {
        polls += 1
        guard polls <= Self.pollLimit else { return fail(.timedOut, "does not come to an end; try again later") }
        call = Call(step: step, url: url, payload: [])
        let usual = min(1 << min(polls - 1, 3), 8)
        let seconds = Self.seconds(response.retryAfter, at: now) ?? usual
        return .wait(seconds: min(max(seconds, 1), Self.longestWait))
    }

    private mutating func newOrder() throws -> Action {
        guard let directory else { preconditionFailure("the directory was read") }
        stage = .ordering
        let order = ACMEMessages.NewOrder(
            identifiers: settings.identifiers.map { .init(type: $0.kind.rawValue, value: $0.value) }, profile: profile)
        return ask(.order, directory.newOrder, ACMEMessages.json(order))
    }

    private mutating func register() throws -> Action {
        guard let directory else { preconditionFailure("the directory was read") }
        guard terms == nil || settings.agreesToTerms || account.terms == terms else {
            throw ACMEFailure(
                KithError(
                    .denied,
                    "\(settings.directory.host) gives certificates to those who agree to its terms: "
                        + "\(terms ?? ""). Read them, then give --agree-to-terms."))
        }
        stage = .registering(terms: terms)
        account.terms = terms ?? account.terms ?? ""
        account.email = settings.email
        let request = ACMEMessages.NewAccount(
            contact: settings.email.map { ["mailto:\($0)"] }, termsOfServiceAgreed: terms == nil ? nil : true)
        return ask(.account, directory.newAccount, ACMEMessages.json(request))
    }

    // MARK: - Answers

    private mutating func answered(_ response: Response, _ call: Call, at now: Int64) throws -> Action {
        switch call.step {
        case .directory: return try enter(read(ACMEMessages.Directory.self, response))
        case .account:
            account.url = try location(response)
            return try newOrder()
        case .contact:
            account.email = settings.email
            return try newOrder()
        case .order:
            let order = try read(ACMEMessages.Order.self, response)
            guard !order.authorizations.isEmpty, order.authorizations.count <= Self.authorizationLimit else {
                throw Malformed()
            }
            self.order = (
                try location(response), try url(order.finalize), try order.authorizations.map { try url($0) }
            )
            return try proceed(order, at: now, response)
        case .authorization(let index), .outcome(let index):
            return try authorization(index, read(ACMEMessages.Authorization.self, response), call, response, at: now)
        case .challenge(let index):
            guard let order else { preconditionFailure("there is an order") }
            return poll(.outcome(index), order.authorizations[index], response, at: now)
        case .readiness, .finalization, .issuance:
            return try proceed(read(ACMEMessages.Order.self, response), at: now, response)
        case .chain:
            self.call = nil
            return .finish(chain: response.body)
        }
    }

    private mutating func enter(_ answer: ACMEMessages.Directory) throws -> Action {
        directory = (try url(answer.newNonce), try url(answer.newAccount), try url(answer.newOrder))
        terms = answer.meta?.termsOfService.map { text in
            let scalars = text.unicodeScalars.prefix(500).filter { (0x21..<0x7F).contains($0.value) }
            return String(String.UnicodeScalarView(scalars))
        }
        if settings.identifiers.contains(where: \.isAddress), answer.meta?.profiles?["shortlived"] != nil {
            profile = "shortlived"
        }
        guard let url = account.url else {
            guard answer.meta?.externalAccountRequired != true else {
                return fail(
                    .unsupported,
                    "wants an account that is made on its web site; choose another with --acme-directory, or give a "
                        + "certificate with --cert and --key")
            }
            return try register()
        }
        if let email = settings.email, email != account.email {
            return ask(.contact, url, ACMEMessages.json(ACMEMessages.NewAccount(contact: ["mailto:\(email)"])))
        }
        return try newOrder()
    }

    private mutating func authorization(
        _ index: Int, _ authorization: ACMEMessages.Authorization, _ call: Call, _ response: Response, at now: Int64
    ) throws -> Action {
        let name = ACMEIdentifier(authorization.identifier.value)
        guard let identifier = settings.identifiers.first(where: { $0 == name }) else { throw Malformed() }
        switch authorization.status {
        case .valid: return prove(index + 1)
        case .pending:
            guard case .authorization = call.step else {
                return poll(call.step, call.url, response, at: now)
            }
            guard let offer = authorization.challenges.first(where: { $0.type == "http-01" }) else {
                return fail(.unsupported, "has no way to prove \(identifier.value) over HTTP")
            }
            guard let token = offer.token, Self.isNonce(token), let text = offer.url else { throw Malformed() }
            stage = .proving(identifier)
            challenge = (index, try url(text))
            return .publish(Challenge(token: token, answer: "\(token).\(account.thumbprint)"))
        case .invalid, .deactivated, .expired, .revoked:
            let reason = authorization.challenges.lazy.compactMap(\.error).first?.reason ?? "no reason is given"
            return .fail(
                ACMEFailure(
                    KithError(
                        .denied,
                        "\(settings.directory.host) could not see that \(identifier.value) is this machine: "
                            + "\(reason). See that the name leads here, and that port 80 is open from everywhere.")))
        }
    }

    /// Goes on with a name of the order, or with the order itself after the last.
    private mutating func prove(_ index: Int) -> Action {
        guard let order else { preconditionFailure("there is an order") }
        guard index < order.authorizations.count else { return ask(.readiness, order.url) }
        return ask(.authorization(index), order.authorizations[index])
    }

    /// Goes on as an order's status says.
    private mutating func proceed(
        _ answer: ACMEMessages.Order, at now: Int64, _ response: Response
    ) throws -> Action {
        guard let order, let call else { preconditionFailure("there is an order") }
        let isFinalized = call.step == .finalization || call.step == .issuance
        switch answer.status {
        case .pending where call.step == .order: return prove(0)
        case .pending where !isFinalized: return poll(.readiness, order.url, response, at: now)
        case .ready where !isFinalized:
            stage = .issuing
            let request = ACMEMessages.Finalization(csr: Base64.encodeURL(settings.request))
            return ask(.finalization, order.finalize, ACMEMessages.json(request))
        case .ready, .processing: return poll(.issuance, order.url, response, at: now)
        case .valid where isFinalized:
            guard let certificate = answer.certificate else { throw Malformed() }
            return ask(.chain, try url(certificate))
        case .invalid: return fail(.denied, "refused the certificate: \(answer.error?.reason ?? "no reason is given")")
        case .pending, .valid: throw Malformed()
        }
    }

    // MARK: - Refusals

    private mutating func refused(_ response: Response, _ call: Call, at now: Int64) -> Action {
        let problem = try? JSONDecoder().decode(ACMEMessages.Problem.self, from: Data(response.body))
        let seconds = Self.seconds(response.retryAfter, at: now)
        let reason = problem?.reason ?? "HTTP status \(response.status)"
        switch problem?.kind {
        case "badNonce" where call.step != .directory && refusedNonces < Self.nonceLimit:
            refusedNonces += 1
            return send(call)
        case "accountDoesNotExist" where call.step != .account && account.url != nil && !hasRegisteredAnew:
            hasRegisteredAnew = true
            account.url = nil
            do {
                return try register()
            } catch let failure as ACMEFailure {
                return .fail(failure)
            } catch {
                preconditionFailure("it throws failures")
            }
        case "rateLimited":
            return fail(.exhausted, "gives no more certificates now: \(reason)", retryAfter: seconds)
        case "externalAccountRequired":
            return fail(
                .unsupported,
                "wants an account that is made on its web site: \(reason). Choose another with --acme-directory, or "
                    + "give a certificate with --cert and --key")
        case "userActionRequired":
            return fail(.denied, "wants something of you first, perhaps agreement to new terms: \(reason)")
        case "invalidContact", "unsupportedContact":
            return fail(.invalid, "does not take the address of mail: \(reason). Give another with --email")
        case "rejectedIdentifier", "unsupportedIdentifier":
            return fail(.invalid, "gives no certificate for \(names): \(reason)")
        case "caa":
            return fail(
                .denied,
                "may give no certificate for \(names): \(reason). A CAA record of the domain says which authorities may"
            )
        default: break
        }
        switch response.status {
        case 300...399:
            return fail(.corrupt, "leads elsewhere (HTTP status \(response.status)), which is not followed")
        case 429, 503: return fail(.exhausted, "has no time now: \(reason). Try again later", retryAfter: seconds)
        case 500...599: return fail(.unreachable, "failed: \(reason). Try again later", retryAfter: seconds)
        default: return fail(.denied, "refused \(Self.noun(call.step)): \(reason)", retryAfter: seconds)
        }
    }

    private mutating func fail(_ code: KithError.Code, _ message: String, retryAfter: Int? = nil) -> Action {
        call = nil
        return .fail(
            ACMEFailure(
                KithError(code, "The certificate authority \(settings.directory.host) \(message)."),
                retryAfter: retryAfter))
    }

    private var names: String { settings.identifiers.map(\.value).joined(separator: ", ") }

    private static func noun(_ step: Step) -> String {
        switch step {
        case .directory: "its directory"
        case .account: "an account"
        case .contact: "the address of mail"
        case .order: "an order"
        case .authorization, .challenge, .outcome: "the proof of a name"
        case .readiness, .finalization, .issuance: "the order"
        case .chain: "the certificate"
        }
    }

    // MARK: - Reading

    private func read<Message: Decodable>(_ type: Message.Type, _ response: Response) throws -> Message {
        try JSONDecoder().decode(type, from: Data(response.body))
    }

    private func url(_ text: String) throws -> ACMEURL {
        guard let url = ACMEURL(text) else { throw Malformed() }
        return url
    }

    private func location(_ response: Response) throws -> ACMEURL {
        guard let text = response.location else { throw Malformed() }
        return try url(text)
    }

    /// Letters of base64url, not too many: what is signed, asked for and served is made of them.
    private static func isNonce(_ text: String) -> Bool {
        (1...256).contains(text.utf8.count)
            && text.utf8.allSatisfy { byte in
                (48...57).contains(byte) || (65...90).contains(byte) || (97...122).contains(byte) || byte == 45
                    || byte == 95
            }
    }

    /// The seconds of a Retry-After: a number, or a date (RFC 9110 §10.2.3); at most a week.
    static func seconds(_ text: String?, at now: Int64) -> Int? {
        guard let text, text.utf8.count <= 64 else { return nil }
        let week = 604_800
        if let number = Int(text) { return number < 0 ? nil : min(number, week) }
        let formatter = DateFormatter()
        formatter.locale = Locale(identifier: "en_US_POSIX")
        formatter.timeZone = TimeZone(secondsFromGMT: 0)
        formatter.dateFormat = "EEE, dd MMM yyyy HH:mm:ss 'GMT'"
        guard let date = formatter.date(from: text) else { return nil }
        return Int(min(max(date.timeIntervalSince1970 - Double(now), 0), Double(week)))
    }
}

/// The reason that there is no certificate.
package struct ACMEFailure: Error, Sendable {
    /// The reason.
    package var error: KithError
    /// The seconds after which the authority wants to be asked again; `nil` when it has not said.
    package var retryAfter: Int?

    init(_ error: KithError, retryAfter: Int? = nil) { (self.error, self.retryAfter) = (error, retryAfter) }
}
