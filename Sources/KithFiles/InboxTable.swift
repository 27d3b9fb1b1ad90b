import KithAPI
import KithIdentity
import KithWire

/// The offers of other people, and what becomes of them.
///
/// A pure state machine: it does no I/O and reads no clock.
///
///     waiting ──accept──▶ accepted ──begin──▶ receiving ──▶ arrived
///      │ │ │                 │                   │
///      │ │ └──reject──▶ rejected                 └──▶ failed
///      │ └──expire──▶ expired└──expire──▶ failed
///      └──withdraw──▶ withdrawn
struct InboxTable {
    /// The bounds on what may pile up.
    enum Limit {
        /// Offers of one device that are not over.
        static let perDevice = 8
        /// Offers of all devices that are not over; a device that has none may always make one.
        static let total = 64
        /// Offers that one device may make in an hour without being welcome.
        static let hourly = 120
        /// Offers that are over and still listed.
        ///
        /// Beyond it, those of whoever has most go first, and of these what came to nothing.
        static let past = 100
        /// Things at the top of one offer.
        static let items = 1_000
        /// Things of one offer that are listed by name.
        static let listed = 20
        /// The longest wait for a decision, in seconds.
        static let wait: Int64 = 3_600
        /// The time for which one that came to nothing by itself stays listed after its expiry, in seconds.
        static let remembered: Int64 = 86_400
        /// The longest that an accepted offer may take to begin, in seconds.
        static let begin: Int64 = 60
    }

    /// One offer that is not over.
    struct Offer {
        var entry: Inbox.Entry
        /// The device that makes it.
        let device: DeviceID
        /// All that is offered; the entry lists only the beginning.
        let items: [Offers.Item]
        /// When it is over unless something happens, in seconds since 1970.
        var deadline: Int64
    }

    /// Those that are not over, oldest first.
    private(set) var open: [Offer] = []
    /// Those that are over, oldest first.
    private(set) var past: [Inbox.Entry] = []

    /// When each device made its offers of the last hour, in seconds since 1970, oldest first.
    private var made: [DeviceID: [Int64]] = [:]

    init(past: [Inbox.Entry] = []) { self.past = past.suffix(Limit.past) }

    /// All that is listed.
    var entries: [Inbox.Entry] { past + open.map(\.entry) }

    /// All that is listed at a time: what expired or was withdrawn leaves after a day.
    func entries(at now: Int64) -> [Inbox.Entry] {
        entries.filter { entry in
            (entry.state != .expired && entry.state != .withdrawn) || entry.expiresAt + Limit.remembered > now
        }
    }

    /// Takes an offer in; one that `isWelcome`, as a rule says, does not count among those of the hour.
    ///
    /// - Throws: `.invalid` for one that is none, `.exhausted` when too many wait or were made.
    mutating func offer(
        _ input: Offers.Send.Input, id: String, from device: DeviceID, name: String, isWelcome: Bool = false,
        at now: Int64
    ) throws(KithError) -> Inbox.Entry {
        guard (1...Limit.items).contains(input.items.count) else {
            throw KithError(.invalid, "An offer has 1 to \(Limit.items) files and folders; put more into a folder.")
        }
        guard input.bytes <= UInt64(Int64.max), input.items.allSatisfy({ Self.isName($0.name.bytes) }),
            Set(input.items.map(\.name)).count == input.items.count
        else { throw KithError(.invalid, "The offer has a name that no file can have, or one name twice.") }
        let waiting = open.count { $0.device == device }
        guard waiting < Limit.perDevice, waiting == 0 || open.count < Limit.total else {
            throw KithError(.exhausted, "Too many offers are waiting for an answer there. Try again later.")
        }
        if !isWelcome {
            // A clock that was set back begins the hour anew.
            var times = made[device, default: []].filter { $0 <= now && now - $0 < 3_600 }
            guard times.count < Limit.hourly else {
                throw KithError(.exhausted, "This device has made too many offers there in an hour. Try again later.")
            }
            times.append(now)
            made[device] = times
        }
        let wait = min(max(Int64(input.waitSeconds), 1), Limit.wait)
        let entry = Inbox.Entry(
            id: id, device: name, items: Array(input.items.prefix(Limit.listed)), count: UInt32(input.items.count),
            bytes: input.bytes, files: input.files, state: .waiting, offeredAt: now, expiresAt: now + wait)
        open.append(Offer(entry: entry, device: device, items: input.items, deadline: now + wait))
        return entry
    }

    /// Tells whether bytes are a single name that a file may have.
    static func isName(_ bytes: [UInt8]) -> Bool {
        (1...255).contains(bytes.count) && !bytes.contains(0) && !bytes.contains(UInt8(ascii: "/"))
            && bytes != Array(".".utf8) && bytes != Array("..".utf8)
    }

    /// The one offer that waits and whose number begins so.
    ///
    /// - Throws: `.notFound` for none, `.invalid` for several, `.conflict` for one that is decided or over.
    func waiting(_ id: String) throws(KithError) -> Offer {
        let matching = id.isEmpty ? [] : open.filter { $0.entry.id.hasPrefix(id) }
        guard matching.count <= 1 else { throw KithError(.invalid, "\(id) could be any of several offers.") }
        guard let offer = matching.first else {
            if let over = past.last(where: { !id.isEmpty && $0.id.hasPrefix(id) }) {
                throw KithError(.conflict, "The offer \(over.id) is over: \(over.state.rawValue).")
            }
            throw KithError(.notFound, "There is no offer \(id); `kith inbox` lists them.")
        }
        guard offer.entry.state == .waiting else {
            throw KithError(.conflict, "The offer \(offer.entry.id) has been decided: \(offer.entry.state.rawValue).")
        }
        return offer
    }

    /// Accepts an offer, to be put into `folder`.
    mutating func accept(_ id: String, into folder: String, at now: Int64) throws(KithError) -> Inbox.Entry {
        let index = try index(ofOpen: try waiting(id).entry.id)
        open[index].entry.state = .accepted
        open[index].entry.folder = folder
        open[index].deadline = now + Limit.begin
        return open[index].entry
    }

    /// An offer of this device begins to come.
    ///
    /// - Throws: `.denied` unless it was accepted.
    mutating func begin(_ id: String, from device: DeviceID) throws(KithError) -> Offer {
        guard let index = open.firstIndex(where: { $0.entry.id == id && $0.device == device }),
            open[index].entry.state == .accepted
        else { throw KithError(.denied, "No accepted offer has this number: it is over, or was not accepted.") }
        open[index].entry.state = .receiving
        open[index].deadline = .max
        return open[index]
    }

    /// Whether an offer is being received: what comes of it is said when that is over, whatever its sender does meanwhile.
    func isReceiving(_ id: String) -> Bool { open.contains { $0.entry.id == id && $0.entry.state == .receiving } }

    /// So many bytes have come.
    mutating func received(_ bytes: UInt64, of id: String) {
        guard let index = open.firstIndex(where: { $0.entry.id == id }) else { return }
        open[index].entry.received = bytes
    }

    /// An offer is over.
    ///
    /// Returns it as it is then; `nil` when it was over before.
    mutating func end(
        _ id: String, _ state: Offers.State, names: [Files.Path] = [], failure: Files.Failure? = nil
    ) -> Inbox.Entry? {
        guard let index = open.firstIndex(where: { $0.entry.id == id }) else { return nil }
        var entry = open.remove(at: index).entry
        entry.state = state
        entry.names = Array(names.prefix(Limit.listed))
        entry.failure = failure
        past.append(entry)
        while past.count > Limit.past { past.remove(at: leastMissed) }
        return entry
    }

    /// Which of those that are over goes first.
    private var leastMissed: Int {
        let counts = Dictionary(past.map { ($0.device, 1) }, uniquingKeysWith: +)
        let most = counts.values.max() ?? 0
        let theirs = past.indices.filter { counts[past[$0].device] == most }
        let idle = theirs.first { past[$0].state == .withdrawn || past[$0].state == .expired }
        return idle ?? theirs.first ?? 0
    }

    /// The end of an offer to which nothing has happened by `now`; `nil` while it still stands.
    func expiry(of id: String, at now: Int64) -> Offers.State? {
        guard let offer = open.first(where: { $0.entry.id == id }), offer.deadline <= now else { return nil }
        return offer.entry.state == .waiting ? .expired : .failed
    }

    /// When to look again whether an offer is over; `nil` when it is.
    func deadline(of id: String) -> Int64? { open.first { $0.entry.id == id }?.deadline }

    private func index(ofOpen id: String) throws(KithError) -> Int {
        guard let index = open.firstIndex(where: { $0.entry.id == id }) else {
            throw KithError(.notFound, "There is no offer \(id).")
        }
        return index
    }
}

/// Names for what other people send.
enum InboxName {
    /// A name that is safe to keep, to list and to type: one component of text that hides nothing.
    ///
    /// What a terminal might obey becomes `_`, and so does a dot at the beginning.
    static func safe(_ bytes: [UInt8]) -> [UInt8] {
        var scalars = String.UnicodeScalarView()
        for scalar in String(decoding: bytes, as: UTF8.self).unicodeScalars {
            switch scalar.properties.generalCategory {
            case .control, .format, .lineSeparator, .paragraphSeparator, .privateUse, .unassigned, .surrogate:
                scalars.append("_")
            default: scalars.append(scalar == "/" ? "_" : scalar)
            }
        }
        var name = String(scalars)
        while let last = name.unicodeScalars.last, last == " " || last == "." { name.unicodeScalars.removeLast() }
        while let first = name.unicodeScalars.first, first == " " { name.unicodeScalars.removeFirst() }
        if name.hasPrefix(".") || name.hasPrefix("-") { name = "_" + name.dropFirst() }
        if name.isEmpty { name = "unnamed" }
        return numbered(Array(name.utf8), 1)
    }

    /// `photo.jpg`, `photo (2).jpg`, …: the name with a number before its ending, no longer than a name may be.
    static func numbered(_ name: [UInt8], _ number: Int) -> [UInt8] {
        let text = String(decoding: name, as: UTF8.self)
        var (stem, ending) = (text[...], text[text.endIndex...])
        if let dot = text.lastIndex(of: "."), dot > text.startIndex, text[dot...].utf8.count <= 20 {
            (stem, ending) = (text[..<dot], text[dot...])
        }
        let tail = (number > 1 ? " (\(number))" : "") + ending
        while stem.utf8.count + tail.utf8.count > 255 { stem.removeLast() }
        return Array((stem + tail).utf8)
    }
}
