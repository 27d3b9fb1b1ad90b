import ArgumentParser
import Crypto
import Foundation
import KithCommandLine
import KithGroups
import KithIdentity
import KithMLS
import KithStore
import KithWire

// MARK: - One member

/// `kith mls demo-member`: one of the processes of `kith mls demo`, driven by lines of input.
struct MLSDemoMember: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "demo-member", abstract: "One of the processes of kith mls demo.", shouldDisplay: false)

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "Who it is.")
    var name: String

    @Option(help: ArgumentHelp("Where the databases and the messages are.", valueName: "dir"), completion: .directory)
    var folder: String

    func run() async throws {
        var member: DemoMember?
        while let command = readLine() {
            do {
                if let member {
                    try await member.perform(command)
                } else {
                    member = try DemoMember(name, folder: folder)
                    DemoMember.print(DemoLine(isDone: true))
                }
            } catch { DemoMember.print(DemoLine(error: "\(error)")) }
        }
    }
}

private struct DemoMember {
    static let groupID = Array("demo".utf8)

    private let client: GroupClient

    init(_ name: String, folder: String) throws {
        let place = "\(folder)/\(name)"
        try FileManager.default.createDirectory(
            atPath: place, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        let storage = try GroupDatabase.open(
            directory: place, keys: FileKeyStore(directory: place, seal: .machineKey))
        var options = GroupClient.Options(authentication: TrustingAuthenticationService()) {
            UInt64(max(0, Date().timeIntervalSince1970))
        }
        options.keyPackages = 2
        client = try GroupClient(
            name: name, storage: storage, delivery: FileDelivery(path: folder + "/delivery"), options: options)
    }

    static func print(_ line: DemoLine) {
        // These are our own values, which always have a form.
        guard let text = try? jsonLine(line) else { return }
        printLine(text)
    }

    private static func jsonLine(_ line: DemoLine) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys]
        return String(decoding: try encoder.encode(line), as: UTF8.self)
    }

    func perform(_ command: String) async throws {
        let words = command.split(separator: " ").map(String.init)
        let rest = words.dropFirst().joined(separator: " ")
        switch words.first {
        case "publish": try await client.replenishKeyPackages()
        case "create": _ = try await client.createGroup(id: Self.groupID)
        case "add": _ = try await session().add(Array(words.dropFirst()))
        case "say": try await send(rest)
        case "commit": _ = try await session().commit()
        case "talk": try await sendMessages(rest)
        case "sync": try await synchronise()
        case "check":
            let secret = try await session().export(label: "kith demo", context: [], count: 32)
            let hash = secret.withBytes { SHA256.hash(data: $0) }
            Self.print(
                DemoLine(
                    isDone: true, epoch: try await session().epoch(),
                    exporter: Hex.encode(hash)))
            return
        default: throw KithError(.invalid, "There is no command \(printable(command)).")
        }
        Self.print(DemoLine(isDone: true, epoch: try? await session().epoch()))
    }

    private func session() throws -> GroupSession {
        guard let session = try client.group(Self.groupID) else {
            throw KithError(.notFound, "This member is in no group yet.")
        }
        return session
    }

    private func send(_ text: String) async throws {
        _ = try await session().send(Array(text.utf8))
        Self.print(DemoLine(sent: text))
    }

    /// Talks and commits for a long time: this process will be killed before it ends.
    private func sendMessages(_ prefix: String) async throws {
        for number in 0..<100_000 {
            try await send("\(prefix)-\(number)")
            if number % 5 == 4 { _ = try await session().commit() }
            try await synchronise()
        }
    }

    private func synchronise() async throws {
        try await client.receiveWelcomes()
        let session = try session()
        try await session.synchronise()
        for event in try await session.waitingEvents() {
            if case .message(let message) = event.event {
                Self.print(
                    DemoLine(heard: String(decoding: message.data, as: UTF8.self), number: event.number))
            }
            // Only what has been reported may be forgotten.
            try await session.acknowledge(through: event.number)
        }
    }
}
