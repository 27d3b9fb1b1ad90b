/// The text of documents that are ZIP archives of XML: ECMA-376 (docx, xlsx, pptx), OpenDocument, EPUB.
enum OfficeText {
    /// The most bytes that are unpacked of one part, and of all together.
    private static let (partLimit, totalLimit) = (24 << 20, 64 << 20)

    /// Appends the text of a document; returns the name of its format, `nil` when it is no document.
    static func collect(
        _ archive: ZipArchive, into collector: inout TextCollector, _ properties: inout ContentProperties
    ) -> String? {
        let kind = archive["mimetype"].map {
            String(decoding: archive.content(of: $0, limit: 256), as: UTF8.self)
        }
        var left = totalLimit
        func text(_ entry: ZipArchive.Entry) -> String {
            let bytes = archive.content(of: entry, limit: min(partLimit, left))
            // Packed or not: what was worth reading counts.
            left -= max(bytes.count, Int(min(entry.packedSize, UInt64(min(partLimit, max(left, 0))))))
            return TextDecoding.text(bytes) ?? ""
        }
        func collect(_ parts: [ZipArchive.Entry], _ rules: MarkupText.Rules, _ collector: inout TextCollector) {
            for part in parts where !collector.isFull && left > 0 {
                MarkupText.collect(text(part), rules, into: &collector)
                collector.append("\n")
            }
        }
        // The parts in the order of the numbers in their names: slide2 before slide10.
        func numbered(_ prefix: String, _ suffix: String = ".xml") -> [ZipArchive.Entry] {
            archive.entries.filter { $0.name.hasPrefix(prefix) && $0.name.hasSuffix(suffix) }.sorted {
                ($0.name.utf8.count, $0.name) < ($1.name.utf8.count, $1.name)
            }
        }
        if let core = archive["docProps/core.xml"] ?? archive["meta.xml"] {
            let text = text(core)
            properties.title = element("title", text)
            properties.author = element("creator", text) ?? element("initial-creator", text)
        }
        if let main = archive["word/document.xml"] {
            collect([main] + numbered("word/footnotes") + numbered("word/header"), .office, &collector)
            return "DOCX"
        }
        if archive["ppt/presentation.xml"] != nil {
            let slides = numbered("ppt/slides/slide")
            properties.pages = slides.count
            collect(slides + numbered("ppt/notesSlides/notesSlide"), .office, &collector)
            return "PPTX"
        }
        if archive["xl/workbook.xml"] != nil {
            collect(
                [archive["xl/sharedStrings.xml"]].compactMap(\.self) + numbered("xl/worksheets/sheet"), .office,
                &collector)
            return "XLSX"
        }
        if let kind, kind.hasPrefix("application/vnd.oasis.opendocument"), let main = archive["content.xml"] {
            collect([main], .openDocument, &collector)
            let formats = ["text": "ODT", "spreadsheet": "ODS", "presentation": "ODP"]
            return formats.first { kind.contains(".opendocument.\($0.key)") }?.value ?? "OpenDocument"
        }
        if let kind, kind.hasPrefix("application/epub+zip") {
            let pages = archive.entries.filter { entry in
                [".xhtml", ".html", ".htm"].contains { entry.name.lowercased().hasSuffix($0) }
            }
            if let package = archive.entries.first(where: { $0.name.hasSuffix(".opf") }) {
                let text = text(package)
                properties.title = element("title", text)
                properties.author = element("creator", text)
            }
            collect(pages, .html, &collector)
            return "EPUB"
        }
        return nil
    }

    /// The text of the first element of a name, with or without a prefix.
    private static func element(_ name: String, _ text: String) -> String? {
        let bytes = Array(text.utf8)
        let wanted = Array(name.utf8)
        var index = 0
        while let open = bytes[index...].firstIndex(of: UInt8(ascii: "<")) {
            index = open + 1
            guard let close = bytes[index...].firstIndex(of: UInt8(ascii: ">")) else { return nil }
            let head = bytes[index..<close]
            let first = head.prefix { $0 > 0x20 }
            let own = first.lastIndex(of: UInt8(ascii: ":")).map { first[($0 + 1)...] } ?? first
            index = close + 1
            guard own.elementsEqual(wanted) else { continue }
            let end = bytes[index...].firstIndex(of: UInt8(ascii: "<")) ?? bytes.count
            var collector = TextCollector(limit: ContentProperties.textLimit)
            MarkupText.collect(String(decoding: bytes[index..<end], as: UTF8.self), .html, into: &collector)
            return ContentProperties.plain(collector.result)
        }
        return nil
    }
}
