/// Takes out of a remote program's output what it must not do to the person's terminal without asking.
///
/// All else passes byte for byte and at once; only the beginning of a control sequence is held until it is known what
/// it does, at most ``heldLimit`` bytes. What is taken out, and why:
///
/// | sequence | why |
/// | --- | --- |
/// | OSC 52, OSC 5522, OSC 1337 Copy | the person's clipboard, written or read; see ``Policy`` |
/// | CSI 20 t, CSI 21 t | the terminal types its title, which the program may have set, as if the person had |
/// | ENQ | the terminal types its answerback text, perhaps a secret |
/// | DCS $ q of unknown settings, DCS + q of other than hex digits | some terminals type the question back |
/// | OSC 50 with ? | the terminal types the name of its font, which the program may have set (CVE-2022-45063) |
/// | OSC 4, 5 and 10…19 with ? | as above for colours, when ``allowsColorQueries`` is false; terminals answer with digits only and editors use it to tell dark from light, so it is allowed otherwise |
/// | OSC 1337 ReportVariable, RequestUpload, File without inline | types variables the program set; reads and writes the person's files |
/// | OSC 46 | the terminal's log goes to a file of the program's choice |
/// | DCS \|, DCS + p, DCS ! z, CSI * z | keys and macros that type what the program wants, later |
/// | CSI * y | a checksum of any part of the screen, and so its text |
/// | CSI i | prints |
/// | APC G with t=f, t=t or t=s | kitty reads (and deletes) files of the person's machine |
///
/// A string longer than its limit is ended, and its rest dropped: a terminal that waits for the end of a string shows
/// nothing meanwhile. In sequences that no two terminals read alike (8-bit controls inside others, bytes beyond ASCII in
/// a CSI) the sequence is dropped. 8-bit controls, raw or in UTF-8, are read like their 7-bit forms. The person's terminal
/// is taken to be in UTF-8.
package struct OutputFilter: Sendable {
    /// The policy for a program's use of the clipboard.
    package enum Policy: String, Hashable, Sendable, CaseIterable {
        /// Taken out and reported as an ``Event``, for somebody to decide.
        case ask
        /// Passes.
        case allow
        /// Taken out.
        case deny
    }

    /// An attempt of a program that the filter noticed.
    package enum Event: Hashable, Sendable {
        /// Put `text` on the clipboards named by `selection` (`c`, `p`, `q`, `s`, `0`…`7`; empty is the usual one);
        /// `isCut` when only its beginning is here.
        case clipboardWrite(selection: String, text: [UInt8], isCut: Bool)
        /// Read the clipboard.
        case clipboardRead(selection: String)
    }

    /// The policy for writes to the clipboard.
    package var clipboardWrites: Policy
    /// The policy for reads of the clipboard.
    package var clipboardReads: Policy
    /// True when a program may ask for the terminal's colours.
    package var allowsColorQueries: Bool
    /// True when a program may ask the terminal anything at all: false where it is shown to somebody who only watches,
    /// or long after it ran, so that no answer is typed.
    package var allowsQueries: Bool

    /// The most bytes that are ever held.
    package static let heldLimit = clipboardLimit + 128
    static let clipboardLimit = 128 * 1024
    static let controlLimit = 512
    static let eventLimit = 16
    /// The longest title, link and the like.
    static let stringLimit = 65_536
    /// The longest picture.
    static let pictureLimit = 16 * 1024 * 1024

    private enum Kind { case osc, dcs, apc, other }

    private enum State {
        case ground, escape, escapeIntermediate, control
        /// A string whose fate is open.
        case string(Kind)
        /// A string that passes; so many bytes more may.
        case passing(Int)
        /// A string that was taken out.
        case swallowing
        /// ESC came in a string that was taken out.
        case swallowingEscape
    }

    private enum Verdict { case open, pass, remove }

    private var state = State.ground
    /// The bytes of what is begun, as they came.
    private var held: [UInt8] = []
    /// The bytes of what is begun behind its introducer, without controls inside.
    private var body: [UInt8] = []
    private var text = CharacterBoundary()
    /// The byte before was 0xC2, which with one from 0x80 to 0x9F is an 8-bit control.
    private var followsC2 = false
    private var events: [Event] = []

    /// A filter for one stream of output.
    package init(
        clipboardWrites: Policy = .ask, clipboardReads: Policy = .deny, allowsColorQueries: Bool = true,
        allowsQueries: Bool = true
    ) {
        self.clipboardWrites = clipboardWrites
        self.clipboardReads = clipboardReads
        self.allowsColorQueries = allowsColorQueries && allowsQueries
        self.allowsQueries = allowsQueries
    }

    /// Takes what programs wanted since the last call; of more than 16 the first are kept.
    package mutating func takeEvents() -> [Event] {
        defer { events = [] }
        return events
    }

    /// Answers what may be written to the person's terminal.
    package mutating func filter(_ bytes: [UInt8]) -> [UInt8] {
        var output: [UInt8] = []
        output.reserveCapacity(bytes.count)
        var index = 0
        while index < bytes.count {
            if case .ground = state, text.isComplete {
                var end = index
                while end < bytes.count, bytes[end] < 0x80, bytes[end] != 0x1B, bytes[end] != 0x05 { end += 1 }
                output += bytes[index..<end]
                index = end
                guard index < bytes.count else { break }
            }
            take(bytes[index], &output)
            index += 1
        }
        return output
    }

    private mutating func take(_ byte: UInt8, _ output: inout [UInt8]) {
        switch state {
        case .ground: takeText(byte, &output)
        case .escape: takeEscape(byte, &output)
        case .escapeIntermediate: takeIntermediate(byte, &output)
        case .control: takeControl(byte, &output)
        case .string(let kind): takeString(byte, kind, &output)
        case .passing(let left): takePassing(byte, left: left, &output)
        case .swallowing:
            switch byte {
            case 0x1B: state = .swallowingEscape
            case 0x18, 0x1A: remove(&output)
            case 0x07 where isOSC: remove(&output)
            default:
                guard isEightBitControl(byte) else { return }
                remove(&output)
                if byte != 0x9C { takeText(byte, &output) }
            }
        case .swallowingEscape:
            remove(&output)
            if byte == 0x5C { return }
            beginEscape()
            takeEscape(byte, &output)
        }
    }

    /// A string that passed was not ended but interrupted by what is begun.
    private var isInterrupted = false
    /// True when the string at hand is an OSC, which BEL ends.
    private var isOSC = false

    private mutating func endOfSequence() {
        state = .ground
        held = []
        body = []
        text = CharacterBoundary()
        followsC2 = false
    }

    /// Lets what is begun pass, up to and with `end`.
    private mutating func pass(_ end: [UInt8], _ output: inout [UInt8]) {
        output += held + end
        isInterrupted = false
        endOfSequence()
    }

    /// Drops what is begun.
    ///
    /// Nothing may be put together by that: a string it interrupted is ended.
    private mutating func remove(_ output: inout [UInt8]) {
        if isInterrupted { output += [0x1B, 0x5C] }
        isInterrupted = false
        endOfSequence()
    }

    private mutating func beginEscape() {
        endOfSequence()
        state = .escape
        held = [0x1B]
    }

    /// Drops what is begun, and reads `byte` as if nothing had been.
    private mutating func abandon(_ byte: UInt8, _ output: inout [UInt8]) {
        remove(&output)
        takeText(byte, &output)
    }

    // MARK: - Text

    private mutating func takeText(_ byte: UInt8, _ output: inout [UInt8]) {
        if byte == 0x1B {
            output += held
            return beginEscape()
        }
        switch text.take(byte) {
        case .begins where byte == 0xC2:
            output += held
            held = [byte]
        case .continues where held == [0xC2]:
            held.append(byte)
            if byte < 0xA0 { return takeEightBit(byte, &output) }
            output += held
            held = []
        case .begins, .continues, .ascii:
            output += held
            held = []
            if byte != 0x05 { output.append(byte) }
        case .malformed:
            output += held
            held = []
            guard byte >= 0x80, byte < 0xA0 else { return output.append(byte) }
            held = [byte]
            takeEightBit(byte, &output)
        }
    }

    /// An 8-bit control, in `held` as it came.
    private mutating func takeEightBit(_ byte: UInt8, _ output: inout [UInt8]) {
        body = []
        switch byte {
        case 0x90: state = .string(.dcs)
        case 0x98, 0x9E: state = .string(.other)
        case 0x9B: state = .control
        case 0x9D: state = .string(.osc)
        case 0x9F: state = .string(.apc)
        default:
            output += held
            held = []
        }
        if case .string(let kind) = state { isOSC = kind == .osc }
    }

    // MARK: - Escape and CSI

    private mutating func takeEscape(_ byte: UInt8, _ output: inout [UInt8]) {
        switch byte {
        // Doubled inside what tmux and screen pass on.
        case 0x1B: if held.count < 8 { held.append(byte) }
        case 0x18, 0x1A: pass([byte], &output)
        case 0x05: break
        // Controls inside act at once.
        case 0x00..<0x20, 0x7F: if held.count < 16 { held.append(byte) } else { remove(&output) }
        case 0x80...: abandon(byte, &output)
        case 0x20..<0x30:
            held.append(byte)
            state = .escapeIntermediate
        case 0x50, 0x58, 0x5B, 0x5D, 0x5E, 0x5F:
            held.append(byte)
            body = []
            switch byte {
            case 0x50: state = .string(.dcs)
            case 0x5B: state = .control
            case 0x5D: state = .string(.osc)
            case 0x5F: state = .string(.apc)
            default: state = .string(.other)
            }
            isOSC = byte == 0x5D
        case 0x5A where !allowsQueries: remove(&output)
        default: pass([byte], &output)
        }
    }

    private mutating func takeIntermediate(_ byte: UInt8, _ output: inout [UInt8]) {
        switch byte {
        case 0x1B, 0x80...: abandon(byte, &output)
        case 0x05: break
        case 0x18, 0x1A, 0x30..<0x7F: pass([byte], &output)
        default: if held.count < 32 { held.append(byte) } else { remove(&output) }
        }
    }

    private mutating func takeControl(_ byte: UInt8, _ output: inout [UInt8]) {
        switch byte {
        case 0x1B: return abandon(byte, &output)
        case 0x18, 0x1A: return pass([byte], &output)
        case 0x05: return
        case 0x80...: return abandon(byte, &output)
        default: break
        }
        held.append(byte)
        if byte < 0x20 || byte == 0x7F {
            // Controls inside act at once; more than a few of them are nonsense.
            if held.count > 2 * Self.controlLimit { remove(&output) }
            return
        }
        // Too long to be understood: read to its end, and dropped.
        if body.count <= Self.controlLimit { body.append(byte) } else { held = [] }
        guard byte >= 0x40 else { return }
        if body.count <= Self.controlLimit, !isForbiddenControl { pass([], &output) } else { remove(&output) }
    }

    private var isForbiddenControl: Bool {
        let parameters = body.prefix { $0 >= 0x30 && $0 < 0x40 }
        let rest = Array(body[parameters.count...])
        if !allowsQueries, isQuery(parameters, rest) { return true }
        switch rest {
        case [0x74]:  // t
            let digits = parameters.prefix { $0 >= 0x30 && $0 < 0x3A }
            let number = String(decoding: digits.drop { $0 == 0x30 }, as: UTF8.self)
            // A number so long that it might be cut to another somewhere is not trusted.
            return number == "20" || number == "21" || number.utf8.count > 4
        case [0x69]: return true  // i
        case [0x2A, 0x79], [0x2A, 0x7A]: return true  // * y, * z
        default: return false
        }
    }

    /// Tells whether a terminal answers this CSI: DA, DSR, DECRQM, XTVERSION, DECREQTPARM, DECRQPSR, sizes, kitty's
    /// keyboard, XTQMODKEYS, XTSMGRAPHICS.
    private func isQuery(_ parameters: ArraySlice<UInt8>, _ rest: [UInt8]) -> Bool {
        let marker = parameters.first ?? 0
        switch String(decoding: rest, as: UTF8.self) {
        case "c", "n", "x", "$p", "$w", "$u": return true
        case "q": return marker == UInt8(ascii: ">")
        case "u", "m", "g", "S": return marker == UInt8(ascii: "?")
        case "t":
            let number = String(
                decoding: parameters.prefix { $0 >= 0x30 && $0 < 0x3A }.drop { $0 == 0x30 }, as: UTF8.self)
            return Int(number).map { (11...21) ~= $0 } ?? false
        default: return false
        }
    }

    // MARK: - Strings

    private mutating func takeString(_ byte: UInt8, _ kind: Kind, _ output: inout [UInt8]) {
        switch byte {
        case 0x1B:
            guard verdict(kind, isComplete: true) == .pass else { return state = .swallowingEscape }
            pass([], &output)
            isInterrupted = true
            return beginEscape()
        case 0x18, 0x1A: return remove(&output)
        case 0x07 where kind == .osc:
            let verdict = verdict(kind, isComplete: true)
            return verdict == .pass ? pass([byte], &output) : remove(&output)
        case 0x00..<0x20, 0x7F:
            // Ignored by terminals; it would hide what the string is.
            if kind != .dcs || !body.contains(where: { $0 >= 0x40 }) { return }
        default: break
        }
        if isEightBitControl(byte) {
            if held.last == 0xC2 {
                held.removeLast()
                body.removeLast()
            }
            if verdict(kind, isComplete: true) == .pass { pass([0x1B, 0x5C], &output) } else { remove(&output) }
            if byte != 0x9C { takeText(byte, &output) }
            return
        }
        held.append(byte)
        body.append(byte)
        // The longer it is, the less often it is looked at: else a long string would cost its square.
        let isDelimiter = byte == 0x3A || byte == 0x3B || byte == 0x3F
        guard body.count <= 64 || isDelimiter && body.count <= 1200 || body.count.isMultiple(of: 512) else { return }
        switch verdict(kind, isComplete: false) {
        case .open: break
        case .pass:
            output += held
            isInterrupted = false
            let isPicture = kind == .dcs || kind == .apc || body.starts(with: Array("1337".utf8))
            state = .passing((isPicture ? Self.pictureLimit : Self.stringLimit) - held.count)
            held = []
            body = []
        case .remove:
            state = .swallowing
            held = []
            body = []
        }
    }

    private mutating func takePassing(_ byte: UInt8, left: Int, _ output: inout [UInt8]) {
        switch byte {
        case 0x1B:
            isInterrupted = true
            return beginEscape()
        case 0x18, 0x1A:
            output.append(byte)
            return endOfSequence()
        case 0x07 where isOSC:
            output.append(byte)
            return endOfSequence()
        case 0x05: return
        default: break
        }
        if isEightBitControl(byte) {
            output += [0x1B, 0x5C]
            endOfSequence()
            if byte != 0x9C { takeText(byte, &output) }
            return
        }
        guard left > 0 else {
            output += [0x1B, 0x5C]
            state = .swallowing
            return
        }
        output.append(byte)
        state = .passing(left - 1)
    }

    /// Tells whether a byte of a string is an 8-bit control, raw or in UTF-8, not part of another character.
    private mutating func isEightBitControl(_ byte: UInt8) -> Bool {
        defer { followsC2 = byte == 0xC2 }
        switch text.take(byte) {
        case .ascii, .begins: return false
        case .continues: return followsC2 && byte < 0xA0
        case .malformed: return byte < 0xA0
        }
    }

    private mutating func verdict(_ kind: Kind, isComplete: Bool) -> Verdict {
        switch kind {
        case .osc: oscVerdict(isComplete: isComplete)
        case .dcs: dcsVerdict(isComplete: isComplete)
        case .apc: apcVerdict(isComplete: isComplete)
        case .other: .pass
        }
    }

    private mutating func oscVerdict(isComplete: Bool) -> Verdict {
        let digits = body.prefix { $0 >= 0x30 && $0 < 0x3A }
        guard isComplete || digits.count < body.count else { return digits.count > 6 ? .remove : .open }
        guard !digits.isEmpty else { return .pass }
        guard let number = Int(String(decoding: digits.prefix(7), as: UTF8.self)), number <= 99_999 else {
            return .remove
        }
        let value = body[min(digits.count + 1, body.count)...]
        switch number {
        case 52: return clipboardVerdict(value, isComplete: isComplete)
        case 5522: return clipboardWrites == .allow && clipboardReads == .allow ? .pass : .remove
        case 46: return .remove
        case 50: return queryVerdict(value, isComplete: isComplete)
        case 4, 5, 10...19: return allowsColorQueries ? .pass : queryVerdict(value, isComplete: isComplete)
        case 1337: return itermVerdict(value, isComplete: isComplete)
        default: return .pass
        }
    }

    private func queryVerdict(_ value: ArraySlice<UInt8>, isComplete: Bool) -> Verdict {
        if value.contains(0x3F) { return .remove }
        return isComplete ? .pass : value.count > 1024 ? .remove : .open
    }

    private func itermVerdict(_ value: ArraySlice<UInt8>, isComplete: Bool) -> Verdict {
        let key = value.prefix { $0 != 0x3D && $0 != 0x3A && $0 != 0x3B }
        guard isComplete || key.count < value.count else { return key.count > 64 ? .remove : .open }
        switch String(decoding: key, as: UTF8.self).lowercased() {
        case "copy", "copytoclipboard", "endcopy": return clipboardWrites == .allow ? .pass : .remove
        case "reportvariable", "requestupload": return .remove
        case "file", "multipartfile":
            let arguments = value.prefix { $0 != 0x3A }
            guard isComplete || arguments.count < value.count else { return arguments.count > 1024 ? .remove : .open }
            let list = arguments.dropFirst(key.count + 1).split(separator: 0x3B)
            return list.contains { $0.elementsEqual("inline=1".utf8) } ? .pass : .remove
        default: return .pass
        }
    }

    private func dcsVerdict(isComplete: Bool) -> Verdict {
        guard let end = body.firstIndex(where: { $0 >= 0x40 }) else {
            return isComplete || body.count > 64 ? .remove : .open
        }
        if !allowsQueries, body[end] == UInt8(ascii: "q"), end > 0, [0x24, 0x2B].contains(body[end - 1]) {
            return .remove
        }
        let head = body[...end].drop { $0 >= 0x30 && $0 < 0x40 }
        let value = body[(end + 1)...]
        switch String(decoding: head, as: UTF8.self) {
        case "$q":
            let known = ["m", "r", "s", "t", " q", "\"p", "\"q", "$|", "*|", "*x", "$}", "$~"]
            guard isComplete else { return value.count > 2 ? .remove : .open }
            return known.contains(String(decoding: value, as: UTF8.self)) ? .pass : .remove
        case "+q":
            let isHex = value.allSatisfy { byte in
                (0x30...0x39).contains(byte) || (0x41...0x46).contains(byte) || (0x61...0x66).contains(byte)
                    || byte == 0x3B
            }
            guard isHex, value.count <= 1024 else { return .remove }
            return isComplete ? .pass : .open
        case "|": return body.first == 0x3E || body.first == 0x21 ? .pass : .remove
        case "+p", "!z": return .remove
        default: return .pass
        }
    }

    private func apcVerdict(isComplete: Bool) -> Verdict {
        guard let first = body.first else { return isComplete ? .pass : .open }
        guard first == UInt8(ascii: "G") else { return .pass }
        let control = body.dropFirst().prefix { $0 != 0x3B }
        guard isComplete || control.count + 1 < body.count else { return control.count > 1024 ? .remove : .open }
        let isFile = control.split(separator: 0x2C).contains { pair in
            pair.starts(with: Array("t=".utf8)) && !pair.elementsEqual("t=d".utf8)
                || !allowsQueries && (pair.elementsEqual("a=q".utf8) || pair.starts(with: Array("i=".utf8)))
        }
        return isFile ? .remove : .pass
    }

    // MARK: - Clipboard

    private mutating func clipboardVerdict(_ value: ArraySlice<UInt8>, isComplete: Bool) -> Verdict {
        guard let split = value.firstIndex(of: 0x3B) else {
            return isComplete || value.count > 32 ? .remove : .open
        }
        let data = value[(split + 1)...]
        guard isComplete || !data.isEmpty else { return .open }
        let selection = String(decoding: value[..<split], as: UTF8.self)
        let isRead = data.first == UInt8(ascii: "?")
        switch isRead ? clipboardReads : clipboardWrites {
        case .allow: return .pass
        case .deny: return .remove
        case .ask: break
        }
        let isCut = !isComplete && value.count >= Self.clipboardLimit
        guard isComplete || isCut || isRead else { return .open }
        if events.count < Self.eventLimit {
            events.append(
                isRead
                    ? .clipboardRead(selection: selection)
                    : .clipboardWrite(selection: selection, text: decodedBase64(data), isCut: isCut))
        }
        return .remove
    }

    /// The bytes that base64 stands for, up to the first character that is none.
    private func decodedBase64(_ text: ArraySlice<UInt8>) -> [UInt8] {
        var bytes: [UInt8] = []
        var bits: UInt32 = 0
        var count = 0
        for byte in text {
            let value: UInt8
            switch byte {
            case 0x41...0x5A: value = byte - 0x41
            case 0x61...0x7A: value = byte - 0x61 + 26
            case 0x30...0x39: value = byte - 0x30 + 52
            case 0x2B, 0x2D: value = 62
            case 0x2F, 0x5F: value = 63
            default: return bytes
            }
            bits = bits << 6 | UInt32(value)
            count += 6
            if count >= 8 {
                count -= 8
                bytes.append(UInt8(truncatingIfNeeded: bits >> UInt32(count)))
            }
        }
        return bytes
    }
}

/// The boundaries of characters in UTF-8, byte by byte (RFC 3629).
struct CharacterBoundary: Sendable {
    enum Part { case ascii, begins, continues, malformed }

    private var missing = 0
    private var lowest: UInt8 = 0x80
    private var highest: UInt8 = 0xBF

    /// True when no character is begun.
    var isComplete: Bool { missing == 0 }

    /// Says what `byte` is to the character at hand.
    ///
    /// A malformed byte belongs to no character; one that cuts a character off is what it is by itself.
    mutating func take(_ byte: UInt8) -> Part {
        if missing > 0, byte >= lowest, byte <= highest {
            missing -= 1
            (lowest, highest) = (0x80, 0xBF)
            return .continues
        }
        missing = 0
        (lowest, highest) = (0x80, 0xBF)
        switch byte {
        case 0x00..<0x80: return .ascii
        case 0xC2...0xDF: missing = 1
        case 0xE0...0xEF:
            missing = 2
            if byte == 0xE0 { lowest = 0xA0 }
            if byte == 0xED { highest = 0x9F }
        case 0xF0...0xF4:
            missing = 3
            if byte == 0xF0 { lowest = 0x90 }
            if byte == 0xF4 { highest = 0x8F }
        default: return .malformed
        }
        return .begins
    }
}
