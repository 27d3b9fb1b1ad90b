#if os(Linux)
import Foundation
import KithTesting
import Testing

@Suite(.timeLimit(.minutes(3))) struct MediaCommandTests {
    @Test func `files are found by their text and by what they measure`() async throws {
        try await withTwoMachines { laptop, _ in
            let top = URL(fileURLWithPath: laptop.path("tree")).resolvingSymlinksInPath().path
            try FileManager.default.createDirectory(atPath: top, withIntermediateDirectories: true)
            try write("# Year\n\nThe net gain was \u{1B}[31mlarger than ever.\n", to: top + "/report.md")
            try write("<!DOCTYPE html><title>Plan</title><p>No gain at all", to: top + "/plan.html")
            // A sound of five seconds that is only its head.
            let head =
                "524946462400000057415645666d74201000000001000200 44ac000010b10200040010006461746190760d00"
            let bytes = head.filter { $0 != " " }
            let sound = stride(from: 0, to: bytes.count, by: 2).compactMap { place -> UInt8? in
                let start = bytes.index(bytes.startIndex, offsetBy: place)
                return UInt8(bytes[start..<bytes.index(start, offsetBy: 2)], radix: 16)
            }
            try Data(sound).write(to: URL(fileURLWithPath: top + "/sound.wav"))
            try write("no picture", to: top + "/broken.jpg")
            try await laptop.expect("add", top)
            #expect(try await laptop.kith(["search", "content:gain"]).status == 3)

            #expect(try await laptop.expect("library", "extract") == "tree: 4 files read.\n")
            let found = try await laptop.expect("search", "content:\"net gain\"")
            #expect(found == "\(top)/report.md\n    # Year The [net gain] was [31mlarger than ever.\n")
            #expect(try await laptop.expect("search", "--count", "content:gain") == "2\n")
            #expect(try await laptop.expect("search", "duration:5s") == "\(top)/sound.wav\n")
            #expect(try await laptop.expect("search", "--json", "content:plan").contains("\"isHit\" : true"))
            // Nothing is left to be read.
            #expect(try await laptop.expect("library", "extract") == "tree: 0 files read.\n")

            let info = try await laptop.expect("info", top + "/sound.wav")
            #expect(info.contains("duration  5.0 s") && info.contains("44,100 Hz, 2 channels"))
            let none = try await laptop.kith(["thumbnail", top + "/broken.jpg"])
            #expect(none.status == 10 && none.output.isEmpty && none.error.contains("has no thumbnail"), "\(none)")
            let outside = try await laptop.kith(["info", "/etc/passwd"])
            #expect(outside.status == 3 && outside.error.contains("is not in the library"), "\(outside)")
        }
    }
}
#endif
