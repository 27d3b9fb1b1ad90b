import KithTesting
import KithWire

@testable import KithQUIC

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// One random conversation: what is said, over which network, and whether it was understood.
///
/// Everything follows from the seed but the keys of the handshake, which are BoringSSL's.
struct Conversation {
    /// What went wrong, with the seed to see it again.
    struct Failure: Error, CustomStringConvertible {
        var seed: UInt64
        var reason: String
        var description: String { "seed \(seed): \(reason)" }
    }

    /// One direction of one stream.
    private struct Half {
        let size: Int
        let salt: Int
        /// After how many bytes the writer abandons it.
        let resetAfter: Int?
        /// After how many bytes the reader wants no more.
        let stopAfter: Int?
        var written = 0
        var isEnded = false
        var read = 0
        var isDone = false
        var isAcknowledged = false
    }

    private struct Key: Hashable {
        var id: StreamID
        var toServer: Bool
    }

    private struct Plan {
        var byClient: Bool
        var direction: StreamDirection
        var forth: Half
        var back: Half
    }

    /// Bytes nobody would send by accident; every stream is a slice of them.
    private static let pattern: [UInt8] = {
        var random = SeededRandom(seed: 0xB17E5)
        return random.bytes(512 * 1024)
    }()

    /// Whether bytes are those of the pattern; `==` on slices takes half of a debug run.
    private static func isPattern(_ bytes: [UInt8], at start: Int) -> Bool {
        pattern.withUnsafeBytes { all in
            bytes.withUnsafeBytes { some in
                guard let base = all.baseAddress, let other = some.baseAddress, !some.isEmpty else { return true }
                return memcmp(base + start, other, some.count) == 0
            }
        }
    }

    static let longest = 400 * 1024

    let seed: UInt64
    private var random: SeededRandom
    private var plans: [Plan] = []
    private var halves: [Key: Half] = [:]
    private var unread: Set<Key> = []
    private var unwritten: Set<Key> = []
    private var isConnected = (client: false, server: false)
    private var closed: (client: [QUICConnection.CloseReason], server: [QUICConnection.CloseReason]) = ([], [])
    private var isDrained = (client: false, server: false)
    private var planned = 0
    /// The largest tables met.
    private(set) var bookkeeping = 0
    private(set) var simulated: Int64 = 0
    private(set) var bytes = 0

    init(seed: UInt64) {
        self.seed = seed
        random = SeededRandom(seed: seed)
    }

    private func failure(_ reason: String) -> Failure { Failure(seed: seed, reason: reason) }

    private mutating func conditions() -> NetworkConditions {
        var conditions = NetworkConditions()
        // One to six hundred milliseconds, short ones as likely as long ones.
        let exponent = Double.random(in: 0...1, using: &random)
        var power = 1.0
        for _ in 0..<Int(exponent * 64) { power *= 1.10513 }
        conditions.delay = .microseconds(Int64(min(600_000, 1_000 * power)))
        if random.chance(0.8) { conditions.loss = Double.random(in: 0...0.2, using: &random) }
        if random.chance(0.5) { conditions.reordering = Double.random(in: 0...0.2, using: &random) }
        if random.chance(0.5) { conditions.duplication = Double.random(in: 0...0.1, using: &random) }
        if random.chance(0.4) { conditions.jitter = conditions.delay / Int.random(in: 2...10, using: &random) }
        switch Double.random(in: 0..<1, using: &random) {
        case ..<0.1: conditions.marks = .cleared
        case ..<0.15: conditions.marks = .alwaysCongested
        case ..<0.2: conditions.marks = .swapped
        default: break
        }
        if random.chance(0.2) {
            conditions.bytesPerSecond = Int.random(in: 50_000...5_000_000, using: &random)
            conditions.queue = Int.random(in: 20_000...200_000, using: &random)
        }
        return conditions
    }

    private mutating func half() -> Half {
        let size: Int
        switch Double.random(in: 0..<1, using: &random) {
        case ..<0.15: size = 0
        case ..<0.7: size = Int.random(in: 1...1_500, using: &random)
        case ..<0.97: size = Int.random(in: 1...12_000, using: &random)
        default: size = Int.random(in: 1...Self.longest, using: &random)
        }
        return Half(
            size: size, salt: Int.random(in: 0..<100_000, using: &random),
            resetAfter: random.chance(0.06) ? Int.random(in: 0...size, using: &random) : nil,
            stopAfter: random.chance(0.06) ? Int.random(in: 0...size, using: &random) : nil)
    }

    private mutating func configuration(seedByte: UInt8) -> QUICConfiguration {
        var configuration = QUICConfiguration(
            credentials: [.rawPublicKey(seed: [UInt8](repeating: seedByte, count: 32))], alpn: ["kith-test"])
        let shared = SharedRandom(seed: random.next())
        configuration.random = { shared.next() }
        configuration.verify = { credential in
            if case .rawPublicKey = credential { true } else { false }
        }
        configuration.handshakeTimeout = .seconds(3_600)
        configuration.maxIdleTimeout = .seconds(3_600)
        if random.chance(0.5) {
            configuration.streamWindow = Int.random(in: 1_000...40_000, using: &random)
            configuration.connectionWindow = Int.random(in: 2_000...60_000, using: &random)
            configuration.unreadAllowance = Int.random(in: -30_000...60_000, using: &random)
        }
        if random.chance(0.5) { configuration.sendCapacity = Int.random(in: 500...50_000, using: &random) }
        configuration.maxIncomingBidirectionalStreams = Int.random(in: 1...20, using: &random)
        configuration.maxIncomingUnidirectionalStreams = Int.random(in: 1...20, using: &random)
        switch Double.random(in: 0..<1, using: &random) {
        case ..<0.1: configuration.congestionController = .newReno
        case ..<0.2: configuration.congestionController = .cubic
        default: break
        }
        configuration.offersPostQuantumKeyShare = random.chance(0.5)
        if random.chance(0.25) { configuration.versions = [.two, .one] }
        configuration.prefersOwnVersion = random.chance(0.25)
        if random.chance(0.2) { configuration.packetsPerKey = UInt64.random(in: 30...300, using: &random) }
        configuration.usesECN = random.chance(0.8)
        if random.chance(0.2) { configuration.udpPayloadSize = 9_000 }
        configuration.eitherEndMoves = random.chance(0.7)
        if random.chance(0.7) {
            configuration.addressDiscovery = AddressDiscoveryRole(rawValue: .random(in: 0...2, using: &random))
        }
        return configuration
    }

    /// Has the conversation.
    mutating func run() throws {
        let network = SimulatedNetwork<NetworkAddress>(conditions(), random: random.fork())
        let count = Int.random(in: 1...6, using: &random)
        for _ in 0..<count {
            plans.append(
                Plan(
                    byClient: random.chance(0.6), direction: random.chance(0.7) ? .bidirectional : .unidirectional,
                    forth: half(), back: half()))
        }
        planned = plans.count
        var client = configuration(seedByte: 1)
        // A client that only listens would never learn that its address has changed.
        client.keepAlive = .seconds(20)
        let server = configuration(seedByte: 2)
        var pair = try ConnectionPair(client: client, server: server, network: network)
        if random.chance(0.2) { pair.interfaceSize = Int.random(in: 1_200...9_000, using: &random) }
        let start = pair.now
        var moves = random.chance(0.3) ? Int.random(in: 1...3, using: &random) : 0
        while !isSaid(&pair) {
            if moves > 0, pair.client.isHandshakeConfirmed, random.chance(0.02) {
                moves -= 1
                rebind(&pair)
            }
            guard pair.step() else { throw failure("nothing will ever happen again; \(state(&pair))") }
            guard pair.steps < 400_000 else { throw failure("no end after \(pair.steps) steps; \(state(&pair))") }
            try listen(&pair)
            try speak(&pair)
            // Slow at times, but nobody waits for the other while there is something to do.
            while !(unread.isEmpty && unwritten.isEmpty), pair.network.inFlight == 0 || random.chance(0.7) {
                try speak(&pair)
            }
        }
        try checkBounds(&pair)
        try close(&pair)
        simulated = pair.now - start
    }

    /// Has a NAT give the client another port, or another address; nobody is told.
    private mutating func rebind(_ pair: inout ConnectionPair) {
        if random.chance(0.5) {
            pair.clientPlace.port &+= 1
        } else {
            pair.clientPlace = NetworkAddress(ipv4: UInt32.random(in: 1 << 24...9 << 24, using: &random), port: 5_000)
        }
    }

    // MARK: - The applications at both ends

    private func isSaid(_ pair: inout ConnectionPair) -> Bool {
        plans.isEmpty && halves.count >= planned
            && halves.values.allSatisfy { $0.isDone && $0.isAcknowledged }
            && pair.client.statistics.openStreams == 0 && (pair.server?.statistics.openStreams ?? 0) == 0
    }

    private func state(_ pair: inout ConnectionPair) -> String {
        let open = halves.filter { !$0.value.isDone || !$0.value.isAcknowledged }
            .map { "\($0.key.id.rawValue)\($0.key.toServer ? "→" : "←") \($0.value)" }
        return """
            at \(pair.now.nanoseconds / 1_000_000) ms, connected \(isConnected), closed \(closed), \
            unopened \(plans.count), open \(open), client \(pair.client.statistics), \
            server \(pair.server?.statistics as Any)
            """
    }

    private mutating func listen(_ pair: inout ConnectionPair) throws {
        while let event = pair.client.nextEvent() { try handle(event, isClient: true) }
        while let event = pair.server?.nextEvent() { try handle(event, isClient: false) }
    }

    private mutating func handle(_ event: QUICConnection.Event, isClient: Bool) throws {
        switch event {
        case .connected:
            if isClient { isConnected.client = true } else { isConnected.server = true }
        case .streamOpened(let id):
            // Its half to us is known from the plan; ours may be written now.
            guard halves[Key(id: id, toServer: !isClient)] != nil else { throw failure("\(id) opened by nobody") }
            if id.direction == .bidirectional { unwritten.insert(Key(id: id, toServer: isClient)) }
        case .readable(let id):
            unread.insert(Key(id: id, toServer: !isClient))
        case .writable(let id):
            unwritten.insert(Key(id: id, toServer: isClient))
        case .streamReset(let id, let code):
            let key = Key(id: id, toServer: !isClient)
            guard let half = halves[key] else { throw failure("reset of an unknown stream") }
            let isExpected = half.resetAfter != nil && code == 100 || half.stopAfter != nil && code == 200
            guard isExpected, !half.isDone else { throw failure("\(id) reset with \(code): \(half)") }
            halves[key]?.isDone = true
            unread.remove(key)
        case .sendStopped(let id, let code):
            let key = Key(id: id, toServer: isClient)
            guard halves[key]?.stopAfter != nil, code == 200 else { throw failure("\(id) stopped with \(code)") }
            halves[key]?.isEnded = true
            halves[key]?.isAcknowledged = true
        case .streamFinished(let id):
            let key = Key(id: id, toServer: isClient)
            guard let half = halves[key], half.written == half.size, half.isEnded else {
                throw failure("\(id) finished before its end")
            }
            halves[key]?.isAcknowledged = true
        case .closed(let reason):
            if isClient { closed.client.append(reason) } else { closed.server.append(reason) }
            if planned > 0 { throw failure("closed in the middle: \(reason)") }
        case .drained:
            if isClient { isDrained.client = true } else { isDrained.server = true }
        case .connectionIDAdded, .connectionIDRetired, .resetTokenAdded, .resetTokenRetired, .handshakeConfirmed,
            .streamsAvailable, .datagram, .pathChanged,
            .pathValidated, .pathFailed, .peerSilent, .peerReflexiveAddress, .observedAddress, .newToken,
            .sessionTicket,
            .earlyDataPossible, .earlyDataRejected:
            break
        }
    }

    private mutating func speak(_ pair: inout ConnectionPair) throws {
        var waiting: [Plan] = []
        for plan in plans {
            guard plan.byClient ? isConnected.client : isConnected.server,
                let id = plan.byClient
                    ? pair.client.openStream(plan.direction) : pair.server?.openStream(plan.direction)
            else {
                waiting.append(plan)
                continue
            }
            let forth = Key(id: id, toServer: plan.byClient)
            halves[forth] = plan.forth
            unwritten.insert(forth)
            if plan.direction == .bidirectional { halves[Key(id: id, toServer: !plan.byClient)] = plan.back }
            let urgency = UInt8.random(in: 0...255, using: &random)
            if plan.byClient { pair.client.setPriority(id, urgency) } else { pair.server?.setPriority(id, urgency) }
        }
        plans = waiting
        for key in sorted(unwritten) { try write(key, &pair) }
        for key in sorted(unread) { try read(key, &pair) }
    }

    private func sorted(_ keys: Set<Key>) -> [Key] {
        keys.sorted { $0.id == $1.id ? $0.toServer && !$1.toServer : $0.id < $1.id }
    }

    private mutating func write(_ key: Key, _ pair: inout ConnectionPair) throws {
        guard var half = halves[key], !half.isEnded else {
            unwritten.remove(key)
            return
        }
        do throws(StreamError) {
            if let limit = half.resetAfter, half.written >= limit {
                if key.toServer {
                    try pair.client.reset(key.id, code: 100)
                } else {
                    try pair.server?.reset(key.id, code: 100)
                }
                half.isEnded = true
                half.isAcknowledged = true
                // The reader may still have everything before the reset reaches it, but never an end.
            } else if half.written < half.size {
                let count = min(half.size - half.written, Int.random(in: 1...20_000, using: &random))
                let start = half.salt + half.written
                let slice = Self.pattern[start..<start + count]
                let taken =
                    key.toServer
                    ? try pair.client.write(slice, to: key.id) : try pair.server?.write(slice, to: key.id) ?? 0
                half.written += taken
                if taken < count { unwritten.remove(key) }
            } else {
                if key.toServer { try pair.client.finish(key.id) } else { try pair.server?.finish(key.id) }
                half.isEnded = true
            }
        } catch {
            guard case .stopped(200) = error, half.stopAfter != nil else {
                throw failure("write to \(key.id) failed: \(error)")
            }
            half.isEnded = true
            half.isAcknowledged = true
        }
        halves[key] = half
    }

    private mutating func read(_ key: Key, _ pair: inout ConnectionPair) throws {
        guard var half = halves[key], !half.isDone else {
            unread.remove(key)
            return
        }
        do throws(StreamError) {
            if let limit = half.stopAfter, half.read >= limit {
                if key.toServer {
                    try pair.server?.stopSending(key.id, code: 200)
                } else {
                    try pair.client.stopSending(key.id, code: 200)
                }
                // What was not yet written never will be; what is all there needs no answer.
                half.isDone = true
                halves[key] = half
                unread.remove(key)
                return
            }
            let limit = Int.random(in: 1...30_000, using: &random)
            let (bytes, isFinished) =
                key.toServer
                ? try pair.server?.read(key.id, upTo: limit) ?? ([], false)
                : try pair.client.read(key.id, upTo: limit)
            let start = half.salt + half.read
            guard half.read + bytes.count <= half.size, Self.isPattern(bytes, at: start) else {
                throw StreamError.unknown
            }
            half.read += bytes.count
            self.bytes += bytes.count
            if isFinished {
                half.isDone = true
                unread.remove(key)
                guard half.read == half.size else { throw StreamError.unknown }
            } else if bytes.count < limit {
                unread.remove(key)
            }
        } catch {
            throw failure("read of \(key.id) gave \(error): \(half)")
        }
        halves[key] = half
    }

    // MARK: - Bounds and the end

    private mutating func checkBounds(_ pair: inout ConnectionPair) throws {
        let client = pair.client.recovery.bookkeeping + pair.client.streams.bookkeeping
        let server = (pair.server?.recovery.bookkeeping ?? 0) + (pair.server?.streams.bookkeeping ?? 0)
        bookkeeping = max(client, server)
        guard bookkeeping < 6_000 else { throw failure("state grew to \(bookkeeping) records") }
    }

    private mutating func close(_ pair: inout ConnectionPair) throws {
        planned = 0
        let byClient = random.chance(0.5)
        if byClient {
            pair.client.close(code: 42, reason: "done", at: pair.now)
        } else {
            pair.server?.close(code: 42, reason: "done", at: pair.now)
        }
        while !isDrained.client || !isDrained.server {
            guard pair.step() else { throw failure("not drained: \(isDrained)") }
            guard pair.steps < 500_000 else { throw failure("no end to closing") }
            try listen(&pair)
        }
        guard closed.client.count == 1, closed.server.count == 1 else { throw failure("closed \(closed)") }
        for (reason, isRemote) in [(closed.client[0], !byClient), (closed.server[0], byClient)] {
            switch reason {
            case .application(code: 42, reason: Array("done".utf8), isRemote: isRemote): break
            // The one close there was got lost, and the closing end fell silent.
            case .idleTimeout where isRemote: break
            default: throw failure("closed with \(reason)")
            }
        }
    }
}
