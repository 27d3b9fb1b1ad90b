import ArgumentParser
import Foundation
import Kith
import KithCommandLine
import KithWire

/// `kith service install`.
struct ServiceInstall: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "install", abstract: "Install the service and start it; run it again after an update.",
        discussion: helpText(
            """
              kith service install
              sudo kith service install --user ana
              sudo kith service install --user ana --data /srv/kith
              kith service install --confined --print
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var options: ServiceOptions

    @Flag(help: "Let nothing it starts change the system or gain rights: no sudo in shells (systemd only).")
    var confined = false

    @Flag(name: .customLong("print"), help: "Show the file, and write nothing.")
    var prints = false

    @Flag(help: "Write the file and start nothing.")
    var noStart = false

    func run() throws {
        let unit = try options.unit(globals, isConfined: confined)
        if prints {
            try writeOutput(Data(unit.text.utf8))
            return
        }
        try options.checkInstaller()
        if !options.isSystem { try Device.check(directory: unit.directory) }
        let path = options.path(unit)
        let url = URL(fileURLWithPath: path)
        // A file that cannot be read is one that differs.
        let isSame = (try? String(contentsOf: url, encoding: .utf8)) == unit.text
        if !isSame {
            do {
                try FileManager.default.createDirectory(
                    at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
                try Data(unit.text.utf8).write(to: url, options: .atomic)
                try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: path)
            } catch {
                throw KithError(
                    .denied,
                    "\(path) cannot be written\(options.isSystem && geteuid() != 0 ? "; try it with sudo" : "").",
                    cause: error)
            }
        }
        note("\(isSame ? "Unchanged" : "Wrote") \(path)")
        guard !noStart else { return }
        try start(unit, path, isSame: isSame)
    }

    private func start(_ unit: ServiceUnit, _ path: String, isSame: Bool) throws {
        #if canImport(Darwin)
        if !isSame { _ = try options.control("bootout", "\(options.domain)/\(unit.identifier)") }
        let result = try options.control("bootstrap", options.domain, path)
        #else
        let reload = try options.control("daemon-reload")
        let result =
            reload?.status == 0
            ? try options.control("enable", isSame ? "--now" : "--quiet", unit.identifier).flatMap {
                $0.status == 0 && !isSame ? try options.control("restart", unit.identifier) : $0
            } : reload
        #endif
        guard let result else {
            note("There is no service manager on this machine to start it: `kith up --detach` does for now.")
            return
        }
        guard result.status == 0 else {
            throw KithError(
                .unreachable,
                "The file is in its place, but the service manager did not start it: \(Self.firstLine(result.text))")
        }
        note("Started \(unit.identifier); `kith service status` shows how it does.")
        #if os(Linux)
        let user = ProcessInfo.processInfo.environment["USER"] ?? NSUserName()
        if !options.isSystem, !FileManager.default.fileExists(atPath: "/var/lib/systemd/linger/\(user)") {
            note("It ends when you log out. To keep it up: loginctl enable-linger")
        }
        if options.isSystem { note("It starts with the machine; nobody needs to be logged in.") }
        #endif
    }

    static func firstLine(_ text: String) -> String {
        text.split(separator: "\n").first.map { printable(String($0)) } ?? "it said nothing."
    }
}
