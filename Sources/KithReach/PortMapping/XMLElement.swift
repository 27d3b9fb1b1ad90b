package import KithWire

/// An element of a small XML document, as routers send them: its name without a prefix, its text, its children.
///
/// No more of XML than UPnP needs: attributes are passed over, and a document type is refused, so that there are no
/// entities but the five that XML itself has and those of numbers. Bounded in bytes, depth and elements.
package struct XMLElement: Hashable, Sendable {
    /// The most bytes of a document.
    package static let maxLength = 64 << 10
    /// The most elements inside each other.
    package static let maxDepth = 32
    /// The most elements.
    package static let maxElements = 2_048

    /// The name, without the prefix of its namespace.
    package let name: String
    /// The text directly inside, without white space around it.
    package fileprivate(set) var text = ""
    /// The elements directly inside.
    package fileprivate(set) var children: [XMLElement] = []

    /// The text of the first child of that name.
    package subscript(_ name: String) -> String? { children.first { $0.name == name }?.text }

    /// The element itself and all those inside it that have that name, outer ones first.
    package func all(_ wanted: String) -> [XMLElement] {
        (name == wanted ? [self] : []) + children.flatMap { $0.all(wanted) }
    }

    /// Reads a document.
    ///
    /// - Throws: `WireError` for what is not well-formed, is too large, or has a document type.
    package init(document: [UInt8]) throws(WireError) {
        guard document.count <= Self.maxLength else { throw .tooLong(limit: Self.maxLength, actual: document.count) }
        var parser = XMLParser(rest: document[...])
        self = try parser.document()
    }

    fileprivate init(name: String) { self.name = name }
}

/// Text as it stands in an element of XML.
func escapedForXML(_ text: String) -> String {
    var escaped = ""
    for scalar in text.unicodeScalars {
        switch scalar {
        case "&": escaped += "&amp;"
        case "<": escaped += "&lt;"
        case ">": escaped += "&gt;"
        default: escaped.unicodeScalars.append(scalar)
        }
    }
    return escaped
}

private struct XMLParser {
    /// An element that has begun, with the prefix of its name; its text so far.
    struct Open {
        let tag: ArraySlice<UInt8>
        var element: XMLElement
        var text: [UInt8] = []
    }

    var rest: ArraySlice<UInt8>
    var open: [Open] = []
    var elements = 0

    mutating func document() throws(WireError) -> XMLElement {
        if rest.starts(with: [0xEF, 0xBB, 0xBF]) { rest = rest.dropFirst(3) }
        while let first = rest.first {
            if first != UInt8(ascii: "<") {
                try text()
            } else if skips("<!--", to: "-->") || skips("<?", to: "?>") {
                continue
            } else if rest.starts(with: "<![CDATA[".utf8) {
                let inside = try take(through: "]]>", after: 9)
                guard !open.isEmpty else { throw .invalid("text stands inside an element") }
                open[open.count - 1].text += inside
            } else if rest.starts(with: "<!".utf8) {
                throw .invalid("a document type is not read")
            } else if let root = try tag() {
                return root
            }
        }
        throw .invalid("an element ends")
    }

    private mutating func skips(_ start: String, to end: String) -> Bool {
        guard rest.starts(with: start.utf8) else { return false }
        // One that does not end takes all there is, and the document has no end then.
        if (try? take(through: end, after: start.utf8.count)) == nil { rest = [] }
        return true
    }

    private mutating func take(through end: String, after skipped: Int) throws(WireError) -> ArraySlice<UInt8> {
        let mark = Array(end.utf8)
        let start = rest.startIndex + skipped
        var index = start
        while index + mark.count <= rest.endIndex {
            if rest[index..<index + mark.count].elementsEqual(mark) {
                defer { rest = rest[(index + mark.count)...] }
                return rest[start..<index]
            }
            index += 1
        }
        throw .invalid("what begins ends with \(end)")
    }

    private mutating func text() throws(WireError) {
        let end = rest.firstIndex(of: UInt8(ascii: "<")) ?? rest.endIndex
        let piece = rest[..<end]
        rest = rest[end...]
        guard !open.isEmpty else {
            guard piece.allSatisfy(isSpace) else { throw .invalid("text stands inside an element") }
            return
        }
        open[open.count - 1].text += try resolved(piece)
    }

    private func resolved(_ text: ArraySlice<UInt8>) throws(WireError) -> [UInt8] {
        var (rest, resolved) = (text, [UInt8]())
        while let mark = rest.firstIndex(of: UInt8(ascii: "&")) {
            resolved += rest[..<mark]
            guard let end = rest[mark...].prefix(12).firstIndex(of: UInt8(ascii: ";")) else {
                throw .invalid("an entity ends with ;")
            }
            let name = String(decoding: rest[(mark + 1)..<end], as: UTF8.self)
            resolved += try entity(name).utf8
            rest = rest[(end + 1)...]
        }
        return resolved + rest
    }

    private func entity(_ name: String) throws(WireError) -> String {
        switch name {
        case "amp": return "&"
        case "lt": return "<"
        case "gt": return ">"
        case "quot": return "\""
        case "apos": return "'"
        default:
            let number =
                name.hasPrefix("#x")
                ? UInt32(name.dropFirst(2), radix: 16) : name.hasPrefix("#") ? UInt32(name.dropFirst()) : nil
            guard let number, number != 0, let scalar = Unicode.Scalar(number) else {
                throw .invalid("no entity is known but those of XML itself")
            }
            return String(Character(scalar))
        }
    }

    /// Reads a tag; returns the document's element when that was its end.
    private mutating func tag() throws(WireError) -> XMLElement? {
        var index = rest.startIndex + 1
        var quote: UInt8?
        while index < rest.endIndex, quote != nil || rest[index] != UInt8(ascii: ">") {
            let byte = rest[index]
            if quote == byte {
                quote = nil
            } else if quote == nil, byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'") {
                quote = byte
            }
            index += 1
        }
        guard index < rest.endIndex else { throw .invalid("a tag ends with >") }
        var inside = rest[(rest.startIndex + 1)..<index]
        rest = rest[(index + 1)...]
        if inside.first == UInt8(ascii: "/") { return try close(inside.dropFirst().prefix { !isSpace($0) }) }
        let isEmpty = inside.last == UInt8(ascii: "/")
        if isEmpty { inside = inside.dropLast() }
        let tag = inside.prefix { !isSpace($0) }
        let name = tag.split(separator: UInt8(ascii: ":"), maxSplits: 1).last ?? []
        guard !name.isEmpty, name.count <= 128 else { throw .invalid("a name has 1 to 128 bytes") }
        guard open.count < XMLElement.maxDepth, elements < XMLElement.maxElements else {
            throw .tooLong(limit: XMLElement.maxElements, actual: elements + 1)
        }
        elements += 1
        open.append(Open(tag: tag, element: XMLElement(name: String(decoding: name, as: UTF8.self))))
        return isEmpty ? try close(tag) : nil
    }

    private mutating func close(_ tag: ArraySlice<UInt8>) throws(WireError) -> XMLElement? {
        guard var last = open.popLast(), last.tag.elementsEqual(tag) else {
            throw .invalid("elements end in the order they begin in")
        }
        let text = last.text.drop(while: isSpace)
        let end = text.lastIndex { !isSpace($0) }
        last.element.text = String(decoding: end.map { text[...$0] } ?? [], as: UTF8.self)
        guard !open.isEmpty else { return last.element }
        open[open.count - 1].element.children.append(last.element)
        return nil
    }
}

private func isSpace(_ byte: UInt8) -> Bool { byte == 32 || (9...13).contains(byte) }
