import KithAPI
import KithCatalog
import KithIdentity
import KithIndex
import KithNode
import KithWire

/// What other devices may ask of the libraries: how much at once, and which of it with which grant.
extension LibraryService {
    /// The queries of other devices that read the index: one of its connections is left for this device's own person.
    static func indexVisitors() -> Visitors {
        Visitors(
            .init(
                runningEach: 2, runningInAll: FileIndex.readingTasks - 1, waitingEach: 16, waitingInAll: 64),
            within: .seconds(10))
    }

    /// Those that may start a process which reads a file: 20 seconds each at the most.
    static func contentVisitors() -> Visitors {
        Visitors(.init(runningEach: 1, runningInAll: 1, waitingEach: 8, waitingInAll: 32), within: .seconds(60))
    }

    /// An entry as the caller may see it: what a person has noted of it, and passages of its text, with `library:read`.
    static func entry(_ found: FoundEntry, withContent: Bool) -> Library.Entry {
        var entry = entry(found)
        if !withContent { (entry.isFavorite, entry.rating, entry.note, entry.snippet) = (nil, nil, nil, nil) }
        return entry
    }

    /// The same, as of the time of the call.
    static func entry(_ found: FoundEntry, for context: CallContext) -> Library.Entry {
        entry(found, withContent: context.caller == .owner || context.grants.allows(.libraryRead))
    }
}

/// Whether a caller holds the grant `library:read`, from the beginning of a call to its end.
final class ContentAccess: Sendable {
    private let granted: Locked<Bool>

    /// True as long as it does.
    var isGranted: Bool { granted.value }

    /// Looks now, and whenever the grants change: a query that asks for more than names ends when it does not.
    ///
    /// - Throws: `KithError` `.denied` for such a query, which names the grant and what takes it.
    convenience init(for query: SearchQuery, by context: CallContext) throws {
        try self.init(by: context, purpose: "search", term: query.firstTermOfContent)
    }

    /// Follows the grant, which is not needed unless the caller asks for something by a term.
    init(by context: CallContext, purpose: String, term: String? = nil) throws {
        let (granted, caller) = (Locked(context.caller == .owner), context.caller)
        self.granted = granted
        try context.narrow(term ?? purpose) { grants in
            let refusal = Access.granted(.libraryRead).refusal(of: caller, holding: grants)
            granted.set(refusal == nil)
            guard var refusal, let term else { return nil }
            refusal.message = "The query asks for more than names with `\(term)`. \(refusal.message)"
            return refusal
        }
    }
}

extension Handler {
    /// Serves a query that other devices may make, a few at a time.
    static func query<M: Method>(
        _ method: M.Type, among visitors: Visitors,
        _ body: @escaping @Sendable (M.Input, CallContext) async throws -> M.Output
    ) -> Handler {
        .call(method) { input, context in
            try await visitors.run(context.caller) { try await body(input, context) }
        }
    }
}

extension SearchQuery {
    /// The first filter or key of the order that is about more than names, times, sizes and tags, in the words of the
    /// query language; `nil` when there is none.
    var firstTermOfContent: String? {
        condition.firstTermOfContent ?? sort.first { $0.field == .rating }.map { "sort:\($0.field.rawValue)" }
    }
}

extension Condition {
    fileprivate var firstTermOfContent: String? {
        switch self {
        case .everything: nil
        case .not(let condition): condition.firstTermOfContent
        case .all(let conditions), .any(let conditions): conditions.lazy.compactMap(\.firstTermOfContent).first
        case .term(let term): term.isOfContent ? term.filter : nil
        }
    }
}

extension Term {
    /// True when it depends on what is in files, or on what their person has noted of them.
    fileprivate var isOfContent: Bool {
        switch self {
        case .content, .has, .measure, .camera, .note, .rating, .flag(.favorite), .flag(.duplicate), .date(.taken, _):
            true
        case .name, .path, .inFolder, .category, .entry, .fileExtension, .size, .tag, .untagged, .location, .device,
            .flag(.hidden), .flag(.empty), .flag(.offline), .date(.modified, _), .date(.created, _), .date(.added, _):
            false
        }
    }

    /// The filter without what it is compared with: `note:`, `is:favorite`.
    fileprivate var filter: String {
        let text = description
        if case .flag = self { return text }
        return String(text.prefix { $0 != ":" }) + ":"
    }
}
