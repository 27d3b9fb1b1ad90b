package import Foundation
import KithWire

/// The identity of a job.
package typealias JobID = UUID

/// One kind of job: work that takes long, and goes on after the process was killed.
///
/// The input says what was asked, and never changes. The cursor says how far the work is; it is stored at each checkpoint,
/// and a job that was interrupted begins at the last one. What is done between a checkpoint and the next may so be done
/// twice, and has to bear it.
package protocol JobKind: Sendable {
    /// What was asked.
    associatedtype Input: Codable & Sendable
    /// How far it is.
    associatedtype Cursor: Codable & Sendable
    /// What came of it.
    associatedtype Output: Codable & Sendable

    /// The name under which jobs of this kind are stored; never changed: `identify`, `copy`.
    static var name: String { get }
    /// The versions of input and cursor that this build reads; the last one is what it writes.
    ///
    /// Jobs of other versions stay in the queue, and wait for a build that knows them.
    static var versions: ClosedRange<Int> { get }
    /// The most jobs of this kind at a time.
    static var limit: Int { get }

    /// A few words for a person: `copy 3 files to /media/disk`.
    func title(of input: Input) -> String

    /// Does the work, or what is left of it, on a thread that may block.
    ///
    /// To pause it, and when the process is to end, its task is cancelled. Whatever it throws then is not a failure.
    func run(_ job: JobRun<Self>) async throws -> Output

    /// Puts away what a job that was cancelled for good has left behind: half a file, a temporary folder.
    ///
    /// Called once the work has ended, again after the process was killed meanwhile, and never for a job that has not
    /// begun. What it throws is noted in the log.
    func cleanUp(after job: JobRun<Self>) async throws
}

extension JobKind {
    package static var versions: ClosedRange<Int> { 1...1 }
    package static var limit: Int { 1 }
    package func title(of input: Input) -> String { Self.name }
    package func cleanUp(after job: JobRun<Self>) async throws {}
}

/// Says to a job that it is to end at its checkpoint, which is stored.
package struct JobInterruption: Error {}

/// One run of a job: from its beginning, or from its last checkpoint.
package struct JobRun<Kind: JobKind>: Sendable {
    /// The job.
    package let id: JobID
    /// What was asked.
    package let input: Kind.Input
    /// The cursor of the last checkpoint; `nil` at first.
    package let cursor: Kind.Cursor?
    let link: JobLink

    /// Stores how far the work is; after it, nothing before it is done again.
    ///
    /// - Throws: ``JobInterruption`` once it is stored when the job is to pause, or was cancelled, or the process is to
    ///   end; `KithError` `.exhausted` for a cursor of more than 8 MiB; what the disk says.
    package func checkpoint(_ cursor: Kind.Cursor, _ progress: JobProgress) async throws {
        try await link.checkpoint(try JobCoding.encode(cursor, "the place"), progress)
    }

    /// Notes how far the work is; cheap, not stored, and followers are told the newest only.
    package func report(_ progress: JobProgress) { link.report(progress) }

    /// Adds a line to the job's log, of which the last 1,000 lines of 1,000 bytes are kept.
    package func log(_ line: String) async { await link.log(line) }

    /// True once the job is to pause, or was cancelled, or the process is to end.
    package var isInterrupted: Bool { link.isInterrupted }
}

/// A kind whose types are not known.
struct AnyJobKind: Sendable {
    let versions: ClosedRange<Int>
    let limit: Int
    let run: @Sendable (_ input: Data, _ cursor: Data?, JobLink) async throws -> Data
    let cleanUp: @Sendable (_ input: Data, _ cursor: Data?, JobLink) async throws -> Void

    init(_ kind: some JobKind) {
        versions = type(of: kind).versions
        limit = max(type(of: kind).limit, 1)
        run = { try JobCoding.encode(try await kind.run(Self.job($0, $1, $2)), "the result") }
        cleanUp = { try await kind.cleanUp(after: Self.job($0, $1, $2)) }
    }

    private static func job<Kind: JobKind>(_ input: Data, _ cursor: Data?, _ link: JobLink) throws -> JobRun<Kind> {
        JobRun(
            id: link.id, input: try JobCoding.decode(Kind.Input.self, input),
            cursor: try cursor.map { try JobCoding.decode(Kind.Cursor.self, $0) }, link: link)
    }
}

/// The form in which a queue stores values: JSON, its keys in order so that equal values are equal bytes.
enum JobCoding {
    /// The most bytes of one value.
    static let limit = 8 << 20

    static func encode(_ value: some Encodable, _ what: String) throws(KithError) -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let data: Data
        do { data = try encoder.encode(value) } catch {
            throw KithError(.internal, "Could not store \(what) of a job: \(error)", cause: error)
        }
        guard data.count <= limit else {
            throw KithError(.exhausted, "Could not store \(what) of a job: it has more than 8 MiB.")
        }
        return data
    }

    static func decode<Value: Decodable>(_ type: Value.Type, _ data: Data) throws(KithError) -> Value {
        do { return try JSONDecoder().decode(type, from: data) } catch {
            throw KithError(.corrupt, "What is stored of a job cannot be read: \(error)", cause: error)
        }
    }
}
