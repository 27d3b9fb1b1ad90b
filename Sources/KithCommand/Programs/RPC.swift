import ArgumentParser
import Foundation
import Kith
import KithCommandLine
import KithRPC
import KithSocket
import KithWire

/// `kith rpc`.
struct RPCCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "rpc",
        abstract: "Send a line of JSON-RPC to this device, as it is.",
        discussion: helpText(
            """
              kith rpc device.status
              kith rpc files.list '{"path":"/srv"}' | jq .entries
              kith rpc query:libraries.list '{"input":{"include_stats":true}}'
              kith rpc --raw no.such.method     the answer with its code, exactly as it came
              kith rpc --notify events.publish '{"topic":"home/door","message":"open"}'
              kith rpc --batch calls.json       a file with a request, or a list of them; - is standard input
              kith rpc rpc.discover > openrpc.json

            The names of other programs, query:… and action:…, take {"input", "library_id"}. `kith call` knows the
            methods, follows streams and asks other devices; this says what it is told, to see what is answered.

            Exit status: as that of the error; with --raw and --batch 0 whatever was answered.
            """))

    @OptionGroup var globals: GlobalOptions

    @Flag(name: .customLong("notify"), help: "Send a notification: nothing is answered.") var isNotification = false
    @Flag(help: "Print the line that was answered, exactly.") var raw = false
    @Option(
        help: ArgumentHelp("Send this file in place of a method; - is standard input.", valueName: "file"),
        completion: .file())
    var batch: String?
    @Argument(help: "The method.") var method: String?
    @Argument(help: "Its parameters, one JSON value.") var params: String?

    func validate() throws {
        guard (method == nil) == (batch != nil) else {
            throw ValidationError("Name a method, or a file with --batch.")
        }
        if batch != nil, isNotification {
            throw ValidationError("--notify goes with a method; in a file leave out the `id`.")
        }
    }

    func run() async throws {
        let line = try line()
        guard let client = try await LineClient.connect(directory: globals.directory) else {
            try globals.requireDevice()
            throw KithError(.notFound, "This device is not up. `kith up` starts it.")
        }
        try await client.send(line)
        // Whatever was asked is answered before the device ends the connection.
        client.endSending()
        var hasAnswer = false
        while let answer = try await client.next() {
            hasAnswer = true
            guard !raw, batch == nil else {
                printLine(raw ? String(decoding: answer, as: UTF8.self) : TerminalText.visible(json: answer))
                continue
            }
            try show(answer)
        }
        let wantsAnswer = batch == nil && !isNotification
        if wantsAnswer, !hasAnswer {
            throw KithError(.closed, "The device closed the connection before it answered.")
        }
    }

    /// The line to send.
    private func line() throws -> JSONText {
        if let method {
            let id: RPCIdentifier? = isNotification ? nil : .number("1")
            return try JSONText(
                RPCRequest(id: id, method: method, params: try params.map { try JSONText(Array($0.utf8)) }).json)
        }
        let path = batch ?? "-"
        let handle: FileHandle
        if path == "-" {
            handle = .standardInput
        } else {
            guard let file = FileHandle(forReadingAtPath: path) else {
                throw KithError(.notFound, "The file \(printable(path)) cannot be read.")
            }
            handle = file
        }
        let data = try handle.read(upToCount: LineFramer.defaultLimit + 1) ?? Data()
        guard data.count <= LineFramer.defaultLimit else {
            throw KithError(.invalid, "\(printable(path)) is longer than 4 MiB, the most that a line may have.")
        }
        return try JSONText([UInt8](data))
    }

    /// Prints a result, or throws the error that was answered.
    private func show(_ line: [UInt8]) throws {
        guard case .single(.response(let response)) = RPCPacket(parsing: line) else {
            throw KithError(.corrupt, "The device answered with something else: kith rpc --raw shows it.")
        }
        switch response.result {
        case .failure(let error): throw error.kithError
        case .success(let result):
            let value = try JSONSerialization.jsonObject(with: Data(result.bytes), options: .fragmentsAllowed)
            let text = try JSONSerialization.data(
                withJSONObject: value,
                options: [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes, .fragmentsAllowed])
            printLine(TerminalText.visible(json: Array(text)))
        }
    }
}
