import Foundation
import Kith
import KithAPI
import KithIdentity
import KithTesting
import KithWire
import Testing

/// Jobs of a device, and what they know of its files.
@Suite(.timeLimit(.minutes(4))) struct ContentTests {
    private let folder: TemporaryFolder
    private var top: String { folder.path + "/tree" }

    init() throws {
        folder = try TemporaryFolder()
        try FileManager.default.createDirectory(atPath: top + "/docs", withIntermediateDirectories: true)
    }

    private func device(listens: Bool = false) async throws -> Device {
        var options = onLoopback
        (options.name, options.listens) = ("laptop", listens)
        return try await Device.open(directory: folder.path + "/device", options: options)
    }

    private func write(_ name: String, _ text: String) throws {
        try Data(text.utf8).write(to: URL(fileURLWithPath: top + "/" + name))
    }

    private func added(_ client: Client, mode: Library.Mode? = nil) async throws -> Library.Location {
        let location = try await client.call(Locations.Add.self, .init(path: Files.Path(top), mode: mode))
        let stream = try await client.open(Locations.Scan.self, .init(id: location.id)).stream
        for try await progress in stream.messages where progress.isLast { return location }
        throw KithError(.closed, "The scan ended early.")
    }

    /// Follows a job to its end.
    private func ended(_ job: Jobs.Job, _ client: Client) async throws -> Jobs.Job {
        let stream = try await client.open(Jobs.Follow.self, .init(id: job.id, runs: true)).stream
        for try await change in stream.messages {
            if let job = change.job, job.state.isFinal { return job }
        }
        throw KithError(.closed, "The job was left.")
    }

    private func find(_ input: Duplicates.Find.Input, _ client: Client) async throws -> [Duplicates.Find.Finding] {
        var findings: [Duplicates.Find.Finding] = []
        let stream = try await client.open(Duplicates.Find.self, input).stream
        for try await finding in stream.messages { findings.append(finding) }
        return findings
    }

    private func names(_ group: Duplicates.Group) -> [[String]] {
        group.copies.map { $0.paths.map { String($0.description.dropFirst(top.count + 1)) } }
    }

    @Test func `the files of a location are read by a job, and a second one has nothing to do`() async throws {
        let device = try await device()
        try await device.whileRunning {
            let client = device.client
            try write("docs/one", "12345")
            let location = try await added(client)
            let job = try await client.call(Locations.Identify.self, .init(id: location.id))
            #expect(job.kind == "identify" && job.isKnown)
            #expect(try await ended(job, client).state == .done)
            let report = try await client.call(Locations.Report.self, .init(id: String(job.id.prefix(12))))
            #expect(report.files == 1 && report.bytes == 5 && report.problems.isEmpty)
            let again = try await ended(
                try await client.call(Locations.Identify.self, .init(id: location.id)), client)
            #expect(try await client.call(Locations.Report.self, .init(id: again.id)).files == 0)
            #expect(try await client.call(Jobs.List.self, .init()).jobs.map(\.id) == [again.id, job.id])
            #expect(try await client.call(Jobs.List.self, .init(states: [.running])).jobs.isEmpty)
            let page = try await client.call(Jobs.List.self, .init(limit: 1))
            #expect(page.jobs.map(\.id) == [again.id])
            let rest = try await client.call(Jobs.List.self, .init(before: page.next))
            #expect(rest.jobs.map(\.id) == [job.id] && rest.next == nil)
            await #expect(throws: KithError(.conflict, "")) {
                try await client.call(Jobs.Cancel.self, .init(id: job.id))
            }
            for (id, code) in [("zz", KithError.Code.invalid), ("", .invalid), ("0123456789ab", .notFound)] {
                await #expect(throws: KithError(code, "")) { try await client.call(Jobs.Get.self, .init(id: id)) }
            }
            await #expect(throws: KithError(.notFound, "")) {
                try await client.call(Locations.Identify.self, .init(id: 99))
            }
        }
    }

    @Test func `a pause and the history outlive the device, and a job that waited is run by one that is up`()
        async throws
    {
        let first = try await device()
        let (ended, paused) = try await first.whileRunning {
            let client = first.client
            try write("docs/one", "12345")
            let location = try await added(client)
            let ended = try await client.call(Locations.Verify.self, .init(id: location.id))
            _ = try await self.ended(ended, client)
            // It waits until this is paused, or runs it to its end first.
            let paused = try await client.call(Locations.Identify.self, .init(id: location.id))
            do { _ = try await client.call(Jobs.Pause.self, .init(id: paused.id)) } catch let error as KithError {
                guard error.code == .conflict else { throw error }
            }
            return (ended.id, try await client.call(Jobs.Get.self, .init(id: paused.id)).job)
        }
        let second = try await device(listens: true)
        try await second.whileRunning {
            let client = second.client
            #expect(try await client.call(Jobs.Get.self, .init(id: ended)).job.state == .done)
            let job = try await client.call(Jobs.Get.self, .init(id: paused.id)).job
            #expect(job.state == paused.state)
            guard job.state == .paused else { return }
            _ = try await client.call(Jobs.Resume.self, .init(id: job.id))
            #expect(try await self.ended(job, client).state == .done)
        }
    }

    @Test func `duplicates are found, compared, and nothing is changed`() async throws {
        let device = try await device()
        try await device.whileRunning {
            let client = device.client
            try write("docs/one", "the same")
            try write("docs/two", "the same")
            try write("three", "the same")
            try write("docs/four", "another.")
            try FileManager.default.linkItem(atPath: top + "/three", toPath: top + "/link")
            _ = try await added(client)
            let path = Files.Path(top + "/docs/one")
            #expect(try await client.call(Duplicates.Copies.self, .init(path: path)).group == nil, "not read yet")
            let findings = try await find(.init(), client)
            #expect(findings.contains { $0.job?.kind == "duplicates" }, "they had to be read")
            let group = try #require(findings.compactMap(\.group).first)
            #expect(names(group) == [["link", "three"], ["docs/one"], ["docs/two"]])
            #expect(group.waste == 16 && group.count == 3 && !group.isCompared)
            #expect(findings.last?.totals == Duplicates.Find.Totals(groups: 1, files: 2, waste: 16))
            let compared = try await find(.init(isCompared: true), client)
            #expect(!compared.contains { $0.job != nil }, "nothing is read twice for its digest")
            #expect(compared.compactMap(\.group).map(\.isCompared) == [true])
            let docs = try await find(.init(folders: [Files.Path(top + "/docs")]), client)
            #expect(docs.compactMap(\.group).map(names) == [[["docs/one"], ["docs/two"]]])
            #expect(try await find(.init(minimumSize: 9), client).compactMap(\.group).isEmpty)
            let own = try await find(.init(of: path, isCompared: true), client)
            #expect(own.compactMap(\.group).map(\.count) == [3])
            let alone = try await find(.init(of: Files.Path(top + "/docs/four")), client)
            #expect(alone.last?.totals?.groups == 0)
            let copies = try await client.call(Duplicates.Copies.self, .init(path: path))
            #expect(copies.group?.count == 3 && copies.volumes == 1 && !copies.isDamaged)
            await #expect(throws: KithError(.notFound, "")) {
                try await find(.init(of: Files.Path("/nowhere/at/all")), client)
            }
            await #expect(throws: KithError(.invalid, "")) { try await find(.init(limit: 0), client) }
            let found = try await client.call(Search.Find.self, .init(query: "is:duplicate"))
            #expect(found.entries.count == 4)
            #expect(try FileManager.default.subpathsOfDirectory(atPath: top).count == 6)
        }
    }

    @Test func `a location of the mode content is read by itself, new files as they come`() async throws {
        let device = try await device(listens: true)
        try await device.whileRunning {
            let client = device.client
            try write("docs/one", "the same")
            let location = try await added(client, mode: .content)
            #expect(location.mode == .content)
            let path = Files.Path(top + "/docs/one")
            try await eventually { try await client.call(Duplicates.Copies.self, .init(path: path)).group?.count == 1 }
            try write("docs/two", "the same")
            try await eventually { try await client.call(Duplicates.Copies.self, .init(path: path)).group?.count == 2 }
            let shallow = try await client.call(Locations.List.self, .init()).locations
            #expect(shallow.map(\.mode) == [.content])
        }
    }
}
