import KithAPI
import KithIO
import KithRFB
import KithWire
import Synchronization

extension RFBDisplay {
    /// The clipboard of the viewers, for ``ScreenViewer``: that of the one which copied something last.
    ///
    /// The protocol knows no selection other than what was copied, and no images.
    package var clipboard: ClipboardLink.Local {
        ClipboardLink.Local(
            read: { [weak self] selection, format in
                guard let self, selection == .clipboard, let format = RFBClipboardFormats(format) else {
                    throw KithError(.notFound, "The viewer's clipboard has nothing in that format.")
                }
                return try await self.content(format)
            },
            announce: { [weak self] selection, formats, content in
                guard let self, selection == .clipboard else { return }
                let wanted = formats.filter { RFBClipboardFormats($0) != nil }
                guard !wanted.isEmpty else { return }
                self.state.withLock { $0.announced = Announcement(formats: wanted, content: content) }
                self.announcement.yield()
            })
    }

    /// Notes what a viewer has copied, and offers it to the screen.
    func copied(
        _ contents: RFBClipboard?, _ formats: RFBClipboardFormats, by viewer: RFBViewer, _ session: ScreenViewer
    ) {
        guard !formats.forScreens.isEmpty else { return }
        let isNew = state.withLock { state in
            guard state.isActive, state.permissions.clipboard else { return false }
            // Viewers repeat what they were offered themselves.
            if let contents, contents.text != nil, contents.text == state.pasted?.text { return false }
            state.copied = (viewer.number, contents)
            return true
        }
        if isNew { session.offerClipboard(.clipboard, formats.forScreens) }
    }

    private func content(_ format: RFBClipboardFormats) async throws -> [UInt8] {
        let (contents, viewer) = state.withLock { state in
            (state.copied?.contents, state.copied.flatMap { state.viewers[$0.viewer] })
        }
        let found = if contents != nil { contents } else { try await viewer?.fetch(format) }
        guard let bytes = found?.content(format) else {
            throw KithError(.notFound, "The viewer's clipboard has nothing in that format.")
        }
        return bytes
    }

    /// Fetches what the screen announces, while there is a viewer to offer it to: viewers want the content at once.
    func fetchAnnounced() async {
        for await _ in announcements {
            let announced = state.withLock { state -> Announcement? in
                guard state.viewers.values.contains(where: \.isAdmitted) else { return nil }
                return state.announced.take()
            }
            guard let announced else { continue }
            var contents = RFBClipboard()
            for format in announced.formats {
                // A content that cannot be had is left out: the viewers keep what they have.
                guard let bytes = try? await announced.content(format) else { continue }
                if format == .text { contents.text = String(decoding: bytes, as: UTF8.self) }
                if format == .html { contents.html = String(decoding: bytes, as: UTF8.self) }
            }
            guard !contents.formats.isEmpty else { continue }
            let viewers = state.withLock { state in
                state.pasted = contents
                state.copied = nil
                return Array(state.viewers.values)
            }
            for viewer in viewers where viewer.isAdmitted { viewer.offer(contents) }
        }
    }
}
