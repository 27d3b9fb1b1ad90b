import Foundation
import GRDB
import KithCatalog

/// The order of what a search finds, and the place in it of each entry: as columns, the last of which no two share.
struct SearchOrder {
    /// A column, as an expression of SQL without `NULL`.
    struct Column {
        let sql: String
        let isDescending: Bool
        /// True for those with an index of their own, in whose order a table can be read.
        var isIndexed = false
    }

    let columns: [Column]
    /// The order as text: a place in another one is none in this.
    let name: String

    /// Makes the order of a query; without keys the one in which the index came to know the entries.
    init(_ keys: [SortKey]) {
        var columns: [Column] = []
        for key in keys {
            func add(_ sql: String, isIndexed: Bool = false) {
                columns.append(Column(sql: sql, isDescending: key.isDescending, isIndexed: isIndexed))
            }
            switch key.field {
            case .relevance: break
            // As bytes: what is not UTF-8 has a place, too.
            case .name: add("CAST(lower(CAST(entry.name AS TEXT)) AS BLOB)")
            case .path:
                add("folder.path", isIndexed: true)
                add("entry.name")
            case .size: add("entry.size", isIndexed: true)
            case .kind:
                add("entry.kind")
                add("CAST(entry.category AS BLOB)")
            case .ext: add("CAST(entry.extension AS BLOB)")
            case .modified: add("entry.modified", isIndexed: true)
            // Before all others where the file system does not say.
            case .created: add("ifnull(entry.created, -9223372036854775808)")
            // Numbers are given in the order of time.
            case .added: add("entry.id", isIndexed: true)
            case .rating: add("ifnull(annotation.rating, 0)")
            }
        }
        columns.append(
            Column(sql: "entry.id", isDescending: columns.last?.isDescending ?? false, isIndexed: columns.isEmpty))
        self.columns = columns
        name = keys.map { ($0.isDescending ? "-" : "") + $0.field.rawValue }.joined(separator: ",")
    }

    /// True when a table can be read in this order, and need not be sorted.
    var isIndexed: Bool { columns[0].isIndexed }

    var sql: String {
        columns.map { "\($0.sql) \($0.isDescending ? "DESC" : "ASC")" }.joined(separator: ", ")
    }

    /// Tells whether a place is before another one.
    func isBefore(_ left: [SearchPlace.Value], _ right: [SearchPlace.Value]) -> Bool {
        for ((column, left), right) in zip(zip(columns, left), right) where left != right {
            return column.isDescending ? right < left : left < right
        }
        return false
    }

    /// The condition that entries behind a place meet.
    func condition(behind place: [SearchPlace.Value]) -> (sql: String, arguments: [any DatabaseValueConvertible]) {
        var sql = ""
        var arguments: [any DatabaseValueConvertible] = []
        for (number, (column, value)) in zip(columns, place).enumerated() {
            let sign = column.isDescending ? "<" : ">"
            let isLast = number == columns.count - 1
            // The first part says what the second does, for an index to begin at.
            sql +=
                isLast
                ? "\(column.sql) \(sign) ?"
                : "(\(column.sql) \(sign)= ? AND (\(column.sql) \(sign) ? OR "
            arguments += Array(repeating: value.databaseValue, count: isLast ? 1 : 2)
        }
        return (sql + String(repeating: "))", count: columns.count - 1), arguments)
    }
}

/// The place of an entry in the answer to a search, from which another page goes on.
package struct SearchPlace: Codable, Hashable, Sendable {
    /// The value of a column of the order.
    enum Value: Codable, Hashable, Sendable, Comparable {
        case integer(Int64)
        case bytes(Data)

        static func < (left: Value, right: Value) -> Bool {
            switch (left, right) {
            case (.integer(let left), .integer(let right)): left < right
            case (.bytes(let left), .bytes(let right)): left.lexicographicallyPrecedes(right)
            case (.integer, .bytes): true
            case (.bytes, .integer): false
            }
        }

        var databaseValue: DatabaseValue {
            switch self {
            case .integer(let number): number.databaseValue
            case .bytes(let bytes): bytes.databaseValue
            }
        }
    }

    /// The order it is a place in.
    var order: String
    /// The values of its columns.
    var values: [Value]
    /// Of a search by what fits best: how well it fits, and the number of the last entry that was compared.
    var rank: Rank?
    var compared: Int64?

    /// The most bytes of its text.
    package static let textLimit = 24_576

    /// The text that stands for it; opaque to callers.
    package var text: String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .sortedKeys
        // Of numbers and bytes alone: it can be encoded.
        return (try? encoder.encode(self))?.base64EncodedString() ?? ""
    }

    /// Reads a text; `nil` when it stands for none.
    package init?(text: String) {
        guard text.utf8.count <= Self.textLimit, let data = Data(base64Encoded: text),
            let place = try? JSONDecoder().decode(Self.self, from: data)
        else { return nil }
        self = place
    }

    init(order: String, values: [Value], rank: Rank? = nil, compared: Int64? = nil) {
        (self.order, self.values, self.rank, self.compared) = (order, values, rank, compared)
    }
}

/// How well the name of an entry fits the words of a query; the least fits best.
struct Rank: Comparable, Hashable, Codable, Sendable {
    /// How well it fits, whatever its length; the least is best.
    var fit: Int { place }
    private let place: Int
    private let length: Int
    private let folder: Int
    private let id: Int64

    init(_ entry: FoundEntry, _ words: [String]) {
        let name = Array(foldedName(entry.name).utf8)
        place = words.map { Self.place(of: Array($0.utf8), in: name) }.reduce(0, +)
        (length, folder, id) = (entry.name.count, entry.folder.count, entry.id)
    }

    private static func place(of wanted: [UInt8], in text: [UInt8]) -> Int {
        guard !wanted.isEmpty, text.count >= wanted.count else { return 4 }
        if text.starts(with: wanted) {
            if text.count == wanted.count { return 0 }
            return text[wanted.count] == UInt8(ascii: ".") ? 1 : 2
        }
        // At the beginning of a word: after what is neither a letter nor a digit.
        for start in 1..<max(text.count - wanted.count + 1, 1)
        where text[start] == wanted[0] && !Self.isWordByte(text[start - 1]) && text[start...].starts(with: wanted) {
            return 3
        }
        return 4
    }

    private static func isWordByte(_ byte: UInt8) -> Bool {
        byte >= 0x80 || byte >= 0x30 && byte <= 0x39 || byte >= 0x61 && byte <= 0x7A
    }

    static func < (left: Rank, right: Rank) -> Bool {
        (left.place, left.length, left.folder, left.id) < (right.place, right.length, right.folder, right.id)
    }
}
