import KithTesting

/// Random output of programs, with a seed.
struct TerminalOutput {
    var random: SeededRandom

    init(seed: UInt64) { random = SeededRandom(seed: seed) }

    private mutating func number(_ range: ClosedRange<Int>) -> Int { Int.random(in: range, using: &random) }
    private mutating func pick<Element>(_ all: [Element]) -> Element { all[number(0...all.count - 1)] }

    /// Bytes that mean mostly nothing.
    mutating func noise(_ count: Int) -> [UInt8] {
        let frequent: [UInt8] = Array(
            "\u{1B}\u{1B}\u{1B}[[[;;;0123456789?>=!$ 'mhlHJKrABCDSTLMPX@\\]P_^()#\r\n\t\u{8}\u{7}\u{18}".utf8)
        return (0..<count).map { _ in number(0...3) == 0 ? UInt8(number(0...255)) : pick(frequent) }
    }

    /// Text and sequences as programs write them; `all` says also what tmux does otherwise than xterm.
    mutating func sequences(_ count: Int, columns: Int, rows: Int, all: Bool = true) -> [UInt8] {
        var bytes: [UInt8] = []
        for _ in 0..<count { bytes += Array(sequence(columns: columns, rows: rows, all: all).utf8) }
        return bytes
    }

    private mutating func sequence(columns: Int, rows: Int, all: Bool) -> String {
        let small = number(1...5)
        switch number(0...(all ? 44 : 28)) {
        case 0...4:
            guard !all else { return word() }
            return "\u{1B}[\(number(1...rows));\(number(1...columns - 16))H"
                + pick(["kith", "laptop:/srv", "01234", "é→ß"])
        case 5: return "\r\n"
        case 6: return String(repeating: pick(["x", "-", "="]), count: number(1...columns + 10)) + "\r"
        case 7: return "\u{1B}[\(number(1...rows));\(number(1...columns))H"
        case 8, 9: return all ? style() : style().replacing("53", with: "1")
        case 10: return "\u{1B}[\(pick(["", "0", "1", "2"]))K"
        case 11: return "\u{1B}[\(pick(["", "0", "1"]))J"
        case 12: return "\u{1B}[\(small)\(pick(["A", "B", "C", "D", "G", "d"]))"
        case 13: return "\u{1B}[\(small)X"
        case 14: return "\u{1B}[\(small)@"
        case 15: return "\u{1B}[\(small)P"
        case 16: return (all ? "" : "\u{1B}[r\u{1B}[\(small)H") + "\u{1B}[\(small)L" + (all ? "" : "\r")
        case 17: return (all ? "" : "\u{1B}[r\u{1B}[\(small)H") + "\u{1B}[\(small)M" + (all ? "" : "\r")
        case 18:
            let top = number(1...max(1, rows - 1))
            return "\u{1B}[\(top);\(number(min(top + 1, rows)...rows))r"
        case 19: return "\u{1B}[r"
        case 20: return "\u{1B}M"
        case 21: return "\u{1B}D"
        case 22: return "\t"
        case 23: return all ? "\u{1B}7" : "\r\u{1B}7"
        case 24: return "\u{1B}8"
        case 25: return "\u{1B}(0lqk\u{1B}(B"
        case 26: return "\r"
        case 27: return "\n"
        case 28: return "\u{8}"
        case 29: return "\u{1B}[?\(pick([1, 5, 6, 7, 12, 25, 66, 1004, 1007, 2004, 2026]))\(pick(["h", "l"]))"
        case 30: return "\u{1B}[?\(pick([9, 1000, 1002, 1003, 1005, 1006, 1015, 1016]))\(pick(["h", "l"]))"
        case 31: return "\u{1B}[?\(pick([47, 1047, 1048, 1049]))\(pick(["h", "l"]))"
        case 32: return "\u{1B}[\(pick([4, 20]))\(pick(["h", "l"]))"
        case 33: return "\u{1B}]\(pick([0, 1, 2]));\(word())\u{7}"
        case 34: return "\u{1B}]8;\(pick(["", "id=a"]));\(pick(["", "https://kith.example/\(small)"]))\u{1B}\\"
        case 35: return "\u{1B}H"
        case 36: return pick(["\u{1B}[g", "\u{1B}[22;0t", "\u{1B}[23;0t", "\u{E}", "\u{F}", "\u{1B})0", "\u{1B}n"])
        case 37: return "\u{1B}[\(number(0...6)) q"
        case 38: return pick(["\u{1B}[!p", "\u{1B}#8", "\u{1B}c", "\u{1B}[3J", "\u{1B}[2J"])
        case 39: return "\u{1B}[\(small)\(pick(["S", "T", "b", "I", "Z"]))"
        case 40: return pick(["\u{1B}=", "\u{1B}>", "\u{1B}[>4;2m", "\u{1B}[>4m", "\u{1B}N", "\u{1B}O"])
        case 41: return pick(["\u{1B}[>5u", "\u{1B}[<u", "\u{1B}[=3;1u", "\u{1B}[<9u"])
        case 42:
            return pick([
                "\u{1B}]4;7;rgb:12/34/56\u{7}", "\u{1B}]104\u{7}", "\u{1B}]11;#123456\u{7}", "\u{1B}]111\u{7}",
            ])
        case 43: return "\u{1B}[\(rows);\(columns)H\(word())"
        default: return "\u{1B}[\(number(1...rows));\(columns)H\(pick(["x", "語", "yz"]))"
        }
    }

    private mutating func word() -> String {
        pick(["kith", "a", "laptop:/srv ", "0123456789", "  ", "e\u{301}tude", "日本語", "→", "naïve", "語", "😀", "ß"])
    }

    private mutating func style() -> String {
        let codes = [
            "", "0", "1", "2", "3", "4", "4:3", "5", "7", "8", "9", "21", "22", "24", "27", "31", "42", "39", "49",
            "93",
            "104", "38;5;200", "48;5;17", "38;2;1;2;3", "48;2;250;128;0", "38:2::9:8:7", "58:5:9", "58:2::1:2:3", "59",
            "53",
        ]
        return "\u{1B}[\((0..<number(1...3)).map { _ in pick(codes) }.joined(separator: ";"))m"
    }
}
