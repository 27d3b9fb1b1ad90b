#if os(Linux)
import Foundation
import KithTesting
import Testing

/// A device with a location on a file system whose server stops answering.
@Suite(.timeLimit(.minutes(4)), .enabled(if: StallingMount.isPossible, "needs root, /dev/fuse and python3"))
struct StallingMountTests {
    @Test func `everything else goes on, what is known is found, and the device stops`() async throws {
        let laptop = try Machine("laptop")
        do {
            try await laptop.up()
            let top = URL(fileURLWithPath: laptop.folder.path).resolvingSymlinksInPath().path
            for name in ["far", "near", "later"] {
                try FileManager.default.createDirectory(atPath: "\(top)/\(name)", withIntermediateDirectories: true)
            }
            try write("1", to: top + "/near/report near.txt")
            try write("2", to: top + "/later/report later.txt")
            let mount = try StallingMount(at: top + "/far", names: ["report far.txt"])
            defer { mount.remove() }
            try await laptop.expect("add", top + "/near")
            try await laptop.expect("add", top + "/far")
            mount.stall()
            // Each of these keeps a thread, or would.
            var asking = [
                try laptop.start(["library", "rescan"]), try laptop.start(["ls", top + "/far"]),
                try laptop.start(["find-duplicates"]),
            ]
            let found = try await laptop.expect("search", "report")
            #expect(found.contains("report far.txt") && found.contains("report near.txt"))
            #expect(try await laptop.expect("library", "ls", top + "/far").contains("report far.txt"))
            let overview = try await laptop.expect("library")
            #expect(overview.contains(top + "/far") && overview.contains(top + "/near"), "\(overview)")
            let volumes = try await laptop.expect("volumes")
            #expect(volumes.split(separator: "\n").contains { $0.contains("/far") }, "\(volumes)")
            try await laptop.expect("add", top + "/later")
            try write("3", to: top + "/near/report again.txt")
            try await eventually {
                let found = try await laptop.expect("search", "report")
                return found.contains("report later.txt") && found.contains("report again.txt")
            }
            asking.append(try laptop.start(["add", top + "/far/deeper"]))
            try await laptop.expect("jobs")
            try await laptop.expect("down")
            // A command that looks for a folder itself waits there as every program does.
            for asked in asking {
                kill(asked.process.processIdentifier, SIGKILL)
                _ = try await asked.outcome(seconds: 60)
            }
            // Nothing of it is held: it can be up again, and down, while the mount is silent.
            try await laptop.up()
            #expect(try await laptop.expect("search", "report").contains("report far.txt"))
            try await laptop.expect("down")
        } catch {
            await laptop.remove()
            throw error
        }
        await laptop.remove()
    }
}
#endif
