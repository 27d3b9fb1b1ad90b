#if os(Linux)
import Foundation
import KithContent
import KithTesting
import Testing

@testable import KithExtractor

/// Files in a folder, and the confined processes that read them.
private struct Reading {
    let folder: TemporaryFolder
    let extractor: ContentExtractor

    init(_ limits: ContentExtractor.Limits = .init(), program: String = builtProgram("kith-extract")) throws {
        folder = try TemporaryFolder()
        extractor = ContentExtractor(path: program, limits: limits)
    }

    func read(
        _ bytes: [UInt8], _ wanted: WantedContent = [.properties, .text], side: Int = 256
    ) async throws -> ContentExtractor.Result {
        let path = folder.path + "/file"
        try Data(bytes).write(to: URL(fileURLWithPath: path))
        let file = try FileHandle(forReadingFrom: URL(fileURLWithPath: path))
        defer { try? file.close() }
        return try await extractor.read(file.fileDescriptor, wanted, side: side)
    }
}

@Suite struct ExtractorTests {
    @Test func `text comes out of what people write`() async throws {
        let reading = try Reading()
        defer { reading.extractor.close() }
        #expect(try await reading.read(Array("plain  words\nhere".utf8)).content.text == "plain words\nhere")
        #expect(try await reading.read([0xFF, 0xFE, 0x68, 0, 0xE9, 0]).content.text == "hé")
        #expect(try await reading.read(Array("caf".utf8) + [0xE9]).content.text == "café")
        #expect(try await reading.read(Samples.docx("net gain &amp; loss")).content.text == "net gain & loss")
        let page = try await reading.read(
            Array("<!DOCTYPE html><title>T</title><script>no</script><p>one<p>t&auml;glich".utf8))
        #expect(page.content.text == "T\none\ntäglich")
        #expect(page.content.properties.title == "T")
        #expect(try await reading.read([0, 1, 2, 3, 0, 0, 9]).content.text == nil)
    }

    @Test func `a PDF has text, a title and pages`() async throws {
        let reading = try Reading()
        defer { reading.extractor.close() }
        let result = try await reading.read(Samples.pdf("annual report"))
        #expect(result.content.text == "annual report")
        #expect(result.content.properties.title == "A title")
        #expect(result.content.properties.author == "Ana")
        #expect(result.content.properties.pages == 1)
    }

    @Test func `a picture is turned as its camera was held, and its thumbnail says no place`() async throws {
        let reading = try Reading()
        defer { reading.extractor.close() }
        let picture = Samples.png(600, 300, exif: Samples.exif())
        let result = try await reading.read(picture, [.properties, .thumbnail], side: 100)
        let properties = result.content.properties
        #expect(properties.width == 300 && properties.height == 600)
        #expect(properties.camera == "SONY ILCE-7M4" && properties.lens == "Sonnar 35")
        #expect(properties.taken == 1_717_158_600 && properties.takenOffset == 120)
        #expect(properties.exposure == 1 / 250 && properties.aperture == 2.8 && properties.sensitivity == 400)
        #expect(abs((properties.latitude ?? 0) - 48.208_333) < 1e-5)
        #expect(abs((properties.longitude ?? 0) + 16.366_666) < 1e-5)
        let thumbnail = try #require(result.thumbnail)
        #expect(thumbnail.width == 50 && thumbnail.height == 100)
        #expect(!thumbnail.bytes.contains(sequence: Array("Exif".utf8)))
        // A quarter turn to the right puts what was left on top.
        let again = try await reading.read(thumbnail.bytes, [.properties, .thumbnail], side: 16)
        #expect(again.content.properties.orientation == nil)
        #expect(again.thumbnail?.height == 16)
    }

    @Test func `hostile files end in an error of their own, and others are read after them`() async throws {
        let reading = try Reading()
        defer { reading.extractor.close() }
        // 60,000 times 60,000 pixels.
        let large = try await reading.read(Samples.png(60_000, 60_000, isWhole: false), [.properties, .thumbnail])
        #expect(large.content.properties.width == 60_000)
        #expect(large.thumbnail == nil)
        #expect(large.failure == "it has more pixels than are worth the time")
        let cut = Array(Samples.png(64, 64).prefix(80))
        #expect(try await reading.read(cut, [.thumbnail]).failure == "it is damaged")
        // Entities that become a billion, elements a million deep, quotation marks that never end.
        var laughs = "<?xml version=\"1.0\"?><!DOCTYPE a [<!ENTITY a \"ha\">"
        for level in 1..<40 { laughs += "<!ENTITY a\(level) \"\(String(repeating: "&a;", count: 50))\">" }
        laughs += "]><a>word &a39;</a>"
        #expect(try await reading.read(Array(laughs.utf8)).content.text?.contains("word") == true)
        let deep = String(repeating: "<a>", count: 1_000_000)
        #expect(try await reading.read(Array("<?xml?>\(deep)word".utf8)).content.text == "word")
        let quotes = String(repeating: "<a \"", count: 500_000)
        _ = try await reading.read(Array("<html>\(quotes)".utf8))
        // A document that says it is larger than it is.
        let damaged = Array(Samples.docx("words").dropFirst(40))
        _ = try await reading.read(damaged)
        #expect(try await reading.read(Samples.docx("still here")).content.text == "still here")
    }

    @Test func `a file that ends two processes is named as deadly`() async throws {
        // A program that is confined and then answers nothing that makes sense.
        let reading = try Reading(program: builtProgram("kith-confined"))
        defer { reading.extractor.close() }
        await #expect(throws: ContentExtractor.Fault.deadly) { try await reading.read(Array("x".utf8)) }
    }

    @Test func `a process is replaced after so many files`() async throws {
        var limits = ContentExtractor.Limits()
        limits.files = 2
        let reading = try Reading(limits)
        defer { reading.extractor.close() }
        for number in 0..<7 { #expect(try await reading.read(Array("n\(number)".utf8)).content.text == "n\(number)") }
    }

    @Test func `what cannot be started is told`() async throws {
        let reading = try Reading(program: "/nonexistent/kith-extract")
        do {
            _ = try await reading.read([1])
            Issue.record("it was read")
        } catch ContentExtractor.Fault.unavailable(let reason) {
            #expect(reason.contains("/nonexistent/kith-extract cannot be started"))
        }
    }
}

extension [UInt8] {
    func contains(sequence: [UInt8]) -> Bool {
        indices.contains { self[$0...].starts(with: sequence) }
    }
}
#endif
