#if Viewer && os(Linux) && canImport(CSDL2)
import CSDL2
import KithWindow

/// Lines of text on a renderer, by SDL_ttf and a font of the system; without one there is no text in the window.
@safe final class TextPainter {
    private struct Line: Hashable {
        var text: String
        var colour: UInt32
    }

    /// A line that has been drawn.
    @safe private struct Texture {
        let raw: OpaquePointer

        init(_ raw: OpaquePointer) { unsafe self.raw = raw }
    }

    /// The fonts that are looked for, the best first.
    private static let paths = [
        "/usr/share/fonts/truetype/noto/NotoSans-Regular.ttf", "/usr/share/fonts/noto/NotoSans-Regular.ttf",
        "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf", "/usr/share/fonts/TTF/DejaVuSans.ttf",
        "/usr/share/fonts/dejavu-sans-fonts/DejaVuSans.ttf", "/usr/share/fonts/dejavu/DejaVuSans.ttf",
        "/usr/share/fonts/truetype/liberation/LiberationSans-Regular.ttf",
        "/usr/share/fonts/liberation-sans/LiberationSans-Regular.ttf",
        "/usr/share/fonts/truetype/freefont/FreeSans.ttf",
    ]

    private let font: OpaquePointer?
    private let scale: Int
    private var drawn: [Line: Texture] = [:]

    /// Opens a font for a display on which things are drawn so many times as large as on a plain one.
    init(scale: Int) {
        self.scale = scale
        unsafe font =
            TTF_Init() == 0
            ? Self.paths.lazy.compactMap { unsafe TTF_OpenFont($0, Int32(13 * scale)) }.first : nil
    }

    deinit { if let font = unsafe font { unsafe TTF_CloseFont(font) } }

    /// Its measures, for whoever puts things in their places.
    var measures: WindowFont { WindowFont(scale: scale, height: height) { [self] in width(of: $0) } }

    /// The height of a line in pixels.
    var height: Int { unsafe font.map { Int(unsafe TTF_FontHeight($0)) } ?? 16 }

    /// The width of a line in pixels.
    func width(of text: String) -> Int {
        var width: Int32 = 0
        guard let font = unsafe font, unsafe TTF_SizeUTF8(font, text, &width, nil) == 0 else { return text.count * 8 }
        return Int(width)
    }

    /// Draws a line.
    func draw(_ text: String, x: Int, y: Int, colour: UInt32, on renderer: OpaquePointer) {
        let line = Line(text: text, colour: colour)
        guard let texture = unsafe texture(line, renderer) else { return }
        var place = SDL_Rect(x: Int32(x), y: Int32(y), w: 0, h: 0)
        unsafe SDL_QueryTexture(texture, nil, nil, &place.w, &place.h)
        unsafe SDL_RenderCopy(renderer, texture, nil, &place)
    }

    /// Forgets what was drawn: the renderer has lost it, or another follows.
    func forget() {
        for texture in drawn.values { unsafe SDL_DestroyTexture(texture.raw) }
        drawn = [:]
    }

    private func texture(_ line: Line, _ renderer: OpaquePointer) -> OpaquePointer? {
        if let texture = drawn[line] { return unsafe texture.raw }
        // Numbers change every second; the words stay.
        if drawn.count > 128 { forget() }
        let colour = SDL_Color(
            r: UInt8(truncatingIfNeeded: line.colour >> 16), g: UInt8(truncatingIfNeeded: line.colour >> 8),
            b: UInt8(truncatingIfNeeded: line.colour), a: UInt8(truncatingIfNeeded: line.colour >> 24))
        guard !line.text.isEmpty, let font = unsafe font,
            let surface = unsafe TTF_RenderUTF8_Blended(font, line.text, colour)
        else { return nil }
        defer { unsafe SDL_FreeSurface(surface) }
        guard let texture = unsafe SDL_CreateTextureFromSurface(renderer, surface) else { return nil }
        drawn[line] = unsafe Texture(texture)
        return unsafe texture
    }
}
#endif
