public import ArgumentParser
import Foundation
import Kith
import KithAPI
internal import KithIdentity
import KithSocket
import KithWire
import Logging

/// What every command takes.
struct GlobalOptions: ParsableArguments {
    @Option(
        name: .long, help: "The folder of this device's key and state. Default: $KITH_DATA, else per platform.",
        completion: .directory)
    var data: String?

    @Flag(name: .long, help: "Print JSON, for programs.")
    var json = false

    @Flag(help: "No colours and no lines that change: for screen readers. Default: $KITH_PLAIN.")
    var plain = false

    @Flag(name: [.customShort("v"), .long], help: "Log what happens, on standard error.")
    var verbose = false

    @Option(
        help: ArgumentHelp(
            "Write what each connection does into a qlog file (.sqlog) in this folder, for qvis.", valueName: "dir"),
        completion: .directory)
    var qlog: String?

    @Option(
        name: .customLong("key-log"),
        help: ArgumentHelp(
            "DANGEROUS: append every connection's secrets to this file, for Wireshark. Default: $SSLKEYLOGFILE.",
            valueName: "file"),
        completion: .file())
    var keyLog: String?

    @Option(
        name: .customLong("passphrase-fd"),
        help: ArgumentHelp(
            "Read the passphrase of this device's key from this open file descriptor (kith passphrase --help).",
            valueName: "number"))
    var passphraseFD: Int32?

    @Option(
        name: .customLong("passphrase-file"),
        help: ArgumentHelp("Read it from this file, which only you may read.", valueName: "file"), completion: .file())
    var passphraseFile: String?

    @Option(
        name: .customLong("passphrase-command"),
        help: ArgumentHelp("Take it from the first line that this command prints.", valueName: "line"))
    var passphraseCommand: String?

    /// What a command line says of the data directory, and nothing else of it.
    static func dataAlone(of words: [String]) throws -> GlobalOptions {
        try parse(data(in: words).map { ["--data", $0] } ?? [])
    }

    /// The data directory that a command line names.
    static func data(in words: [String]) -> String? {
        let words = words.prefix { $0 != "--" }
        var data: String?
        for (word, next) in zip(words, words.dropFirst() + [""]) {
            if word == "--data" { data = next }
            if word.hasPrefix("--data=") { data = String(word.dropFirst(7)) }
        }
        return data
    }

    func validate() throws {
        guard data != "" else { throw ValidationError("--data names a folder; it is empty.") }
        guard passphraseFD.map({ $0 >= 0 }) ?? true else { throw ValidationError("A file descriptor is not negative.") }
    }

    /// The data directory, absolute.
    var directory: String {
        let environment = ProcessInfo.processInfo.environment
        let chosen =
            data ?? environment["KITH_DATA"].flatMap { $0.isEmpty ? nil : $0 }
            ?? Device.defaultDirectory(environment: environment)
        return URL(fileURLWithPath: (chosen as NSString).expandingTildeInPath).standardizedFileURL.path
    }

    /// Sees to it that there is a device in the data directory.
    ///
    /// - Throws: `.notFound`, saying how to start one.
    func requireDevice() throws {
        guard !Device.exists(directory: directory) else { return }
        throw KithError(.notFound, "There is no device at \(directory). Start one: kith up --data \(directory)")
    }

    /// Whether nothing shown may change or move: asked for, or on a terminal that cannot.
    var isPlain: Bool { plain || isPlainTerminal }

    /// A log on standard error, silent unless asked for.
    var logger: Logger {
        var logger = Logger(label: "kith") { StreamLogHandler.standardError(label: $0) }
        logger.logLevel = verbose ? .debug : .error
        return logger
    }
}

extension Grant: ExpressibleByArgument {
    static let defaultCompletionKind = CompletionKind.list([
        "shell", "shell:view", "shell:agent", "shell:command=", "files:read=/", "files:write=/", "forward",
        "forward:to=",
        "forward:listen=",
    ])

    /// Reads an argument; the error says what would be right.
    static func reading(_ argument: String) throws -> Grant {
        do throws(KithError) {
            return try Grant(parsing: argument)
        } catch {
            throw ValidationError(error.message)
        }
    }
}

/// Runs `body` with a client of this device: of the daemon that runs on the data directory, or, when none does,
/// of a device opened in this process for as long as `body` takes.
///
/// - Throws: `.notFound` when there is no device and it is not `creating` one; nothing is written then.
func withClient<Result>(
    _ globals: GlobalOptions, listening: Bool = false, creating: Bool = false, _ body: (Client) async throws -> Result
) async throws -> Result {
    if let client = try await daemonClient(globals) {
        try globals.refuseToTraceDaemon()
        return try await sayingWhoIsAwaited(globals, client) { try await body(client) }
    }
    if !creating { try globals.requireDevice() }
    var options = Device.Options()
    globals.trace(&options)
    options.logger = globals.logger
    options.listens = listening
    options.passphrase = try globals.passphrase()
    let device = try await Device.open(directory: globals.directory, options: options)
    return try await device.whileRunning {
        try await sayingWhoIsAwaited(globals, device.client) { try await body(device.client) }
    }
}

/// A client of the daemon that runs on the data directory; `nil` when none does.
///
/// A daemon that has locked the directory and does not answer yet is given five seconds.
func daemonClient(_ globals: GlobalOptions, isAnyVersion: Bool = false) async throws -> Client? {
    let deadline = ContinuousClock.now + .seconds(5)
    while true {
        if let carrier = try await SocketCarrier.connect(directory: globals.directory, isAnyVersion: isAnyVersion) {
            return Client(carrier)
        }
        guard Device.isRunning(directory: globals.directory) else { return nil }
        guard ContinuousClock.now < deadline else {
            throw KithError(
                .conflict,
                "Another process holds \(globals.directory) and does not answer. Wait for it, or end it.")
        }
        try await Task.sleep(for: .milliseconds(20))
    }
}

/// A client of the daemon that must run on the data directory.
///
/// - Throws: `.notFound` when there is no device, or it is down; `purpose` says what it is needed for.
func runningClient(
    _ globals: GlobalOptions, _ purpose: String = "", isAnyVersion: Bool = false
) async throws -> Client {
    if let client = try await daemonClient(globals, isAnyVersion: isAnyVersion) { return client }
    try globals.requireDevice()
    throw KithError(
        .notFound, "This device is not up (\(globals.directory))\(purpose). `kith up` starts it.")
}
