import KithRPC
package import KithWire

/// Recordings of terminals in asciicast v2 (docs.asciinema.org/manual/asciicast/v2): a line of JSON that describes the
/// terminal, then a line for each event.
package enum Asciicast {
    /// The first line.
    package struct Header: Hashable, Sendable {
        package var columns: Int
        package var rows: Int
        /// Seconds since 1970 at which the recording began.
        package var timestamp: Int?
        /// A player waits no longer than this between two events, in seconds.
        package var idleTimeLimit: Double?
        package var command: String?
        package var title: String?
        /// `TERM`, `SHELL` and the like.
        package var environment: [String: String]

        package init(
            columns: Int, rows: Int, timestamp: Int? = nil, idleTimeLimit: Double? = nil, command: String? = nil,
            title: String? = nil, environment: [String: String] = [:]
        ) {
            self.columns = columns
            self.rows = rows
            self.timestamp = timestamp
            self.idleTimeLimit = idleTimeLimit
            self.command = command
            self.title = title
            self.environment = environment
        }
    }

    /// One of the lines that follow.
    package struct Event: Hashable, Sendable {
        /// The kind of an event.
        package enum Kind: Hashable, Sendable {
            /// `o`: the terminal showed this.
            case output([UInt8])
            /// `i`: the person typed this.
            case input([UInt8])
            /// `r`: the terminal's size changed.
            case resize(columns: Int, rows: Int)
            /// `m`: a place in the recording.
            case marker(String)
        }

        /// The time since the recording's beginning.
        package var time: Duration
        package var kind: Kind

        package init(time: Duration, kind: Kind) {
            self.time = time
            self.kind = kind
        }
    }

    /// The longest line that is read.
    package static let lineLimit = 1024 * 1024
    /// The most bytes in one line that is written; escaped they are six times as long.
    static let pieceLimit = 65_536
    /// The most a terminal's side may measure.
    package static let sizeLimit = 65_535
    /// No recording is longer: a year.
    static let timeLimit = 366.0 * 86_400
}

// MARK: - Writing

extension Asciicast {
    /// Writes a recording; what each call answers is appended to the file.
    ///
    /// A character whose bytes come in two pieces is written whole, with the second. Bytes that are no UTF-8 become
    /// U+FFFD, in the file only: its text is JSON.
    package struct Writer: Sendable {
        private let recordsInput: Bool
        private var output: [UInt8] = []
        private var input: [UInt8] = []
        private var last = Duration.zero

        /// A writer; what the person types is left out unless asked for, as it may hold passwords.
        package init(recordsInput: Bool = false) { self.recordsInput = recordsInput }

        /// The first line.
        package func header(_ header: Header) -> [UInt8] {
            var text = "{\"version\": 2, \"width\": \(header.columns), \"height\": \(header.rows)"
            if let timestamp = header.timestamp { text += ", \"timestamp\": \(timestamp)" }
            if let limit = header.idleTimeLimit, limit.isFinite { text += ", \"idle_time_limit\": \(limit)" }
            if let command = header.command { text += ", \"command\": \(quoted(command))" }
            if let title = header.title { text += ", \"title\": \(quoted(title))" }
            if !header.environment.isEmpty {
                let pairs = header.environment.sorted { $0.key < $1.key }.map { "\(quoted($0)): \(quoted($1))" }
                text += ", \"env\": {\(pairs.joined(separator: ", "))}"
            }
            return Array((text + "}\n").utf8)
        }

        /// The terminal showed `bytes`.
        package mutating func output(_ bytes: [UInt8], at time: Duration) -> [UInt8] {
            var carried = output
            defer { output = carried }
            return write("o", bytes, after: &carried, at: time)
        }

        /// The person typed `bytes`.
        package mutating func input(_ bytes: [UInt8], at time: Duration) -> [UInt8] {
            guard recordsInput else { return [] }
            var carried = input
            defer { input = carried }
            return write("i", bytes, after: &carried, at: time)
        }

        /// The terminal's size changed.
        package mutating func resize(columns: Int, rows: Int, at time: Duration) -> [UInt8] {
            event("r", "\(columns)x\(rows)", at: time)
        }

        /// The recording ends; a character that never became whole is written as U+FFFD.
        package mutating func finish(at time: Duration) -> [UInt8] {
            defer { (output, input) = ([], []) }
            return event("o", String(decoding: output, as: UTF8.self), at: time)
                + event("i", String(decoding: input, as: UTF8.self), at: time)
        }

        /// Writes events of a length that every reader takes.
        private mutating func write(
            _ code: String, _ bytes: [UInt8], after carried: inout [UInt8], at time: Duration
        ) -> [UInt8] {
            var lines: [UInt8] = []
            for start in stride(from: 0, to: bytes.count, by: Asciicast.pieceLimit) {
                carried += bytes[start..<min(start + Asciicast.pieceLimit, bytes.count)]
                lines += event(code, takeText(from: &carried), at: time)
            }
            return lines
        }

        private mutating func event(_ code: String, _ text: String, at time: Duration) -> [UInt8] {
            guard !text.isEmpty else { return [] }
            last = max(last, time)
            let (seconds, attoseconds) = last.components
            let digits = String(attoseconds / 1_000_000_000_000)
            let fraction = String(repeating: "0", count: 6 - digits.count) + digits
            return Array("[\(seconds).\(fraction), \"\(code)\", \(quoted(text))]\n".utf8)
        }

        /// Takes all but a character whose end has not come.
        private func takeText(from bytes: inout [UInt8]) -> String {
            var whole = bytes.count
            var boundary = CharacterBoundary()
            // A character has four bytes at most.
            let start = max(0, bytes.count - 4)
            for index in start..<bytes.count {
                let part = boundary.take(bytes[index])
                if part == .begins { whole = index }
                if boundary.isComplete { whole = bytes.count }
            }
            if boundary.isComplete { whole = bytes.count }
            defer { bytes.removeFirst(whole) }
            return String(decoding: bytes[..<whole], as: UTF8.self)
        }

        private func quoted(_ text: String) -> String { String(decoding: JSONText.quoted(text), as: UTF8.self) }
    }
}

// MARK: - Reading

extension Asciicast {
    /// Reads a recording, in pieces of any size.
    ///
    /// Whatever is not as the format says is one error that names the line; events of kinds this does not know are
    /// skipped, as the format asks.
    package struct Reader: Sendable {
        /// The description, once its line has come.
        package private(set) var header: Header?
        private var line: [UInt8] = []
        private var lineNumber = 1
        private var last = 0.0

        package init() {}

        /// Takes bytes of the file, answers the events they complete.
        ///
        /// - Throws: ``KithError/Code/corrupt`` when they are not a recording; nothing more can be read then.
        package mutating func read(_ bytes: [UInt8]) throws(KithError) -> [Event] {
            var events: [Event] = []
            var rest = bytes[...]
            while let end = rest.firstIndex(of: 0x0A) {
                try append(rest[..<end])
                try endLine(&events)
                rest = rest[(end + 1)...]
            }
            try append(rest)
            return events
        }

        /// The file ends; answers the event of a last line without its end.
        ///
        /// - Throws: ``KithError/Code/corrupt`` when there was no recording.
        package mutating func finish() throws(KithError) -> [Event] {
            var events: [Event] = []
            if !line.isEmpty { try endLine(&events) }
            guard header != nil else { throw failure("is empty") }
            return events
        }

        private mutating func append(_ bytes: ArraySlice<UInt8>) throws(KithError) {
            guard line.count + bytes.count <= Asciicast.lineLimit else {
                throw failure("is longer than \(Asciicast.lineLimit) bytes")
            }
            line += bytes
        }

        private func failure(_ what: String) -> KithError {
            KithError(.corrupt, "This is not a recording in asciicast v2: line \(lineNumber) \(what).")
        }

        private mutating func endLine(_ events: inout [Event]) throws(KithError) {
            defer {
                line.removeAll(keepingCapacity: line.count < 65_536)
                lineNumber += 1
            }
            if line.last == 0x0D { line.removeLast() }
            if header != nil, line.isEmpty { return }
            let value: JSONValue
            do {
                value = try JSONText(line).value()
            } catch {
                throw failure("is not JSON")
            }
            if header == nil {
                header = try readHeader(value)
            } else if let event = try readEvent(value) {
                events.append(event)
            }
        }

        private func readHeader(_ value: JSONValue) throws(KithError) -> Header {
            guard case .object(let fields) = value, fields["version"] == 2 else {
                throw failure("does not say version 2")
            }
            var header = Header(columns: try side(fields["width"]), rows: try side(fields["height"]))
            if let number = number(fields["timestamp"]), number.magnitude < 1e15 {
                header.timestamp = Int(number)
            }
            if let number = number(fields["idle_time_limit"]), number >= 0 { header.idleTimeLimit = number }
            if case .string(let text) = fields["command"] { header.command = text }
            if case .string(let text) = fields["title"] { header.title = text }
            if case .object(let variables) = fields["env"] {
                for case (let name, .string(let text)) in variables { header.environment[name] = text }
            }
            return header
        }

        private func number(_ value: JSONValue?) -> Double? {
            switch value {
            case .integer(let number): Double(number)
            case .number(let number): number
            default: nil
            }
        }

        private func side(_ value: JSONValue?) throws(KithError) -> Int {
            guard let number = number(value), let side = Int(exactly: number), (1...Asciicast.sizeLimit) ~= side
            else { throw failure("has no width and height from 1 to \(Asciicast.sizeLimit)") }
            return side
        }

        private mutating func readEvent(_ value: JSONValue) throws(KithError) -> Event? {
            guard case .array(let parts) = value, parts.count == 3, let seconds = number(parts[0]),
                case .string(let code) = parts[1], case .string(let text) = parts[2]
            else { throw failure("is not an event of time, kind and text") }
            guard seconds >= last, seconds <= Asciicast.timeLimit else {
                throw failure("has a time before the line above, or beyond a year")
            }
            last = seconds
            let kind: Event.Kind
            switch code {
            case "o": kind = .output(Array(text.utf8))
            case "i": kind = .input(Array(text.utf8))
            case "m": kind = .marker(text)
            case "r":
                let sides = text.split(separator: "x", omittingEmptySubsequences: false).map { Int($0) ?? 0 }
                guard sides.count == 2, sides.allSatisfy({ (1...Asciicast.sizeLimit) ~= $0 }) else {
                    throw failure("has no size like 80x24")
                }
                kind = .resize(columns: sides[0], rows: sides[1])
            default: return nil
            }
            return Event(time: .microseconds(Int64((seconds * 1e6).rounded())), kind: kind)
        }
    }
}

// MARK: - Playing

extension Asciicast {
    /// The times at which the events of a recording are due.
    package struct Pace: Sendable {
        private let speed: Double
        /// The longest pause that is kept, in seconds, as the person or the recording wants it.
        package var idleLimit: Double?
        private var recorded = Duration.zero
        private var played = Duration.zero

        /// Plays `speed` times as fast: 0.01 to 1000.
        package init(speed: Double, idleLimit: Double?) {
            self.speed = speed
            self.idleLimit = idleLimit
        }

        /// Returns the time after the beginning at which an event of this time is due, pauses of the person aside.
        package mutating func due(_ time: Duration) -> Duration {
            var gap = max(.zero, time - recorded)
            // A limit may be any number; no pause is longer than a recording.
            if let idleLimit { gap = min(gap, .seconds(min(idleLimit, Asciicast.timeLimit))) }
            recorded = max(recorded, time)
            played += gap / speed
            return played
        }
    }
}
