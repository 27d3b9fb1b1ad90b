import ArgumentParser
import Foundation
import Kith
import KithCommandLine
import KithWire

/// `kith service`.
struct ServiceCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "service",
        abstract: "Have this device come up by itself: systemd on Linux, launchd on macOS.",
        discussion: helpText(
            """
              kith service install             for this user; starts it now, and when the user logs in
              kith service install --print     show the file, and write nothing
              kith service status
              kith service uninstall
              sudo kith service install --user ana      from when the machine starts, as ana

            On Linux, `loginctl enable-linger` has a user's own service run also while nobody is logged in; one that root
            installs with --user does anyhow. --user goes with status and uninstall, too.
            """),
        subcommands: [ServiceInstall.self, ServiceUninstall.self, ServiceStatus.self])
}

/// What the service commands share.
struct ServiceOptions: ParsableArguments {
    @Flag(help: "The machine's service, which needs root, in place of the user's. Implied by --user.")
    var system = false

    @Option(help: "Its name, when several devices run on one machine.")
    var name = "kith"

    @Option(
        help: ArgumentHelp(
            "The user the machine's service runs as: whose shell others get. Default with --system: who called sudo.",
            valueName: "name"))
    var user: String?

    /// Whether it is the machine's service.
    var isSystem: Bool { system || user != nil }

    func validate() throws {
        guard ServiceUnit.isName(name) else {
            throw ValidationError("--name takes 1 to 48 letters, digits, hyphens and underscores.")
        }
    }

    /// The service they describe.
    func unit(_ globals: GlobalOptions, isConfined: Bool) throws -> ServiceUnit {
        guard let program = Bundle.main.executablePath else {
            throw KithError(.internal, "Could not find the path of the kith command itself.")
        }
        return ServiceUnit(
            manager: try manager(), name: name, program: program, directory: try directory(globals),
            isConfined: isConfined)
    }

    /// The data directory of the device: the one asked for, else that of the user who is to run it.
    private func directory(_ globals: GlobalOptions) throws -> String {
        guard isSystem, globals.data == nil, let home = try account().map(\.home) else { return globals.directory }
        return Device.defaultDirectory(environment: ["HOME": home])
    }

    /// The account the machine's service runs as; `nil` for a user's own service.
    ///
    /// - Throws: `.invalid` when nobody is named, `.notFound` for somebody this machine does not know.
    private func account() throws -> (name: String, home: String)? {
        guard isSystem else { return nil }
        guard let name = user ?? ProcessInfo.processInfo.environment["SUDO_USER"], !name.isEmpty else {
            throw KithError(
                .invalid, "Say whose shell other devices are to get: --user NAME (root when you mean root).")
        }
        guard name.utf8.allSatisfy({ $0 > 0x20 && $0 != 0x7F && $0 != 0x25 && $0 != 0x3A }),
            let entry = unsafe getpwnam(name), let home = unsafe entry.pointee.pw_dir
        else { throw KithError(.notFound, "There is no user “\(printable(name))” on this machine.") }
        return (name, unsafe String(cString: home))
    }

    /// Refuses to install for somebody whom the caller cannot install for, or did not mean.
    func checkInstaller() throws {
        let caller = ProcessInfo.processInfo.environment["SUDO_USER"] ?? ""
        if isSystem, geteuid() != 0 {
            throw KithError(
                .denied,
                "Only root installs a service of the machine: sudo kith service install --user \(user ?? NSUserName())")
        }
        if !isSystem, geteuid() == 0, !caller.isEmpty, caller != "root" {
            throw KithError(
                .invalid,
                "As root, say whose device it is: --user \(caller). Without sudo the service is your own.")
        }
    }

    private func manager() throws -> ServiceUnit.Manager {
        guard let account = try account() else {
            #if canImport(Darwin)
            return .launchdUser
            #else
            return .systemdUser
            #endif
        }
        #if canImport(Darwin)
        return .launchdSystem(user: account.name)
        #else
        return .systemdSystem(user: account.name)
        #endif
    }

    /// Where its file is.
    func path(_ unit: ServiceUnit) -> String {
        let environment = ProcessInfo.processInfo.environment
        let base = environment["XDG_CONFIG_HOME"].flatMap { $0.hasPrefix("/") ? $0 : nil }
        return unit.path(home: environment["HOME"] ?? NSHomeDirectory(), configHome: base)
    }

    /// Asks the service manager.
    ///
    /// - Returns: its status and what it said; `nil` when there is none on this machine.
    func control(_ arguments: String...) throws -> (status: Int32, text: String)? {
        #if canImport(Darwin)
        let program = "/bin/launchctl"
        let words = arguments
        #else
        guard
            let program = ["/usr/bin/systemctl", "/bin/systemctl"].first(where: {
                FileManager.default.isExecutableFile(atPath: $0)
            })
        else { return nil }
        let words = (isSystem ? [] : ["--user"]) + arguments
        #endif
        let process = Process()
        process.executableURL = URL(fileURLWithPath: program)
        process.arguments = words
        process.standardInput = FileHandle.nullDevice
        let output = Pipe()
        process.standardOutput = output
        process.standardError = output
        try process.run()
        let text = output.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return (process.terminationStatus, String(decoding: text, as: UTF8.self))
    }

    /// The service's place in launchd.
    var domain: String { isSystem ? "system" : "gui/\(getuid())" }
}

/// `kith service install`.
struct ServiceInstall: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "install", abstract: "Install the service and start it; again after an update.",
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

/// `kith service uninstall`.
struct ServiceUninstall: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "uninstall", abstract: "Stop the service and remove its file; the data directory stays.",
        discussion: helpText(
            """
              kith service uninstall
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var options: ServiceOptions

    func run() throws {
        let unit = try options.unit(globals, isConfined: false)
        let path = options.path(unit)
        guard FileManager.default.fileExists(atPath: path) else {
            note("There is no service \(unit.identifier): \(path) is not there.")
            return
        }
        #if canImport(Darwin)
        _ = try options.control("bootout", "\(options.domain)/\(unit.identifier)")
        #else
        // One that does not run needs no stopping, and where no manager runs there is nothing to stop.
        _ = try options.control("disable", "--now", unit.identifier)
        #endif
        do {
            try FileManager.default.removeItem(atPath: path)
        } catch {
            throw KithError(.denied, "\(path) cannot be removed.", cause: error)
        }
        #if os(Linux)
        _ = try options.control("daemon-reload")
        #endif
        note("Removed \(path)")
    }
}

/// `kith service status`.
struct ServiceStatus: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status", abstract: "Say whether the service is installed, and runs.",
        discussion: helpText(
            """
              kith service status && echo it runs

            Exit status: 0 when it runs, 1 when it does not, 3 when it is not installed.
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var options: ServiceOptions

    /// What `--json` prints.
    private struct Report: Encodable {
        var service: String
        var path: String
        var isInstalled: Bool
        var isRunning: Bool
    }

    func run() throws {
        let unit = try options.unit(globals, isConfined: false)
        let path = options.path(unit)
        let isInstalled = FileManager.default.fileExists(atPath: path)
        #if canImport(Darwin)
        let result = isInstalled ? try options.control("print", "\(options.domain)/\(unit.identifier)") : nil
        let isRunning = result?.status == 0 && result?.text.contains("state = running") == true
        #else
        let result = isInstalled ? try options.control("is-active", unit.identifier) : nil
        let isRunning = result?.status == 0
        #endif
        if globals.json {
            say(
                try jsonText(
                    Report(service: unit.identifier, path: path, isInstalled: isInstalled, isRunning: isRunning)))
        } else if !isInstalled {
            say("\(unit.identifier) is not installed (`kith service install`).")
        } else {
            say("\(unit.identifier) is \(isRunning ? styled("running", .green) : styled("not running", .yellow))")
            say("  \(path)")
            if !isRunning, let text = result?.text { say("  \(ServiceInstall.firstLine(text))") }
        }
        if !isRunning { throw ExitCode(isInstalled ? 1 : KithError.Code.notFound.exitStatus) }
    }
}
