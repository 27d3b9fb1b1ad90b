/// The picture that `xwd` writes: what other programs see.
package struct XWDPicture: Hashable {
    package let width: Int
    package let height: Int
    /// Blue, green, red and 0xFF.
    package let pixels: [UInt8]

    /// Reads version 7 with 32 bits a pixel; a header of numbers whose highest byte comes first, then colours, then rows.
    package init(_ file: [UInt8]) throws {
        func number(_ index: Int) -> Int { file[index * 4..<index * 4 + 4].reduce(0) { $0 << 8 | Int($1) } }
        guard file.count > 100, number(1) == 7, number(11) == 32, number(7) == 0 else { throw Unknown() }
        (width, height) = (number(4), number(5))
        let (rowBytes, start) = (number(12), number(0) + number(19) * 12)
        var pixels: [UInt8] = []
        for row in 0..<height {
            for column in 0..<width {
                let place = start + row * rowBytes + column * 4
                pixels += file[place..<place + 3] + [0xFF]
            }
        }
        self.pixels = pixels
    }

    /// The pixels of a part of it, row by row.
    package func part(_ x: Int, _ y: Int, _ width: Int, _ height: Int) -> [UInt8] {
        var part: [UInt8] = []
        for row in y..<y + height {
            let start = (row * self.width + x) * 4
            part += pixels[start..<start + width * 4]
        }
        return part
    }

    package struct Unknown: Error {}
}
