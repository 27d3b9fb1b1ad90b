public import KithWire

/// One message on a shell's stream, either way.
///
///     type (1 byte) | length (varint, at most 64 KiB) | that many bytes
///
/// | type | from   | means       | bytes                                                                |
/// | ---- | ------ | ----------- | -------------------------------------------------------------------- |
/// | 0x01 | caller | input       | for standard input                                                   |
/// | 0x02 | caller | endOfInput  | none                                                                 |
/// | 0x03 | caller | resize      | columns, rows, pixel width, pixel height: 2 bytes each               |
/// | 0x04 | caller | signal      | its name in ASCII without SIG: "INT"                                 |
/// | 0x05 | caller | received    | varint: the position of the output it has dealt with                 |
/// | 0x06 | both   | agent       | varint: number of a connection to the ssh agent; its bytes, none: end |
/// | 0x11 | device | output      | from standard output, or from the terminal                           |
/// | 0x12 | device | errorOutput | from standard error                                                  |
/// | 0x13 | device | exited      | 0 then the status as varint, or 1, core (0/1), signal name           |
/// | 0x14 | device | taken       | varint: the position of the input the process has been given         |
/// | 0x15 | device | jump        | varint: the position of the output that comes next                   |
/// | 0x16 | device | screen      | what draws the screen as it was at that position; counts for none    |
/// | 0x17 | device | echoed      | varints: the position of input whose echo, if any, has been sent; µs |
/// | 0x18 | device | ended       | why this end gets no more: a code (varint length, name) and a text for a person   |
///
/// Positions count the bytes of a direction from the session's beginning, output and error output together, input for
/// each caller: so both ends know where to go on after a lost connection. The caller may send 1 MiB of
/// input that are not `taken`, so input nobody reads never stands in the way of a resize or a signal. The device sends
/// output for a terminal only so far beyond what was `received` as the link takes in a moment: an interrupt key is
/// never answered behind seconds of old output. A frame of an unknown type is skipped.
@nonexhaustive
public enum ShellFrame: Hashable, Sendable {
    /// Bytes for standard input.
    case input([UInt8])
    /// Standard input has ended.
    case endOfInput
    /// The terminal has this size now.
    case resize(Shell.Size)
    /// A signal for what runs.
    case signal(ShellSignal)
    /// The position of the output that the caller has dealt with.
    case received(UInt64)
    /// Bytes of a connection to the ssh agent, by its number; none: its end.
    case agent(UInt64, [UInt8])
    /// Bytes from standard output, or from the terminal.
    case output([UInt8])
    /// Bytes from standard error.
    case errorOutput([UInt8])
    /// The end of the process.
    case exited(ShellExit)
    /// The position of the input that the process has been given.
    case taken(UInt64)
    /// The position of the output that comes next.
    case jump(UInt64)
    /// The bytes that draw the screen as it was at that position; they do not advance it.
    case screen([UInt8])
    /// The position of the input whose echo, if any, has been sent, and how long the device held it.
    case echoed(input: UInt64, held: Duration)
    /// The reason this caller gets no more.
    case ended(KithError.Code, message: String)

    /// The most bytes after a frame's length.
    public static let sizeLimit = 64 << 10
    /// The most bytes of input that the caller may send before the process has been given them.
    package static let inputWindow = 1 << 20
    /// The largest valid position of an input or output: a varint still has room for what follows.
    package static let lastPosition: UInt64 = 1 << 61

    /// The frame as it travels.
    package var encoded: [UInt8] {
        switch self {
        case .input(let bytes): return Self.frame(0x01, bytes)
        case .endOfInput: return Self.frame(0x02, [])
        case .resize(let size):
            var writer = ByteWriter()
            writer.integer(size.columns)
            writer.integer(size.rows)
            writer.integer(size.pixelWidth)
            writer.integer(size.pixelHeight)
            return Self.frame(0x03, writer.bytes)
        case .signal(let signal): return Self.frame(0x04, Array(signal.name.utf8))
        case .output(let bytes): return Self.frame(0x11, bytes)
        case .errorOutput(let bytes): return Self.frame(0x12, bytes)
        case .exited(.status(let status)):
            var writer = ByteWriter()
            writer.integer(UInt8(0))
            writer.varint(UInt64(UInt32(bitPattern: status)))
            return Self.frame(0x13, writer.bytes)
        case .exited(.signal(let signal, let dumpedCore)):
            return Self.frame(0x13, [1, dumpedCore ? 1 : 0] + Array(signal.name.utf8))
        case .received(let position): return Self.frame(0x05, position)
        case .agent(let number, let bytes):
            var writer = ByteWriter()
            writer.varint(number)
            writer.bytes(bytes)
            return Self.frame(0x06, writer.bytes)
        case .taken(let position): return Self.frame(0x14, position)
        case .jump(let position): return Self.frame(0x15, position)
        case .screen(let bytes): return Self.frame(0x16, bytes)
        case .echoed(let position, let held):
            var writer = ByteWriter()
            writer.varint(position)
            writer.varint(UInt64(min(max(held / .microseconds(1), 0), Double(Self.lastPosition))))
            return Self.frame(0x17, writer.bytes)
        case .ended(let code, let message):
            var writer = ByteWriter()
            writer.prefixedBytes(Array(code.rawValue.utf8))
            writer.bytes(Array(message.utf8.prefix(1_024)))
            return Self.frame(0x18, writer.bytes)
        }
    }

    private static func frame(_ type: UInt8, _ position: UInt64) -> [UInt8] {
        var writer = ByteWriter()
        writer.varint(position)
        return frame(type, writer.bytes)
    }

    private static func frame(_ type: UInt8, _ bytes: [UInt8]) -> [UInt8] {
        precondition(bytes.count <= sizeLimit, "a shell frame holds at most \(sizeLimit) bytes")
        var writer = ByteWriter(capacity: bytes.count + 5)
        writer.integer(type)
        writer.prefixedBytes(bytes)
        return writer.bytes
    }

    /// Reads a frame's bytes; `nil` when the type is unknown.
    fileprivate init?(type: UInt8, bytes: [UInt8]) throws(KithError) {
        do {
            var reader = ByteReader(bytes)
            switch type {
            case 0x01: self = .input(bytes)
            case 0x02: self = .endOfInput
            case 0x03:
                self = .resize(
                    Shell.Size(
                        columns: try reader.integer(), rows: try reader.integer(), pixelWidth: try reader.integer(),
                        pixelHeight: try reader.integer()))
            case 0x04: self = .signal(try Self.signal(bytes[...]))
            case 0x11: self = .output(bytes)
            case 0x12: self = .errorOutput(bytes)
            case 0x13:
                let kind = try reader.integer(as: UInt8.self)
                if kind == 0 {
                    self = .exited(.status(Int32(truncatingIfNeeded: try reader.varint())))
                } else {
                    let dumpedCore = try reader.integer(as: UInt8.self) != 0
                    self = .exited(.signal(try Self.signal(bytes[2...]), dumpedCore: dumpedCore))
                }
            case 0x05: self = .received(try reader.varint())
            case 0x06: self = .agent(try reader.varint(), try reader.bytes(reader.remaining))
            case 0x14: self = .taken(try reader.varint())
            case 0x15: self = .jump(try reader.varint())
            case 0x16: self = .screen(bytes)
            case 0x17:
                self = .echoed(
                    input: try reader.varint(), held: .microseconds(Int64(clamping: try reader.varint())))
            case 0x18:
                let name = String(decoding: try reader.prefixedBytes(limit: 64), as: UTF8.self)
                let text = String(decoding: try reader.bytes(min(reader.remaining, 1_024)), as: UTF8.self)
                self = .ended(KithError.Code(rawValue: name) ?? .closed, message: text)
            default: return nil
            }
        } catch {
            throw KithError(.invalid, "The other end sent a malformed message (type \(type)).", cause: error)
        }
    }

    private static func signal(_ bytes: ArraySlice<UInt8>) throws(WireError) -> ShellSignal {
        let name = String(decoding: bytes, as: UTF8.self)
        guard let signal = ShellSignal(name) else { throw WireError.invalid("a signal's name") }
        return signal
    }
}

extension ShellFrame: StreamMessage {
    /// Appends the frame as the table above says.
    public func append(to bytes: inout [UInt8]) { bytes += encoded }

    /// Takes the next whole frame of a known type.
    ///
    /// - Throws: `.invalid` for a frame that is too long or malformed.
    public static func next(from buffer: inout ReceiveBuffer) throws(KithError) -> ShellFrame? {
        while true {
            guard let (length, size) = buffer.varint(at: 1) else { return nil }
            guard length <= UInt64(sizeLimit) else {
                throw KithError(.invalid, "The other end announced a message of \(length) bytes, which is too long.")
            }
            guard buffer.count >= 1 + size + Int(length) else { return nil }
            let type = buffer[0]
            buffer.removeFirst(1 + size)
            if let frame = try ShellFrame(type: type, bytes: buffer.take(Int(length))) { return frame }
        }
    }
}

/// As JSON an object of one member, named as the case: `{"output": "aGk="}`, `{"resize": {"columns": 80, …}}`.
extension ShellFrame: Codable {
    private struct Form: Codable {
        struct Agent: Codable {
            var connection: UInt64
            var bytes: ByteString
        }
        struct Exit: Codable {
            var status: Int32?
            var signal: String?
            var dumpedCore: Bool?
        }
        struct Echo: Codable {
            var input: UInt64
            var microseconds: UInt64
        }
        struct End: Codable {
            var code: KithError.Code
            var message: String
        }

        var input: ByteString?
        var endOfInput: Nothing?
        var resize: Shell.Size?
        var signal: String?
        var received: UInt64?
        var agent: Agent?
        var output: ByteString?
        var errorOutput: ByteString?
        var exited: Exit?
        var taken: UInt64?
        var jump: UInt64?
        var screen: ByteString?
        var echoed: Echo?
        var ended: End?
    }

    /// Reads the one member it knows.
    ///
    /// - Throws: `KithError` `.invalid` when there is none, or what it holds is out of range.
    public init(from decoder: any Decoder) throws {
        let form = try Form(from: decoder)
        func bytes(_ value: ByteString) throws -> [UInt8] {
            guard value.bytes.count <= Self.sizeLimit - 16 else {
                throw KithError(.invalid, "A message of a shell carries at most \(Self.sizeLimit - 16) bytes.")
            }
            return value.bytes
        }
        func position(_ value: UInt64) throws -> UInt64 {
            guard value <= Self.lastPosition else { throw KithError(.invalid, "A position is at most 2^61.") }
            return value
        }
        func named(_ name: String) throws -> ShellSignal {
            guard let signal = ShellSignal(name) else { throw KithError(.invalid, "\(name) is not a signal.") }
            return signal
        }
        if let value = form.input {
            self = .input(try bytes(value))
        } else if form.endOfInput != nil {
            self = .endOfInput
        } else if let value = form.resize {
            self = .resize(value)
        } else if let value = form.signal {
            self = .signal(try named(value))
        } else if let value = form.received {
            self = .received(try position(value))
        } else if let value = form.agent {
            self = .agent(try position(value.connection), try bytes(value.bytes))
        } else if let value = form.output {
            self = .output(try bytes(value))
        } else if let value = form.errorOutput {
            self = .errorOutput(try bytes(value))
        } else if let status = form.exited?.status {
            self = .exited(.status(status))
        } else if let exit = form.exited, let signal = exit.signal {
            self = .exited(.signal(try named(signal), dumpedCore: exit.dumpedCore ?? false))
        } else if let value = form.taken {
            self = .taken(try position(value))
        } else if let value = form.jump {
            self = .jump(try position(value))
        } else if let value = form.screen {
            self = .screen(try bytes(value))
        } else if let value = form.echoed {
            self = .echoed(
                input: try position(value.input), held: .microseconds(Int64(clamping: try position(value.microseconds)))
            )
        } else if let value = form.ended {
            self = .ended(value.code, message: value.message)
        } else {
            throw KithError(.invalid, "A message of a shell has one member, named for what it carries.")
        }
    }

    /// Writes the one member.
    public func encode(to encoder: any Encoder) throws {
        var form = Form()
        switch self {
        case .input(let bytes): form.input = ByteString(bytes)
        case .endOfInput: form.endOfInput = Nothing()
        case .resize(let size): form.resize = size
        case .signal(let signal): form.signal = signal.name
        case .received(let position): form.received = position
        case .agent(let connection, let bytes):
            form.agent = Form.Agent(connection: connection, bytes: ByteString(bytes))
        case .output(let bytes): form.output = ByteString(bytes)
        case .errorOutput(let bytes): form.errorOutput = ByteString(bytes)
        case .exited(.status(let status)): form.exited = Form.Exit(status: status)
        case .exited(.signal(let signal, let dumpedCore)):
            form.exited = Form.Exit(signal: signal.name, dumpedCore: dumpedCore)
        case .taken(let position): form.taken = position
        case .jump(let position): form.jump = position
        case .screen(let bytes): form.screen = ByteString(bytes)
        case .echoed(let position, let held):
            form.echoed = Form.Echo(
                input: position, microseconds: UInt64(min(max(held / .microseconds(1), 0), Double(Self.lastPosition))))
        case .ended(let code, let message): form.ended = Form.End(code: code, message: message)
        }
        try form.encode(to: encoder)
    }
}
