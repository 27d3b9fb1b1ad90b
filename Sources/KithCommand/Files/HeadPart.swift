import ArgumentParser
import Foundation
import KithAPI

/// Takes the first part of what comes.
struct HeadPart {
    private enum Rule {
        case lines(UInt64)
        case bytes(UInt64)
        case allButLines(UInt64)
        case allButBytes(UInt64)
    }

    private var rule: Rule
    /// The bytes that may still turn out to be among the last.
    private var held: [UInt8] = []
    /// The number of line ends in it.
    private var heldLines: UInt64 = 0

    init(lines: CountArgument, bytes: CountArgument?) {
        if let bytes {
            rule = bytes.sign == "-" ? .allButBytes(bytes.number) : .bytes(bytes.number)
        } else {
            rule = lines.sign == "-" ? .allButLines(lines.number) : .lines(lines.number)
        }
    }

    /// True when nothing more is wanted.
    var isDone: Bool {
        switch rule {
        case .lines(let left), .bytes(let left): left == 0
        case .allButLines, .allButBytes: false
        }
    }

    /// Returns the part of all that has come that can be printed now.
    mutating func take(_ chunk: [UInt8]) -> [UInt8] {
        switch rule {
        case .bytes(let left):
            let taken = min(left, UInt64(chunk.count))
            rule = .bytes(left - taken)
            return Array(chunk.prefix(Int(taken)))
        case .lines(var left):
            for (index, byte) in chunk.enumerated() where byte == UInt8(ascii: "\n") {
                left -= 1
                rule = .lines(left)
                if left == 0 { return Array(chunk[...index]) }
            }
            return chunk
        case .allButBytes(let count):
            held += chunk
            guard held.count > Int(clamping: count) else { return [] }
            defer { held.removeFirst(held.count - Int(count)) }
            return Array(held.dropLast(Int(count)))
        case .allButLines(let count):
            held += chunk
            heldLines += UInt64(chunk.count { $0 == UInt8(ascii: "\n") })
            if count == 0 {
                defer { held = [] }
                return held
            }
            return heldLines > count ? release(heldLines - count) : []
        }
    }

    /// Returns the part that can be printed once nothing more comes.
    mutating func finish() -> [UInt8] {
        guard case .allButLines(let count) = rule, let last = held.last, last != UInt8(ascii: "\n") else { return [] }
        // What stands behind the last line end is a line, too.
        return heldLines + 1 > count ? release(heldLines + 1 - count) : []
    }

    /// Takes the first `count` lines out of what is held.
    private mutating func release(_ count: UInt64) -> [UInt8] {
        var left = count
        for (index, byte) in held.enumerated() where byte == UInt8(ascii: "\n") {
            left -= 1
            guard left == 0 else { continue }
            defer {
                held.removeFirst(index + 1)
                heldLines -= count
            }
            return Array(held[...index])
        }
        return []
    }
}
