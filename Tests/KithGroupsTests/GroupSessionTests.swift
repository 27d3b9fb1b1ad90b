import KithGroups
import KithMLS
import KithTesting
import Testing

@Suite struct GroupSessionTests {
    @Test func `three clients talk, and each learns what happens`() async throws {
        let delivery = MemoryDelivery()
        let clients = try ["anna", "ben", "cleo"].map { try client($0, delivery) }
        for client in clients { try await client.replenishKeyPackages() }
        let anna = try await clients[0].createGroup()
        #expect(try await taken(anna) == [.joined(epoch: 0)])
        guard case .confirmed(let change) = try await anna.add(["ben", "cleo"]) else {
            Issue.record("not confirmed")
            return
        }
        #expect(change.added.count == 2)
        #expect(try await taken(anna) == [.epochChanged(change, isOwn: true, retry: [])])
        let ben = try #require(try await clients[1].receiveWelcomes().first)
        let cleo = try #require(try await clients[2].receiveWelcomes().first)
        #expect(try await clients[1].receiveWelcomes().isEmpty)
        #expect(try await ben.members().count == 3)
        try await anna.say("hello")
        try await ben.synchronise()
        try await ben.say("hi")
        _ = try await anna.commit()
        for session in [anna, ben, cleo] { #expect(try await session.synchronise().refused.isEmpty) }
        let heard = try await taken(ben)
        #expect(heard.first == .joined(epoch: 1) && texts(heard) == ["hello"])
        #expect(heard.count == 4 && heard[2] == .ownEcho(OwnMessage(kind: .remembered(.application), epoch: 1)))
        #expect(try await texts(taken(cleo)) == ["hello", "hi"])
        #expect(try await texts(taken(anna)) == ["hi"])
        #expect(try await anna.agreement() == cleo.agreement())
    }

    @Test func `events come in order, wait for those who are late, and come again until they are taken`() async throws {
        let delivery = MemoryDelivery()
        let storage = MemoryGroupStorage()
        let sessions = try await party([client("anna", delivery), client("ben", delivery, storage)])
        let listener = Task { () -> [String] in
            var heard: [GroupEvent] = []
            for try await event in sessions[1].events {
                heard.append(event.event)
                if texts(heard).count == 3 { break }
            }
            return texts(heard)
        }
        for number in 0..<3 {
            try await sessions[0].say("\(number)")
            try await sessions[1].synchronise()
        }
        #expect(try await listener.value == ["0", "1", "2"])
        // The last one was given and not taken: the loop ended before it asked for more.
        let again = try client("ben", delivery, storage)
        let session = try #require(try again.group(sessions[1].groupID))
        #expect(try await texts(session.waitingEvents().map(\.event)) == ["2"])
        let waiting = Task { () -> Int in
            var count = 0
            for try await _ in session.events { count += 1 }
            return count
        }
        try await sessions[0].say("3")
        try await session.synchronise()
        while try await session.waitingEvents().isEmpty == false { await Task.yield() }
        await again.close()
        #expect(try await waiting.value == 2)
        await #expect(throws: GroupError.closed) { try await session.say("x") }
    }

    @Test func `of two commits one wins, and the other's proposals are named to be made again`() async throws {
        let delivery = MemoryDelivery()
        let clients = try ["anna", "ben", "cleo", "dora"].map { try client($0, delivery) }
        let sessions = try await party(Array(clients.prefix(3)))
        try await clients[3].replenishKeyPackages()
        try await sessions[2].proposeUpdate()
        for session in sessions { try await session.synchronise() }
        for session in sessions { _ = try await taken(session) }
        // Ben's commit is staged and not sent when Anna's is accepted.
        let package = try KeyPackage(message: #require(try await delivery.takeKeyPackage(of: "dora")))
        let staged = try await sessions[1].stageCommit(CommitOptions([.add(package)]))
        #expect(try await sessions[1].pendingCommit() == staged)
        #expect(try await sessions[1].epoch() == 1)
        var alone = CommitOptions()
        alone.includesQueuedProposals = false
        guard case .confirmed = try await sessions[0].commit(alone) else {
            Issue.record("not confirmed")
            return
        }
        let outcome = try await sessions[1].sendPendingCommit()
        #expect(outcome == .lost(retry: [SentProposal(proposal: .add(package), sender: .member(1))]))
        #expect(try await sessions[1].pendingCommit() == nil)
        try await sessions[1].synchronise()
        let events = try await taken(sessions[1])
        guard case .epochChanged(_, isOwn: false, let retry)? = events.last else {
            Issue.record("\(events)")
            return
        }
        #expect(retry.map(\.sender) == [.member(2)])
        guard case .confirmed = try await sessions[1].commit(CommitOptions([.add(package)])) else {
            Issue.record("not confirmed")
            return
        }
        let dora = try #require(try await clients[3].receiveWelcomes().first)
        try await sessions[0].synchronise()
        #expect(try await dora.agreement() == sessions[0].agreement())
    }

    @Test func `a winner that comes before the answer drops the own commit and names its proposals`() async throws {
        let delivery = MemoryDelivery()
        let sessions = try await party([client("anna", delivery), client("ben", delivery)])
        let id = PreSharedKeyID(key: .external(id: [1]), nonce: [UInt8](repeating: 7, count: 32))
        try sessions[1].client.addPresharedKey([1], Secret(copying: [9]))
        _ = try await sessions[1].stageCommit(CommitOptions([.psk(id)]))
        _ = try await sessions[0].commit()
        try await sessions[1].synchronise()
        guard case .epochChanged(_, isOwn: false, let retry)? = try await taken(sessions[1]).last else {
            Issue.record("no new epoch")
            return
        }
        #expect(retry == [SentProposal(proposal: .psk(id), sender: .member(1))])
        #expect(try await sessions[1].pendingCommit() == nil)
        await #expect(throws: GroupError.refused(.noPendingCommit)) { try await sessions[1].sendPendingCommit() }
    }

    @Test func `what cannot be sent is kept and sent later, also by the next run`() async throws {
        let delivery = MemoryDelivery()
        let storage = MemoryGroupStorage()
        let sessions = try await party([client("anna", delivery, storage), client("ben", delivery)])
        delivery.isReachable = false
        let sent = try await sessions[0].send(Array("one".utf8))
        #expect(!sent.isDelivered)
        guard case .pending(let change) = try await sessions[0].commit() else {
            Issue.record("not pending")
            return
        }
        await #expect(throws: GroupError.refused(.commitPending)) { try await sessions[0].discardPendingCommit() }
        await #expect(throws: GroupError.unreachable(DeliveryError("The delivery service cannot be reached."))) {
            try await sessions[0].synchronise()
        }
        // The program ends here.
        delivery.isReachable = true
        let anna = try #require(try client("anna", delivery, storage).group(sessions[0].groupID))
        #expect(try await anna.pendingCommit() == change)
        try await anna.synchronise()
        #expect(try await anna.epoch() == 2)
        try await anna.say("two")
        try await sessions[1].synchronise()
        let heard = try await taken(sessions[1])
        #expect(texts(heard) == ["one", "two"])
        #expect(try await anna.agreement() == sessions[1].agreement())
    }

    @Test func `what was said while away is read by all, after more epochs than anybody keeps`() async throws {
        let delivery = MemoryDelivery()
        let link = UnreliableDelivery(delivery)
        let storage = MemoryGroupStorage()
        let clients = try [client("anna", link, storage), client("ben", delivery), client("cleo", delivery)]
        let sessions = try await party(clients)
        link.losesMessages = true
        for text in ["one", "two"] { #expect(try await !sessions[0].send(Array(text.utf8)).isDelivered) }
        for _ in 0..<12 { _ = try await sessions[1].commit() }
        link.losesMessages = false
        // By another run of the program; before it knows of the new epochs, it says something more.
        let anna = try #require(try client("anna", link, storage).group(sessions[0].groupID))
        #expect(try await !anna.send(Array("three".utf8), authenticatedData: [3]).isDelivered)
        try await anna.synchronise()
        try await anna.say("four")
        for session in sessions.dropFirst() {
            #expect(try await session.synchronise().refused.isEmpty)
            #expect(try await texts(taken(session)) == ["one", "two", "three", "four"])
        }
        #expect(try await anna.synchronise().refused.isEmpty)
    }

    @Test func `what had its place before its epoch ended is not said twice`() async throws {
        let delivery = MemoryDelivery()
        let link = UnreliableDelivery(delivery)
        let sessions = try await party([client("anna", link), client("ben", delivery)])
        link.losesAnswers = true
        #expect(try await !sessions[0].send(Array("one".utf8)).isDelivered)
        _ = try await sessions[1].commit()
        link.losesAnswers = false
        try await sessions[0].synchronise()
        try await sessions[1].synchronise()
        #expect(try await texts(taken(sessions[1])) == ["one"])
    }

    @Test func `data that waits for a commit lets the commit pass, and keeps its order`() async throws {
        let delivery = MemoryDelivery()
        let link = UnreliableDelivery(delivery)
        let sessions = try await party([
            client("anna", link, commitsBeforeSending: false), client("ben", delivery),
        ])
        link.losesMessages = true
        for text in ["one", "two"] { try await sessions[0].say(text) }
        _ = try await sessions[1].commit()
        try await sessions[1].proposeUpdate()
        link.losesMessages = false
        // It is to be encrypted again, and must not before the proposal is committed.
        try await sessions[0].synchronise()
        await #expect(throws: GroupError.refused(.commitRequired)) { try await sessions[0].say("three") }
        guard case .confirmed = try await sessions[0].commit() else {
            Issue.record("the commit did not pass")
            return
        }
        try await sessions[0].say("three")
        try await sessions[0].synchronise()
        try await sessions[1].synchronise()
        #expect(try await texts(taken(sessions[1])) == ["one", "two", "three"])
    }

    @Test func `what a removed client could not send comes back to it, or is said when it joins again`() async throws {
        let delivery = MemoryDelivery()
        let link = UnreliableDelivery(delivery)
        let storage = MemoryGroupStorage()
        let sessions = try await party([
            client("anna", delivery, acceptsOutsiders: true), client("ben", link, storage, acceptsOutsiders: true),
        ])
        link.losesMessages = true
        _ = try await sessions[1].send(Array("one".utf8), authenticatedData: [1])
        _ = try await sessions[0].commit(CommitOptions([.remove(1)]))
        link.losesMessages = false
        try await sessions[1].synchronise()
        let told = try await taken(sessions[1])
        #expect(told.count == 2 && told.last == .unsent(Array("one".utf8), authenticatedData: [1]))
        // A client whose state is lost does not lose what it was to say.
        try await sessions[1].rejoin()
        try await sessions[0].synchronise()
        _ = try await (taken(sessions[0]), taken(sessions[1]))
        link.losesMessages = true
        try await sessions[1].say("two")
        link.losesMessages = false
        _ = try await sessions[0].commit()
        try await sessions[1].rejoin()
        try await sessions[0].synchronise()
        #expect(try await texts(taken(sessions[0])) == ["two"])
    }

    @Test func `a commit whose answer was lost is confirmed all the same, once`() async throws {
        let delivery = UnreliableDelivery()
        let storage = MemoryGroupStorage()
        let clients = try [client("anna", delivery, storage), client("ben", delivery), client("cleo", delivery)]
        let sessions = try await party(Array(clients.prefix(2)))
        try await clients[2].replenishKeyPackages()
        delivery.losesAnswers = true
        guard case .pending = try await sessions[0].add(["cleo"]) else {
            Issue.record("not pending")
            return
        }
        try await sessions[1].synchronise()
        #expect(try await sessions[1].epoch() == 2)
        #expect(try await clients[2].receiveWelcomes().isEmpty)
        delivery.losesAnswers = false
        let anna = try #require(try client("anna", delivery, storage).group(sessions[0].groupID))
        try await anna.synchronise()
        #expect(try await anna.epoch() == 2)
        let cleo = try #require(try await clients[2].receiveWelcomes().first)
        #expect(try await cleo.agreement() == anna.agreement())
        let own = try await taken(anna).filter { if case .epochChanged(_, isOwn: true, _) = $0 { true } else { false } }
        #expect(own.count == 1)
    }

    @Test func `bad input is refused, changes nothing and writes nothing`() async throws {
        let delivery = MemoryDelivery()
        let storage = CountingGroupStorage()
        let sessions = try await party([client("anna", delivery), client("ben", delivery, storage)])
        let (group, other) = (sessions[0].groupID, try await client("x", delivery).createGroup(id: [7]))
        // What Anna sends comes to Ben twice, damaged, and mixed with what is for others.
        delivery.isReachable = false
        let message = try await sessions[0].send([1]).bytes
        delivery.isReachable = true
        var damaged = message
        damaged[damaged.count - 1] ^= 1
        _ = try await delivery.send(damaged, to: group)
        try await other.say("elsewhere")
        let before = try await sessions[1].epochAuthenticator()
        _ = storage.takeCount()
        let result = try await sessions[1].synchronise()
        #expect(result.received == 0 && result.refused.map(\.reason) == [.decryptionFailed])
        #expect(storage.takeCount() == CountingGroupStorage.Count())
        #expect(try await sessions[1].epochAuthenticator() == before)
        try await sessions[0].synchronise()
        #expect(try await sessions[1].synchronise().received == 1)
        #expect(storage.takeCount().changes == 1)
        for junk in [[], [0], [UInt8](repeating: 255, count: 99)] as [[UInt8]] {
            await #expect(throws: GroupError.self) { try await sessions[1].client.join(junk) }
            await #expect(throws: DeliveryError.self) { try await delivery.send(junk, to: group) }
            await #expect(throws: GroupError.self) { try await sessions[1].peek(junk) }
        }
        #expect(storage.takeCount() == CountingGroupStorage.Count())
    }

    @Test func `many callers at once are served one after the other`() async throws {
        let delivery = MemoryDelivery()
        let sessions = try await party([client("anna", delivery), client("ben", delivery)])
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            for number in 0..<60 {
                tasks.addTask { try await sessions[number % 2].say("\(number)") }
                if number % 20 == 10 { tasks.addTask { _ = try await sessions[0].commit() } }
                if number % 7 == 0 { tasks.addTask { try await sessions[number % 2].synchronise() } }
            }
            try await tasks.waitForAll()
        }
        // Twice: what anna encrypts again when she is behind, ben hears; and she what he does.
        for _ in 0..<2 { for session in sessions { try await session.synchronise() } }
        let (anna, ben) = (try await taken(sessions[0]), try await taken(sessions[1]))
        #expect(Set(texts(anna)) == Set((0..<30).map { "\(2 * $0 + 1)" }) && texts(anna).count == 30)
        #expect(Set(texts(ben)) == Set((0..<30).map { "\(2 * $0)" }) && texts(ben).count == 30)
        #expect(try await sessions[0].agreement() == sessions[1].agreement())
    }

    @Test func `who is removed learns it, and can join again`() async throws {
        let delivery = MemoryDelivery()
        let clients = try ["anna", "ben"].map { try client($0, delivery) }
        let sessions = try await party(clients)
        _ = try await sessions[0].commit(CommitOptions([.remove(1)]))
        try await sessions[1].synchronise()
        guard case .removed? = try await taken(sessions[1]).last else {
            Issue.record("not removed")
            return
        }
        await #expect(throws: GroupError.refused(.removedFromGroup)) { try await sessions[1].say("x") }
        _ = try await sessions[0].add(["ben"])
        let again = try #require(try await clients[1].receiveWelcomes().first)
        #expect(again === sessions[1])
        try await sessions[0].say("welcome back")
        try await again.synchronise()
        #expect(try await texts(taken(again)) == ["welcome back"])
        try await again.forget()
        #expect(try clients[1].groups().isEmpty)
        await #expect(throws: GroupError.closed) { try await again.epoch() }
    }

    @Test func `a client whose groups were lost joins by its own commit, and replaces its old self`() async throws {
        let delivery = MemoryDelivery()
        let storage = MemoryGroupStorage()
        let sessions = try await party([client("anna", delivery), client("ben", delivery, storage)])
        try await sessions[1].forget()
        let ben = try client("ben", delivery, storage)
        let session = try await ben.joinExternally(sessions[0].groupID)
        try await sessions[0].synchronise()
        guard case .epochChanged(let change, isOwn: false, _)? = try await taken(sessions[0]).last else {
            Issue.record("no new epoch")
            return
        }
        #expect(change.isExternal && change.removed.count == 1)
        #expect(try await sessions[0].members().count == 2)
        try await session.say("back")
        try await sessions[0].synchronise()
        #expect(try await texts(taken(sessions[0])) == ["back"])
        try await session.synchronise()
        #expect(try await session.agreement() == sessions[0].agreement())
    }

    @Test func `a client that is behind for good is told so once, and joins anew`() async throws {
        let delivery = MemoryDelivery()
        let clients = try ["anna", "ben", "cleo"].map { try client($0, delivery) }
        let sessions = try await party(clients)
        // A commit that Ben cannot follow: of the key it names he knows nothing.
        let id = PreSharedKeyID(key: .external(id: [5]), nonce: [UInt8](repeating: 3, count: 32))
        for index in [0, 2] { try clients[index].addPresharedKey([5], Secret(copying: [1])) }
        _ = try await sessions[0].commit(CommitOptions([.psk(id)]))
        try await sessions[0].say("one")
        try await sessions[0].say("two")
        let result = try await sessions[1].synchronise()
        #expect(result.refused.map(\.reason) == [.unknownPSK])
        let told = try await taken(sessions[1])
        #expect(told == [.needsRejoin(epoch: 2)])
        try await sessions[1].rejoin()
        #expect(try await taken(sessions[1]) == [.joined(epoch: 3)])
        for session in [sessions[0], sessions[2]] { try await session.synchronise() }
        #expect(try await sessions[1].agreement() == sessions[2].agreement())
        #expect(try await sessions[2].members().count == 3)
        #expect(try await sessions[1].synchronise().refused.isEmpty)
    }

    @Test func `a reinitialised group says so, and its successor is joined from what it left`() async throws {
        let delivery = MemoryDelivery()
        let clients = try [client("anna", delivery), client("ben", delivery)]
        let sessions = try await party(clients)
        let reInit = ReInit(groupID: [4, 4], cipherSuite: CipherSuites.all[0].id)
        _ = try await sessions[0].commit(CommitOptions([.reInit(reInit)]))
        try await sessions[1].synchronise()
        for session in sessions {
            let last = try await taken(session).last
            #expect(last == .reinitialised(reInit))
            await #expect(throws: GroupError.refused(.groupEnded)) { try await session.say("x") }
        }
        let (successor, outcome) = try await clients[1].foundSuccessor(of: sessions[1], with: ["anna"])
        guard case .confirmed = outcome else {
            Issue.record("\(outcome)")
            return
        }
        #expect(successor.groupID == [4, 4])
        let joined = try #require(try await clients[0].receiveWelcomes().first)
        #expect(try await joined.agreement() == successor.agreement())
        try await joined.say("here we go on")
        try await successor.synchronise()
        #expect(try await texts(taken(successor)) == ["here we go on"])
    }

    @Test func `some members branch off into a group of their own`() async throws {
        let delivery = MemoryDelivery()
        let clients = try ["anna", "ben", "cleo"].map { try client($0, delivery) }
        let sessions = try await party(clients)
        let (branch, _) = try await clients[0].foundBranch(of: sessions[0], with: ["cleo"])
        let joined = try #require(try await clients[2].receiveWelcomes().first)
        #expect(joined.groupID == branch.groupID && joined.groupID != sessions[0].groupID)
        #expect(try await joined.agreement() == branch.agreement())
        #expect(try clients[2].groups().count == 2)
        await #expect(throws: GroupError.refused(.branchMembersDiffer)) {
            try await client("dora", delivery).replenishKeyPackages()
            _ = try await clients[0].foundBranch(of: sessions[0], with: ["dora"])
        }
    }

    @Test func `what waits is bounded on both sides, and nothing of it is dropped`() async throws {
        let delivery = MemoryDelivery()
        var few = options()
        few.waitingEvents = 5
        few.waitingMessages = 3
        let storage = MemoryGroupStorage()
        let ben = try GroupClient(name: "ben", storage: storage, delivery: delivery, options: few)
        let sessions = try await party([client("anna", delivery), ben])
        for number in 0..<200 { try await sessions[0].say("\(number)") }
        var heard: [String] = []
        while true {
            let result = try await sessions[1].synchronise()
            let events = try await taken(sessions[1])
            // A page that was fetched is taken in whole.
            #expect(events.count <= 5 + 64)
            heard += texts(events)
            if result.isComplete { break }
        }
        #expect(heard == (0..<200).map { "\($0)" })
        delivery.isReachable = false
        for number in 0..<3 { try await sessions[1].say("\(number)") }
        await #expect(throws: GroupError.tooMuchWaiting) { try await sessions[1].say("3") }
        delivery.isReachable = true
        try await sessions[1].synchronise()
        try await sessions[0].synchronise()
        #expect(try await texts(taken(sessions[0])) == ["0", "1", "2"])
    }

    @Test func `key packages are used once, made up for, and the last one again and again`() async throws {
        let delivery = MemoryDelivery()
        let storage = MemoryGroupStorage()
        let ben = try client("ben", delivery, storage, keyPackages: 2)
        #expect(try await ben.replenishKeyPackages() == 3)
        #expect(try await ben.replenishKeyPackages() == 0)
        for number in 0..<4 {
            let session = try await client("anna \(number)", delivery).createGroup()
            _ = try await session.add(["ben"])
        }
        #expect(try await delivery.keyPackageCount(of: "ben") == (0, true))
        #expect(try await ben.receiveWelcomes().count == 4)
        #expect(try storage.items(.keyPackage).isEmpty && storage.items(.lastResort).count == 1)
        #expect(try await ben.replenishKeyPackages() == 2)
        #expect(try storage.items(.keyPackage).count == 2)
        await #expect(throws: GroupError.noKeyPackage("nobody")) {
            try await client("x", delivery).createGroup().add(["nobody"])
        }
        #expect(try ben.groups().count == 4)
        try await ben.synchronise()
    }

    @Test func `key packages whose time is over are forgotten, and made up for before`() async throws {
        let storage = MemoryGroupStorage()
        let delivery = MemoryDelivery()
        _ = try await client("ben", delivery, storage).replenishKeyPackages()
        #expect(try storage.items(.keyPackage).count == 3)
        var later = options()
        later.now = { noon + 7 * 7 * 86_400 }
        #expect(
            try await GroupClient(name: "ben", storage: storage, delivery: delivery, options: later)
                .replenishKeyPackages() == 4)
        #expect(try storage.items(.keyPackage).count == 6 && storage.items(.lastResort).count == 2)
        // The first ones are still handed out first; whoever adds Ben then takes the next.
        later.now = { noon + 13 * 7 * 86_400 + 1 }
        let ben = try GroupClient(name: "ben", storage: storage, delivery: delivery, options: later)
        let anna = try GroupClient(
            name: "anna", storage: MemoryGroupStorage(), delivery: delivery, options: later)
        _ = try await anna.createGroup().add(["ben"])
        #expect(try await ben.receiveWelcomes().count == 1)
        _ = try await ben.replenishKeyPackages()
        #expect(try storage.items(.keyPackage).count == 5 && storage.items(.lastResort).count == 2)
    }

    @Test func `damaged rows of a session are refused and never trap`() async throws {
        var random = SeededRandom.fromEnvironment()
        print(random)
        let delivery = MemoryDelivery()
        let storage = MemoryGroupStorage()
        let sessions = try await party([client("anna", delivery), client("ben", delivery, storage)])
        try await sessions[0].propose(.remove(1))
        try await sessions[1].synchronise()
        _ = try await sessions[0].commit()
        try await sessions[1].synchronise()
        delivery.isReachable = false
        let group = sessions[1].groupID
        let good = try #require(try storage.load(group))
        var refused = 0
        for (index, row) in good.rows.enumerated() where 32..<64 ~= row.key.kind.rawValue {
            let bytes = row.content.withBytes { $0 }
            var attempts: [(bytes: [UInt8], isBad: Bool)] = [
                ([], true), (Array(bytes.dropLast()), true), (bytes + [0], true), ([9] + bytes.dropFirst(), true),
                ([0] + bytes.dropFirst(), true),
            ]
            for _ in 0..<200 {
                var changed = bytes
                changed[Int.random(in: 0..<bytes.count, using: &random)] ^= UInt8.random(in: 1...255, using: &random)
                attempts.append((changed, false))
                attempts.append(([1] + random.bytes(Int.random(in: 0...60, using: &random)), false))
            }
            for (changed, isBad) in attempts {
                var changes = GroupChanges(group)
                changes.rows = good.rows
                changes.rows[index] = GroupRow(row.key, StoredBytes(copying: changed))
                let damaged = MemoryGroupStorage()
                try damaged.commit(StorageChanges(changes))
                let session = try #require(try client("ben", delivery, damaged).group(group))
                do throws(GroupError) {
                    _ = try await session.waitingEvents()
                    #expect(!isBad, "\(row.key) \(changed.count) of \(bytes.count)")
                } catch {
                    #expect(error == .storage(.corrupt) || error == .storage(.laterFormat))
                    refused += 1
                }
                #expect(try damaged.version(of: group) == changes.nextVersion)
            }
        }
        #expect(refused > 200, "\(random)")
    }

    @Test func `a program that only shows a message does not use it up`() async throws {
        let delivery = MemoryDelivery()
        let storage = CountingGroupStorage()
        let sessions = try await party([client("anna", delivery), client("ben", delivery, storage)])
        let message = try await sessions[0].send(Array("once".utf8)).bytes
        _ = storage.takeCount()
        for _ in 0..<2 { #expect(try await sessions[1].peek(message)?.data == Array("once".utf8)) }
        #expect(storage.takeCount() == CountingGroupStorage.Count())
        try await sessions[1].synchronise()
        #expect(try await texts(taken(sessions[1])) == ["once"])
        await #expect(throws: GroupError.refused(.messageKeyUsed)) { try await sessions[1].peek(message) }
    }
}
