import Foundation
import Kith
import KithTesting
import Synchronization
import Testing

/// Answers at once, or never.
private final class PatienceService: Service {
    let name: String
    /// The calls that will never be answered.
    let waiting = Atomic(0)

    init(_ name: String) { self.name = name }

    let info = ServiceInfo("patience")

    var handlers: [Handler] {
        [
            .query("echo", access: .paired) { (number: Int, _) in number },
            .query("name", access: .paired) { _ in self.name },
            .query("never", access: .paired) { _ -> Int in
                self.waiting.add(1, ordering: .relaxed)
                defer { self.waiting.subtract(1, ordering: .relaxed) }
                try await untilCancelled()
                return 0
            },
        ]
    }
}

/// Asks its caller back, until nothing is left.
private struct BouncingService: Service {
    let info = ServiceInfo("bouncing")

    var handlers: [Handler] {
        [
            .query("bounce", access: .paired) { (left: Int, context) -> Int in
                guard left > 0, let caller = context.caller.device else { return 0 }
                let rest: Int = try await context.client.request(
                    "bouncing/bounce", left - 1, from: .device(caller.description))
                return rest + 1
            }
        ]
    }
}

private func open(_ name: String, _ services: [any Service], in folder: String) async throws -> Device {
    var options = onLoopback
    options.name = name
    options.services = .only(services)
    // A silent peer is noticed within two seconds; the usual is a minute and a half.
    options.endpoint.idleTimeout = .seconds(2)
    options.endpoint.keepAlive = .milliseconds(200)
    return try await Device.open(directory: folder, options: options)
}

@Suite(.timeLimit(.minutes(3))) struct `Connections of paired devices` {
    @Test func `a handler that never returns delays nobody on its connection, and ends with its caller`() async throws {
        let folders = [try TemporaryFolder(), try TemporaryFolder()]
        let service = PatienceService("laptop")
        let laptop = try await open("laptop", [service], in: folders[0].path)
        let phone = try await open("phone", [], in: folders[1].path)
        try await laptop.whileRunning {
            try await phone.whileRunning {
                try await pair(phone, with: laptop, grants: [])
                let calls = (0..<8).map { _ in
                    Task { try await phone.request("patience/never", from: .device("laptop"), as: Int.self) }
                }
                try await eventually { service.waiting.load(ordering: .relaxed) == 8 }
                for number in 0..<100 {
                    let answer: Int = try await phone.request("patience/echo", number, from: .device("laptop"))
                    #expect(answer == number)
                }
                #expect(service.waiting.load(ordering: .relaxed) == 8)
                for call in calls.dropLast() { call.cancel() }
                for call in calls.dropLast() {
                    await #expect(throws: KithError(.cancelled, "")) { try await call.value }
                }
                try await eventually { service.waiting.load(ordering: .relaxed) == 1 }
                // Stopping waits for nobody who never returns.
                laptop.beginGracefulShutdown()
                await #expect(throws: (any Error).self) { try await calls[7].value }
            }
        }
        #expect(service.waiting.load(ordering: .relaxed) == 0)
    }

    @Test func `handlers that ask their caller back, over and over, wait for nobody else on the connection`()
        async throws
    {
        let folders = [try TemporaryFolder(), try TemporaryFolder()]
        let laptop = try await open("laptop", [BouncingService()], in: folders[0].path)
        let phone = try await open("phone", [BouncingService()], in: folders[1].path)
        try await laptop.whileRunning {
            try await phone.whileRunning {
                try await pair(phone, with: laptop, grants: [])
                try await withThrowingTaskGroup(of: Int.self) { group in
                    for _ in 0..<4 {
                        group.addTask { try await phone.request("bouncing/bounce", 12, from: .device("laptop")) }
                    }
                    for try await count in group { #expect(count == 12) }
                }
            }
        }
    }

    @Test func `who follows which devices come and go is told that this one has stopped`() async throws {
        let folder = try TemporaryFolder()
        let device = try await open("phone", [], in: folder.path)
        let before = device.peerChanges()
        try await device.whileRunning {}
        for await _ in before {}
        for await _ in device.peerChanges() {}
    }

    @Test(arguments: [true, false])
    func `two that call each other at the same moment are up once, and down once`(staysInviter: Bool) async throws {
        let folders = [try TemporaryFolder(), try TemporaryFolder()]
        let laptop = try await open("laptop", [PatienceService("laptop")], in: folders[0].path)
        let phone = try await open("phone", [PatienceService("phone")], in: folders[1].path)
        let (staying, leaving) = staysInviter ? (laptop, phone) : (phone, laptop)
        try await staying.whileRunning {
            var isPaired = false
            for round in 0..<5 {
                let states = try staying.subscribe("$registry/peers/\(leaving.id)/state", as: String.self)
                var events = states.makeAsyncIterator()
                try await leaving.whileRunning {
                    if !isPaired {
                        try await pair(phone, with: laptop, grants: [])
                        isPaired = true
                    }
                    async let there: Int = staying.request("patience/echo", 1, from: .device(leaving.id.description))
                    async let back: Int = leaving.request("patience/echo", 2, from: .device(staying.id.description))
                    let answers = try await [there, back]
                    #expect(answers == [1, 2])
                    #expect(try await events.next()?.message == "connected", "round \(round)")
                    var paths = try staying.subscribe(
                        "$registry/peers/\(leaving.id)/path", as: String.self, lookBack: .seconds(3600)
                    ).makeAsyncIterator()
                    let path = try #require(try await paths.next()?.message)
                    #expect(path.hasPrefix("lan "), "\(path)")
                }
                // Had it been up twice, that would come first.
                #expect(try await events.next()?.message == "disconnected", "round \(round)")
            }
        }
    }

    /// The laptop is a process of its own: it is stopped, goes on, and is killed.
    @Test func `a peer that is silent is down within the time that was set, and one killed under load loses nothing`()
        async throws
    {
        let folders = [try TemporaryFolder(), try TemporaryFolder(), try TemporaryFolder()]
        let (directory, note) = (folders[0].path, folders[0].path + ".invitation")
        defer { try? FileManager.default.removeItem(atPath: note) }
        let laptop = Task {
            let turn = await ExitTestTurn.take()
            defer { turn.end() }
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [directory = directory as String, note = note as String] in
                let device = try await open("laptop", [PatienceService("laptop")], in: directory)
                try await device.whileRunning {
                    let invitation = try await device.client.call(
                        Invitations.Create.self, .init(grants: [], lifetimeSeconds: 60, isAutomatic: true))
                    try Data("\(getpid()) \(invitation.text)".utf8).write(
                        to: URL(fileURLWithPath: note), options: .atomic)
                    try await untilCancelled()
                }
            }
        }
        try await eventually { FileManager.default.fileExists(atPath: note) }
        let words = try String(contentsOfFile: note, encoding: .utf8).split(separator: " ", maxSplits: 1)
        let process = try #require(Int32(words[0]))
        defer { kill(process, SIGKILL) }
        let phone = try await open("phone", [], in: folders[1].path)
        let other = try await open("other", [PatienceService("other")], in: folders[2].path)
        try await other.whileRunning {
            try await phone.whileRunning {
                try await join(phone, String(words[1]))
                try await pair(phone, with: other, grants: [])
                try await eventually { phone.announcedServices.count { $0.path == "patience" } == 2 }
                let id = try #require(phone.announcedServices.map(\.device).first { $0 != other.id } ?? nil)
                var states = try phone.subscribe(
                    "$registry/peers/\(id)/state", as: String.self, lookBack: .seconds(3600)
                ).makeAsyncIterator()
                #expect(try await states.next()?.message == "connected")
                kill(process, SIGSTOP)
                #expect(try await states.next()?.message == "disconnected")
                #expect(!phone.announcedServices.contains { $0.device == id })
                #expect(try await phone.request("patience/name", as: String.self) == "other")
                kill(process, SIGCONT)
                let name: String = try await phone.request("patience/name", from: .device(id.description))
                #expect(name == "laptop")
                #expect(try await states.next()?.message == "connected")
                try await eventually { phone.announcedServices.contains { $0.device == id } }

                let answers = Mutex<[String: Int]>([:])
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for _ in 0..<16 {
                        group.addTask { @Sendable in
                            var after = 0
                            while after < 20 {
                                let name: String = try await phone.request("patience/name")
                                answers.withLock { $0[name, default: 0] += 1 }
                                if !phone.announcedServices.contains(where: { $0.device == id }) { after += 1 }
                            }
                        }
                    }
                    try await eventually { answers.withLock { $0["laptop", default: 0] > 20 && $0["other"] != nil } }
                    kill(process, SIGKILL)
                    try await group.waitForAll()
                }
                #expect(try await states.next()?.message == "disconnected")
            }
        }
        _ = await laptop.value
    }
}
