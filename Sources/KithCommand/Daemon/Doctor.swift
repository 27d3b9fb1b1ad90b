import ArgumentParser
import Foundation
import Kith
import KithAPI
import KithCommandLine
import KithWire

/// `kith doctor`.
struct DoctorCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "doctor",
        abstract: "Explain step by step why a device cannot be reached, or that all is well.",
        discussion: helpText(
            """
              kith doctor               this device: its directory, its daemon, its network
              kith doctor laptop        and the way to another one, each known address in turn
              kith doctor --network     its relays, the NAT in front of it, the router
              kith subscribe '$registry/network/>'    the same, as it changes

            Nothing that runs is disturbed. Nobody is asked but that device, and this one's relays, from where they see it.
            Exit status: 0 when nothing is wrong, warnings aside; 1 otherwise.
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The device to reach.")
    var device: String?

    @Flag(help: "Examine the network alone: relays, NAT, router.")
    var network = false

    func validate() throws {
        if network, device != nil {
            throw ValidationError("--network examines this device's network: it takes no device.")
        }
    }

    /// The output of `--json`.
    private struct Report: Encodable {
        var steps: [Reach.Step]
        var healthy: Bool
        var verdict: String
        /// The facts about the network.
        var network: Reach.Network?
    }

    func run() async throws {
        var steps: [Reach.Step] = []
        func record(_ step: Reach.Step) {
            steps.append(step)
            if !globals.json { show(step) }
        }
        if !network { try await examineFiles(record) }
        if steps.allSatisfy({ $0.outcome != .failure }) {
            do {
                try await withClient(globals) { client in
                    let stream = try await client.open(
                        Reach.Examine.self, Reach.Examine.Input(device: device, network: network ? true : nil)
                    ).stream
                    for try await step in stream.messages { record(step) }
                    if !network, device == nil { try await examineLibraries(client, record) }
                }
            } catch let error as KithError where error.code == .unsupported {
                record(
                    Reach.Step(
                        "daemon", .failure, "The running daemon is older and cannot examine anything.",
                        remedy: "Restart it: kith down; kith up"))
            } catch let error as KithError {
                record(Reach.Step("device", .failure, error.message))
            }
        }
        let verdict = verdict(steps)
        let isHealthy = !steps.contains { $0.outcome == .failure }
        if globals.json {
            let network = steps.compactMap(\.network).last
            for index in steps.indices { steps[index].network = nil }
            printLine(
                try jsonText(Report(steps: steps, healthy: isHealthy, verdict: verdict, network: network)))
        } else {
            printLine()
            printLine(styled(verdict, .bold))
        }
        if !isHealthy { throw ExitCode(1) }
    }

    private func show(_ step: Reach.Step) {
        let (mark, style): (String, Style) =
            switch step.outcome {
            case .ok: ("ok  ", .green)
            case .warning: ("warn", .yellow)
            case .failure: ("FAIL", .red)
            }
        printLine("\(styled(mark, style))  \(printable(step.subject)): \(printable(step.finding))")
        if let remedy = step.remedy { printLine("      → \(printable(remedy))") }
    }

    private func verdict(_ steps: [Reach.Step]) -> String {
        if let failure = steps.first(where: { $0.outcome == .failure }) {
            // The addresses that failed say more than that none answered.
            let addresses = steps.filter { $0.subject.hasPrefix("address ") }
            // One where something answers is worth more than those where nothing does.
            let hints = (addresses.filter { $0.finding.hasPrefix("Something answers") } + addresses).compactMap(
                \.remedy)
            let remedy = failure.remedy ?? hints.first
            let advised = failure.subject == "connection" ? hints.first ?? failure.remedy : remedy
            let finding = printable(failure.finding)
            // What has been advised already is not advised again in other words.
            let next = advised.map(printable).flatMap { advice in
                let command = advice.range(of: ": ").map { advice[$0.upperBound...] } ?? advice[...]
                return finding.contains(command) ? nil : advice
            }
            let end = finding.hasSuffix(".") || finding.hasSuffix("?") ? "" : "."
            return "Not well: \(finding)\(end)" + (next.map { " Next: \($0)" } ?? "")
        }
        let subject = device.map { "\(printable($0)) is reached" } ?? "This device is well"
        let warnings = steps.count { $0.outcome == .warning }
        return warnings == 0 ? "\(subject)." : "\(subject), with \(warnings) \(warnings == 1 ? "warning" : "warnings")."
    }

    // MARK: - What this process sees itself

    private func examineFiles(_ record: (Reach.Step) -> Void) async throws {
        examineSettings(record)
        let directory = globals.directory
        let manager = FileManager.default
        guard let attributes = try? manager.attributesOfItem(atPath: directory) else {
            return record(
                Reach.Step(
                    "data directory", .failure, "There is none at \(directory).",
                    remedy: "kith up --data '\(directory)' starts this device and makes it."))
        }
        let owner = (attributes[.ownerAccountID] as? NSNumber)?.uint32Value
        let mode = (attributes[.posixPermissions] as? NSNumber)?.uint16Value ?? 0
        if owner != geteuid() {
            record(
                Reach.Step(
                    "data directory", .failure, "\(directory) belongs to another user.",
                    remedy: "Run kith as that user, or chown -R the directory."))
        } else if mode & 0o077 != 0 {
            record(
                Reach.Step(
                    "data directory", .warning, "Others can read \(directory) (mode \(String(mode, radix: 8))).",
                    remedy: "chmod 700 '\(directory)'"))
        } else {
            record(Reach.Step("data directory", .ok, directory))
        }
        let free = (try? manager.attributesOfFileSystem(forPath: directory))?[.systemFreeSize] as? NSNumber
        if let free, free.uint64Value < 64 << 20 {
            record(
                Reach.Step(
                    "disk", .warning, "\(ProgressLine.size(free.uint64Value)) are free there.", remedy: "Make room."))
        }
        // What listens nowhere needs no hole in a firewall yet.
        if let port = try await examineDaemon(record) { examineFirewall(port, record) }
    }

    /// Says which libraries cannot be used, and why.
    private func examineLibraries(_ client: Client, _ record: (Reach.Step) -> Void) async throws {
        let libraries = try await client.call(Libraries.List.self, .init()).libraries
        var open = 0
        for library in libraries {
            switch library.state {
            case .closed: continue
            case .offline:
                record(
                    Reach.Step(
                        "library \(library.name)", .warning, library.problem ?? "Its folder is not there.",
                        remedy: "Connect its disk, or: kith library close '\(library.name)' --forget"))
            case .failed:
                record(
                    Reach.Step(
                        "library \(library.name)", .failure, library.problem ?? "It cannot be opened.",
                        remedy: "kith library import brings back one that was exported; kith library delete removes it."
                    ))
            default:
                open += 1
                guard library.isUnconfirmed else { continue }
                record(
                    Reach.Step(
                        "library \(library.name)", .warning,
                        "It came from elsewhere, and is not scanned by itself yet.",
                        remedy: "kith library rescan --library '\(library.name)'"))
            }
        }
        if open > 0 { record(Reach.Step("libraries", .ok, open == 1 ? "One is open." : "\(open) are open.")) }
    }

    private func examineSettings(_ record: (Reach.Step) -> Void) {
        do {
            let settings = try Settings.load()
            guard settings.exists else { return }
            let problems = settings.configuration.problems(for: try Root.description())
            guard let problem = problems.first else {
                return record(Reach.Step("settings", .ok, settings.path))
            }
            record(
                Reach.Step(
                    "settings", .failure, "\(settings.path):\(problem.line): \(problem.message)",
                    remedy: "kith config check"))
        } catch {
            record(Reach.Step("settings", .failure, (error as? KithError)?.message ?? "\(error)"))
        }
    }

    /// Returns the UDP port of a daemon that runs.
    private func examineDaemon(_ record: (Reach.Step) -> Void) async throws -> UInt16? {
        do {
            guard let client = try await daemonClient(globals) else {
                record(
                    Reach.Step(
                        "daemon", .warning, "This device is not up: it can call others, and nobody can call it.",
                        remedy: "kith up --detach --data '\(globals.directory)', or kith service install for good"))
                return nil
            }
            let status = try await client.call(
                ThisDevice.Status.self, Nothing(), options: CallOptions(timeout: .seconds(5)))
            if status.version == kithVersion {
                record(
                    Reach.Step("daemon", .ok, "\(status.name) is up, process \(status.pid), Kith \(status.version)."))
            } else {
                record(
                    Reach.Step(
                        "daemon", .warning, "The daemon is Kith \(status.version), this command \(kithVersion).",
                        remedy: "Restart it: kith down; kith up"))
            }
            return status.addresses.first?.port
        } catch let error as KithError {
            record(Reach.Step("daemon", .failure, error.message))
            return nil
        }
    }

    /// Examines the firewalls of this machine, and the port as far as their files show, where everybody may read them.
    private func examineFirewall(_ port: UInt16, _ record: (Reach.Step) -> Void) {
        // Files that are not there are firewalls that are not there.
        let ufw = (try? String(contentsOfFile: "/etc/ufw/ufw.conf", encoding: .utf8)) ?? ""
        let isUFW = ufw.split(separator: "\n").contains {
            $0.lowercased().replacingOccurrences(of: " ", with: "") == "enabled=yes"
        }
        if isUFW {
            let rules = try? String(contentsOfFile: "/etc/ufw/user.rules", encoding: .utf8)
            report(
                "ufw", port,
                rules.map { FirewallRules.ufw($0, letsIn: port) ? FirewallAnswer.letsIn : .keepsOut } ?? .isSilent,
                remedy: "sudo ufw allow \(port)/udp", record)
        } else if FileManager.default.fileExists(atPath: "/run/firewalld.pid") {
            report(
                "firewalld", port, Self.firewalld(port),
                remedy: "sudo firewall-cmd --permanent --add-port=\(port)/udp && sudo firewall-cmd --reload", record)
        }
    }

    /// The answer of a firewall about a port.
    private enum FirewallAnswer {
        case letsIn, keepsOut
        /// Only root is told.
        case isSilent
    }

    private func report(
        _ firewall: String, _ port: UInt16, _ answer: FirewallAnswer, remedy: String, _ record: (Reach.Step) -> Void
    ) {
        switch answer {
        case .letsIn: record(Reach.Step("firewall", .ok, "\(firewall) lets UDP port \(port) in."))
        case .keepsOut:
            record(
                Reach.Step(
                    "firewall", .warning, "\(firewall) keeps other devices from UDP port \(port).", remedy: remedy))
        case .isSilent:
            // Who has followed the advice is not to be given it for ever.
            record(
                Reach.Step(
                    "firewall", .ok,
                    "\(firewall) runs here; only root can see whether it lets UDP port \(port) in (\(remedy) does)."))
        }
    }

    /// The answer of firewalld.
    private static func firewalld(_ port: UInt16) -> FirewallAnswer {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/firewall-cmd")
        process.arguments = ["--query-port=\(port)/udp"]
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        // One that cannot be asked says nothing.
        guard (try? process.run()) != nil else { return .isSilent }
        process.waitUntilExit()
        return switch process.terminationStatus {
        case 0: .letsIn
        case 1: .keepsOut
        default: .isSilent
        }
    }
}
