import Foundation
import Kith
import KithClient

extension Bench {
    /// The content of a tree that is in a library: read, and looked through for duplicates; beside the tools people have.
    static func libraryContent(
        _ path: String, files: Int, location: Library.Location, _ client: Client, into report: inout Report
    ) async throws {
        // By as many processes as there are processors, as Kith has readers.
        let processors = ProcessInfo.processInfo.activeProcessorCount
        let all = "find '\(path)' -type f -print0 | xargs -0 -n 1000 -P \(processors) "
        // The first pass brings the files into memory for everybody.
        let sums = try seconds("/bin/sh", ["-c", all + "sha256sum"])
        let identify = Meter()
        let job = try await client.call(Locations.Identify.self, .init(id: location.id, isWhole: true))
        try await ended(job, client)
        let time = identify.seconds
        report.add("library: \(files) files read for their content", time, "s")
        report.add("library: files read in a second", Double(files) / time, "/s", atLeast: 10_000)
        if let sums {
            report.add("  sha256sum by xargs", sums, "s")
            report.add("  times as long as sha256sum", time / sums, "times")
        }
        if let blake = try seconds("/bin/sh", ["-c", all + "b3sum"]) {
            report.add("  b3sum by xargs", blake, "s")
            report.add("  times as long as b3sum", time / blake, "times")
        }
        let again = Meter()
        try await ended(try await client.call(Locations.Identify.self, .init(id: location.id, isWhole: true)), client)
        report.add("library: read again, nothing new", again.seconds, "s")
        let known = Meter()
        try await find(isCompared: false, client)
        report.add("library: duplicates of what was read", known.seconds, "s")
        let compared = Meter()
        try await find(isCompared: true, client)
        let bytes = compared.seconds
        report.add("library: the same, byte by byte", bytes, "s")
        let results = NSTemporaryDirectory() + "kith-bench-rdfind-\(UUID().uuidString)"
        defer { try? FileManager.default.removeItem(atPath: results) }
        let peers = [
            ("jdupes", "/usr/bin/jdupes", ["-r", "-q", "-m", path]),
            ("rdfind", "/usr/bin/rdfind", ["-dryrun", "true", "-outputname", results, path]),
        ]
        for (name, program, arguments) in peers {
            guard let seconds = try seconds(program, arguments) else { continue }
            report.add("  \(name)", seconds, "s")
            report.add("  times as long as \(name), read before", bytes / seconds, "times")
            report.add("  times as long as \(name), reading first", (time + bytes) / seconds, "times")
        }
    }

    private static func ended(_ job: Jobs.Job, _ client: Client) async throws {
        let stream = try await client.open(Jobs.Follow.self, .init(id: job.id, runs: true)).stream
        for try await change in stream.messages where change.job?.state.isFinal == true {
            guard change.job?.state == .done else { throw KithError(.internal, "The job failed.") }
            return
        }
        throw KithError(.closed, "The job did not end.")
    }

    private static func find(isCompared: Bool, _ client: Client) async throws {
        let stream = try await client.open(Duplicates.Find.self, .init(isCompared: isCompared)).stream
        for try await finding in stream.messages where finding.totals != nil { return }
        throw KithError(.closed, "The duplicates ended early.")
    }
}
