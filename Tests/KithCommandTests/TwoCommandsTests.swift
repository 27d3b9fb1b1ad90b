import Foundation
import KithTesting
import Testing

/// Two commands at once on one data directory, without a daemon.
@Suite(.timeLimit(.minutes(3))) struct TwoCommandsTests {
    private func withFollower(
        _ body: (_ machine: Machine, _ top: String, _ follower: Running) async throws -> Void
    ) async throws {
        let machine = try Machine("two")
        let top = URL(fileURLWithPath: machine.path("tree")).resolvingSymlinksInPath().path
        for name in ["report.txt", "photo.jpg"] { try write(name, to: top + "/" + name) }
        try await machine.expect("add", top)
        // It has the data directory open until it is ended.
        let follower = try machine.start(["search", "--follow", "report"])
        try await eventually { follower.soFar.contains("report.txt") }
        try await body(machine, top, follower)
        if follower.process.isRunning { kill(follower.process.processIdentifier, SIGKILL) }
        await machine.remove()
    }

    @Test func `a second command uses the device of the first, at a socket of its own`() async throws {
        try await withFollower { machine, top, follower in
            let socket = machine.data + "/kith.command.sock"
            let mode = try FileManager.default.attributesOfItem(atPath: socket)[.posixPermissions] as? Int
            #expect(mode == 0o600)
            #expect(!FileManager.default.fileExists(atPath: machine.data + "/kith.sock"))
            #expect(try await machine.expect("search", "photo") == "\(top)/photo.jpg\n")
            try await machine.expect("tags", "add", "both", top + "/photo.jpg")
            #expect(try await machine.expect("search", "tag:both") == "\(top)/photo.jpg\n")
            // What needs a device that stays is not content with it.
            let down = try await machine.kith(["down"])
            #expect(down.status == 3 && down.error.contains("kith up"), "\(down)")
            let events = try await machine.kith(["events"])
            #expect(events.status == 3 && events.error.contains("is not up"), "\(events)")
            #expect(follower.process.isRunning)
            // With its end the directory is free, and of one that ends by itself nothing is left.
            kill(follower.process.processIdentifier, SIGINT)
            _ = try await follower.outcome(seconds: 30)
            #expect(try await machine.expect("search", "photo") == "\(top)/photo.jpg\n")
            #expect(!FileManager.default.fileExists(atPath: socket))
        }
    }

    @Test func `a command that was killed leaves a socket that stands in nobody's way`() async throws {
        try await withFollower { machine, top, follower in
            kill(follower.process.processIdentifier, SIGKILL)
            _ = try await follower.outcome(seconds: 30)
            #expect(FileManager.default.fileExists(atPath: machine.data + "/kith.command.sock"))
            #expect(try await machine.expect("search", "photo") == "\(top)/photo.jpg\n")
            try await machine.up()
            #expect(try await machine.expect("search", "photo") == "\(top)/photo.jpg\n")
        }
    }

    @Test func `what only asks goes on with a device of its own when the first command ends`() async throws {
        try await withFollower { machine, top, first in
            let second = try machine.start(["search", "--follow", "photo"])
            try await eventually { second.soFar.contains("photo.jpg") }
            kill(first.process.processIdentifier, SIGKILL)
            _ = try await first.outcome(seconds: 30)
            // It has the directory now, and lends its device to others.
            try await eventually {
                second.soFar.split(separator: "\n").count { $0.contains("photo.jpg") } == 2
            }
            #expect(try await machine.expect("search", "report") == "\(top)/report.txt\n")
            #expect(second.process.isRunning)
            kill(second.process.processIdentifier, SIGINT)
            _ = try await second.outcome(seconds: 30)
        }
    }

    @Test func `many commands at once all get their answer`() async throws {
        try await withFollower { machine, top, first in
            kill(first.process.processIdentifier, SIGINT)
            _ = try await first.outcome(seconds: 30)
            // Each may be the one that has the directory, for a moment.
            let running = try (0..<6).map { _ in try machine.start(["search", "photo"]) }
            for one in running {
                let outcome = try await one.outcome(seconds: 60)
                #expect(outcome.status == 0 && outcome.output == "\(top)/photo.jpg\n", "\(outcome)")
            }
        }
    }

    @Test func `without a device both ways to begin are said`() async throws {
        let machine = try Machine("none")
        let outcome = try await machine.kith(["search", "photo"])
        #expect(
            outcome.error.contains(
                "There is no device at \(machine.data). Start one: kith up --data \(machine.data). If yours is elsewhere: --data DIR, or $KITH_DATA."
            ), "\(outcome)")
        #expect(outcome.status == 3 && !FileManager.default.fileExists(atPath: machine.data))
        await machine.remove()
    }
}
