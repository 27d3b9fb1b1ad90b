#if Viewer && os(Linux) && canImport(CSDL2)
import CSDL2
import KithPixels
import KithWindow
import KithWire

/// The picture and what lies over it, drawn by SDL's renderer.
@safe final class SDLPainter {
    private let window: OpaquePointer
    private var renderer: OpaquePointer
    private var picture: SharedPictureReader?
    private var texture: OpaquePointer?
    private var pointer: OpaquePointer?
    private var text: TextPainter

    /// Makes a renderer for a window: the graphics card's, or one without.
    init(_ window: OpaquePointer, _ text: TextPainter) throws(KithError) {
        unsafe self.window = window
        self.text = text
        guard
            let renderer = unsafe SDL_CreateRenderer(window, -1, 0)
                ?? SDL_CreateRenderer(window, -1, SDL_RENDERER_SOFTWARE.rawValue)
        else { throw KithError(.unsupported, "This display cannot be drawn on: \(sdlError()).") }
        unsafe self.renderer = renderer
    }

    /// The size of what is drawn on, in pixels.
    var size: PixelSize {
        var (width, height): (Int32, Int32) = (0, 0)
        unsafe SDL_GetRendererOutputSize(renderer, &width, &height)
        return PixelSize(width: max(0, Int(width)), height: max(0, Int(height)))
    }

    // MARK: - What it has

    /// Takes over another picture.
    func setPicture(_ picture: SharedPictureReader) throws(KithError) {
        self.picture = picture
        if let texture = unsafe texture { unsafe SDL_DestroyTexture(texture) }
        unsafe texture = makeTexture(picture.size)
        if unsafe texture == nil {
            // Larger than the graphics card takes.
            try replaceRenderer()
            unsafe texture = makeTexture(picture.size)
        }
        guard unsafe texture != nil else {
            throw KithError(.unsupported, "A picture of that size cannot be drawn: \(sdlError()).")
        }
        update([picture.size.bounds])
    }

    /// Takes over changed parts of the picture.
    func update(_ rectangles: [PixelRectangle]) {
        guard let picture, let texture = unsafe texture else { return }
        for rectangle in rectangles where !rectangle.isEmpty {
            var area = sdl(rectangle)
            unsafe picture.withBytes(of: rectangle) { bytes, stride in
                _ = unsafe SDL_UpdateTexture(texture, &area, bytes.baseAddress, Int32(stride))
            }
        }
    }

    /// The size of the picture.
    var pictureSize: PixelSize? { picture?.size }

    /// Takes over the shape of the other device's pointer.
    func setPointer(_ shape: CursorShape?) {
        if let pointer = unsafe pointer { unsafe SDL_DestroyTexture(pointer) }
        unsafe pointer = nil
        guard let shape else { return }
        // SDL mixes colours that are not multiplied with their alpha.
        var pixels = shape.pixels.map(Self.straight)
        guard
            let made = unsafe SDL_CreateTexture(
                renderer, SDL_PIXELFORMAT_ARGB8888.rawValue, Int32(SDL_TEXTUREACCESS_STATIC.rawValue),
                Int32(shape.size.width), Int32(shape.size.height))
        else { return }
        unsafe SDL_SetTextureBlendMode(made, SDL_BLENDMODE_BLEND)
        unsafe SDL_UpdateTexture(made, nil, &pixels, Int32(shape.size.width * 4))
        unsafe pointer = made
    }

    /// Draws text in another size.
    func setText(_ text: TextPainter) {
        self.text.forget()
        self.text = text
    }

    /// Makes everything anew that the graphics card has lost.
    func restore() throws(KithError) {
        text.forget()
        if let picture { try setPicture(picture) }
    }

    // MARK: - Drawing

    /// Draws a scene and shows it.
    func draw(_ scene: WindowScene) {
        setColour(WindowScene.Colour.ground)
        unsafe SDL_RenderClear(renderer)
        if let place = scene.picture, let texture = unsafe texture {
            unsafe SDL_SetTextureScaleMode(texture, scene.isSharp ? SDL_ScaleModeNearest : SDL_ScaleModeLinear)
            var target = sdl(place)
            unsafe SDL_RenderCopy(renderer, texture, nil, &target)
        }
        for item in scene.items {
            switch item {
            case .fill(let rectangle, let colour):
                unsafe SDL_SetRenderDrawBlendMode(renderer, SDL_BLENDMODE_BLEND)
                setColour(colour)
                var area = sdl(rectangle)
                unsafe SDL_RenderFillRect(renderer, &area)
            case .text(let line, let x, let y, let colour):
                unsafe text.draw(line, x: x, y: y, colour: colour, on: renderer)
            case .pointer(let place):
                guard let pointer = unsafe pointer else { continue }
                var target = sdl(place)
                unsafe SDL_RenderCopy(renderer, pointer, nil, &target)
            }
        }
        unsafe SDL_RenderPresent(renderer)
    }

    private func makeTexture(_ size: PixelSize) -> OpaquePointer? {
        let made = unsafe SDL_CreateTexture(
            renderer, SDL_PIXELFORMAT_ARGB8888.rawValue, Int32(SDL_TEXTUREACCESS_STREAMING.rawValue),
            Int32(max(1, size.width)), Int32(max(1, size.height)))
        if let made = unsafe made { unsafe SDL_SetTextureBlendMode(made, SDL_BLENDMODE_NONE) }
        return unsafe made
    }

    private func replaceRenderer() throws(KithError) {
        text.forget()
        setPointer(nil)
        unsafe SDL_DestroyRenderer(renderer)
        guard let made = unsafe SDL_CreateRenderer(window, -1, SDL_RENDERER_SOFTWARE.rawValue) else {
            throw KithError(.unsupported, "This display cannot be drawn on: \(sdlError()).")
        }
        unsafe renderer = made
    }

    private func setColour(_ colour: UInt32) {
        unsafe SDL_SetRenderDrawColor(
            renderer, UInt8(truncatingIfNeeded: colour >> 16), UInt8(truncatingIfNeeded: colour >> 8),
            UInt8(truncatingIfNeeded: colour), UInt8(truncatingIfNeeded: colour >> 24))
    }

    private func sdl(_ rectangle: PixelRectangle) -> SDL_Rect {
        SDL_Rect(
            x: Int32(clamping: rectangle.x), y: Int32(clamping: rectangle.y), w: Int32(clamping: rectangle.width),
            h: Int32(clamping: rectangle.height))
    }

    private static func straight(_ pixel: UInt32) -> UInt32 {
        let alpha = pixel >> 24
        guard alpha > 0, alpha < 255 else { return pixel }
        func channel(_ shift: UInt32) -> UInt32 { min(255, (pixel >> shift & 0xFF) * 255 / alpha) << shift }
        return alpha << 24 | channel(16) | channel(8) | channel(0)
    }
}

/// What SDL says of its last failure.
func sdlError() -> String { unsafe String(cString: SDL_GetError()) }
#endif
