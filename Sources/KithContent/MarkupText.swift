/// Takes the text out of HTML and XML: forgiving, in one pass, without a tree and without entities of a document's own, so
/// that neither depth nor repetition costs anything.
struct MarkupText {
    /// Which of the text counts, and where lines end.
    struct Rules {
        /// The elements whose text counts, by the name without its prefix; empty: all.
        var within: Set<String> = []
        /// The elements after which a line ends.
        var lines: Set<String> = []
        /// The elements that stand for a blank.
        var blanks: Set<String> = []
        /// The elements whose content is no text.
        var skipped: Set<String> = []

        /// Of web pages.
        static let html = Rules(
            lines: [
                "address", "article", "aside", "blockquote", "br", "dd", "div", "dl", "dt", "fieldset", "figcaption",
                "figure", "footer", "form", "h1", "h2", "h3", "h4", "h5", "h6", "header", "hr", "li", "main", "nav",
                "ol",
                "option", "p", "pre", "section", "table", "td", "th", "title", "tr", "ul",
            ], skipped: ["script", "style", "template", "noscript", "svg"])
        /// Of documents of word processors (ECMA-376, `w:`), slides (`a:`) and shared strings of tables.
        static let office = Rules(
            within: ["t"], lines: ["p", "si", "tr", "br", "cr"], blanks: ["tab", "tc"],
            skipped: ["instrText", "delText"])
        /// Of documents in OpenDocument.
        static let openDocument = Rules(
            lines: ["p", "h", "table-cell", "line-break", "list-item"], blanks: ["s", "tab"],
            skipped: ["styles", "automatic-styles", "scripts", "font-face-decls", "binary-data"])
        /// Of any other XML.
        static let xml = Rules(lines: ["p", "title", "line"])
    }

    private let rules: Rules
    private let bytes: [UInt8]
    private var index = 0
    /// How many of the elements are open whose text counts.
    private var depth = 0
    private(set) var title: String?
    /// False from the first one on that has no partner: to look for each of them would take the square of the time.
    private var quotesCount = true

    /// Reads text in UTF-8.
    private init(_ text: String, _ rules: Rules) {
        bytes = Array(text.utf8)
        self.rules = rules
    }

    /// Appends the text of a document; returns what its `title` element says.
    @discardableResult
    static func collect(_ text: String, _ rules: Rules, into collector: inout TextCollector) -> String? {
        var markup = MarkupText(text, rules)
        markup.run(&collector)
        return markup.title
    }

    private mutating func run(_ collector: inout TextCollector) {
        while index < bytes.count, !collector.isFull {
            if bytes[index] == UInt8(ascii: "<") {
                tag(&collector)
            } else {
                let end = bytes[index...].firstIndex(of: UInt8(ascii: "<")) ?? bytes.count
                if rules.within.isEmpty || depth > 0 { text(index..<end, &collector) }
                index = end
            }
        }
    }

    private func starts(_ text: String) -> Bool {
        bytes.count - index >= text.utf8.count && bytes[index..<index + text.utf8.count].elementsEqual(text.utf8)
    }

    private mutating func skip(past end: String) {
        let wanted = Array(end.utf8)
        while index < bytes.count {
            guard let next = bytes[index...].firstIndex(of: wanted[0]) else { break }
            index = next
            if starts(end) {
                index += wanted.count
                return
            }
            index += 1
        }
        index = bytes.count
    }

    private mutating func tag(_ collector: inout TextCollector) {
        if starts("<!--") {
            index += 4
            return skip(past: "-->")
        }
        if starts("<![CDATA[") {
            let start = index + 9
            index = start
            skip(past: "]]>")
            if rules.within.isEmpty || depth > 0 {
                for scalar in String(decoding: bytes[start..<max(start, index - 3)], as: UTF8.self).unicodeScalars {
                    collector.append(scalar)
                }
            }
            return
        }
        let start = index + 1
        guard start < bytes.count, Self.isTag(bytes[start]) else {
            // A lone less-than sign.
            collector.append("<")
            index += 1
            return
        }
        // The end of the tag, beyond what is quoted in it.
        var (end, quote) = (start, UInt8(0))
        while end < bytes.count {
            let byte = bytes[end]
            if quote != 0 {
                if byte == quote { quote = 0 }
            } else if quotesCount, byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'") {
                quote = byte
            } else if byte == UInt8(ascii: ">") {
                break
            }
            end += 1
        }
        // One with a quotation mark too many ends at the first sign.
        if end >= bytes.count {
            quotesCount = false
            end = bytes[start...].firstIndex(of: UInt8(ascii: ">")) ?? bytes.count
        }
        let isEnd = bytes[start] == UInt8(ascii: "/")
        let isEmpty = end > start && bytes[end - 1] == UInt8(ascii: "/")
        let name = name(from: isEnd ? start + 1 : start, to: end)
        index = min(end + 1, bytes.count)
        if rules.lines.contains(name) { collector.append("\n") }
        if rules.blanks.contains(name) { collector.append(" ") }
        if !isEnd, !isEmpty, rules.skipped.contains(name) { return skipContent(of: name) }
        if rules.within.contains(name), !isEmpty { depth = max(0, depth + (isEnd ? -1 : 1)) }
        if name == "title", !isEnd, title == nil {
            let end = bytes[index...].firstIndex(of: UInt8(ascii: "<")) ?? bytes.count
            var own = TextCollector(limit: ContentProperties.textLimit)
            text(index..<end, &own)
            title = own.result
        }
    }

    private static func isTag(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "/") || byte == UInt8(ascii: "!") || byte == UInt8(ascii: "?")
            || (byte | 0x20) >= UInt8(ascii: "a") && (byte | 0x20) <= UInt8(ascii: "z")
    }

    /// The name of an element without its prefix, of at most 64 bytes.
    private func name(from start: Int, to end: Int) -> String {
        var name: [UInt8] = []
        for byte in bytes[min(start, end)..<end] {
            if byte == UInt8(ascii: ":") {
                name = []
                continue
            }
            guard byte > 0x20, byte != UInt8(ascii: "/"), name.count < 64 else { break }
            name.append(byte >= 0x41 && byte <= 0x5A && rules.within.isEmpty ? byte | 0x20 : byte)
        }
        return String(decoding: name, as: UTF8.self)
    }

    /// Goes behind the end of an element, as far as the next one of its name.
    private mutating func skipContent(of name: String) {
        let wanted = Array(name.utf8)
        while index < bytes.count {
            skip(past: "</")
            // With or without a prefix, in any case.
            var at = index
            for length in 0..<min(32, bytes.count - index) where bytes[index + length] == UInt8(ascii: ":") {
                at = index + length + 1
                break
            }
            for start in Set([index, at]) where bytes.count - start >= wanted.count {
                let found = bytes[start..<start + wanted.count]
                if zip(found, wanted).allSatisfy({ $0 == $1 || $0 | 0x20 == $1 | 0x20 }) {
                    return skip(past: ">")
                }
            }
        }
    }

    private static let entities: [String: Unicode.Scalar] = [
        "amp": "&", "lt": "<", "gt": ">", "quot": "\"", "apos": "'", "nbsp": "\u{A0}", "auml": "ä", "ouml": "ö",
        "uuml": "ü", "Auml": "Ä", "Ouml": "Ö", "Uuml": "Ü", "szlig": "ß", "eacute": "é", "egrave": "è", "ecirc": "ê",
        "agrave": "à", "aacute": "á", "acirc": "â", "ccedil": "ç", "ntilde": "ñ", "oacute": "ó", "ocirc": "ô",
        "iacute": "í", "uacute": "ú", "aring": "å", "aelig": "æ", "oslash": "ø", "euro": "€", "pound": "£",
        "copy": "©", "reg": "®", "trade": "™", "deg": "°", "hellip": "…", "ndash": "–", "mdash": "—", "lsquo": "‘",
        "rsquo": "’", "ldquo": "“", "rdquo": "”", "laquo": "«", "raquo": "»", "bull": "•", "middot": "·", "times": "×",
        "sect": "§", "para": "¶", "shy": "\u{AD}",
    ]

    private func text(_ range: Range<Int>, _ collector: inout TextCollector) {
        var start = range.lowerBound
        while start < range.upperBound, !collector.isFull {
            let entity = bytes[start..<range.upperBound].firstIndex(of: UInt8(ascii: "&")) ?? range.upperBound
            collector.append(String(decoding: bytes[start..<entity], as: UTF8.self))
            guard entity < range.upperBound else { return }
            let rest = bytes[(entity + 1)..<min(range.upperBound, entity + 12)]
            if let end = rest.firstIndex(of: UInt8(ascii: ";")), let scalar = Self.entity(rest[..<end]) {
                collector.append(scalar)
                start = end + 1
            } else {
                collector.append("&")
                start = entity + 1
            }
        }
    }

    private static func entity(_ name: ArraySlice<UInt8>) -> Unicode.Scalar? {
        let text = String(decoding: name, as: UTF8.self)
        guard text.hasPrefix("#") else { return entities[text] }
        let digits = text.dropFirst()
        let isHex = digits.first == "x" || digits.first == "X"
        return UInt32(isHex ? digits.dropFirst() : digits, radix: isHex ? 16 : 10).flatMap(Unicode.Scalar.init)
    }
}
