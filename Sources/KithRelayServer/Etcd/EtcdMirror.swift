import Foundation
import KithWire

/// The rows of etcd as one reader follows them: a list of all at one revision, then a watch from the next on.
///
/// ```
///  listing ──last page──▶ watching ──compacted, or another cluster──▶ listing
///                            │ closed
///                            └──▶ watching, from where it was
/// ```
/// A watch that ends goes on where it was, at any member: nothing between is lost. A list may come from a member that is
/// behind; the watch from its revision on brings the rest.
struct EtcdMirror {
    /// What the driver asks for next.
    enum Step: Hashable {
        /// The rows from a key on, at a revision; 0 is the latest.
        case list(from: [UInt8], revision: Int64)
        /// The changes from a revision on.
        case watch(from: Int64)
    }

    /// What became of a row.
    enum Change: Hashable {
        case put(EtcdMessages.Row)
        case deleted(key: [UInt8], revision: Int64)
        /// What is known of rows counts no longer: the list that begins is of another cluster, or of one set back.
        case startedOver
        /// A list is complete: of rows up to that revision there are these, and no others.
        case listed(revision: Int64, keys: Set<[UInt8]>)
    }

    fileprivate enum Phase {
        case listing(from: [UInt8], revision: Int64, keys: Set<[UInt8]>)
        case watching(from: Int64)
    }

    /// The most rows of a list.
    let limit: Int
    private var phase = Phase.start
    private var cluster = ""
    /// The signs of life in a row that were of an earlier revision than the watch has seen.
    private var signsFromBefore = 0
    private var hasGoneBack = false

    /// The signs of life that tell a cluster that was set back from a member that is behind.
    static let signsOfGoingBack = 4

    /// What the driver asks for next.
    var next: Step {
        switch phase {
        case .listing(let key, let revision, _): .list(from: key, revision: revision)
        case .watching(let revision): .watch(from: revision)
        }
    }

    init(limit: Int) { self.limit = limit }

    /// Lists again.
    mutating func startAgain() { phase = .start }

    /// Takes a page of a list.
    ///
    /// - Throws: `WireError` for one that etcd would not send; the list starts again.
    mutating func listed(_ page: EtcdMessages.Page) throws(WireError) -> [Change] {
        guard case .listing(let from, var revision, var keys) = phase else { return [] }
        do throws(WireError) {
            guard page.header.revision > 0 else { throw .invalid("an answer of etcd has a revision") }
            var changes: [Change] = []
            if revision == 0 {
                if hasGoneBack || (!cluster.isEmpty && cluster != page.header.cluster) { changes.append(.startedOver) }
                (revision, cluster, hasGoneBack) = (page.header.revision, page.header.cluster, false)
            } else if cluster != page.header.cluster {
                throw .invalid("all pages of a list are of one cluster")
            }
            var last = from
            for (index, row) in page.rows.enumerated() {
                let isBehind =
                    index == 0 ? !row.key.lexicographicallyPrecedes(from) : last.lexicographicallyPrecedes(row.key)
                guard isBehind, row.key.lexicographicallyPrecedes(EtcdKey.range.end), row.revision > 0 else {
                    throw .invalid("the rows of a list are in order")
                }
                guard keys.count < limit else { throw .tooLong(limit: limit, actual: keys.count + 1) }
                keys.insert(row.key)
                last = row.key
            }
            changes += page.rows.map { Change.put($0) }
            guard page.hasMore else {
                let (following, isOver) = revision.addingReportingOverflow(1)
                guard !isOver else { throw .invalid("an answer of etcd has a revision") }
                phase = .watching(from: following)
                return changes + [.listed(revision: revision, keys: keys)]
            }
            guard !page.rows.isEmpty else { throw .invalid("a page of a list has rows") }
            phase = .listing(from: last + [0], revision: revision, keys: keys)
            return changes
        } catch {
            phase = .start
            throw error
        }
    }

    /// Takes a message of a watch.
    ///
    /// - Returns: The changes, and whether the watch goes on; if not, ``next`` says what comes now.
    /// - Throws: `WireError` for a message that etcd would not send.
    mutating func watched(
        _ message: EtcdMessages.Watch
    ) throws(WireError) -> (changes: [Change], goesOn: Bool) {
        guard case .watching(var from) = phase else { return ([], false) }
        // Another cluster counts its revisions by itself: it was restored from a copy, or the endpoints were mixed up.
        guard cluster.isEmpty || message.header.cluster.isEmpty || message.header.cluster == cluster else {
            phase = .start
            return ([], false)
        }
        if message.isCancelled {
            if message.compactRevision > 0 { phase = .start }
            return ([], false)
        }
        var changes: [Change] = []
        var last = from
        for event in message.events {
            let revision = event.row.revision
            guard revision >= last, revision < Int64.max, event.row.key.starts(with: EtcdKey.range.start) else {
                throw .invalid("the changes of a watch are in order")
            }
            last = revision
            changes.append(event.isDeletion ? .deleted(key: event.row.key, revision: revision) : .put(event.row))
        }
        // The rest of the last revision may come in the next message.
        if !message.events.isEmpty { from = message.isFragment ? last : last + 1 }
        phase = .watching(from: from)
        return (changes, true)
    }

    /// Takes a sign of life of the member that is watched; false when the watch is to be ended.
    ///
    /// A member that is behind catches up within seconds. One of a cluster that was restored from a copy counts its
    /// revisions from there, and would say nothing until it is where the watch is.
    mutating func receivedSign(of header: EtcdMessages.Header) -> Bool {
        guard case .watching(let from) = phase else { return true }
        signsFromBefore = header.revision < from - 1 ? signsFromBefore + 1 : 0
        guard signsFromBefore >= Self.signsOfGoingBack else { return true }
        (signsFromBefore, hasGoneBack, phase) = (0, true, .start)
        return false
    }
}

extension EtcdMirror.Phase {
    fileprivate static var start: EtcdMirror.Phase { .listing(from: EtcdKey.range.start, revision: 0, keys: []) }
}
