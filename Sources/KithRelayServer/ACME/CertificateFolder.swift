import Crypto
import KithIdentity
import KithWire

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// The folder in which a relay keeps its account at an authority, and the certificates it was given.
///
/// ```
///  AUTHORITY-HASH/account.json   the account's key and URL, and the terms that were agreed to
///  AUTHORITY-HASH/NAME.pem       a private key and its chain, by the first name
/// ```
/// Files are replaced whole, and only their owner may read them.
struct CertificateFolder: Sendable {
    private let path: String
    private let accountFile: String
    private let certificateFile: String

    /// The most bytes of an account.
    private static let accountLimit = 16 << 10

    /// Makes the folder where it is not there.
    ///
    /// - Throws: `KithError` as the file system says.
    init(_ folder: String, directory: ACMEURL, name: ACMEIdentifier) throws(KithError) {
        let hash = SHA256.hash(data: Array(directory.description.utf8)).prefix(4)
        // Names and addresses: nothing in them leads elsewhere.
        func plain(_ text: String) -> String { String(text.map { $0 == ":" ? "-" : $0 }) }
        path = "\(folder)/\(plain(directory.host))-\(Hex.encode(hash))"
        accountFile = "\(path)/account.json"
        certificateFile = "\(path)/\(plain(name.value)).pem"
        for folder in [folder, path] {
            guard unsafe mkdir(folder, 0o700) == 0 || errno == EEXIST else {
                throw SecretFile.failure("make", folder, errno)
            }
        }
        try SecretFile.removeRemains(in: path)
    }

    /// The account; `nil` when there is none yet.
    ///
    /// - Throws: `KithError` `.corrupt` for a damaged one, `.denied` when others may read it.
    func account() throws(KithError) -> ACMEAccount? {
        guard let bytes = try SecretFile.read(accountFile, limit: Self.accountLimit) else { return nil }
        guard let account = ACMEAccount(bytes: bytes) else {
            throw KithError(
                .corrupt,
                "\(accountFile) is damaged. Remove it, and start once with --agree-to-terms for another account.")
        }
        return account
    }

    /// Keeps the account.
    func keep(_ account: ACMEAccount) throws(KithError) { try SecretFile.write(account.bytes, to: accountFile) }

    /// The certificate; `nil` when there is none.
    ///
    /// - Throws: `KithError` `.corrupt` for a damaged one, `.denied` when others may read it.
    func certificate() throws(KithError) -> RelayCertificate? {
        guard let bytes = try SecretFile.read(certificateFile, limit: RelayCertificate.maxLength) else { return nil }
        return try RelayCertificate(bytes: bytes)
    }

    /// Keeps the certificate in place of the one before.
    func keep(_ certificate: RelayCertificate) throws(KithError) {
        try SecretFile.write(certificate.bytes, to: certificateFile)
    }
}
