/// Takes a terminal's output apart, byte by byte: Paul Williams' state machine for the VT500, with UTF-8 in its ground.
///
///     ground ─ESC─▶ escape ─[─▶ csiEntry ─▶ csiParameter ─▶ csiIntermediate ─final─▶ ground
///                     │ ]         P │ like CSI, then dcsPassthrough ─ESC─▶ escape
///                     ▼            X^_
///                  oscString     ignoredString
///
/// CAN and SUB end everything, ESC begins anew. Bytes above 0x7F are text only in the ground: 8-bit controls do not exist
/// in UTF-8. Every part is bounded; what is longer is read to its end and dropped.
struct EscapeParser: Sendable {
    /// The action that a byte completed.
    enum Action {
        case none
        case print(Unicode.Scalar)
        /// Bytes that are no UTF-8 came before; print U+FFFD and give the same byte again.
        case malformed
        /// A byte that is no UTF-8; print U+FFFD.
        case invalid
        case execute(UInt8)
        case escape(UInt8)
        case control(UInt8)
        case operatingSystemCommand
        /// The final byte of the introducer; the string is in ``EscapeParser/string``.
        case deviceControl(UInt8)
    }

    enum State: UInt8 {
        case ground, escape, escapeIntermediate
        case csiEntry, csiParameter, csiIntermediate, csiIgnore
        case oscString
        case dcsEntry, dcsParameter, dcsIntermediate, dcsPassthrough, dcsIgnore
        case ignoredString
    }

    static let stringLimit = 65_536
    static let parameterLimit = 32
    static let numberLimit: Int32 = 65_535

    private(set) var state = State.ground
    /// The parameters; -1 where none was written.
    private(set) var parameters: [Int32] = []
    /// Bit n is set when a colon, not a semicolon, stands before parameter n.
    private(set) var colons: UInt32 = 0
    /// The private marker `<`, `=`, `>` or `?`, or 0.
    private(set) var marker: UInt8 = 0
    /// The intermediate bytes, two at most, the first in the low byte.
    private(set) var intermediates: UInt32 = 0
    private var intermediateCount = 0
    private var hasMoreParameters = false
    private(set) var string: [UInt8] = []
    private var stringOverflows = false
    private var final: UInt8 = 0

    // The character being put together.
    private var scalar: UInt32 = 0
    private var missing = 0
    private var lowest: UInt8 = 0x80
    private var highest: UInt8 = 0xBF
    private var head: [UInt8] = []

    /// True when the next byte begins something new.
    var isAtRest: Bool { state == .ground && missing == 0 }

    mutating func take(_ byte: UInt8) -> Action {
        if missing > 0 { return takeContinuation(byte) }
        switch byte {
        case 0x18, 0x1A:
            state = .ground
            return .none
        case 0x1B:
            let action = endOfString()
            enter(.escape)
            return action
        default: break
        }
        switch state {
        case .ground: return takeText(byte)
        case .oscString:
            if byte == 0x07 {
                let action = endOfString()
                state = .ground
                return action
            }
            if byte >= 0x20 { keep(byte) }
            return .none
        case .dcsPassthrough:
            if byte != 0x7F { keep(byte) }
            return .none
        case .ignoredString, .dcsIgnore: return .none
        default: break
        }
        if byte < 0x20 { return state.rawValue >= State.dcsEntry.rawValue ? .none : .execute(byte) }
        if byte >= 0x7F { return .none }
        return takeSequence(byte)
    }

    // MARK: - Sequences

    private mutating func takeSequence(_ byte: UInt8) -> Action {
        switch state {
        case .escape, .escapeIntermediate:
            if byte < 0x30 {
                collect(byte)
                state = .escapeIntermediate
                return .none
            }
            if state == .escape {
                switch byte {
                case 0x5B: enter(.csiEntry)
                case 0x5D: enter(.oscString)
                case 0x50: enter(.dcsEntry)
                case 0x58, 0x5E, 0x5F: enter(.ignoredString)
                default:
                    state = .ground
                    return .escape(byte)
                }
                return .none
            }
            state = .ground
            return intermediateCount > 2 ? .none : .escape(byte)
        case .csiEntry, .csiParameter, .csiIntermediate:
            if byte >= 0x40 {
                state = .ground
                return intermediateCount > 2 ? .none : .control(byte)
            }
            state = next(byte, entry: .csiEntry, parameter: .csiParameter, intermediate: .csiIntermediate, .csiIgnore)
            return .none
        case .csiIgnore:
            if byte >= 0x40 { state = .ground }
            return .none
        case .dcsEntry, .dcsParameter, .dcsIntermediate:
            if byte >= 0x40 {
                final = byte
                state = intermediateCount > 2 ? .dcsIgnore : .dcsPassthrough
                return .none
            }
            state = next(byte, entry: .dcsEntry, parameter: .dcsParameter, intermediate: .dcsIntermediate, .dcsIgnore)
            return .none
        default: return .none
        }
    }

    /// The state after a parameter, marker or intermediate byte.
    private mutating func next(
        _ byte: UInt8, entry: State, parameter: State, intermediate: State, _ ignore: State
    ) -> State {
        if byte < 0x30 {
            collect(byte)
            return intermediate
        }
        if state == intermediate { return ignore }
        if byte >= 0x3C {
            guard state == entry else { return ignore }
            marker = byte
            return parameter
        }
        if byte >= 0x3A {
            if parameters.isEmpty { parameters.append(-1) }
            if parameters.count < Self.parameterLimit {
                if byte == 0x3A { colons |= 1 << UInt32(parameters.count) }
                parameters.append(-1)
            } else {
                hasMoreParameters = true
            }
            return parameter
        }
        guard !hasMoreParameters else { return parameter }
        if parameters.isEmpty { parameters.append(-1) }
        let last = parameters.count - 1
        parameters[last] = min(max(parameters[last], 0) * 10 + Int32(byte - 0x30), Self.numberLimit)
        return parameter
    }

    private mutating func collect(_ byte: UInt8) {
        intermediateCount = min(intermediateCount + 1, 3)
        if intermediateCount <= 2 { intermediates |= UInt32(byte) << UInt32(8 * (intermediateCount - 1)) }
    }

    private mutating func enter(_ new: State) {
        state = new
        guard new != .oscString else {
            string.removeAll(keepingCapacity: string.capacity <= 4096)
            stringOverflows = false
            return
        }
        parameters.removeAll(keepingCapacity: true)
        colons = 0
        marker = 0
        intermediates = 0
        intermediateCount = 0
        hasMoreParameters = false
        if new == .dcsEntry {
            string.removeAll(keepingCapacity: string.capacity <= 4096)
            stringOverflows = false
        }
    }

    private mutating func keep(_ byte: UInt8) {
        if string.count < Self.stringLimit { string.append(byte) } else { stringOverflows = true }
    }

    private func endOfString() -> Action {
        guard !stringOverflows else { return .none }
        switch state {
        case .oscString: return .operatingSystemCommand
        case .dcsPassthrough: return .deviceControl(final)
        default: return .none
        }
    }

    // MARK: - UTF-8

    private mutating func takeText(_ byte: UInt8) -> Action {
        switch byte {
        case 0x00..<0x20: return .execute(byte)
        case 0x7F: return .none
        case 0x20..<0x7F: return .print(Unicode.Scalar(byte))
        case 0xC2...0xDF: begin(byte, scalar: UInt32(byte & 0x1F), missing: 1)
        case 0xE0...0xEF:
            begin(byte, scalar: UInt32(byte & 0x0F), missing: 2)
            if byte == 0xE0 { lowest = 0xA0 }
            if byte == 0xED { highest = 0x9F }
        case 0xF0...0xF4:
            begin(byte, scalar: UInt32(byte & 0x07), missing: 3)
            if byte == 0xF0 { lowest = 0x90 }
            if byte == 0xF4 { highest = 0x8F }
        default: return .invalid
        }
        return .none
    }

    private mutating func begin(_ byte: UInt8, scalar: UInt32, missing: Int) {
        self.scalar = scalar
        self.missing = missing
        lowest = 0x80
        highest = 0xBF
        head.removeAll(keepingCapacity: true)
        head.append(byte)
    }

    private mutating func takeContinuation(_ byte: UInt8) -> Action {
        guard byte >= lowest, byte <= highest else {
            missing = 0
            return .malformed
        }
        scalar = scalar << 6 | UInt32(byte & 0x3F)
        lowest = 0x80
        highest = 0xBF
        missing -= 1
        guard missing == 0 else {
            head.append(byte)
            return .none
        }
        // The bounds above leave no surrogate and nothing beyond U+10FFFF.
        return .print(Unicode.Scalar(scalar) ?? "\u{FFFD}")
    }

    // MARK: - What is begun

    /// Bytes that bring a parser at rest to where this one is.
    var pending: [UInt8] {
        let introducer: [UInt8] = [0x1B, state.rawValue >= State.dcsEntry.rawValue ? 0x50 : 0x5B]
        switch state {
        case .ground: return missing > 0 ? head : []
        case .escape, .escapeIntermediate: return [0x1B] + intermediateBytes
        case .csiEntry, .csiParameter, .csiIntermediate, .dcsEntry, .dcsParameter, .dcsIntermediate:
            return introducer + parameterBytes + intermediateBytes
        // A marker after a digit is what no sequence has.
        case .csiIgnore, .dcsIgnore: return introducer + [0x30, 0x3C]
        // A number that no command has, for what will be dropped.
        case .oscString: return [0x1B, 0x5D] + (stringOverflows ? Array("9999999;".utf8) : string)
        case .dcsPassthrough:
            guard !stringOverflows else { return introducer + [0x30, 0x3C] }
            return introducer + parameterBytes + intermediateBytes + [final] + string
        case .ignoredString: return [0x1B, 0x5F]
        }
    }

    private var intermediateBytes: [UInt8] {
        let bytes = [UInt8(intermediates & 0xFF), UInt8(intermediates >> 8 & 0xFF)].filter { $0 != 0 }
        return intermediateCount > 2 ? bytes + [0x20] : bytes
    }

    private var parameterBytes: [UInt8] {
        var bytes: [UInt8] = marker == 0 ? [] : [marker]
        for (index, parameter) in parameters.enumerated() {
            if index > 0 { bytes.append(colons & 1 << UInt32(index) != 0 ? 0x3A : 0x3B) }
            if parameter >= 0 { bytes += Array(String(parameter).utf8) }
        }
        if hasMoreParameters { bytes.append(0x3B) }
        return bytes
    }
}
