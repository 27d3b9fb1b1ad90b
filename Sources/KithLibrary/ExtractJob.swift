import Foundation
import KithContent
import KithExtractor
import KithIO
import KithIndex
import KithJobs
import KithNode
import KithWire

/// Reads the text and the properties of the files of a location that are not known, or not as the files are now.
///
/// What was stored is not read again: it may be killed, cancelled and run again.
struct ExtractJob: JobKind {
    typealias Input = ContentInput
    typealias Output = Report

    /// What it has done.
    struct Report: Codable, Hashable, Sendable {
        /// The files read, and those that could not be.
        var files: UInt64 = 0
        var unreadable: UInt64 = 0
        /// The largest number of those done.
        var entry: Int64 = 0
    }
    typealias Cursor = Report

    static let name = "extract"
    /// The files of one transaction.
    private static let batch = 16
    private let owner: LibraryReference

    init(_ owner: LibraryReference) { self.owner = owner }

    func title(of input: ContentInput) -> String { "read the text and the properties of the files in \(input.name)" }

    func run(_ job: JobRun<ExtractJob>) async throws -> Report {
        guard let service = owner.service else { throw KithError(.closed, "This device stops.") }
        let index = try await owner.index(job.input.library)
        let reader = try service.reader(of: index)
        var report = job.cursor ?? Report()
        // Everything that is pending is looked at, whatever was done before: files may have changed meanwhile.
        report.entry = 0
        let total = report.files + UInt64(try await index.extractionCount(job.input.location))
        while true {
            try Task.checkCancellation()
            let items = try await index.filesToExtract(job.input.location, after: report.entry, limit: Self.batch)
            guard let last = items.last else { return report }
            job.report(progress(report, total, items.first))
            let results = try await reader.read(items)
            try await index.storeExtractions(results)
            for (item, outcome) in results {
                if case .unreadable(let reason) = outcome {
                    report.unreadable += 1
                    await job.log("\(String(decoding: item.path, as: UTF8.self)): \(reason).")
                }
            }
            report.files += UInt64(items.count)
            report.entry = last.entry
            try await job.checkpoint(report, progress(report, max(total, report.files), nil))
        }
    }

    private func progress(_ report: Report, _ total: UInt64, _ item: ExtractionItem?) -> JobProgress {
        JobProgress(
            phase: "read", completed: report.files, total: total, bytes: 0, totalBytes: nil,
            current: item.map { String(decoding: $0.path, as: UTF8.self) })
    }
}

/// Reads files of an index in the confined processes.
struct ExtractionReader: Sendable {
    let index: FileIndex
    let extractor: ContentExtractor
    let disk: DiskExecutor
    /// What is read for nobody.
    let protection: ProtectedFiles?

    /// Reads files, two at a time; those that are not there, or are others now, are left out.
    ///
    /// - Throws: `.unsupported` when no file can be read on this device; `CancellationError`.
    func read(_ items: [ExtractionItem]) async throws -> [(item: ExtractionItem, outcome: ExtractionOutcome)] {
        try await withThrowingTaskGroup(of: (Int, ExtractionOutcome?).self) { group in
            var (next, outcomes) = (0, [Int: ExtractionOutcome]())
            func add() {
                guard next < items.count else { return }
                let number = next
                next += 1
                group.addTask { (number, try await read(items[number], [.properties, .text])?.outcome) }
            }
            add()
            add()
            while let (number, outcome) = try await group.next() {
                outcomes[number] = outcome
                add()
            }
            return items.enumerated().compactMap { number, item in outcomes[number].map { (item, $0) } }
        }
    }

    /// Reads one; `nil` when it is not there, or is another now.
    func read(
        _ item: ExtractionItem, _ wanted: WantedContent, side: Int = 256
    ) async throws -> (outcome: ExtractionOutcome, result: ContentExtractor.Result?)? {
        let file: ExtractionFile?
        do {
            file = try await disk.run { [index, protection] in
                guard let protection else { return try unsafe index.open(item) }
                return try unsafe protection.with { protection in
                    Result { () throws(KithError) in try unsafe index.open(item, protection: protection) }
                }.get()
            }
        } catch let error as KithError where error.code == .denied {
            // Its rights are no reason to try it again and again: it is when they change.
            return (.unreadable(error.message), nil)
        }
        guard let file else { return nil }
        do throws(ContentExtractor.Fault) {
            let result = try await extractor.read(file.descriptor, wanted, side: side)
            return (.read(result.content.properties, text: result.content.text), result)
        } catch {
            switch error {
            case .deadly:
                return (.unreadable("it ends the process that reads it, or takes too long: it is not tried again"), nil)
            case .unavailable(let reason): throw KithError(.unsupported, "What is in files cannot be read: \(reason).")
            case .cancelled: throw CancellationError()
            }
        }
    }
}
