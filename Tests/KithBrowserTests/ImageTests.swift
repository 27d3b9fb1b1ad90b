import Foundation
import KithContent
import KithTesting
import Testing

@testable import KithBrowser

@Suite struct ImageTests {
    /// An image of 9 by 7 pixels, and its colours as Pillow 13 decodes it, over the background of the previews.
    struct Vector: Sendable, CustomTestStringConvertible {
        var name: String
        var file: String
        var pixels: String
        var testDescription: String { name }
    }

    // Made by Pillow, or by hand with Python's zlib where Pillow writes no such file.
    static let vectors = [
        Vector(
            name: "grey of 8 bits, by Pillow",
            file: """
                iVBORw0KGgoAAAANSUhEUgAAAAkAAAAHCAAAAAD/8Di8AAAAEklEQVR4nGNkkIECJkYYIJ0FAED0ASRGaBBpAAAAAElFTkSu\
                QmCC
                """,
            pixels: """
                AAAAHBwcODg4VFRUcHBwjIyMqKioxMTE4ODgAQEBHR0dOTk5VVVVcXFxjY2NqampxcXF4eHhAgICHh4eOjo6VlZWcnJyjo6O\
                qqqqxsbG4uLiAwMDHx8fOzs7V1dXc3Nzj4+Pq6urx8fH4+PjBAQEICAgPDw8WFhYdHR0kJCQrKysyMjI5OTkBQUFISEhPT09\
                WVlZdXV1kZGRra2tycnJ5eXlBgYGIiIiPj4+WlpadnZ2kpKSrq6uysrK5ubm
                """),
        Vector(
            name: "black and white, by Pillow",
            file: """
                iVBORw0KGgoAAAANSUhEUgAAAAkAAAAHAQAAAADy4FrNAAAAEUlEQVR4nGMIZWBcdY0BlQQAPdMF2NKYk/cAAAAASUVORK5C\
                YII=
                """,
            pixels: """
                AAAA////AAAA////AAAA////AAAA////AAAA////AAAA////AAAA////AAAA////AAAA////AAAA////AAAA////AAAA////\
                AAAA////AAAA////AAAA////AAAA////AAAA////AAAA////AAAA////AAAA////AAAA////AAAA////AAAA////AAAA////\
                AAAA////AAAA////AAAA////AAAA////AAAA////AAAA////AAAA////AAAA
                """),
        Vector(
            name: "colours of 8 bits, by Pillow",
            file: """
                iVBORw0KGgoAAAANSUhEUgAAAAkAAAAHCAIAAABV+fA3AAAALklEQVR4nGNkYGCQwYFYGFQYGBiYsSK4HBsmQpbjRENocjzI\
                CFOOH46wyglBEABZ1ANh/rFh6wAAAABJRU5ErkJggg==
                """,
            pixels: """
                AAAAHAAAOAAAVAAAcAAAjAAAqAAAxAAA4AAAACQAHCQDOCQGVCQJcCQMjCQPqCQSxCQV4CQYAEgAHEgGOEgMVEgScEgYjEge\
                qEgkxEgq4EgwAGwAHGwJOGwSVGwbcGwkjGwtqGw2xGw/4GxIAJAAHJAMOJAYVJAkcJAwjJA8qJBIxJBU4JBgALQAHLQPOLQe\
                VLQtcLQ8jLRLqLRaxLRp4LR4ANgAHNgSONgkVNg2cNhIjNhaqNhsxNh+4NiQ
                """),
        Vector(
            name: "colours with transparency, by Pillow",
            file: """
                iVBORw0KGgoAAAANSUhEUgAAAAkAAAAHCAYAAADam2dgAAAAIUlEQVR4nGNkYDjBIMPAII8PszCoMHAyMODHg1ARcQ4HAMyo\
                BY6J00hIAAAAAElFTkSuQmCC
                """,
            pixels: """
                ICAgHxw0JRhIMhRdRhBxYQyGgwiaqwSu2gDDHiAlHyA6JiFONCFjSSJ3ZSKMiCOgsSO0ICAgHSIrHydAJyxUNjFpTDZ9aTuR\
                jECmt0S6JyEmHCgxHzFGKDpaOENvT02DbVaXkV+svGjALiUsGy83Hj1MKUtgOlh0UmaJcHOdloGywo/GNSwyGjo9HkxSKl5m\
                PHB6VYKPdJSjm6a4IyMjOzU4GUZDHl1YKnNsPYqAV6CVeLapoM2+KSopQkE+
                """),
        Vector(
            name: "grey with transparency, by Pillow",
            file: """
                iVBORw0KGgoAAAANSUhEUgAAAAkAAAAHCAQAAABwkq/rAAAAFUlEQVR4nGNkYJBBgywMKgxogMZCAKlSAdIkMrIXAAAAAElF\
                TkSuQmCC
                """,
            pixels: """
                ICAgICAgICAgICAgICAgICAgICAgICAgICAgGxsbHx8fIyMjJycnKysrLy8vMzMzNzc3Ozs7FhYWHh4eJiYmLi4uNjY2Pj4+\
                RkZGTk5OVlZWEhISHh4eKioqNjY2QUFBTU1NWVlZZWVlcXFxDQ0NHR0dLS0tPT09TU1NXFxcbGxsfHx8jIyMCQkJHR0dMDAw\
                REREWFhYbGxsgICAk5OTp6enBAQEHBwcNDQ0TExMY2Nje3t7k5OTqqqqwsLC
                """),
        Vector(
            name: "a palette with a clear entry, by Pillow",
            file: """
                iVBORw0KGgoAAAANSUhEUgAAAAkAAAAHBAMAAAAotXpTAAAAElBMVEWotFqobDYqtBcqbA6oJBIqJAVXcMNyAAAAA3RSTlP/\
                /wDXyg1BAAAAKklEQVR4nCXJQQkAIBQFsPmxorEFE1jhFVDw4K5rQ5wCZburb5MuoiL8ffHRCmTMlp5aAAAAAElFTkSuQmCC
                """,
            pixels: """
                KiQFKiQFKiQFKiQFqCQSqCQSqCQSqCQSqCQSKiQFKiQFKiQFKiQFqCQSqCQSqCQSqCQSqCQSKiQFKiQFKmwOKmwOqCQSqCQS\
                qCQSqGw2qGw2KmwOKmwOKmwOKmwOqGw2qGw2qGw2qGw2qGw2KmwOKmwOICAgICAgqGw2qGw2qLRaqLRaqLRaICAgICAgICAg\
                ICAgqLRaqLRaqLRaqLRaqLRaICAgICAgICAgICAgqLRaqLRaqLRaqLRaqLRa
                """),
        Vector(
            name: "a palette of 4 bits, interlaced",
            file: """
                iVBORw0KGgoAAAANSUhEUgAAAAkAAAAHBAMAAAFfskrFAAAAMFBMVEUA/wAR9TUi62oz4Z9E19RVzQlmwz53uXOIr6iZpd2q\
                mxK7kUfMh3zdfbHuc+b/aRtFGNp8AAAAAnRSTlMAgJsrThgAAAA4SURBVHjaY+BgcGDoYWBQY1zH4NZ1gPGciR2DcDhjuAuT\
                iwvzJBMGZdf0zgWM6UpKSsJAERcTBwAGMQrv7YvJWQAAAABJRU5ErkJggg==
                """,
            pixels: """
                ICAgGIoqIutqM+GfRNfUVc0JZsM+d7lziK+oIutqM+GfRNfUVc0JZsM+d7lziK+omaXdqpsSRNfUVc0JZsM+d7lziK+omaXd\
                qpsSu5FHzId8ZsM+d7lziK+omaXdqpsSu5FHzId83X2x7nPmiK+omaXdqpsSu5FHzId83X2x7nPm/2kbICAgqpsSu5FHzId8\
                3X2x7nPm/2kbICAgGIoqIutqzId83X2x7nPm/2kbICAgGIoqIutqM+GfRNfU
                """),
        Vector(
            name: "colours of 16 bits, interlaced",
            file: """
                iVBORw0KGgoAAAANSUhEUgAAAAkAAAAHEAIAAAFybhziAAABDUlEQVR42mNgAINbB8BUbgKEy9CzAMTpWWDx4daBngWFDxjM\
                NoCElwiASEazDT0LZCrygIotPwD5bgEMQHm3AD6b3AS3AJmKJQJuAVpbbh1wC7D4wMjAcOkDA1i71hZzIKkNJSEiDNIRIBOD\
                OEBkxw4QuT8DbId0hFsAuxxILZ+NGZiEsJlA9rHLgUjRKBCpMg1EGl1i5tPpWcBnI3NDWUOxXTpCWUN9KYitfxhomrIGAwNI\
                iLnfbIOyBrtcEIeyBtfa3ARlDT6bjh3KGoKnlwgoa4hG7c9Q1pB4eeuAsoZMBdDlmRUMYAdyrQWR3GtlwCR+ESZIeCBcyWeD\
                cKtsBYhUBrsY6Hmwu0Gk5QcAx6xazBzLlWMAAAAASUVORK5CYII=
                """,
            pixels: """
                AAAAGwAANgAAUQAAbAAAiAAAowAAvgAA2QAAACMAGyMDNiMHUSMKbCMOiCMRoyMVviMY2SMcAEYAG0YHNkYOUUYVbEYciEYj\
                o0YqvkYx2UY4AGkAG2kKNmkVUWkfbGkqiGk1o2k/vmlK2WlVAIwAG4wONowcUYwqbIw4iIxGo4xVvoxj2YxxAK8AG68RNq8j\
                Ua81bK9GiK9Yo69qvq982a+NANIAG9IVNtIqUdI/bNJViNJqo9J/vtKU2dKq
                """),
        Vector(
            name: "grey of 2 bits, every filter",
            file: """
                iVBORw0KGgoAAAANSUhEUgAAAAkAAAAHAgAAAAC1QCAdAAAAJElEQVR42mOQlmZgzGG4wuTq6sCcxy3LEsrwlCEnx4FxI8N5\
                AE1/BrTfnQW1AAAAAElFTkSuQmCC
                """,
            pixels: """
                AAAAVVVVqqqq////AAAAVVVVqqqq////AAAAVVVVqqqq////AAAAVVVVqqqq////AAAAVVVVqqqq////AAAAVVVVqqqq////\
                AAAAVVVVqqqq////AAAAVVVVqqqq////AAAAVVVVqqqq////AAAAVVVVqqqq////AAAAVVVVqqqq////AAAAVVVVqqqq////\
                AAAAVVVVqqqq////AAAAVVVVqqqq////AAAAVVVVqqqq////AAAAVVVVqqqq
                """),
        Vector(
            name: "colours of 8 bits, every filter, one clear",
            file: """
                iVBORw0KGgoAAAANSUhEUgAAAAkAAAAHCAIAAABV+fA3AAAABnRSTlMAKAA8AE26C0KNAAAAVElEQVR42nWOqRGAQADEwqMw\
                GDQWirgWMkMRFEER6NUUQYGA53biNiKAE65YcMMdDzzxwob5/filZaZGR1mGkV/6T6kuTnGNJW5xj0c845W35a62PGd0FV+c\
                YLTqAAAAAElFTkSuQmCC
                """,
            pixels: """
                AABNFABNKABNPABNUABNZABNeABNjABNoABNAB5NFB5NKB5NPB5NUB5NZB5NeB5NjB5NoB5NADxNFDxNICAgPDxNUDxNZDxN\
                eDxNjDxNoDxNAFpNFFpNKFpNPFpNUFpNZFpNeFpNjFpNoFpNAHhNFHhNKHhNPHhNUHhNZHhNeHhNjHhNoHhNAJZNFJZNKJZN\
                PJZNUJZNZJZNeJZNjJZNoJZNALRNFLRNKLRNPLRNULRNZLRNeLRNjLRNoLRN
                """),
        Vector(
            name: "grey with transparency of 16 bits",
            file: """
                iVBORw0KGgoAAAANSUhEUgAAAAkAAAAHEAQAAAAgAnOoAAAAhElEQVR42mNgYPj/Xzri/3+zDf//B3H8/5+b8P9/x47//5cI\
                /P+/P+P//1sH/v9nZGC4c106goEBhGWgNDqbiYHh7g1CmJmBwcqAT+f9GzBeA6XR2CwQ1QRBgLl0RIC52YYA8yCOAPPchADz\
                jh0B5ksEAsz3ZwSY3zoQYA50uC4/IYcDACEJUWp5No8OAAAAAElFTkSuQmCC
                """,
            pixels: """
                AAAAGxsbNjY2UlJSbW1tiIiIpKSkv7+/2traBAQEGxsbMjIyS0tLYmJieXl5kZGRqampwMDACAgIHBwcLy8vREREV1dXa2tr\
                f39/k5OTpqamDQ0NHR0dLCwsPT09TU1NXV1dbW1tfX19jY2NERERHR0dKSkpNjY2QkJCTk5OW1tbZ2dnc3NzFRUVHh4eJiYm\
                Ly8vODg4QEBASUlJUVFRWlpaGhoaHx8fIyMjKCgoLS0tMjIyNzc3PDw8QEBA
                """),
    ]

    private func bytes(_ text: String) throws -> [UInt8] { [UInt8](try #require(Data(base64Encoded: text))) }

    @Test(arguments: vectors) func `every kind of PNG is decoded as another decoder does`(vector: Vector) throws {
        let picture = try PNGImage.decode(try bytes(vector.file))
        let expected = try bytes(vector.pixels)
        #expect((picture.width, picture.height) == (9, 7))
        // Sixteen bits are rounded to eight in one way or another, here and before transparency is applied.
        #expect(zip(picture.pixels, expected).allSatisfy { abs(Int($0) - Int($1)) <= 2 })
    }

    @Test(arguments: vectors) func `a PNG that is damaged or cut is none, and does no harm`(vector: Vector) throws {
        let file = try bytes(vector.file)
        var random = SeededRandom(seed: 7)
        for _ in 0..<300 {
            var damaged = file
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                damaged[Int.random(in: 8..<file.count, using: &random)] = .random(in: 0...255, using: &random)
            }
            if Bool.random(using: &random) { damaged.removeLast(.random(in: 0..<file.count - 8, using: &random)) }
            // What is left may be a smaller image, or the same; it ends either way.
            let picture = try? PNGImage.decode(damaged)
            if let picture { #expect(picture.pixels.count == picture.width * picture.height * 3) }
        }
        for count in 0..<file.count - 12 {
            #expect(throws: PNGImage.Failure.self) { try PNGImage.decode(Array(file[..<count])) }
        }
    }

    @Test func `an image that would unpack to very much is refused before it does`() throws {
        // 60,000 by 60,000 pixels.
        var file = try bytes(Self.vectors[0].file)
        file.replaceSubrange(16..<24, with: [0, 0, 0xEA, 0x60, 0, 0, 0xEA, 0x60])
        #expect(throws: PNGImage.Failure.tooLarge) { try PNGImage.decode(file) }
        // More in the stream than the size says.
        file.replaceSubrange(16..<24, with: [0, 0, 0, 1, 0, 0, 0, 1])
        #expect(throws: PNGImage.Failure.tooLarge) { try PNGImage.decode(file) }
    }

    @Test func `a picture is made smaller by the mean of its pixels, and drawn in half blocks`() {
        let picture = Picture(
            width: 4, height: 2, pixels: [UInt8](repeating: 10, count: 12) + [UInt8](repeating: 30, count: 12))
        #expect(picture.scaled(width: 2, height: 1).pixels == [UInt8](repeating: 20, count: 6))
        #expect(picture.fitted(columns: 100, rows: 100) == picture, "nothing is enlarged")
        #expect(picture.fitted(columns: 2, rows: 1).width == 2)
    }

    @Test func `the headers of PNG, JPEG, GIF and WebP say their size`() throws {
        func image(_ bytes: [UInt8]) -> String? {
            ImageHeader(bytes).map { "\($0.format) \($0.width)x\($0.height)" }
        }
        #expect(image(try bytes(Self.vectors[0].file)) == "PNG 9x7")
        #expect(image(Array("GIF89a".utf8) + [0x40, 1, 0xC8, 0]) == "GIF 320x200")
        let lossy = Array("RIFF\0\0\0\0WEBPVP8 \0\0\0\0".utf8) + [0, 0, 0, 0x9D, 1, 0x2A, 0x40, 1, 0xC8, 0]
        #expect(image(lossy) == "WebP 320x200")
        let lossless = Array("RIFF\0\0\0\0WEBPVP8L\0\0\0\0".utf8) + [0x2F, 0x3F, 0xC1, 0x31, 0]
        #expect(image(lossless) == "WebP 320x200")
        let extended = Array("RIFF\0\0\0\0WEBPVP8X\0\0\0\0".utf8) + [0, 0, 0, 0, 0x3F, 1, 0, 0xC7, 0, 0]
        #expect(image(extended) == "WebP 320x200")
        let jpeg: [UInt8] = [
            0xFF, 0xD8, 0xFF, 0xE0, 0, 4, 1, 2, 0xFF, 0xFF, 0xC4, 0, 2, 0xFF, 0xC2, 0, 11, 8, 0, 200, 1, 64, 3,
        ]
        #expect(image(jpeg) == "JPEG 320x200")
        for count in jpeg.indices { #expect(image(Array(jpeg[..<count])) == nil || count == jpeg.count - 1) }
        #expect(image(Array("no image at all".utf8)) == nil)
    }

    @Test func `what is no text is shown as numbers, and what a terminal obeys as signs`() {
        #expect(VisibleText.isBinary([0x7F, 0x45, 0x4C, 0x46, 0]))
        #expect(!VisibleText.isBinary(Array("plain text\twith a colour \u{1B}[31m\n".utf8)))
        let spans = VisibleText.spans(Array("a\tb\u{1B}[2J\u{202E}x\u{9B}".utf8) + [0xFF])
        #expect(spans.map(\.text).joined() == "a       b^[[2J\\u{202e}x\\u{9b}\\xff")
        #expect(spans.filter(\.isControl).map(\.text) == ["^[", "\\u{202e}", "\\u{9b}\\xff"])
        let rows = VisibleText.rows(VisibleText.spans(Array("名前と".utf8)), width: 5)
        #expect(rows.map { $0.map(\.text).joined() } == ["名前", "と"])
    }
}
