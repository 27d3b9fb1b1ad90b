import Foundation
import Kith
import KithAPI
import KithIdentity
import KithTesting
import KithWire
import Testing

@Suite(.timeLimit(.minutes(4))) struct LibraryTests {
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
                .init(query: "report", after: .init(text: "nonsense")),
                .init(query: "report", after: .init(text: "#50")),
                .init(query: "report", offsetFromUTC: .min), .init(query: "report", offsetFromUTC: .max),
                .init(query: "report", limit: .min), .init(query: "re\0port"),
            ]
            for input in hostile {
                await #expect(throws: KithError(.invalid, "")) {
                    _ = try await place.client.call(Search.Find.self, input)
                }
            }
            let found = try await place.names("report")
            #expect(found == ["report.txt"])
        }
    }

    @Test func `notes, stars and favourites go round, and facets and problems are told`() async throws {
        let place = try await Place()
        try await place.device.whileRunning {
            try place.write("docs/report.txt", "12345")
            try place.write("photo.jpg")
            let location = try await place.added()
            let paths = [Files.Path(place.top + "/docs/report.txt")]
            let long = String(repeating: "ä", count: 2_000)
            _ = try await place.client.call(
                Annotations.Change.self, .init(paths: paths, isFavorite: true, rating: 4, note: long))
            let found = try await place.client.call(Search.Find.self, .init(query: "rating:>=4 is:favorite note:ä"))
            let entry = try #require(found.entries.first)
            #expect(entry.rating == 4 && entry.isFavorite == true && entry.note?.utf8.count == 1_024)
            let noted = try await place.client.call(Annotations.Get.self, .init(path: paths[0]))
            #expect(noted == .init(isFavorite: true, rating: 4, note: long))
            let facets = try await place.client.call(Search.Facets.self, .init(query: "is:file"))
            #expect(facets.total == 2 && facets.bytes == 5 && !facets.isCut)
            #expect(facets.locations == [.init(value: location.name, count: 2)])
            #expect(Set(facets.extensions.map(\.value)) == ["txt", "jpg"])
            let problems = try await place.client.call(Locations.Problems.self, .init(id: location.id))
            #expect(problems.problems.isEmpty && problems.next == nil)
            await #expect(throws: KithError(.notFound, "")) {
                _ = try await place.client.call(Locations.Problems.self, .init(id: 99))
            }
            await #expect(throws: KithError(.invalid, "")) {
                _ = try await place.client.call(Annotations.Change.self, .init(paths: paths, rating: .max))
            }
        }
    }

    @Test func `pages go on by what the one before says, and the numbers of older clients are refused`() async throws {
        let place = try await Place()
        try await place.device.whileRunning {
            for number in 0..<25 { try place.write("docs/report \(number).txt") }
            _ = try await place.added()
            var (names, next) = ([String](), Search.Cursor?.none)
            repeat {
                let page = try await place.client.call(Search.Find.self, .init(query: "report", limit: 7, after: next))
                names += page.entries.map(\.path.description)
                next = page.next
            } while next != nil
            #expect(names.count == 25 && Set(names).count == 25)
            let counted = try await place.client.call(
                Search.Find.self, .init(query: "report sort:size", limit: 1, countsAll: true))
            #expect(counted.total == 25)
            // As an older client writes it: 0 is the beginning, any other number is told what to do.
            let decoder = JSONDecoder()
            let first = try decoder.decode(
                Search.Find.Input.self, from: Data(#"{"query":"report","limit":3,"after":0}"#.utf8))
            #expect(try await place.client.call(Search.Find.self, first).entries.count == 3)
            let later = try decoder.decode(
                Search.Find.Input.self, from: Data(#"{"query":"report","limit":3,"after":50}"#.utf8))
            do {
                _ = try await place.client.call(Search.Find.self, later)
                Issue.record("it was taken for a place")
            } catch let error as KithError {
                #expect(error.code == .invalid && error.message.contains("Update the client"), "\(error)")
            }
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
                await #expect(throws: KithError(.denied, "")) {
                    _ = try await phone.client.call(
                        Annotations.Change.self, .init(paths: [Files.Path(place.top)], rating: 1), on: "laptop")
                }
                let facets = try await phone.client.call(Search.Facets.self, .init(query: "report"), on: "laptop")
                #expect(facets.total == 1)
            }
        }
    }
}
