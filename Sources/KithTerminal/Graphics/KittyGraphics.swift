import KithWire

/// The commands of kitty's graphics protocol.
enum KittyGraphics {
    /// The most bytes of one command's content.
    private static let chunk = 4_096
    /// The name of the one picture that is shown.
    private static let number = 4_212

    /// Shows a picture in so many cells from the cursor on, which stays; the terminal scales it.
    static func shown(_ image: TerminalImage, columns: Int, rows: Int) -> [UInt8] {
        let content = Array(Base64.encode(image.pixels).utf8)
        var bytes: [UInt8] = []
        var start = 0
        repeat {
            let end = min(start + chunk, content.count)
            let more = end < content.count ? 1 : 0
            let head =
                start == 0
                ? "a=T,f=24,i=\(number),s=\(image.width),v=\(image.height),c=\(columns),r=\(rows),C=1,q=2,m=\(more)"
                : "q=2,m=\(more)"
            bytes += Array("\u{1B}_G\(head);".utf8) + content[start..<end] + Array("\u{1B}\\".utf8)
            start = end
        } while start < content.count
        return bytes
    }

    /// Takes it away, and its data.
    static let removed = Array("\u{1B}_Ga=d,d=I,i=\(number),q=2\u{1B}\\".utf8)
}
