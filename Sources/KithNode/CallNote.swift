import KithAPI
import KithWire
import Synchronization

/// The audit log's entry for one call that its caller's grants allow: that it was let through, or why it was not.
///
/// It was let through once the service has accepted its stream, has done it, or has changed something. A call that the
/// service itself refuses before that, by a limit or a rule of its own, was never allowed.
final class CallNote: Sendable {
    private let access: Access
    private let kind: MethodKind
    private let write: @Sendable (_ isAllowed: Bool, _ detail: String) -> Void
    private let isNoted = Mutex(false)

    /// Begins a call; `write` adds a line to the log.
    init(_ access: Access, _ kind: MethodKind, write: @escaping @Sendable (_ isAllowed: Bool, _ detail: String) -> Void)
    {
        self.access = access
        self.kind = kind
        self.write = write
    }

    /// Tells whether an error means that a call may not be made, or not so often.
    static func isRefusal(_ error: KithError) -> Bool {
        switch error.code {
        case .denied, .unpaired, .exhausted: true
        default: false
        }
    }

    /// Notes that the call was let through; only the first note of a call counts, and queries are not noted.
    func allowed() { note(isAllowed: true, access.reason) }

    /// Notes that something the call was for is not granted, each time.
    func denied(_ detail: String) {
        isNoted.withLock { $0 = true }
        write(false, detail)
    }

    /// Notes that the call failed, as a refusal or as something else.
    ///
    /// A failed call that needs no grant counts as refused whatever the reason, because it can be repeated at will.
    func failed(_ error: KithError) {
        let isRefused =
            switch access {
            case .paired: kind != .query || Self.isRefusal(error)
            case .anyone, .owner, .granted, .holding: Self.isRefusal(error)
            }
        note(isAllowed: !isRefused, isRefused ? "\(access.reason): \(error.message)" : access.reason)
    }

    private func note(isAllowed: Bool, _ detail: String) {
        // What anyone may do notes its own outcome.
        if access == .anyone || (isAllowed && kind == .query) { return }
        let isFirst = isNoted.withLock { isNoted in
            defer { isNoted = true }
            return !isNoted
        }
        if isFirst { write(isAllowed, detail) }
    }
}
