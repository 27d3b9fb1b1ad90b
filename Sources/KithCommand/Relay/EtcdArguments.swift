import ArgumentParser
import Foundation
import KithCommandLine
import KithReach
import KithRelayServer
import KithWire

/// The options of commands that share what they know in etcd.
struct EtcdArguments: ParsableArguments {
    @Option(
        name: .customLong("etcd"),
        help: ArgumentHelp(
            "Share with others through etcd, at these members: http://10.0.0.5:2379,http://10.0.0.6:2379.",
            valueName: "URL,…"))
    var endpoints: String?

    @Option(name: .customLong("etcd-user"), help: ArgumentHelp("The user of etcd to be.", valueName: "name"))
    var user: String?

    @Option(
        name: .customLong("etcd-password"),
        help: ArgumentHelp("That user's password; @FILE reads it from a file.", valueName: "@file"))
    var password: String?

    @Option(
        name: .customLong("etcd-ca"),
        help: ArgumentHelp(
            "A PEM file of the authorities that etcd's certificate may be of. Default: the system's.",
            valueName: "file"), completion: .file())
    var authorities: String?

    @Option(
        name: .customLong("etcd-cert"),
        help: ArgumentHelp("The certificate chain to show to etcd, a PEM file.", valueName: "file"),
        completion: .file())
    var certificate: String?

    @Option(
        name: .customLong("etcd-key"), help: ArgumentHelp("Its private key, a PEM file.", valueName: "file"),
        completion: .file())
    var key: String?

    func validate() throws {
        guard endpoints != nil || [user, password, authorities, certificate, key].allSatisfy({ $0 == nil }) else {
            throw ValidationError("--etcd-… says how to speak to etcd; --etcd says where it is.")
        }
        guard (user == nil) == (password == nil) else {
            throw ValidationError("--etcd-user and --etcd-password go together.")
        }
        guard (certificate == nil) == (key == nil) else {
            throw ValidationError("--etcd-cert and --etcd-key go together.")
        }
    }

    /// Where etcd is, and how it is spoken to; `nil` without `--etcd`.
    ///
    /// Says so when a password is where others see it, or is sent where others read it.
    func options() throws -> EtcdOptions? {
        guard let endpoints else { return nil }
        var options = try EtcdOptions(endpoints: endpoints)
        if let user, let password {
            if !password.hasPrefix("@") {
                note(
                    "kith: a password on a command line is seen by everybody on this machine: put it in a file, and give "
                        + "--etcd-password @FILE")
            }
            if options.endpoints.contains(where: { !$0.isSecure }) {
                note("kith: over http:// the password can be read on the way to etcd: use https:// there")
            }
            let text =
                password.hasPrefix("@")
                ? try RelayCommand.firstLine(of: String(password.dropFirst()), as: "password") : password
            guard !text.isEmpty, text.utf8.count <= 1_024 else {
                throw KithError(.invalid, "The password for etcd has 1 to 1024 bytes, in one line.")
            }
            options.user = (user, text)
        }
        if let authorities {
            guard let roots = FileManager.default.contents(atPath: authorities) else {
                throw KithError(.notFound, "The certificates in \(printable(authorities)) cannot be read.")
            }
            options.roots = Array(roots)
        }
        if let certificate, let key { options.certificate = (certificate, key) }
        return options
    }
}
