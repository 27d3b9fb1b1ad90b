import Foundation
import KithRPC
import KithWire
import Testing

@Suite struct `Data in a message` {
    private struct Picture: Codable, Equatable {
        var pixels: Data
        var mask: Data?
        var frames: [Data]
    }

    /// The number of bytes of the head before so many.
    private static func head(_ count: Int) -> Int { count < 24 ? 1 : count < 256 ? 2 : count < 65_536 ? 3 : 5 }

    @Test(arguments: [0, 1, 23, 24, 255, 256, 65_535, 65_536, 1_000_000])
    func `takes its own size in CBOR, beside its head`(count: Int) throws {
        let data = Data((0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ 200) })
        let bytes = try CBOREncoder().encode(data)
        #expect(bytes.count == count + Self.head(count))
        #expect(bytes == (try CBOREncoder().encode(ByteString([UInt8](data)))))
        #expect(try CBORDecoder().decode(Data.self, from: bytes) == data)
        #expect(try CBORDecoder().decode(ByteString.self, from: bytes).bytes == [UInt8](data))
    }

    @Test func `does so wherever it stands, and a part of another as well`() throws {
        let whole = Data(0...255)
        let picture = Picture(pixels: whole[200...], mask: nil, frames: [Data(), whole, Data([255])])
        let bytes = try CBOREncoder().encode(picture)
        #expect(try CBORDecoder().decode(Picture.self, from: bytes) == picture)
        #expect(bytes.count < 56 + 256 + 1 + 40)
        var masked = picture
        masked.mask = whole
        #expect(try CBORDecoder().decode(Picture.self, from: CBOREncoder().encode(masked)) == masked)
        #expect(try CBOREncoder().encode(masked).count < bytes.count + 256 + 10)
    }

    @Test func `is base64 in JSON, as ByteString is`() throws {
        let data = Data([0, 255, 7])
        let json = try JSONText(encoding: ["bytes": data]).bytes
        #expect(json == (try JSONText(encoding: ["bytes": ByteString([0, 255, 7])]).bytes))
        #expect(try JSONText.decode([String: Data].self, from: json) == ["bytes": data])
    }

    @Test func `is not read from what is no byte string of one piece`() {
        // A list of numbers, text, and a byte string without an end.
        for bytes: [UInt8] in [[0x62, 0x68, 0x69], [0x5F, 0x41, 0x01, 0xFF], [0xA0]] {
            #expect(throws: KithError.self) { try CBORDecoder().decode(Data.self, from: bytes) }
        }
    }

    @Test func `is written as numbers only where its type is a list of them`() throws {
        // `[UInt8]` is a list like any other: messages are made of ByteString.
        #expect(try CBOREncoder().encode([UInt8(1), 200]) == [0x82, 0x01, 0x18, 0xC8])
    }
}
