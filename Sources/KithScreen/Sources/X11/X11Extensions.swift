#if Screen && os(Linux) && canImport(CXCB)
import CXCB
import KithWire

/// The extensions of an X server, and where it keeps them.
struct X11Extensions {
    /// The number of the event by which DAMAGE tells of changes.
    let damageEvent: UInt8
    /// The number of XFIXES's first event.
    let fixesEvent: UInt8
    /// The number of RandR's first event.
    let randrEvent: UInt8
    /// The number of XInput's requests, which its events carry; `nil` when the server has not got version 2.
    let input: UInt8?
    /// Whether pictures can come in memory that is shared with the server.
    let hasSharedMemory: Bool
    /// Whether RandR knows monitors (version 1.5).
    let hasMonitors: Bool

    /// Asks for the versions, which some extensions want before anything else.
    ///
    /// - Throws: `KithError` `.unsupported` when there is no DAMAGE, XFIXES, RandR or XTEST.
    init(_ raw: OpaquePointer) throws(KithError) {
        func find(_ extension: kith_x11_extension) -> xcb_query_extension_reply_t? {
            guard let found = unsafe kith_x11_extension(raw, `extension`), unsafe found.pointee.present != 0 else {
                return nil
            }
            return unsafe found.pointee
        }
        guard let damage = find(KITH_X11_DAMAGE), let fixes = find(KITH_X11_XFIXES), let randr = find(KITH_X11_RANDR),
            find(KITH_X11_XTEST) != nil
        else {
            throw KithError(.unsupported, "The X server lacks one of DAMAGE, XFIXES, RANDR and XTEST.")
        }
        damageEvent = damage.first_event
        fixesEvent = fixes.first_event
        randrEvent = randr.first_event
        unsafe free(xcb_damage_query_version_reply(raw, xcb_damage_query_version(raw, 1, 1), nil))
        unsafe free(xcb_xfixes_query_version_reply(raw, xcb_xfixes_query_version(raw, 5, 0), nil))
        let monitors = unsafe xcb_randr_query_version_reply(raw, xcb_randr_query_version(raw, 1, 5), nil)
        defer { unsafe free(monitors) }
        hasMonitors =
            unsafe monitors.map { unsafe ($0.pointee.major_version, $0.pointee.minor_version) >= (1, 5) } ?? false

        let shared =
            find(KITH_X11_SHM) == nil ? nil : unsafe xcb_shm_query_version_reply(raw, xcb_shm_query_version(raw), nil)
        defer { unsafe free(shared) }
        // From version 1.2 a descriptor is handed over: nobody else can come by the memory, and it ends with the last user.
        hasSharedMemory =
            unsafe shared.map { unsafe ($0.pointee.major_version, $0.pointee.minor_version) >= (1, 2) } ?? false

        let input = find(KITH_X11_XINPUT)
        let version =
            input == nil
            ? nil : unsafe xcb_input_xi_query_version_reply(raw, xcb_input_xi_query_version(raw, 2, 2), nil)
        defer { unsafe free(version) }
        let isRecent = unsafe version.map { unsafe $0.pointee.major_version >= 2 } ?? false
        self.input = isRecent ? input?.major_opcode : nil
    }
}

/// The names that an X server has numbers for.
struct X11Atoms {
    /// The names asked for.
    enum Name: String, CaseIterable {
        case clipboard = "CLIPBOARD"
        case targets = "TARGETS"
        case timestamp = "TIMESTAMP"
        case incremental = "INCR"
        case utf8 = "UTF8_STRING"
        case plainUTF8 = "text/plain;charset=utf-8"
        case plain = "text/plain"
        case html = "text/html"
        case png = "image/png"
        case testDevice = "XTEST Device"
        case windowType = "_NET_WM_WINDOW_TYPE"
        case notification = "_NET_WM_WINDOW_TYPE_NOTIFICATION"
        case name = "_NET_WM_NAME"
    }

    /// The number of properties that clipboards arrive in, one after the other.
    static let transferLimit = 16
    /// Those properties.
    let transfers: [UInt32]
    private let numbers: [Name: UInt32]

    /// Asks for all of them at once.
    ///
    /// - Throws: `KithError` `.unreachable` when the connection ends.
    init(_ raw: OpaquePointer) throws(KithError) {
        let names = Name.allCases.map(\.rawValue) + (0..<Self.transferLimit).map { "KITH_CLIPBOARD_\($0)" }
        let cookies = names.map { unsafe xcb_intern_atom(raw, 0, UInt16($0.utf8.count), $0) }
        var found: [UInt32] = []
        for cookie in cookies {
            guard let reply = unsafe xcb_intern_atom_reply(raw, cookie, nil) else { continue }
            unsafe found.append(reply.pointee.atom)
            unsafe free(reply)
        }
        guard found.count == names.count else {
            throw KithError(.unreachable, "The X server went away.", cause: X11Error.gone)
        }
        numbers = Dictionary(uniqueKeysWithValues: zip(Name.allCases, found))
        transfers = Array(found.dropFirst(Name.allCases.count))
    }

    /// The number of a name.
    subscript(name: Name) -> UInt32 { numbers[name] ?? 0 }
}
#endif
