#if Screen && os(Linux) && canImport(CXCB)
import CXCB
package import KithAPI
import KithIO
package import KithWire

extension X11Source {
    package func clipboard(
        _ selection: ScreenClipboard.Selection, as format: ScreenClipboard.Format
    ) async throws(KithError) -> [UInt8] {
        let atom = try live().clipboards.atom(of: selection)
        for target in try live().clipboards.targets(of: format) {
            let read = try live().clipboards.read(atom, as: target)
            if let content = try await read.result.value().get() {
                return Self.normalized(content, format, isLatin1: target == XCB_ATOM_STRING.rawValue)
            }
        }
        throw KithError(.notFound, "The clipboard of \(name) has nothing in that format.")
    }

    package func offerClipboard(
        _ selection: ScreenClipboard.Selection, formats: [ScreenClipboard.Format],
        content: @escaping @Sendable (ScreenClipboard.Format) async throws -> [UInt8]
    ) async throws(KithError) {
        let clipboards = try live().clipboards
        let connection = clipboards.connection
        let atom = clipboards.atom(of: selection)
        if formats.isEmpty {
            guard clipboards.offers.removeValue(forKey: selection) != nil else { return }
            unsafe xcb_set_selection_owner(connection.raw, 0, atom, 0)
            connection.flush()
            return
        }
        clipboards.offers[selection] = X11Clipboards.Offer(formats: formats, content: content)
        unsafe xcb_set_selection_owner(connection.raw, clipboards.window, atom, 0)
        guard try clipboards.ownerWindow(of: selection) == clipboards.window else {
            clipboards.offers[selection] = nil
            throw KithError(.conflict, "Another program took the clipboard of \(name) at the same time.")
        }
    }

    /// Asks the new owner of a clipboard what it has, and tells of it.
    func describe(_ selection: ScreenClipboard.Selection) async {
        while let clipboards = session?.clipboards {
            var formats: [ScreenClipboard.Format] = []
            if let read = try? clipboards.read(
                clipboards.atom(of: selection), as: clipboards.connection.atoms[.targets]),
                case .success(let bytes?) = await read.result.value()
            {
                let names = stride(from: 0, to: bytes.count / 4 * 4, by: 4).map { start in
                    bytes[start..<start + 4].reversed().reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
                }
                formats = ScreenClipboard.Format.allCases.filter { format in
                    names.contains { session?.clipboards.format(of: $0) == format }
                }
            }
            clipboardChanged(selection, formats)
            if session?.clipboards.wasDescribed(selection) != true { return }
        }
    }

    /// Fetches what somebody pastes, and hands it over.
    func answerPaste(
        _ question: X11Clipboards.Question, _ format: ScreenClipboard.Format,
        _ content: @Sendable (ScreenClipboard.Format) async throws -> [UInt8]
    ) async {
        // Whoever pastes is told that there is nothing: X11 has no way to say why.
        let bytes = try? await content(format)
        session?.clipboards.answer(question, with: bytes)
    }

    /// Gives up what makes no progress; returns whether anything is left to look at.
    func sweepClipboards() -> Bool { session?.clipboards.sweep(at: .now) ?? false }

    /// The content as UTF-8, if it is text.
    static func normalized(_ content: [UInt8], _ format: ScreenClipboard.Format, isLatin1: Bool) -> [UInt8] {
        switch format {
        case .text where isLatin1: Array(String(String.UnicodeScalarView(content.map { Unicode.Scalar($0) })).utf8)
        case .html where content.starts(with: [0xFF, 0xFE]):
            // As Firefox writes it.
            Array(
                String(
                    decoding: stride(from: 2, to: content.count - 1, by: 2).map {
                        UInt16(content[$0]) | UInt16(content[$0 + 1]) << 8
                    }, as: UTF16.self
                ).utf8)
        default: content
        }
    }
}
#endif
