import KithAPI
import KithIdentity
import KithNet
import KithWire
import Logging

// What the node learns of other devices while they are connected, and says to them of itself: where they are to be found
// when both have moved and both were restarted, and what this device may do there.

extension Node {
    /// Keeps the record of a connected device up to date until the task is cancelled.
    func keepRecord(_ session: Session) async {
        // Not before: whoever replays a peer's first flight must not decide where the peer is.
        guard await session.link.handshakeCompleted() else { return }
        session.wasSeen()
        await withDiscardingTaskGroup { group in
            group.addTask {
                for await _ in session.link.pathChanges { session.wasSeen() }
            }
            group.addTask {
                var path: String?
                for await _ in session.sightings { path = await self.notePath(of: session, before: path) }
            }
            group.addTask {
                for await _ in session.news {
                    guard await self.mayWrite(session) else { return }
                    await self.write(session)
                }
            }
            group.addTask {
                for await _ in session.announcements {
                    await self.announce(session)
                    // However often this device moves. The sleep ends early only when cancelled.
                    try? await Task.sleep(for: .seconds(1))
                }
            }
        }
    }

    /// Publishes the way to a device, if it is another than before: `lan 10.0.0.2:4433`, `direct 203.0.113.7:4433`,
    /// `relay https://relay.example.org`.
    private func notePath(of session: Session, before: String?) async -> String? {
        guard session.isPaired, session.link.isOpen else { return before }
        let status = await session.link.status()
        var path: String?
        if let relay = status?.relay {
            path = "relay \(relay)"
        } else if let address = status?.address {
            path = "\(address.pathKind.rawValue) \(address)"
        }
        guard let path, path != before else { return before }
        hub.note(path, of: "$registry/peers/\(session.link.peer)/path")
        return path
    }

    /// The connection is over: notes when, unless much was written lately.
    func noteEnd(_ session: Session) async {
        guard session.isPaired, await session.link.handshakeCompleted(), claimWrite(session.link.peer) == nil
        else { return }
        await write(session)
    }

    /// Waits until something may be written of the device; false when the task is cancelled meanwhile.
    private func mayWrite(_ session: Session) async -> Bool {
        while session.isPaired, let time = claimWrite(session.link.peer) {
            guard (try? await Task.sleep(until: time, clock: .continuous)) != nil else { return false }  // cancelled
        }
        return true
    }

    /// Writes down what is known now.
    private func write(_ session: Session) async {
        guard session.isPaired else { return }
        let link = session.link
        let status = link.isOpen ? await link.status() : nil
        // Through a relay it has no address.
        let paths = (status?.statistics?.paths ?? []).filter(\.isValidated)
        let addresses = [status?.address].compactMap(\.self) + paths.compactMap(\.remoteAddress)
        do {
            if let announced = session.takeAnnouncedAddresses() { try directory.announced(link.peer, announced) }
            try directory.seen(link.peer, at: addresses)
        } catch {
            logger.warning("could not note where a device is", metadata: ["error": "\(error)"])
        }
    }

    // MARK: - Where this device is

    /// Notes that a connected device has answered: it has this one among its own, and is told where this one is, once per
    /// connection.
    func noteAnswer(of device: DeviceID) {
        let sessions = sessions(with: device)
        noteMutual(device, sessions)
        if isAnnouncing { for session in sessions { session.announceOnce() } }
    }

    /// Asks for every connected device to be sent this one's present addresses.
    func announceEverywhere() {
        for session in sessions where session.isPaired { session.announceAgain() }
    }

    /// The addresses at which a device is told that this one listens; `nil` when it does not listen.
    ///
    /// Who is to be reached through a relay alone learns none, and who on the local network, those there.
    func announced(for device: DeviceID) -> [NetworkAddress]? {
        guard let addresses = announcement?() else { return nil }
        let permitted = dialer?.reach?.addresses(addresses, for: device) ?? addresses
        return Array(permitted.prefix(Ticket.maxAddresses))
    }

    /// Sends this device's addresses to the other end of a connection, and stores its answer.
    private func announce(_ session: Session) async {
        guard session.isPaired, let announced = announced(for: session.link.peer) else { return }
        do {
            let answer = try await ask(
                Reach.Standing.self, Reach.Standing.Input(addresses: announced, hello: hello), in: session,
                within: .seconds(5))
            await learn(answer, from: session.link.peer)
        } catch let error as KithError where error.code == .unpaired {
            noteForgotten(by: session.link.peer)
        } catch {
            // A device of an earlier version, or one that has just gone: both are found out in other ways.
            logger.debug("could not announce the addresses of this device", metadata: ["error": "\(error)"])
        }
    }

    /// Asks the other end of this very connection.
    func ask<M: Method>(
        _ method: M.Type, _ input: M.Input, in session: Session, within timeout: Duration
    ) async throws -> M.Output {
        try await withDeadline(timeout, on: clock) {
            let coding = AnyMethod(method)
            guard case .cbor(let bytes) = try coding.input.encode(input, .cbor) else { throw Self.otherForm }
            let header = StreamHeader(
                method: coding.name, millisecondsLeft: UInt64(max(1, timeout / .milliseconds(1))), trace: nil,
                input: bytes)
            let stream = try await session.link.openStream()
            do {
                let output = try await HeaderExchange.request(header, over: stream, isCall: true).0
                return try Self.output(of: method, coding, .cbor(output))
            } catch {
                stream.abort(.cancelled)
                throw error
            }
        }
    }

    // MARK: - What others say

    /// Asks a device what this one may do there, and remembers the answer.
    func askStanding(on device: DeviceID, timeout: Duration) async throws {
        let answer = try await client.call(
            Reach.Standing.self, Reach.Standing.Input(addresses: announced(for: device), hello: hello),
            on: device.description,
            options: CallOptions(timeout: timeout))
        await learn(answer, from: device)
    }

    /// Connects to a device that was connected before the network went; one whose connection has not survived that is
    /// reached by a new one at once.
    package func reconnect(to device: DeviceID) async throws {
        if let link = dialer?.current(device), link.isOpen {
            do {
                return try await askStanding(on: device, timeout: .seconds(2))
            } catch {
                try Task.checkCancellation()
                link.close(.closed, reason: "It has not answered since the network came back.")
            }
        }
        _ = try await connect(to: device.description)
    }

    /// The description of this device's software.
    var hello: Reach.Hello { .own(version: options.version) }

    /// Returns the description that a connected device gave of its software; `nil` when it gave none, or is not
    /// connected.
    func hello(of device: DeviceID) -> Reach.Hello? {
        sessions(with: device).last { $0.hello != nil && $0.link.isOpen }?.hello
    }

    /// Stores a device's description of its software.
    func learn(_ hello: Reach.Hello, from device: DeviceID) {
        for session in sessions(with: device) where session.isPaired { session.hello = hello }
        noteMutual(device)
    }

    /// Stores a device's answer about itself and this one's grants.
    func learn(_ standing: Reach.Standing.Output, from device: DeviceID) async {
        // An earlier version gives no more than that.
        learn(standing.hello ?? Reach.Hello(version: standing.version, protocol: 1, capabilities: []), from: device)
        do {
            try directory.standing(device, standing.grants)
        } catch {
            logger.warning("could not note what this device may do elsewhere", metadata: ["error": "\(error)"])
        }
        if let addresses = standing.addresses { await heard(addresses, from: device) }
    }

    /// Notes that the device says that it is not paired with this one.
    func noteForgotten(by device: DeviceID) {
        do {
            try directory.standing(device, nil)
        } catch {
            logger.warning("could not note that this device was forgotten", metadata: ["error": "\(error)"])
        }
    }

    /// Notes the addresses a paired device claims to listen at: they are only places to try.
    func heard(_ addresses: [NetworkAddress], from device: DeviceID) async {
        for session in sessions(with: device) where session.isPaired && session.link.isOpen {
            // Its loopback addresses are useless elsewhere.
            let isHere = await session.link.status()?.address?.isLoopback ?? false
            let sound = addresses.prefix(Ticket.maxAddresses).filter {
                $0.port != 0 && !$0.isUnspecified && !$0.isMulticast && (isHere || !$0.isLoopback)
            }
            return session.receivedAnnouncement(Array(sound))
        }
    }
}

/// The limit on how often a device's record is written: at once as a rule, but not every second for a path that flaps.
///
/// Allows eight writes in a row, and then one every fifteen seconds.
struct WriteBudget {
    private static let burst = 8
    private static let interval = Duration.seconds(15)
    /// The time at which the budget is whole again.
    private var whole: ContinuousClock.Instant?

    /// Counts one write; returns `nil` when it may be made now, else the time when it may.
    mutating func take(at now: ContinuousClock.Instant) -> ContinuousClock.Instant? {
        let start = max(whole ?? now, now)
        let earliest = start - Self.interval * (Self.burst - 1)
        guard earliest <= now else { return earliest }
        whole = start + Self.interval
        return nil
    }
}
