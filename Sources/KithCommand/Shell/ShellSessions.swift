public import ArgumentParser
import Foundation
public import KithAPI
import KithWire

/// The shells that run on a device: what `kith shell --list`, `--attach`, `--end` and `--share` deal with.
enum ShellSessions {
    /// Prints those that can be attached to.
    static func list(on device: String, _ globals: GlobalOptions) async throws {
        let sessions = try await withClient(globals) { try await $0.call(Shell.Sessions.self, Nothing(), on: device) }
        if globals.json { return printLine(try jsonText(sessions)) }
        // One that has ended is kept a little for who has missed its end; nobody else can do anything with it.
        let running = sessions.filter { $0.status == nil }
        guard !running.isEmpty else { return note("No shells of yours run on \(printable(device)).") }
        printLine(text(running))
    }

    /// Ends one, or changes who may attach to it.
    static func change(_ input: Shell.Change.Input, on device: String, _ globals: GlobalOptions) async throws {
        let session = try await withClient(globals) { try await $0.call(Shell.Change.self, input, on: device) }
        if globals.json { return printLine(try jsonText(session)) }
        note(input.ends ? "Ended \(session.id)." : "\(session.id) is shared: \(session.sharing.rawValue).")
    }

    /// The session to attach to: the one named, the only one, or the one a person picks.
    static func choose(_ name: String?, on device: String, client: Client) async throws -> String {
        if let name { return name }
        let sessions = try await client.call(Shell.Sessions.self, Nothing(), on: device)
            .filter { $0.size != nil && $0.status == nil }
        guard let only = sessions.first else {
            throw KithError(.notFound, "No shell to attach to runs on \(device). kith shell \(device) opens one.")
        }
        if sessions.count == 1 { return only.id }
        note(text(sessions))
        guard isatty(STDIN_FILENO) == 1 else {
            throw KithError(.invalid, "Several shells run on \(device): name one after --attach.")
        }
        let latest = sessions.min { $0.idle < $1.idle }?.id ?? only.id
        noteInLine("Attach to which? [\(latest)] ")
        guard let line = readLine() else { throw CancellationError() }
        let answer = line.trimmingCharacters(in: .whitespaces)
        return answer.isEmpty ? latest : answer
    }

    private static func text(_ sessions: [Shell.Session]) -> String {
        let now = Int64(Date().timeIntervalSince1970)
        return table(
            ["SESSION", "OPENED", "LAST USED", "WINDOWS", "SIZE", "WHAT"],
            sessions.map { session in
                let clients =
                    if let left = session.endsIn {
                        "none, ends \(relative(now.saturatingAdding(left), now: now))"
                    } else {
                        "\(session.clients)"
                    }
                var what = session.command.isEmpty ? "shell" : session.command
                if !session.title.isEmpty { what += " · \(session.title)" }
                if !session.isOwn { what += " (opened by \(session.owner.isEmpty ? "its own user" : session.owner))" }
                return [
                    session.id, relative(session.opened, now: now),
                    relative(now.saturatingSubtracting(session.idle), now: now), clients,
                    session.size.map { "\($0.columns)x\($0.rows)" } ?? "pipes", String(printable(what).prefix(80)),
                ]
            })
    }
}

/// The time a shell is kept when nobody is attached: `8h`, or `none`.
struct Keep: ExpressibleByArgument, Hashable {
    /// In seconds; 0: it ends with its connection.
    var seconds: UInt32

    init(seconds: UInt32) { self.seconds = seconds }

    init?(argument: String) {
        if argument == "none" || argument == "0" {
            seconds = 0
        } else {
            guard let lifetime = Lifetime(argument: argument) else { return nil }
            seconds = UInt32(clamping: lifetime.seconds)
        }
    }
}

extension Shell.Sharing: ExpressibleByArgument {
    /// The word that is typed, which is also the one on the wire.
    public var defaultValueDescription: String { rawValue }
}
