import Foundation
import KithAPI
import KithWire
import Synchronization
import Testing

@testable import KithFiles

@Suite struct ParallelTests {
    private func push(_ name: String) throws -> (name: [UInt8], step: CopyJob.Step) {
        (Array(name.utf8), .pull(Files.Location(device: "laptop", path: Files.Path("/" + name))))
    }

    @Test func `sources are dealt out, those of one name in their order to one batch`() throws {
        func names(_ batches: [[CopyJob.Step]]) -> [[String]] {
            batches.map { batch in
                batch.map { step in
                    guard case .pull(let location) = step else { return "?" }
                    return String(decoding: location.path.bytes.dropFirst(), as: UTF8.self)
                }
            }
        }
        let steps = try ["a", "b", "a", "c", "d", "b", "a"].map(push)
        #expect(names(CopyJob.batches(of: steps, count: 2)) == [["a", "a", "c", "a"], ["b", "d", "b"]])
        #expect(names(CopyJob.batches(of: steps, count: 1)) == [["a", "b", "a", "c", "d", "b", "a"]])
        #expect(names(CopyJob.batches(of: steps, count: 16)) == [["a", "a", "a"], ["b", "b"], ["c"], ["d"]])
        #expect(CopyJob.batches(of: [], count: 4).isEmpty)
    }

    @Test(arguments: [1, 2, 3, 16] as [UInt32], ["push", "pull"])
    func `several sources arrive side by side, and are counted once`(parallel: UInt32, way: String) async throws {
        let folders = try Folders()
        let (source, target) = way == "push" ? ("local", "srv") : ("srv", "local")
        var (size, sources) = (UInt64(0), [Files.Location]())
        for index in 0..<7 {
            for inner in 0..<5 {
                let data = bytes(40_000 * index + inner * 100, seed: UInt64(index))
                try folders.write("\(source)/\(index)/\(inner)", data)
                size += UInt64(data.count)
            }
            sources.append(
                Files.Location(
                    device: way == "push" ? nil : "laptop", path: Files.Path("\(folders.top)/\(source)/\(index)")))
        }
        var last = Files.Progress()
        let (summary, _) = try await folders.client().follow(
            Files.Copy.Input(
                sources: sources,
                destination: Files.Location(
                    device: way == "push" ? "laptop" : nil, path: Files.Path("\(folders.top)/\(target)")),
                recursive: true, compress: .never, parallel: parallel)
        ) { last = $0 }
        for index in 0..<7 {
            #expect(
                try Snapshot("\(folders.top)/\(source)/\(index)") == Snapshot("\(folders.top)/\(target)/\(index)"))
        }
        #expect(try folders.names(target).count == 7)
        #expect(summary.files == 35 && summary.bytes == size && summary.sent == size && summary.folders == 7)
        #expect(last.files == 35 && last.bytes == size)
        #expect(last.totalFiles ?? 35 <= 35 && last.totalBytes ?? size <= size)
    }

    @Test func `of two sources of one name the later stays`() async throws {
        let folders = try Folders()
        for round in 0..<20 {
            try folders.write("local/a/file", bytes(300_000, seed: UInt64(round)))
            try folders.write("local/b/file", "later \(round)")
            try folders.write("local/c/other", "other")
            let sources = ["a/file", "c/other", "b/file"].map { here("\(folders.local)/\($0)") }
            _ = try await folders.client().follow(
                Files.Copy.Input(sources: sources, destination: there(folders.srv), parallel: 3)
            ) { _ in }
            #expect(try folders.text("srv/file") == "later \(round)")
        }
    }

    @Test func `the first failure is the copy's, and what others had goes on the next time`() async throws {
        let folders = try Folders()
        for index in 0..<4 { try folders.write("local/\(index)", bytes(5_000_000, seed: UInt64(index))) }
        try FileManager.default.createDirectory(atPath: folders.srv + "/2/x", withIntermediateDirectories: true)
        let sources = (0..<4).map { here("\(folders.local)/\($0)") }
        let input = Files.Copy.Input(sources: sources, destination: there(folders.srv), parallel: 4)
        await #expect(throws: KithError(.conflict, "")) { _ = try await folders.client().follow(input) { _ in } }
        try FileManager.default.removeItem(atPath: folders.srv + "/2")
        let (summary, _) = try await folders.client().follow(input) { _ in }
        #expect(summary.files + summary.unchanged == 4)
        for index in 0..<4 { #expect(try folders.data("srv/\(index)") == folders.data("local/\(index)")) }
        #expect(try folders.names("srv") == ["0", "1", "2", "3"])
    }

    @Test func `one limit holds for all of them together`() async throws {
        let folders = try Folders()
        for index in 0..<4 { try folders.write("local/\(index)", bytes(250_000, seed: UInt64(index))) }
        let start = ContinuousClock.now
        _ = try await folders.client().follow(
            Files.Copy.Input(
                sources: (0..<4).map { here("\(folders.local)/\($0)") }, destination: there(folders.srv),
                limit: 1_000_000,
                compress: .never, parallel: 4)
        ) { _ in }
        // A megabyte, of which a tenth of a second's worth passes at once; how much longer it takes says nothing.
        #expect(ContinuousClock.now - start > .milliseconds(850))
        await #expect(throws: KithError(.invalid, "")) {
            _ = try await folders.client().follow(
                Files.Copy.Input(sources: [here(folders.local)], destination: there(folders.srv), parallel: 17)
            ) { _ in }
        }
    }
}
