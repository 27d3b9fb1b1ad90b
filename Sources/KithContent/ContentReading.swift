/// What of a file's content is wanted.
package struct WantedContent: OptionSet, Hashable, Sendable {
    package let rawValue: UInt8
    package init(rawValue: UInt8) { self.rawValue = rawValue }

    /// The properties of an image, a film, sound or a document.
    package static let properties = WantedContent(rawValue: 1)
    /// The text of a document.
    package static let text = WantedContent(rawValue: 2)
    /// A small picture of an image.
    package static let thumbnail = WantedContent(rawValue: 4)
}

/// What was read of a file's content.
package struct ReadContent: Hashable, Sendable {
    package var properties = ContentProperties()
    /// The text of a document, at most ``ContentReading/textLimit`` bytes; `nil` when it has none.
    package var text: String?

    package init() {}
}

/// Reads what is in a file, by what it begins with: its name says nothing here.
package enum ContentReading {
    /// The most bytes of the text of one file.
    package static let textLimit = 4 << 20

    /// Reads properties and text of the formats that need no library: all but PDF.
    package static func read(_ source: any ByteSource, _ wanted: WantedContent) -> ReadContent {
        var result = ReadContent()
        if result.properties.readImage(source) || result.properties.readFilm(source) {
            result.properties = result.properties.plausible
            return result
        }
        result.properties = ContentProperties()
        var collector = TextCollector(limit: wanted.contains(.text) ? textLimit : 0)
        if source.little(0, 4) == 0x0403_4B50 {
            if let archive = ZipArchive(source) {
                result.properties.format = OfficeText.collect(archive, into: &collector, &result.properties)
            }
        } else if !isPDF(source), wanted.contains(.text) {
            readText(source, into: &collector, &result.properties)
        }
        result.properties = result.properties.plausible
        let text = collector.result
        result.text = text.isEmpty ? nil : text
        return result
    }

    /// Tells whether a file is a PDF: its mark may come a little later.
    package static func isPDF(_ source: any ByteSource) -> Bool {
        let head = source.bytes(at: 0, count: 1_024)
        let mark = Array("%PDF-".utf8)
        return head.indices.contains { head[$0] == mark[0] && head[$0...].starts(with: mark) }
    }

    private static func readText(
        _ source: any ByteSource, into collector: inout TextCollector, _ properties: inout ContentProperties
    ) {
        let bytes = source.bytes(at: 0, count: textLimit)
        guard let text = TextDecoding.text(bytes, isCut: source.size > UInt64(bytes.count)) else { return }
        let start = text.utf8.prefix(1_024).drop { $0 <= 0x20 || $0 >= 0x80 }
        let head = String(decoding: start, as: UTF8.self).lowercased()
        if head.hasPrefix("<!doctype html") || head.hasPrefix("<html") || head.contains("<html") && head.hasPrefix("<")
        {
            properties.format = "HTML"
            properties.title = MarkupText.collect(text, .html, into: &collector)
        } else if head.hasPrefix("<?xml") {
            properties.format = "XML"
            MarkupText.collect(text, head.contains("office:document") ? .openDocument : .xml, into: &collector)
        } else {
            collector.append(text)
        }
    }
}
