import Foundation
import GRDB
import KithIndex
import KithJobs
import KithTesting
import KithWire
import Logging
import Testing

@testable import KithLibrary

/// The jobs that read files: killed at each place at which something is stored, they end as if nothing had happened.
@Suite struct ContentJobTests {
    /// Makes a tree of two batches of files in a folder, with some that are the same.
    private static func makeTree(in folder: TemporaryFolder) throws -> String {
        let top = folder.path + "/tree"
        for name in ["a", "b", "c"] {
            try FileManager.default.createDirectory(atPath: top + "/" + name, withIntermediateDirectories: true)
            for number in 0..<1_000 {
                try Data("\(number % 700)".utf8).write(to: URL(fileURLWithPath: "\(top)/\(name)/\(number)"))
            }
        }
        for name in ["x", "y"] {
            try Data(repeating: 7, count: 3 << 20).write(to: URL(fileURLWithPath: "\(top)/a/\(name)"))
        }
        return top
    }

    /// Makes a service of which a test runs the jobs.
    private static func service(_ path: String) -> LibraryService {
        LibraryService(
            directory: path + "/device", name: { "here" }, keepsUp: false, logger: Logger(label: "test"))
    }

    private static func scanned(_ service: LibraryService, _ top: String) async throws -> Int64 {
        let index = try await service.ownKeeper(nil).index()
        let location = try index.addLocation(at: Array(top.utf8))
        _ = try await index.scan(location.id)
        return location.id
    }

    /// All that is known of the content of files, but when they were read.
    private static func known(_ path: String) throws -> Set<String> {
        let libraries = path + "/device/libraries"
        let library = try #require(
            try FileManager.default.contentsOfDirectory(atPath: libraries).first { UUID(uuidString: $0) != nil })
        let database = try DatabaseQueue(path: "\(libraries)/\(library)/index.sqlite")
        return try database.read { database in
            Set(
                try String.fetchAll(
                    database,
                    sql: """
                        SELECT CAST(name AS TEXT) || ' ' || ifnull(hex(sample), '-') || ' ' || ifnull(hex(whole), '-')
                            || ' ' || (damaged IS NOT NULL)
                        FROM identity JOIN entry ON entry.id = entry
                        """))
        }
    }

    static let add: @Sendable (LibraryService, JobQueue, String, Int64) async throws -> Void = {
        service, queue, kind, location in
        let input = ContentInput(location: location, name: "tree")
        let owner = service.reference
        switch kind {
        case "identify": _ = try await queue.add(IdentifyJob(owner), input, topic: kind)
        case "verify": _ = try await queue.add(VerifyJob(owner), input, topic: kind)
        default:
            _ = try await queue.add(CandidatesJob(owner), .init(scope: DuplicateScope()), topic: kind)
        }
    }

    static func kinds(_ service: LibraryService) -> [any JobKind] {
        [
            IdentifyJob(service.reference), VerifyJob(service.reference), CandidatesJob(service.reference),
        ]
    }

    /// Brings a copy of what is there before a job to a new folder, with the same tree.
    private static func copy(_ folder: TemporaryFolder) throws -> TemporaryFolder {
        let copy = try TemporaryFolder()
        try FileManager.default.copyItem(atPath: folder.path + "/device", toPath: copy.path + "/device")
        return copy
    }

    @Test(arguments: ["identify", "verify", "duplicates"])
    func `killed at any place, a job that reads files ends as if nothing had happened`(kind: String) async throws {
        let source = try TemporaryFolder()
        let top = try Self.makeTree(in: source)
        try FileManager.default.createDirectory(atPath: source.path + "/device", withIntermediateDirectories: true)
        let before = Self.service(source.path)
        let location = try await Self.scanned(before, top)
        if kind == "verify" { _ = try await before.ownKeeper(nil).index().identify(location) }
        await before.stop()

        let whole = try Self.copy(source)
        let service = Self.service(whole.path)
        let places = try await JobKills.run(path: whole.path + "/jobs.sqlite", kinds: Self.kinds(service)) { queue in
            try await Self.add(service, queue, kind, location)
        }
        await service.stop()
        #expect(places >= 6, "two batches and the end, each before and after")
        let expected = try Self.known(whole.path)
        #expect(expected.count > 700)

        for place in 1...places {
            let folder = try Self.copy(source)
            let turn = await ExitTestTurn.take()
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [
                    path = folder.path as String, place = place as Int, kind = kind as String,
                    location = location as Int64
                ] in
                let service = ContentJobTests.service(path)
                try await JobKills.run(
                    path: path + "/jobs.sqlite", kinds: ContentJobTests.kinds(service), killAt: place
                ) { queue in try await ContentJobTests.add(service, queue, kind, location) }
            }
            turn.end()
            let service = Self.service(folder.path)
            try await JobKills.run(path: folder.path + "/jobs.sqlite", kinds: Self.kinds(service)) { queue in
                await queue.untilIdle()
                let jobs = try await queue.list()
                #expect(jobs.map(\.state) == [.done], "killed at \(place)")
                let report: ContentReport =
                    switch kind {
                    case "identify": try await queue.output(of: jobs[0].id, IdentifyJob.self)
                    case "verify": try await queue.output(of: jobs[0].id, VerifyJob.self)
                    default: try await queue.output(of: jobs[0].id, CandidatesJob.self)
                    }
                #expect(report.counts.damaged == 0 && report.counts.changed == 0 && report.counts.unreadable == 0)
            }
            await service.stop()
            #expect(try Self.known(folder.path) == expected, "killed at \(place)")
        }
    }
}
