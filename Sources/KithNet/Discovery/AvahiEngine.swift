import KithIdentity
import KithWire

/// The conversation with `avahi-daemon` on the message bus: what to send next, given what came.
///
/// A value: it does no I/O and reads no clock. Everything it keeps of the network is bounded, and nothing but services
/// that are wanted is asked about: by name, those of paired devices.
///
///     greeting ──Hello──▶ waiting ──it runs──▶ begun ──established──▶ registered
///                           ▲                    │ name taken: again, by another one
///                           └───it is gone───────┘
struct AvahiEngine {
    /// What the driver does next.
    enum Action: Hashable {
        /// Send these bytes.
        case send([UInt8])
        /// Read what a service says on an interface, as data of a TXT record: anybody can have written it.
        case heard(service: String, [UInt8], interface: UInt32)
    }

    /// Whether Avahi serves this device.
    enum Presence: Hashable {
        /// It has not been found out yet.
        case unknown
        /// It does not run, or there is no bus.
        case absent
        case serving
        /// It runs, and wants nothing to do with this device.
        case refusing
    }

    /// The most services of others that are remembered.
    static let maxSeen = 256
    /// The most that are asked about at a time, and those in one device's name on one interface by one version of IP:
    /// others may have taken all names but the last that it tries.
    static let maxAsked = 128
    static let maxAskedPerDevice = ServiceName.maxAttempts

    private enum Question {
        case hello, owner, state, group, browser
        /// The entries of the group, by the name of that attempt.
        case entries(attempt: Int)
        case records(Service)
        case nothing
    }

    /// A service of another device.
    private struct Service: Hashable {
        let interface: Int32
        let ipVersion: Int32
        let name: String
    }

    private enum Asked {
        /// It is not wanted, as far as was known last.
        case not
        /// The object that tells of its records has been asked for.
        case soon
        /// That object's path.
        case at(String)
    }

    private static let bus = "org.freedesktop.DBus"
    private static let avahi = "org.freedesktop.Avahi"
    private static let absent = "avahi-daemon does not run"

    /// The paired device that a name is of, if its service is to be asked about on an interface.
    private let device: @Sendable (String, UInt32) -> DeviceID?
    private var serial: UInt32 = 0
    private var questions: [UInt32: Question] = [:]
    /// Avahi's own name on the bus: nobody else's word counts.
    private var owner: String?
    private var hasBegun = false
    private var group: String?
    private var browser: String?
    /// What is to be offered, and what was put into the group.
    private var records: [ServiceRecord] = []
    private var entered: [ServiceRecord] = []
    private var attempt = 0
    private var isEstablished = false
    private var seen: [Service: Asked] = [:]
    /// Why the device is not registered; `nil` when it is.
    private(set) var problem: String? = "the message bus has not answered"
    private(set) var presence = Presence.unknown

    init(device: @escaping @Sendable (String, UInt32) -> DeviceID?) { self.device = device }

    // MARK: - From this device

    /// Begins, on a new connection.
    mutating func start() -> [Action] {
        serial = 0
        reset("the message bus has not answered")
        return [ask(.hello, Self.bus, "/org/freedesktop/DBus", Self.bus, "Hello")]
    }

    /// Notes that there is no connection.
    mutating func disconnected(_ why: String) {
        reset(why)
        presence = .absent
    }

    /// Offers these services, in place of those before.
    mutating func publish(_ records: [ServiceRecord]) -> [Action] {
        // Other names are all to be had.
        if records.first?.hour != self.records.first?.hour { attempt = 0 }
        self.records = records
        guard group != nil else { return [] }
        func place(_ record: ServiceRecord) -> [UInt32: [NetworkAddress]] { [record.interface: record.addresses] }
        guard records.map(place) == entered.map(place), records.first?.hour == entered.first?.hour, !records.isEmpty
        else { return enter() }
        let actions = update(records)
        if !actions.isEmpty { entered = records }
        return actions
    }

    /// Says something else in the services that are offered, if they are.
    mutating func update(_ records: [ServiceRecord]) -> [Action] {
        guard let group, isEstablished else { return [] }
        let same = records.filter { record in
            entered.contains { $0.interface == record.interface && $0.hour == record.hour }
        }
        return same.map { record in
            let said = record.attempts[attempt]
            return ask(
                .nothing, Self.avahi, group, Self.avahi + ".EntryGroup", "UpdateServiceTxt",
                [
                    .int32(Int32(clamping: record.interface)), .int32(-1), .uint32(0), .string(said.name.service),
                    .string(ServiceRecord.type), .string(ServiceRecord.domain), .lists(said.text),
                ])
        }
    }

    /// Asks about services that are wanted now, and no longer about those that are not.
    mutating func examine() -> [Action] {
        var actions: [Action] = []
        for (service, asked) in seen {
            switch asked {
            case .not: actions += look(at: service)
            case .soon: break
            case .at(let path):
                guard self.device(of: service) == nil else { break }
                seen[service] = .not
                actions.append(free(path))
            }
        }
        return actions
    }

    private mutating func reset(_ why: String?) {
        (owner, group, browser, problem) = (nil, nil, nil, why)
        (hasBegun, isEstablished) = (false, false)
        (entered, seen, attempt, questions) = ([], [:], 0, [:])
    }

    private mutating func ask(
        _ question: Question, _ destination: String, _ path: String, _ interface: String, _ member: String,
        _ values: [DBusMessage.Value] = []
    ) -> Action {
        // Nobody asks four thousand million times.
        serial = serial == .max ? 1 : serial + 1
        questions[serial] = question
        var message = DBusMessage()
        message.serial = serial
        (message.destination, message.path, message.interface, message.member) = (destination, path, interface, member)
        message.values = values
        return .send(message.bytes)
    }

    private mutating func free(_ path: String) -> Action {
        ask(.nothing, Self.avahi, path, Self.avahi + ".RecordBrowser", "Free")
    }

    /// Fills the group anew.
    private mutating func enter() -> [Action] {
        guard let group else { return [] }
        let interface = Self.avahi + ".EntryGroup"
        var actions: [Action] = []
        if !entered.isEmpty { actions.append(ask(.nothing, Self.avahi, group, interface, "Reset")) }
        isEstablished = false
        entered = records
        problem = "it has not registered this device yet"
        guard !records.isEmpty else { return actions }
        let question = Question.entries(attempt: attempt)
        for record in records {
            let said = record.attempts[attempt]
            let host = "\(said.name.host).\(ServiceRecord.domain)"
            let place = Int32(clamping: record.interface)
            actions.append(
                ask(
                    question, Self.avahi, group, interface, "AddService",
                    [
                        .int32(place), .int32(-1), .uint32(0), .string(said.name.service), .string(ServiceRecord.type),
                        .string(ServiceRecord.domain), .string(host), .uint16(record.port), .lists(said.text),
                    ]))
            for address in record.addresses where !address.isLinkLocal {
                // No PTR (flag 16): the machine has one, with a name.
                actions.append(
                    ask(
                        question, Self.avahi, group, interface, "AddAddress",
                        [.int32(place), .int32(-1), .uint32(16), .string(host), .string(Self.host(of: address))]))
            }
        }
        actions.append(ask(question, Self.avahi, group, interface, "Commit"))
        return actions
    }

    /// An address without its port.
    private static func host(of address: NetworkAddress) -> String {
        let text = address.description
        let host = text[..<(text.lastIndex(of: ":") ?? text.endIndex)]
        return host.hasPrefix("[") ? String(host.dropFirst().dropLast()) : String(host)
    }

    // MARK: - From the bus

    /// Takes a message in.
    mutating func received(_ message: DBusMessage) -> [Action] {
        switch message.kind {
        case .call: return []
        case .reply, .failure:
            // The bus itself answers for who is gone; nobody else may.
            guard message.sender == Self.bus || message.sender == owner,
                let question = questions.removeValue(forKey: message.replySerial)
            else { return [] }
            return message.kind == .reply ? answered(question, message.values) : failed(question, message)
        case .signal:
            if message.sender == Self.bus { return noted(message) }
            guard message.sender == owner else { return [] }
            return signalled(message)
        }
    }

    private mutating func answered(_ question: Question, _ values: [DBusMessage.Value]) -> [Action] {
        switch (question, values.first) {
        case (.hello, _):
            let rules = [
                "type='signal',sender='\(Self.bus)',interface='\(Self.bus)',member='NameOwnerChanged',"
                    + "arg0='\(Self.avahi)'",
                "type='signal',sender='\(Self.avahi)'",
            ]
            return rules.map { ask(.nothing, Self.bus, "/org/freedesktop/DBus", Self.bus, "AddMatch", [.string($0)]) }
                + [ask(.owner, Self.bus, "/org/freedesktop/DBus", Self.bus, "GetNameOwner", [.string(Self.avahi)])]
        case (.owner, .string(let name)): return appeared(name)
        case (.state, .int32(let state)): return stateChanged(state)
        case (.group, .path(let path)):
            group = path
            return enter()
        case (.browser, .path(let path)):
            browser = path
            return []
        case (.records(let service), .path(let path)):
            // It has gone while we asked.
            guard case .soon? = seen[service] else { return [free(path)] }
            seen[service] = .at(path)
            return []
        default: return []
        }
    }

    private mutating func failed(_ question: Question, _ message: DBusMessage) -> [Action] {
        switch question {
        case .owner: (problem, presence) = (Self.absent, .absent)
        case .hello, .state, .group, .browser: refuse(message)
        case .entries(let number):
            // Another program on this machine has the name; one step for all entries of an attempt.
            guard number == attempt else { return [] }
            if message.failure == Self.avahi + ".CollisionError" { return renamed() }
            refuse(message)
        case .records(let service): seen[service] = .not
        case .nothing: break
        }
        return []
    }

    private mutating func refuse(_ message: DBusMessage) {
        (problem, presence) = ("it refuses: \(Self.shown(message.failure))", .refusing)
    }

    /// A failure's name, as something to print.
    private static func shown(_ name: String) -> String {
        String(name.unicodeScalars.prefix(80).map { $0.isASCII && $0.value > 32 ? Character($0) : "?" })
    }

    private mutating func noted(_ message: DBusMessage) -> [Action] {
        guard message.member == "NameOwnerChanged", message.values.count == 3,
            case .string(Self.avahi) = message.values[0], case .string(let new) = message.values[2]
        else { return [] }
        if new.isEmpty {
            reset(Self.absent)
            presence = .absent
            return []
        }
        return appeared(new)
    }

    private mutating func appeared(_ name: String) -> [Action] {
        guard name != owner else { return [] }
        reset("it has not registered this device yet")
        owner = name
        presence = .serving
        return [ask(.state, Self.avahi, "/", Self.avahi + ".Server", "GetState")]
    }

    private mutating func stateChanged(_ state: Int32) -> [Action] {
        // 2: it runs, and has a name of its own.
        guard state == 2, !hasBegun else { return [] }
        hasBegun = true
        return [
            ask(.group, Self.avahi, "/", Self.avahi + ".Server", "EntryGroupNew"),
            ask(
                .browser, Self.avahi, "/", Self.avahi + ".Server", "ServiceBrowserNew",
                [
                    .int32(-1), .int32(-1), .string(ServiceRecord.type), .string(ServiceRecord.domain), .uint32(0),
                ]),
        ]
    }

    private mutating func signalled(_ message: DBusMessage) -> [Action] {
        let values = message.values
        switch (message.interface, message.member) {
        case ("\(Self.avahi).Server", "StateChanged"):
            guard case .int32(let state)? = values.first else { return [] }
            return stateChanged(state)
        case ("\(Self.avahi).EntryGroup", "StateChanged"):
            guard message.path == group, case .int32(let state)? = values.first else { return [] }
            return groupChanged(state)
        case ("\(Self.avahi).ServiceBrowser", "ItemNew"), ("\(Self.avahi).ServiceBrowser", "ItemRemove"):
            guard message.path == browser, values.count == 6, case .int32(let interface) = values[0],
                case .int32(let ipVersion) = values[1], case .string(let name) = values[2]
            else { return [] }
            let service = Service(interface: interface, ipVersion: ipVersion, name: name)
            if message.member == "ItemNew" { return appeared(service) }
            guard case .at(let path)? = seen.removeValue(forKey: service) else { return [] }
            // What it said holds as long as it said: whoever takes a record away need not be who made it.
            return [free(path)]
        case ("\(Self.avahi).RecordBrowser", "ItemNew"):
            guard values.count == 7, case .uint16(16) = values[4], case .bytes(let data) = values[5] else { return [] }
            let service = seen.first { if case .at(message.path) = $0.value { true } else { false } }?.key
            return service.map {
                [Action.heard(service: $0.name, data, interface: UInt32(clamping: $0.interface))]
            } ?? []
        default: return []
        }
    }

    private mutating func groupChanged(_ state: Int32) -> [Action] {
        switch state {
        case 2:
            isEstablished = true
            problem = nil
            // They may have changed since they were entered.
            return entered == records ? [] : publish(records)
        case 3: return renamed()
        case 4: (problem, presence) = ("it cannot register this device", .refusing)
        default: break
        }
        return []
    }

    /// Tries the next name: somebody has this one.
    private mutating func renamed() -> [Action] {
        guard attempt + 1 < ServiceName.maxAttempts else {
            problem = "others on this network have this device's name"
            return []
        }
        attempt += 1
        return enter()
    }

    private mutating func appeared(_ service: Service) -> [Action] {
        // Only what may be the name of a device is kept, so nothing else can be asked for.
        guard seen[service] == nil, seen.count < Self.maxSeen, ServiceName.isOne(service.name) else { return [] }
        seen[service] = .not
        return look(at: service)
    }

    private func device(of service: Service) -> DeviceID? {
        device(service.name, UInt32(clamping: service.interface))
    }

    private mutating func look(at service: Service) -> [Action] {
        guard let device = self.device(of: service) else { return [] }
        let asked = seen.filter { if case .not = $0.value { false } else { true } }.keys
        let same = asked.count {
            $0.interface == service.interface && $0.ipVersion == service.ipVersion
                && self.device(of: $0) == device
        }
        guard asked.count < Self.maxAsked, same < Self.maxAskedPerDevice else { return [] }
        seen[service] = .soon
        return [
            ask(
                .records(service), Self.avahi, "/", Self.avahi + ".Server", "RecordBrowserNew",
                [
                    .int32(service.interface), .int32(service.ipVersion),
                    .string("\(service.name).\(ServiceRecord.type).\(ServiceRecord.domain)"), .uint16(1), .uint16(16),
                    .uint32(0),
                ])
        ]
    }
}
