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
    /// Of a search by what fits best: how well it fits.
    var rank: Rank?

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

    init(order: String, values: [Value], rank: Rank? = nil) {
        (self.order, self.values, self.rank) = (order, values, rank)
    }
}
