import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithSocket
import KithWire

/// `kith api`.
struct APICommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "api",
        abstract: "Describe the methods that `kith call` and other programs may call.",
        discussion: helpText(
            """
              kith api methods                         all of them, a line each
              kith api show files.list                 one: what goes in and out, and who may call it
              kith api openrpc > kith.json             for programs: OpenRPC, with JSON Schemas
              kith api reference > Methods.md          for people: a page in Markdown
              kith api generate python -o kith.py      for programs: a typed client

            The running device is asked, which also knows the services that were added to it; without one it is this \
            program's own table.
            """),
        subcommands: [APIMethods.self, APIShow.self, APIOpenRPC.self, APIReference.self, APIGenerate.self])

    /// The table of the running device; without one, this program's.
    static func document(_ globals: GlobalOptions) async throws -> OpenRPC {
        // One of another version, or of another user, is as good as none: the table is in here, too.
        guard let carrier = try? await SocketCarrier.connect(directory: globals.directory) else { return .compiledIn }
        defer { carrier.close() }
        do {
            return try await Client(carrier).call(API.Document.self, API.Document.Input())
        } catch let error as KithError where error.code == .unsupported {
            return .compiledIn
        }
    }

    /// One method of a table.
    static func method(_ name: String, in document: OpenRPC) throws -> OpenRPC.Method {
        if let method = document.methods.first(where: { $0.name == name }) { return method }
        throw KithError(.notFound, "There is no method \(printable(name)). `kith api methods` lists them.")
    }
}

extension OpenRPC {
    /// What this version declares.
    static var compiledIn: OpenRPC { OpenRPC(describing: API.methods) }
}
