import GRDB
import KithCatalog

/// What an index of words is asked for a phrase.
enum PhrasePattern {
    /// The phrase as one of FTS5: its words one after the other, whatever signs are between them.
    static func pattern(_ phrase: String) -> String { "\"\(phrase.replacing("\"", with: " "))\"" }
}

/// What has to be known of the content of files for a condition, beside its narrowing.
struct ContentNeeds {
    /// The phrases that are asked for, also in negations.
    private(set) var phrases: Set<String> = []
    /// Those outside of negations: of them there is something to be shown.
    private(set) var shown: [String] = []
    /// True when properties are asked for.
    private(set) var properties = false

    init(_ condition: Condition) { note(condition, isNegated: false) }

    private mutating func note(_ condition: Condition, isNegated: Bool) {
        switch condition {
        case .everything: break
        case .all(let conditions), .any(let conditions):
            for condition in conditions { note(condition, isNegated: isNegated) }
        case .not(let condition): note(condition, isNegated: !isNegated)
        case .term(.content(let phrase)):
            phrases.insert(phrase)
            if !isNegated { shown.append(phrase) }
        case .term(.measure), .term(.camera), .term(.has), .term(.date(.taken, _)): properties = true
        case .term: break
        }
    }
}

/// What is known of the content of files, within one transaction.
struct ContentKnowledge {
    private var found: [String: Set<Int64>] = [:]
    private let needs: ContentNeeds
    private let database: Database

    init(_ needs: ContentNeeds, _ database: Database) throws {
        (self.needs, self.database) = (needs, database)
        for phrase in needs.phrases {
            found[phrase] = try Set(
                Int64.fetchAll(
                    database, sql: "SELECT rowid FROM text_index WHERE text_index MATCH ?",
                    arguments: [PhrasePattern.pattern(phrase)]))
        }
    }

    /// Notes what is known of an entry.
    func complete(_ subject: inout Subject, _ entry: Int64) throws {
        for (phrase, entries) in found where entries.contains(entry) { subject.phrases.insert(phrase) }
        guard needs.properties else { return }
        let row = try Row.fetchOne(
            database.cachedStatement(
                sql: """
                    SELECT width, height, duration, taken, camera, has_place, ifnull(extraction.text, 0) > 0
                    FROM extraction LEFT JOIN media USING (entry) WHERE entry = ?
                    """), arguments: [entry])
        guard let row else { return }
        for (index, measure) in [ContentMeasure.width, .height, .duration].enumerated() {
            if let number = row[index] as Int64? { subject.measures[measure] = UInt64(clamping: number) }
        }
        if let taken = row[3] as Int64? { subject.dates[.taken] = taken }
        subject.camera = row[4]
        if row[5] as Bool? == true { subject.features.insert(.gps) }
        if row[6] { subject.features.insert(.text) }
    }
}

/// A passage of the text of a file around what was found in it.
package struct Snippet: Hashable, Sendable {
    /// A run of it.
    package struct Part: Hashable, Sendable {
        package var text: String
        /// True for what was asked for.
        package var isHit: Bool
    }

    package var parts: [Part]

    /// The passage around the first of the phrases that is in the text of an entry; `nil` when none is.
    init?(of entry: Int64, _ phrases: [String], _ database: Database) throws {
        for phrase in phrases {
            // The marks are control characters, of which the text has none.
            let text = try String.fetchOne(
                database.cachedStatement(
                    sql: """
                        SELECT snippet(text_index, 0, char(2), char(3), char(8230), 16) FROM text_index
                        WHERE text_index MATCH ? AND rowid = ?
                        """), arguments: [PhrasePattern.pattern(phrase), entry])
            guard let text else { continue }
            self.init(marked: text)
            return
        }
        return nil
    }

    /// Takes apart a text in which hits stand between U+0002 and U+0003.
    init(marked text: String) {
        var (parts, run, isHit) = ([Part](), "", false)
        for scalar in text.prefix(4_096).unicodeScalars {
            switch scalar.value {
            case 2, 3:
                if !run.isEmpty { parts.append(Part(text: run, isHit: isHit)) }
                (run, isHit) = ("", scalar.value == 2)
            case 0x0A: run.unicodeScalars.append(" ")
            default: run.unicodeScalars.append(scalar)
            }
        }
        if !run.isEmpty { parts.append(Part(text: run, isHit: isHit)) }
        self.parts = parts
    }
}
