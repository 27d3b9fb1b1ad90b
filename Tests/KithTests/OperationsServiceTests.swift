import Foundation
import Kith
import KithAPI
import KithTesting
import KithWire
import Testing

/// Operations on files, volumes and moved locations, by the methods of a device.
@Suite(.timeLimit(.minutes(3))) struct OperationsServiceTests {
    private struct Place {
        let folder: TemporaryFolder
        let device: Device
        var top: String { folder.path + "/tree" }
        var client: Client { device.client }

        init(listens: Bool = false) async throws {
            folder = try TemporaryFolder()
            var options = onLoopback
            (options.name, options.listens) = ("laptop", listens)
            device = try await Device.open(directory: folder.path + "/device", options: options)
            try FileManager.default.createDirectory(atPath: top + "/into", withIntermediateDirectories: true)
        }

        func write(_ name: String, _ text: String) throws {
            try Data(text.utf8).write(to: URL(fileURLWithPath: top + "/" + name))
        }

        func path(_ name: String) -> Files.Path { Files.Path(top + "/" + name) }

        var names: [String] { get throws { try FileManager.default.subpathsOfDirectory(atPath: top).sorted() } }

        /// Confirms a plan, and waits until it is done.
        func run(_ plan: Operations.Planned) async throws -> Operations.Entry {
            let started = try await client.call(Operations.Confirm.self, .init(plan: plan.id))
            let stream = try await client.open(Operations.Follow.self, .init(operation: started.operation)).stream
            var isDone = false
            for try await update in stream.messages where update.isLast { isDone = true }
            #expect(isDone)
            let entry = try await client.call(Operations.List.self, .init()).operations.first { $0.id == plan.id }
            return try #require(entry)
        }
    }

    @Test func `an operation is planned, confirmed, followed and taken back`() async throws {
        let place = try await Place()
        try await place.device.whileRunning {
            try place.write("a.txt", "12345")
            let plan = try await place.client.call(
                Operations.Plan.self,
                .init(kind: .move, paths: [place.path("a.txt")], destination: place.path("into")))
            #expect(try place.names == ["a.txt", "into"])
            let entry = try await place.run(plan)
            #expect(entry.done == 1 && entry.isUndoable && entry.job != nil && entry.ended != nil)
            #expect(try place.names == ["into", "into/a.txt"])
            let results = try await place.client.call(Operations.Results.self, .init(operation: plan.id))
            #expect(results.steps.map(\.state) == [.done])
            let undone = try await place.run(try await place.client.call(Operations.Undo.self, .init()))
            #expect(undone.undoes == plan.id)
            #expect(try place.names == ["a.txt", "into"])
        }
    }

    @Test func `nothing is done with what the device keeps for itself`() async throws {
        let place = try await Place()
        try await place.device.whileRunning {
            let data = place.folder.path + "/device"
            for (kind, path) in [
                (Operations.Kind.delete, data), (.trash, data), (.move, data), (.copy, data + "/kith.sqlite"),
                (.delete, place.folder.path),
            ] {
                do {
                    let plan = try await place.client.call(
                        Operations.Plan.self,
                        .init(kind: kind, paths: [Files.Path(path)], destination: place.path("into")))
                    // Nothing of it is left to be done.
                    #expect(plan.totals.problems == plan.totals.steps, "\(kind) \(path)")
                } catch let error as KithError {
                    #expect(error.code == .denied, "\(error)")
                }
            }
        }
    }

    @Test func `the volumes of this machine are listed, and one is measured`() async throws {
        let place = try await Place()
        try await place.device.whileRunning {
            let volumes = try await place.client.call(Volumes.List.self, .init()).volumes
            #expect(volumes.contains { $0.path == "/" && ($0.capacity ?? 0) > 0 })
            let job = try await place.client.call(
                Volumes.Test.self, .init(path: Files.Path(place.folder.path), size: 1 << 20)
            ).job
            try await eventually {
                try await place.client.call(Volumes.TestResult.self, .init(job: job)).speed.map { $0.write > 0 }
                    ?? false
            }
            let stream = try await place.client.open(Volumes.Follow.self, .init()).stream
            var messages = stream.messages.makeAsyncIterator()
            #expect(try await messages.next()?.volumes.isEmpty == false)
            stream.abort(.cancelled)
        }
    }

    @Test func `a location that was moved is told where it is`() async throws {
        let place = try await Place()
        try await place.device.whileRunning {
            try place.write("a.txt", "1")
            let location = try await place.client.call(Locations.Add.self, .init(path: Files.Path(place.top)))
            let scan = try await place.client.open(Locations.Scan.self, .init(id: location.id)).stream
            for try await _ in scan.messages {}
            let new = place.folder.path + "/moved"
            try FileManager.default.moveItem(atPath: place.top, toPath: new)
            let moved = try await place.client.call(
                Locations.Relocate.self, .init(id: location.id, path: Files.Path(new)))
            #expect(moved.path == Files.Path(new))
            #expect(
                try await place.client.call(Search.Find.self, .init(query: "a.txt")).entries.map(\.path) == [
                    Files.Path(new + "/a.txt")
                ])
        }
    }
}
