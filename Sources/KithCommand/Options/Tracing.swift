import Foundation
import Kith
import KithWire

// `--qlog` and `--key-log`.
extension GlobalOptions {
    /// The key log's file: the one asked for, else `$SSLKEYLOGFILE`, as browsers and curl have it.
    private var keyLogFile: String? {
        let environment = ProcessInfo.processInfo.environment["SSLKEYLOGFILE"] ?? ""
        return keyLog ?? (environment.isEmpty ? nil : environment)
    }

    private func absolute(_ path: String) -> String {
        URL(fileURLWithPath: (path as NSString).expandingTildeInPath).standardizedFileURL.path
    }

    /// Has a device of this process write what was asked for.
    func trace(_ options: inout Device.Options) {
        options.qlogDirectory = qlog.map(absolute)
        options.keyLogFile = keyLogFile.map(absolute)
        if keyLogFile != nil {
            note("The secrets of every connection are written to a file: whoever has it can read what is sent.")
        }
    }

    /// The same for a daemon about to be started.
    var traceArguments: [String] {
        (qlog.map { ["--qlog", absolute($0)] } ?? []) + (keyLogFile.map { ["--key-log", absolute($0)] } ?? [])
    }

    /// Refuses what a daemon would not do: its connections are not this process's to log.
    func refuseToTraceDaemon() throws {
        guard qlog != nil || keyLog != nil else { return }
        throw KithError(
            .conflict,
            "This device is up, and the connections are the daemon's. `kith down`, then `kith up` with the same option."
        )
    }
}
