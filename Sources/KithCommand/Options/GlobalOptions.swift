import ArgumentParser
import Foundation
import Kith
import KithAPI
import KithWire
import Logging
internal import KithIdentity

/// The options of every command.
struct GlobalOptions: ParsableArguments {
    @Option(
        name: .long,
        help:
            "The folder of this device's key and state. Default: $KITH_DATA, else ~/.local/share/kith, on a Mac ~/Library/Application Support/Kith.",
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

    /// Reads the data directory from a command line, and nothing else.
    static func dataOption(of words: [String]) throws -> GlobalOptions {
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
        guard data != "" else { throw ValidationError("--data takes the path of a folder; it is empty.") }
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
        throw KithError(
            .notFound,
            "There is no device at \(directory). Start one: kith up --data \(directory). If yours is elsewhere: --data DIR, or $KITH_DATA."
        )
    }

    /// True when nothing shown may change or move: asked for, or on a terminal that cannot.
    var isPlain: Bool { plain || isPlainTerminal }

    /// A log on standard error, silent unless asked for.
    var logger: Logger {
        var logger = Logger(label: "kith") { VisibleLogHandler(StreamLogHandler.standardError(label: $0)) }
        logger.logLevel = verbose ? .debug : .error
        return logger
    }
}
