import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithRPC
import KithSocket
import KithWire

/// `kith call`.
struct CallCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "call",
        abstract: "Call a method of the running device by its name, with JSON in and out.",
        discussion: helpText(
            """
            Every command, and every program at the socket, uses this table of methods.

              kith call device.status
              kith call files.list '{"path": "/srv"}' --on laptop
              kith call files.find '{"path": "/srv"}' --on laptop | jq .entries
              echo '{"input": "bHMKZXhpdAo="}' | kith call shell.open '{}' --on laptop

            `kith api show METHOD` says what goes in and out. Members of the input that have a default may be left out.

            Of a stream, the first line is what the service answered, and each further one a message; bytes are lines \
            {"bytes": "…"} in base64. Where the service takes messages or bytes, each line of standard input is one. \
            The stream goes on until the service ends it, or Ctrl-C; the end of standard input ends bytes, while \
            messages only pause.
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The method, as `kith api methods` lists them.", completion: .list(API.methods.map(\.name)))
    var method: String

    @Argument(
        help: "Its input, a JSON object.", completion: .shellCommand(CommandDescription.Argument.methodInputs))
    var input = "{}"

    @Option(help: ArgumentHelp("The device to ask, when it is not this one.", valueName: "device"))
    var on: String?

    @Option(
        help: ArgumentHelp(
            "Wait at most so long for the answer, or for the service to accept a stream; then end with exit status 8.",
            valueName: "seconds"))
    var timeout: Double?

    private var options: CallOptions { CallOptions(timeout: timeout.map { .seconds($0) }) }

    func validate() throws {
        if let timeout, !(0.001...31_536_000).contains(timeout) {
            throw ValidationError("--timeout takes seconds, 0.001 to 31,536,000 (a year).")
        }
    }

    func run() async throws {
        guard let carrier = try await SocketCarrier.connect(directory: globals.directory) else {
            try globals.requireDevice()
            throw KithError(.notFound, "This device is not up. `kith up` starts it.")
        }
        defer { carrier.close() }
        if let entry = try await entry(carrier), entry.kind == .stream {
            return try await follow(entry, carrier)
        }
        let answer = try await carrier.call(named: method, json: Array(input.utf8), on: on, options: options)
        let value = try JSONSerialization.jsonObject(with: Data(answer), options: .fragmentsAllowed)
        let text = try JSONSerialization.data(
            withJSONObject: value, options: [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes, .fragmentsAllowed])
        printLine(TerminalText.visible(json: Array(text)))
    }

    /// What the table says of the method: ours, or, of one that only the other device knows, its.
    private func entry(_ carrier: SocketCarrier) async throws -> API.Describe.Entry? {
        func entry(on device: String?) async throws -> API.Describe.Entry? {
            let table = try await Client(carrier).call(API.Describe.self, Nothing(), on: device, options: options)
            return table.methods.first { $0.name == method }
        }
        if let entry = try await entry(on: nil), on == nil || entry.service == nil { return entry }
        return try await entry(on: on)
    }

    /// Prints a stream line by line, and feeds it the lines of standard input where it takes any.
    private func follow(_ entry: API.Describe.Entry, _ carrier: SocketCarrier) async throws {
        let stream = try await carrier.open(named: method, json: Array(input.utf8), on: on, options: options)
        defer { stream.cancel() }
        printLine(TerminalText.visible(json: stream.answer))
        let takesLines = entry.upstream ?? .nothing != .nothing
        try await withThrowingTaskGroup(of: Bool.self) { group in
            defer { group.cancelAll() }
            group.addTask {
                while let item = try await stream.receive() {
                    switch item {
                    case .message(let json): printLine(TerminalText.visible(json: json))
                    case .bytes(let bytes): printLine(#"{"bytes":"\#(Base64.encode(bytes))"}"#)
                    }
                }
                return true
            }
            if takesLines {
                group.addTask {
                    try await feed(stream, bytes: entry.upstream == .bytes)
                    return false
                }
            }
            // The end of our lines is not the end of the stream.
            while let isOver = try await group.next(), !isOver {}
        }
    }

    /// Sends standard input until it ends.
    private func feed(_ stream: any NamedStream, bytes: Bool) async throws {
        struct Piece: Decodable { var bytes: ByteString }
        let input = StandardStreams()
        var framer = LineFramer()
        var hasEnded = false
        while !hasEnded {
            if let more = await input.read() {
                framer.append(more)
            } else {
                hasEnded = true
                framer.append([0x0A])
            }
            while let line = try framer.next() {
                if bytes {
                    try await stream.send(bytes: try JSONText(line).decode(Piece.self).bytes.bytes)
                } else {
                    try await stream.send(line)
                }
            }
        }
        // Who has no more messages still listens; to end that way is to hang up.
        if bytes { try await stream.finish() }
    }
}
