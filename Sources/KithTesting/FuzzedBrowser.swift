internal import KithBrowser
internal import KithContent
internal import KithTerminal

/// The browser's input from others: the terminal's keys, and the files of other devices.
enum FuzzedBrowser {
    /// The first byte says in what pieces the rest comes.
    static func input(_ bytes: [UInt8]) {
        guard let first = bytes.first else { return }
        let size = Int(first) % 17 + 1
        var (whole, pieces) = (InputDecoder(), InputDecoder())
        var events: [InputEvent] = []
        for start in stride(from: 1, to: bytes.count, by: size) {
            events += pieces.decode(bytes[start..<min(start + size, bytes.count)])
        }
        precondition(whole.decode(bytes.dropFirst()) == events, "The same, however it comes")
        for case .paste(let text) in events {
            precondition(text.count <= InputDecoder.pasteLimit, "A paste is bounded")
        }
        // Whatever came before: a paste is broken off, a sequence timed out, and a key is a key.
        for _ in 0..<2 {
            _ = pieces.timedOut()
            _ = pieces.decode([0x03])
        }
        precondition(pieces.decode([0x61]) == [.key(.scalar("a"))], "A key arrives")
    }

    static func preview(_ bytes: [UInt8]) {
        switch Preview(bytes: bytes, size: UInt64(bytes.count)) {
        case .text(let lines):
            for line in lines {
                let text = line.map(\.text).joined()
                precondition(text.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F }, "No controls")
                precondition(
                    VisibleText.rows(line, width: 20).allSatisfy { row in
                        CharacterWidth.columns(of: row.map(\.text).joined()) <= 20
                    }, "A row is no wider than it may be")
            }
        case .picture(let picture, _):
            precondition(picture.pixels.count == picture.width * picture.height * 3, "Three bytes a pixel")
            let fitted = picture.fitted(columns: 30, rows: 10)
            precondition(fitted.width <= 30 && fitted.height <= 20, "A picture fits")
        case .bytes(let bytes, _): precondition(bytes.count <= 4_096, "A dump is bounded")
        case .folder, .failure: break
        }
    }
}
