import ArgumentParser
import Foundation
import Kith
import KithCommandLine
import KithWire

/// The options that the service commands share.
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

    /// True for the machine's service.
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
                .invalid, "Name the user whose shell other devices are to get: --user NAME (root when you mean root).")
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
                "As root, name the user whose device it is: --user \(caller). Without sudo the service is your own.")
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

    /// The path of its file.
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
