import KithPixels

/// Encodes and decodes text, scrolls, typing and a photograph, and checks each picture against its original.
func measureCodec(frames: Frames) {
    for isSmooth in [false, true] {
        var screens = Screens()
        let font = screens.font(isSmooth: isSmooth)
        let name = isSmooth ? "smooth text" : "text"
        var screen = screens.text(font: font)
        measureFirst(screen, name: name)
        measureScroll(name: name, first: &screen) { screens.scroll(&$0, font: font) }
        measureTyping(name: name, font: font, screen: &screen)
    }
    var screens = Screens()
    measureFirst(screens.photo(), name: "photograph")
    if var first = frames.picture(0) {
        measureFirst(first, name: "recorded screen")
        var index = 0
        measureScroll(name: "recorded screen", first: &first, steps: frames.count - 1) { picture in
            index += 1
            if let next = frames.picture(index) { picture.update(picture.size.bounds, from: next.view) }
        }
    }
}

private let damage = PixelRegion(Screens.size.bounds)

private func measureFirst(_ screen: borrowing PixelBuffer, name: String) {
    var bytes: [UInt8] = []
    let now = ContinuousClock.now
    let encoding = milliseconds(9) {
        var encoder = TileEncoder()
        bytes = encoder.encode(screen.view, at: now)?.bytes ?? []
    }
    var decoder = TileDecoder()
    let decoding = milliseconds(9) {
        do throws(TileError) { _ = try decoder.decode(bytes) } catch { fatalError("refused: \(error)") }
    }
    precondition(screen.hasSameColours(as: decoder.picture.view), "the picture is exact")
    row("\(name), whole screen encoded", encoding, "\(fixed(Double(bytes.count) / 1000, 1)) kB, exact")
    row("\(name), whole screen decoded", decoding)
}

private func measureScroll(
    name: String, first: inout PixelBuffer, steps: Int = 60, scroll: (inout PixelBuffer) -> Void
) {
    var encoder = TileEncoder()
    var decoder = TileDecoder()
    let now = ContinuousClock.now
    var (sizes, times, decodingTimes): ([Int], [Double], [Double]) = ([], [], [])
    for step in 0...steps {
        if step > 0 { scroll(&first) }
        let start = ContinuousClock.now
        encoder.damaged(damage)
        let message = encoder.encode(first.view, at: now)
        let encoded = ContinuousClock.now
        guard let message else { continue }
        do throws(TileError) { _ = try decoder.decode(message.bytes) } catch { fatalError("refused: \(error)") }
        let decoded = ContinuousClock.now
        precondition(first.hasSameColours(as: decoder.picture.view), "the picture is exact")
        if step == 0 { continue }
        sizes.append(message.bytes.count)
        times.append((encoded - start) / .milliseconds(1))
        decodingTimes.append((decoded - encoded) / .milliseconds(1))
    }
    let mean = Double(sizes.reduce(0, +)) / Double(max(1, sizes.count))
    let verdict = mean <= 5000 ? "goal 5 kB met" : "GOAL 5 kB MISSED"
    row(
        "\(name), scroll step encoded", times.min() ?? 0,
        "\(fixed(mean / 1000)) kB mean, \(fixed(Double(sizes.max() ?? 0) / 1000)) kB most, exact: \(verdict)")
    row("\(name), scroll step decoded", decodingTimes.min() ?? 0)
}

private func measureTyping(name: String, font: [[UInt8]], screen: inout PixelBuffer) {
    var encoder = TileEncoder()
    let now = ContinuousClock.now
    _ = encoder.encode(screen.view, at: now)
    var (bytes, times): (Int, [Double]) = (0, [])
    let typed = Array("a person types this line into a terminal, letter by letter.".utf8)
    for (column, letter) in typed.enumerated() {
        let place = PixelRectangle(x: 400 + column * 8, y: 512, width: 8, height: 16)
        Screens.draw([letter], at: place.y, in: &screen, font: font, from: place.x, columns: 1)
        let start = ContinuousClock.now
        encoder.damaged(PixelRegion(place))
        bytes += encoder.encode(screen.view, at: now)?.bytes.count ?? 0
        times.append((ContinuousClock.now - start) / .milliseconds(1))
    }
    row("\(name), a keystroke encoded", times.min() ?? 0, "\(bytes / typed.count) bytes mean, goal 1000")
}
