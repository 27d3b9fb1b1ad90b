import Foundation
import KithAPI
import KithWire

extension Bench {
    /// The coder of messages beside Foundation's JSON coder: a listing of `count` files, 512 in a message.
    ///
    /// The two take turns, as the machine is quicker at one moment than at another.
    static func coding(files count: Int, into report: inout Report) throws {
        let messages = stride(from: 0, to: count, by: 512).map { start in
            Files.Found(
                entries: (start..<min(start + 512, count)).map { number in
                    Files.Entry(
                        name: Files.Path("folder/\(number).txt"), kind: .file, size: UInt64(number) * 17, mode: 0o644,
                        modified: 1_763_800_000 + Int64(number), modifiedNanoseconds: 123_456_789, user: 1_000,
                        group: 1_000, links: 1, userName: "somebody", groupName: "users")
                })
        }
        let (writer, reader) = (CBOREncoder(), CBORDecoder())
        let (jsonWriter, jsonReader) = (JSONEncoder(), JSONDecoder())
        let cbor = try messages.map { try writer.encode($0) }
        let json = try messages.map { try jsonWriter.encode($0) }
        guard try reader.decode(Files.Found.self, from: cbor[0]) == messages[0] else {
            throw KithError(.corrupt, "A listing does not survive its encoding.")
        }
        var best = [Double](repeating: .infinity, count: 4)
        func time(_ which: Int, _ work: () throws -> Void) rethrows {
            let meter = Meter()
            try work()
            best[which] = min(best[which], meter.processorSeconds)
        }
        for _ in 0..<5 {
            try time(0) { for message in messages { _ = try writer.encode(message) } }
            try time(1) { for message in messages { _ = try jsonWriter.encode(message) } }
            try time(2) { for bytes in cbor { _ = try reader.decode(Files.Found.self, from: bytes) } }
            try time(3) { for bytes in json { _ = try jsonReader.decode(Files.Found.self, from: bytes) } }
        }
        let each = 1e6 / Double(count)
        report.add("CBOR, a file written", best[0] * each, "µs")
        report.add("CBOR, written, to JSONEncoder", best[0] / best[1], "x", atMost: 1)
        report.add("CBOR, a file read", best[2] * each, "µs")
        report.add("CBOR, read, to JSONDecoder", best[2] / best[3], "x", atMost: 0.5)
    }
}
