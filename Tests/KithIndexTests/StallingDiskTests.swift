#if os(Linux)
import Foundation
import KithCatalog
import KithTesting
import KithWire
import Logging
import Synchronization
import Testing

@testable import KithIndex

/// Locations on a file system that stops answering.
@Suite(.timeLimit(.minutes(10)), .enabled(if: StallingMount.isPossible, "needs root, /dev/fuse and python3"))
struct StallingDiskTests {
    private let folder: TemporaryFolder
    private let names = (0..<20).map { "far \($0).txt" }

    init() throws { folder = try TemporaryFolder() }

    private func makeFolder(_ name: String) throws -> String {
        let path = folder.path + "/" + name
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        return path
    }

    private func index(patience: Duration = .milliseconds(200)) throws -> FileIndex {
        try FileIndex(path: folder.path + "/index.sqlite", patience: patience, logger: Logger(label: "test"))
    }

    private func found(_ query: String, in index: FileIndex) async throws -> Int {
        try await index.search(SearchQuery(query, now: 0, offsetFromUTC: 0)).entries.count
    }

    @Test func `a scan of one that does not answer ends, and what is known of it can be searched`() async throws {
        let mount = try StallingMount(at: makeFolder("far"), names: names)
        defer { mount.remove() }
        let index = try index()
        defer { index.close() }
        let far = try index.addLocation(at: Array(mount.path.utf8))
        #expect(try await index.scan(far.id).added == names.count)
        mount.stall()
        // The second time a thread waits there already.
        for _ in 0..<2 {
            await #expect(throws: KithError(.unreachable, "")) { try await index.scan(far.id) }
            #expect(try index.location(far.id).problem == "it does not answer")
        }
        await #expect(throws: KithError(.unreachable, "")) { try await index.checkAnswers(far.path) }
        #expect(try await found("far", in: index) == names.count)
        mount.resume()
        try await eventually { (try? await index.scan(far.id)) != nil }
        #expect(try index.location(far.id).problem == nil)
    }

    @Test func `who asks at the same time gets the same answer`() async throws {
        let mount = try StallingMount(at: makeFolder("far"), names: names)
        defer { mount.remove() }
        let index = try index(patience: .seconds(3_600))
        defer { index.close() }
        mount.stall()
        let path = Array(mount.path.utf8)
        let askers = (0..<8).map { _ in Task { try await index.presence.attributes(of: path) } }
        askers[0].cancel()
        await #expect(throws: CancellationError.self) { try await askers[0].value }
        mount.resume()
        for asker in askers.dropFirst() { _ = try await asker.value }
    }

    @Test func `one that falls silent in the middle of a scan holds up no other location`() async throws {
        let mount = try StallingMount(at: makeFolder("far"), names: names, stoppingAt: names[7])
        defer { mount.remove() }
        let near = try makeFolder("near")
        for number in 0..<10 { try Data().write(to: URL(fileURLWithPath: near + "/near \(number).txt")) }
        let index = try index()
        defer { index.close() }
        let locations = try [mount.path, near].map { try index.addLocation(at: Array($0.utf8)) }
        _ = try await index.scan(locations[1].id)
        try FileManager.default.removeItem(atPath: near + "/near 3.txt")
        await #expect(throws: KithError(.unreachable, "")) { try await index.scan(locations[0].id) }
        // What has gone is taken out, as no scan goes on that could still find it.
        _ = try await index.scan(locations[1].id)
        #expect(try await found("near", in: index) == 9)
        mount.resume()
        try await eventually { (try? await index.scan(locations[0].id)) != nil }
        #expect(try await found("far", in: index) == names.count)
    }

    @Test func `a scan that waits for it is called off at once`() async throws {
        let mount = try StallingMount(at: makeFolder("far"), names: names, stoppingAt: names[7])
        defer { mount.remove() }
        let index = try index(patience: .seconds(3_600))
        let far = try index.addLocation(at: Array(mount.path.utf8))
        for stop in [true, false] {
            // In the middle of the walk, then before it.
            let scan = Task { try await index.scan(far.id) }
            if stop { try await eventually { index.scans.withLock { !$0.hasListedAll } } }
            scan.cancel()
            await #expect(throws: KithError(.cancelled, "")) { try await scan.value }
        }
        #expect(try index.location(far.id).problem == nil)
        index.close()
    }
}
#endif
