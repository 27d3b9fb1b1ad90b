import Crypto
package import KithWire
import Logging
import Synchronization

/// The files that an authority wants to find at this relay, by their tokens.
package final class ChallengeTable: Sendable {
    private let answers = Mutex<[String: String]>([:])

    /// Makes an empty table.
    package init() {}

    func answer(to token: some StringProtocol) -> String? { answers.withLock { $0[String(token)] } }

    func add(_ challenge: ACMEIssuance.Challenge) {
        answers.withLock { $0[challenge.token] = challenge.answer }
    }

    func removeAll() { answers.withLock { $0 = [:] } }
}

/// Sees to it that a relay has a certificate: the one that is kept, or a new one, and a newer one in time.
package final class CertificateKeeper: Sendable {
    /// The settings.
    package struct Options: Sendable {
        /// The names and addresses, the first of them the one devices are told.
        package var identifiers: [ACMEIdentifier]
        /// The directory of the authority.
        package var directory = ACMEURL.letsEncrypt
        /// The authorities whose TLS is trusted, PEM, instead of the system's.
        package var roots: [UInt8]?
        /// The address of mail that the authority is told.
        package var email: String?
        /// True when a person has agreed to the authority's terms.
        package var agreesToTerms = false
        /// The folder in which the account and the certificates are kept.
        package var folder: String

        /// Settings for some names, with Let's Encrypt.
        package init(_ identifiers: [ACMEIdentifier], folder: String) {
            (self.identifiers, self.folder) = (identifiers, folder)
        }
    }

    /// What happens.
    package enum Event: Sendable {
        /// A certificate is being obtained, and this is how far.
        case stage(ACMEIssuance.Stage)
        /// There is a certificate in use: `isNew` when it was just given.
        case using(RelayCertificate, isNew: Bool)
        /// It could not be renewed; the next attempt is at this time, in seconds since 1970.
        case failed(KithError, next: Int64)
    }

    private struct State {
        var certificate: RelayCertificate
        var schedule: RenewalSchedule

        init(_ certificate: RelayCertificate) {
            self.certificate = certificate
            schedule = RenewalSchedule(notBefore: certificate.notBefore, notAfter: certificate.notAfter)
        }
    }

    /// The longest time for which the clock is not looked at: it may be put, and a machine may sleep.
    private static let nap: Int64 = 3_600

    private let options: Options
    private let folder: CertificateFolder
    private let transport: ACMETransport
    private let challenges: ChallengeTable
    private let clock: @Sendable () -> Int64
    private let use: @Sendable (RelayCertificate) throws(KithError) -> Void
    private let onEvent: @Sendable (Event) -> Void
    private let state = Mutex<State?>(nil)

    /// Makes a keeper; `clock` returns seconds since 1970, and `use` puts a certificate to use.
    ///
    /// - Throws: `KithError` as the file system says, `.invalid` for roots that cannot be read.
    package init(
        _ options: Options, challenges: ChallengeTable, clock: @escaping @Sendable () -> Int64,
        use: @escaping @Sendable (RelayCertificate) throws(KithError) -> Void,
        onEvent: @escaping @Sendable (Event) -> Void
    ) throws(KithError) {
        guard let first = options.identifiers.first else { throw KithError(.invalid, "A certificate is for a name.") }
        self.options = options
        folder = try CertificateFolder(options.folder, directory: options.directory, name: first)
        transport = try ACMETransport(roots: options.roots)
        (self.challenges, self.clock, self.use, self.onEvent) = (challenges, clock, use, onEvent)
    }

    /// The certificate in use.
    package var certificate: RelayCertificate? { state.withLock { $0?.certificate } }

    /// Puts the certificate to use that is kept, or obtains one.
    ///
    /// - Throws: `KithError` when there is none to be had, saying what to do.
    package func open() async throws(KithError) {
        if let kept = try kept() {
            try use(kept)
            state.withLock { $0 = State(kept) }
            return onEvent(.using(kept, isNew: false))
        }
        do throws(ACMEFailure) {
            try await obtain()
        } catch {
            guard let seconds = error.retryAfter else { throw error.error }
            throw KithError(
                error.error.code, "\(error.error.message) It wants to be asked again in \(seconds) seconds.",
                cause: error.error)
        }
    }

    /// The certificate that is kept, if it is for these names and holds.
    private func kept() throws(KithError) -> RelayCertificate? {
        do throws(KithError) {
            guard let kept = try folder.certificate(), kept.covers(options.identifiers), kept.isValid(at: clock())
            else { return nil }
            return kept
        } catch {
            // A damaged one is replaced; one that others may read is for a person to look at.
            guard error.code == .corrupt else { throw error }
            return nil
        }
    }

    /// Renews the certificate when it is time, until the task is cancelled.
    package func run() async {
        while !Task.isCancelled {
            await renewIfDue()
            let left = state.withLock { $0?.schedule.next ?? 0 } - clock()
            // Cancelled: the loop ends.
            try? await Task.sleep(for: .seconds(min(max(left, 1), Self.nap)))
        }
    }

    /// Renews the certificate when it is time; a failure is told, and tried again later.
    package func renewIfDue() async {
        let now = clock()
        guard state.withLock({ $0?.schedule.isDue(at: now) ?? false }) else { return }
        do throws(ACMEFailure) {
            try await obtain()
        } catch {
            guard error.error.code != .cancelled else { return }
            let next = state.withLock { state in
                var random = SystemRandomNumberGenerator()
                state?.schedule.failed(at: clock(), wish: error.retryAfter, using: &random)
                return state?.schedule.next ?? 0
            }
            onEvent(.failed(error.error, next: next))
        }
    }

    // MARK: - Obtaining

    /// Obtains a certificate, keeps it, and puts it to use.
    private func obtain() async throws(ACMEFailure) {
        defer { challenges.removeAll() }
        do {
            let key = P256.Signing.PrivateKey()
            let settings = ACMEIssuance.Settings(
                directory: options.directory, identifiers: options.identifiers, email: options.email,
                agreesToTerms: options.agreesToTerms,
                request: try RelayCertificate.request(for: options.identifiers, key: key))
            let account = try folder.account() ?? ACMEAccount()
            let chain = try await issue(ACMEIssuance(settings, account: account), kept: account)
            let certificate = try RelayCertificate(chain: chain, key: key)
            guard certificate.covers(options.identifiers), certificate.isValid(at: clock()) else {
                throw KithError(
                    .corrupt,
                    "\(options.directory.host) gave a certificate for other names, or for another time. See that "
                        + "this machine's clock is right.")
            }
            try folder.keep(certificate)
            try use(certificate)
            state.withLock { $0 = State(certificate) }
            onEvent(.using(certificate, isNew: true))
        } catch let failure as ACMEFailure {
            throw failure
        } catch let error as KithError {
            throw ACMEFailure(error)
        } catch {
            throw ACMEFailure(KithError(.internal, "Could not obtain a certificate.", cause: error))
        }
    }

    /// Does what the engine says until it ends; returns the chain.
    private func issue(_ issuance: ACMEIssuance, kept account: ACMEAccount) async throws -> [UInt8] {
        var (issuance, kept, stage) = (issuance, account, ACMEIssuance.Stage?.none)
        var action = issuance.start()
        while true {
            // The account's key is kept before the authority hears of it.
            if issuance.account != kept {
                kept = issuance.account
                try folder.keep(kept)
            }
            if issuance.stage != stage {
                stage = issuance.stage
                onEvent(.stage(issuance.stage))
            }
            switch action {
            case .send(let request):
                let response = try await transport.response(to: request)
                action = issuance.received(response, at: clock())
            case .publish(let challenge):
                challenges.add(challenge)
                action = issuance.published()
            case .wait(let seconds):
                do {
                    try await Task.sleep(for: .seconds(seconds))
                } catch {
                    throw KithError(.cancelled, "The question for a certificate was withdrawn.", cause: error)
                }
                action = issuance.waited()
            case .finish(let chain): return chain
            case .fail(let failure): throw failure
            }
        }
    }
}
