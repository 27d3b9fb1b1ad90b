import Foundation
import Kith
import KithAPI
import KithIdentity
import KithTesting
import KithWire
import Testing

@Suite(.timeLimit(.minutes(2))) struct LibraryTests {
    /// A tree of files, and a device with a library beside it.
    private struct Place {
        let folder: TemporaryFolder
        let device: Device
        var top: String { folder.path + "/tree" }
        var client: Client { device.client }

        init(name: String = "laptop", listens: Bool = false) async throws {
            folder = try TemporaryFolder()
            device = try await Self.opened(folder, name: name, listens: listens)
            try FileManager.default.createDirectory(atPath: top + "/docs", withIntermediateDirectories: true)
        }

        static func opened(_ folder: TemporaryFolder, name: String, listens: Bool) async throws -> Device {
            var options = onLoopback
            (options.name, options.listens) = (name, listens)
            return try await Device.open(directory: folder.path + "/device", options: options)
        }

        func write(_ name: String, _ text: String = "") throws {
            try Data(text.utf8).write(to: URL(fileURLWithPath: top + "/" + name))
        }

        func added() async throws -> Library.Location {
            let location = try await client.call(Locations.Add.self, .init(path: Files.Path(top)))
            try await scan(location)
            return location
        }

        func scan(_ location: Library.Location) async throws {
            let stream = try await client.open(Locations.Scan.self, .init(id: location.id)).stream
            for try await progress in stream.messages where progress.isLast { return }
            Issue.record("the scan did not end")
        }

        func names(_ query: String) async throws -> [String] {
            try await client.call(Search.Find.self, .init(query: query)).entries.map {
                String($0.path.description.dropFirst(top.count + 1))
            }
        }
    }

    @Test func `a folder is added, found in, and taken out`() async throws {
        let place = try await Place()
        try await place.device.whileRunning {
            try place.write("docs/report.txt", "12345")
            let location = try await place.added()
            #expect(location.name == "tree")
            #expect(try await place.names("report") == ["docs/report.txt"])
            let listed = try await place.client.call(Locations.List.self, .init()).locations
            #expect(listed.map(\.entries) == [2] && listed.allSatisfy { !$0.isScanning && $0.scanned != nil })
            _ = try await place.client.call(Locations.Remove.self, .init(id: location.id))
            #expect(try await place.names("report") == [])
            #expect(FileManager.default.fileExists(atPath: place.top + "/docs/report.txt"))
        }
    }

    @Test func `what changes is found while the device is up`() async throws {
        let place = try await Place(listens: true)
        try await place.device.whileRunning {
            _ = try await place.added()
            let stream = try await place.client.open(Search.Follow.self, .init(query: "ext:txt")).stream
            var messages = stream.messages.makeAsyncIterator()
            #expect(try await messages.next()?.found.isEmpty == true)
            try place.write("docs/one.txt")
            let first = try #require(try await messages.next())
            #expect(first.found.map(\.path) == [Files.Path(place.top + "/docs/one.txt")] && first.gone.isEmpty)
            try FileManager.default.moveItem(atPath: place.top + "/docs/one.txt", toPath: place.top + "/two.txt")
            let second = try #require(try await messages.next())
            // The same file by another name.
            #expect(second.found.map(\.id) == first.found.map(\.id) && second.gone.isEmpty)
            try FileManager.default.removeItem(atPath: place.top + "/two.txt")
            #expect(try await messages.next()?.gone == first.found.map(\.id))
            stream.abort(.cancelled)
        }
    }

    @Test func `a device that was down finds what happened meanwhile`() async throws {
        let place = try await Place(listens: true)
        try place.write("one.txt")
        let location = try await place.device.whileRunning { try await place.added() }
        try place.write("two.txt")
        let again = try await Place.opened(place.folder, name: "laptop", listens: true)
        try await again.whileRunning {
            #expect(try await again.client.call(Locations.List.self, .init()).locations.map(\.id) == [location.id])
            let stream = try await again.client.open(Locations.Scan.self, .init(id: location.id)).stream
            for try await _ in stream.messages {}
            #expect(try await again.client.call(Search.Find.self, .init(query: "two")).entries.count == 1)
        }
    }

    @Test(arguments: ["relative/path", "/tmp/../etc", "/does/not/exist", "/etc/passwd"])
    func `what is no folder is not added`(path: String) async throws {
        let place = try await Place()
        try await place.device.whileRunning {
            await #expect(throws: KithError.self) {
                _ = try await place.client.call(Locations.Add.self, .init(path: Files.Path(path)))
            }
            let listed = try await place.client.call(Locations.List.self, .init())
            #expect(listed.locations.isEmpty)
        }
    }

    @Test func `a fault in a query is shown where it is`() async throws {
        let place = try await Place()
        try await place.device.whileRunning {
            do {
                _ = try await place.client.call(Search.Find.self, .init(query: "report size:9Q"))
                Issue.record("it was taken for a query")
            } catch let error as KithError {
                #expect(
                    error.code == .invalid && error.message.contains("at byte 12, \u{201C}9Q\u{201D}: A size"),
                    "\(error)")
            }
        }
    }

    @Test func `numbers at their ends, and what no index holds, are refused`() async throws {
        let place = try await Place()
        try await place.device.whileRunning {
            try place.write("report.txt")
            _ = try await place.added()
            let hostile: [Search.Find.Input] = [
                .init(query: "report", after: .max), .init(query: "report", after: .min),
                .init(query: "report", offsetFromUTC: .min), .init(query: "report", offsetFromUTC: .max),
                .init(query: "report", limit: .min), .init(query: "re\0port"),
            ]
            for input in hostile {
                await #expect(throws: KithError(.invalid, "")) {
                    _ = try await place.client.call(Search.Find.self, input)
                }
            }
            for query in ["is:duplicate", "created:today", "content:word", "rating:>=3", "note:a | x", "-is:favorite"] {
                await #expect(throws: KithError(.unsupported, "")) {
                    _ = try await place.client.call(Search.Find.self, .init(query: query))
                }
            }
            let found = try await place.names("report")
            #expect(found == ["report.txt"])
        }
    }

    @Test func `another device searches with the grant, and changes nothing`() async throws {
        let place = try await Place()
        let other = try TemporaryFolder()
        var options = onLoopback
        options.name = "phone"
        let phone = try await Device.open(directory: other.path, options: options)
        try await place.device.whileRunning {
            try place.write("docs/report.txt")
            let location = try await place.added()
            try await phone.whileRunning {
                try await pair(phone, with: place.device, grants: [.files(.read, root: "/")])
                await #expect(throws: KithError(.denied, "")) {
                    _ = try await phone.client.call(Search.Find.self, .init(query: "report"), on: "laptop")
                }
                await #expect(throws: KithError(.denied, "")) {
                    _ = try await phone.client.call(Locations.List.self, .init(), on: "laptop")
                }
                _ = try await place.client.call(
                    Devices.ChangeGrants.self, .init(device: "phone", add: [.library], remove: []))
                let found = try await phone.client.call(Search.Find.self, .init(query: "report"), on: "laptop")
                #expect(found.entries.map(\.path) == [Files.Path(place.top + "/docs/report.txt")])
                await #expect(throws: KithError(.denied, "")) {
                    _ = try await phone.client.call(Locations.Remove.self, .init(id: location.id), on: "laptop")
                }
                await #expect(throws: KithError(.denied, "")) {
                    _ = try await phone.client.call(
                        Tags.Change.self, .init(paths: [Files.Path(place.top)], add: ["x"]), on: "laptop")
                }
            }
        }
    }
}
