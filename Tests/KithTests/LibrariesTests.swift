import Foundation
import Kith
import KithAPI
import KithIdentity
import KithTesting
import KithWire
import Testing

@Suite(.timeLimit(.minutes(4))) struct LibrariesTests {
    /// Trees of files, and a device with libraries beside them.
    private struct Place {
        let folder: TemporaryFolder
        let device: Device
        var client: Client { device.client }

        init(_ name: String = "laptop", listens: Bool = false) async throws {
            folder = try TemporaryFolder()
            device = try await Self.opened(folder, name, listens: listens)
        }

        static func opened(_ folder: TemporaryFolder, _ name: String, listens: Bool = false) async throws -> Device {
            var options = onLoopback
            (options.name, options.listens) = (name, listens)
            return try await Device.open(directory: folder.path + "/device", options: options)
        }

        /// Adds a tree with these files, and scans it.
        @discardableResult
        func add(_ tree: String, _ files: [String: String], to library: String? = nil) async throws -> Library.Location
        {
            for (name, text) in files {
                let path = folder.path + "/" + tree + "/" + name
                try FileManager.default.createDirectory(
                    atPath: (path as NSString).deletingLastPathComponent, withIntermediateDirectories: true)
                try Data(text.utf8).write(to: URL(fileURLWithPath: path))
            }
            let location = try await client.call(
                Locations.Add.self, .init(path: Files.Path(folder.path + "/" + tree), library: library))
            try await scan(location.id, in: library)
            return location
        }

        func scan(_ id: Int64, in library: String? = nil) async throws {
            let stream = try await client.open(Locations.Scan.self, .init(id: id, library: library)).stream
            for try await progress in stream.messages where progress.isLast { return }
            Issue.record("the scan did not end")
        }

        func libraries() async throws -> [Library.Summary] {
            try await client.call(Libraries.List.self, .init(includeStats: true)).libraries
        }

        func found(_ query: String, in library: String? = nil) async throws -> [String] {
            try await client.call(Search.Find.self, .init(query: query, library: library)).entries.map {
                $0.path.description.split(separator: "/").last.map(String.init) ?? ""
            }
        }

        func export(_ library: String?, to name: String) async throws -> [Libraries.Progress] {
            let stream = try await client.open(
                Libraries.Export.self, .init(library: library, path: Files.Path(folder.path + "/" + name))
            ).stream
            return try await stream.messages.reduce(into: []) { $0.append($1) }
        }

        func `import`(_ path: String, replaces: Bool = false) async throws -> Library.Summary {
            let stream = try await client.open(
                Libraries.Import.self, .init(path: Files.Path(path), replaces: replaces)
            ).stream
            let steps = try await stream.messages.reduce(into: [Libraries.Progress]()) { $0.append($1) }
            return try #require(steps.last?.library)
        }
    }

    @Test func `libraries are apart from each other`() async throws {
        let place = try await Place()
        try await place.device.whileRunning {
            #expect(try await place.libraries().isEmpty)
            try await place.add("photos", ["holiday.jpg": "12345"])
            let work = try await place.client.call(Libraries.Create.self, .init(name: "Work"))
            #expect(work.state == .open && !work.isDefault)
            try await place.add("work", ["holiday plan.txt": "1"], to: "work")
            #expect(try await place.found("holiday") == ["holiday.jpg"])
            #expect(try await place.found("holiday", in: "Work") == ["holiday plan.txt"])
            #expect(try await place.found("holiday", in: work.id.uppercased()) == ["holiday plan.txt"])
            await #expect(throws: KithError(.notFound, "")) { _ = try await place.found("holiday", in: "Music") }
            await #expect(throws: KithError(.notFound, "")) { _ = try await place.found("holiday", in: "") }
            // Their locations have numbers of their own.
            _ = try await place.client.call(Locations.Remove.self, .init(id: 1, library: "Work"))
            #expect(try await place.found("holiday", in: "Work").isEmpty)
            #expect(try await place.found("holiday") == ["holiday.jpg"])

            _ = try await place.client.call(Libraries.SetDefault.self, .init(library: "Work"))
            #expect(try await place.found("holiday").isEmpty)
            let listed = try await place.libraries()
            #expect(listed.map(\.name) == ["Work", "Library"] && listed.map(\.isDefault) == [true, false])
            #expect(listed[1].statistics?.files == 1 && listed[1].statistics?.bytes == 5)
            _ = try await place.client.call(Libraries.Rename.self, .init(library: "library", name: "Photos"))
            #expect(try await place.found("holiday", in: "Photos") == ["holiday.jpg"])
            _ = try await place.client.call(Libraries.Delete.self, .init(library: "Work"))
            #expect(try await place.libraries().map(\.name) == ["Photos"])
            #expect(FileManager.default.fileExists(atPath: place.folder.path + "/work/holiday plan.txt"))
        }
    }

    @Test func `one that is closed answers nothing until it is opened again`() async throws {
        let place = try await Place(listens: true)
        try await place.device.whileRunning {
            try await place.add("photos", ["holiday.jpg": "1"])
            let follow = try await place.client.open(Search.Follow.self, .init(query: "holiday")).stream
            var messages = follow.messages.makeAsyncIterator()
            #expect(try await messages.next()?.found.count == 1)
            let closed = try await place.client.call(Libraries.Close.self, .init(library: "Library"))
            #expect(closed.library?.state == .closed)
            // Who follows it is told of the end.
            #expect(try await messages.next() == nil)
            await #expect(throws: KithError(.closed, "")) { _ = try await place.found("holiday") }
            await #expect(throws: KithError(.closed, "")) { _ = try await place.found("holiday", in: "Library") }
            await #expect(throws: KithError(.invalid, "")) {
                _ = try await place.client.call(Libraries.Close.self, .init(library: "Library", forgets: true))
            }
            #expect(try await place.libraries().map(\.state) == [.closed])
        }
        // It stays closed.
        let again = try await Place.opened(place.folder, "laptop", listens: true)
        try await again.whileRunning {
            await #expect(throws: KithError(.closed, "")) {
                _ = try await again.client.call(Search.Find.self, .init(query: "holiday"))
            }
            _ = try await again.client.call(Libraries.Open.self, .init(library: "Library"))
            #expect(try await again.client.call(Search.Find.self, .init(query: "holiday")).entries.count == 1)
        }
    }

    @Test func `all of them are kept up, and one that is damaged harms no other`() async throws {
        let place = try await Place(listens: true)
        try await place.device.whileRunning {
            for name in ["One", "Two", "Three"] {
                _ = try await place.client.call(Libraries.Create.self, .init(name: name))
                try await place.add(name, ["\(name).txt": ""], to: name)
            }
        }
        let paths = place.folder.path + "/device/libraries"
        for id in try FileManager.default.contentsOfDirectory(atPath: paths) where UUID(uuidString: id) != nil {
            let path = "\(paths)/\(id)"
            guard try String(contentsOfFile: path + "/library.json", encoding: .utf8).contains("Two") else { continue }
            try Data("not a database".utf8).write(to: URL(fileURLWithPath: path + "/index.sqlite"))
            // A log would bring it back whole.
            for name in try FileManager.default.contentsOfDirectory(atPath: path) where name.hasPrefix("index.sqlite-")
            {
                try FileManager.default.removeItem(atPath: path + "/" + name)
            }
        }
        let again = try await Place.opened(place.folder, "laptop", listens: true)
        try await again.whileRunning {
            let listed = try await again.client.call(Libraries.List.self, .init()).libraries
            let failed = listed.filter { $0.state == .failed }
            #expect(listed.count == 3 && failed.map(\.name) == ["Two"] && failed.allSatisfy { $0.problem != nil })
            for name in ["One", "Three"] {
                try Data().write(to: URL(fileURLWithPath: place.folder.path + "/\(name)/fresh.txt"))
                try await eventually {
                    try await again.client.call(Search.Find.self, .init(query: "fresh", library: name)).entries.count
                        == 1
                }
            }
            await #expect(throws: KithError(.corrupt, "")) {
                _ = try await again.client.call(Search.Find.self, .init(query: "fresh", library: "Two"))
            }
            _ = try await again.client.call(Libraries.Delete.self, .init(library: "Two"))
            #expect(try await again.client.call(Libraries.List.self, .init()).libraries.count == 2)
        }
    }

    @Test func `the library of an earlier version is taken over`() async throws {
        let place = try await Place()
        _ = try await place.device.whileRunning { try await place.add("photos", ["holiday.jpg": "1"]) }
        let libraries = place.folder.path + "/device/libraries"
        let id = try #require(
            try FileManager.default.contentsOfDirectory(atPath: libraries).first { UUID(uuidString: $0) != nil })
        try FileManager.default.removeItem(atPath: "\(libraries)/\(id)/library.json")
        try FileManager.default.moveItem(atPath: "\(libraries)/\(id)", toPath: place.folder.path + "/device/library")
        try FileManager.default.removeItem(atPath: libraries)
        for _ in 0..<2 {
            let again = try await Place.opened(place.folder, "laptop")
            try await again.whileRunning {
                let found = try await again.client.call(Search.Find.self, .init(query: "holiday")).entries
                let libraries = try await again.client.call(Libraries.List.self, .init()).libraries
                #expect(found.count == 1 && libraries.map(\.name) == ["Library"])
            }
        }
    }

    @Test func `a library elsewhere belongs to one device at a time, and is offline without its disk`() async throws {
        let place = try await Place()
        let other = try await Place("desktop")
        let disk = place.folder.path + "/disk"
        try await place.device.whileRunning {
            let made = try await place.client.call(
                Libraries.Create.self, .init(name: "Archive", path: Files.Path(disk)))
            #expect(made.path == Files.Path(disk))
            try await place.add("photos", ["holiday.jpg": "1"], to: "Archive")
            try await other.device.whileRunning {
                await #expect(throws: KithError(.conflict, "")) {
                    _ = try await other.client.call(Libraries.Open.self, .init(path: Files.Path(disk)))
                }
                _ = try await place.client.call(Libraries.Close.self, .init(library: "Archive"))
                let opened = try await other.client.call(Libraries.Open.self, .init(path: Files.Path(disk)))
                #expect(opened.id == made.id && opened.isUnconfirmed)
                // Here it is its person's already, to be searched and to be confirmed.
                #expect(try await other.found("holiday") == ["holiday.jpg"])
                try await other.scan(1)
                #expect(try await !other.libraries()[0].isUnconfirmed)
                _ = try await other.client.call(Libraries.Close.self, .init(library: "Archive", forgets: true))
                #expect(try await other.libraries().isEmpty)
            }
            _ = try await place.client.call(Libraries.Open.self, .init(library: "Archive"))
            _ = try await place.client.call(Libraries.Close.self, .init(library: "Archive"))
            try FileManager.default.moveItem(atPath: disk, toPath: disk + ".away")
            await #expect(throws: KithError(.notFound, "")) {
                _ = try await place.client.call(Libraries.Open.self, .init(library: "Archive"))
            }
            try FileManager.default.moveItem(atPath: disk + ".away", toPath: disk)
            _ = try await place.client.call(Libraries.Open.self, .init(library: "Archive"))
            #expect(try await place.found("holiday", in: "Archive") == ["holiday.jpg"])
        }
    }

    @Test func `a library is exported and imported`() async throws {
        let place = try await Place()
        try await place.device.whileRunning {
            try await place.add("photos", ["holiday.jpg": "12345"])
            try await place.add("empty", ["x": ""])
            let path = place.folder.path + "/photos/holiday.jpg"
            _ = try await place.client.call(Tags.Change.self, .init(paths: [Files.Path(path)], add: ["best"]))
            let steps = try await place.export(nil, to: "library.kithlibrary")
            #expect(steps.last?.phase == .done && steps.last?.library?.name == "Library")
            let file = place.folder.path + "/library.kithlibrary"
            let copy = try await place.import(file)
            #expect(copy.name == "Library 2" && copy.isUnconfirmed && copy.statistics?.files == 2)
            let first = try await place.libraries()[0]
            #expect(copy.id != first.id && first.name == "Library")
            #expect(try await place.found("tag:best", in: copy.id) == ["holiday.jpg"])
            // One location that its person has scanned says nothing of the others.
            try await place.scan(1, in: copy.id)
            #expect(try await place.libraries().first { $0.id == copy.id }?.isUnconfirmed == true)
            try await place.scan(2, in: copy.id)
            #expect(try await place.libraries().first { $0.id == copy.id }?.isUnconfirmed == false)
            // In place of the first, what came after the export is gone.
            try await place.add("more", ["late.txt": ""])
            let back = try await place.import(file, replaces: true)
            #expect(back.id == first.id && back.name == "Library")
            #expect(try await place.found("late", in: back.id).isEmpty)
            #expect(try await place.found("tag:best", in: back.id) == ["holiday.jpg"])
            try Data("nothing".utf8).write(to: URL(fileURLWithPath: file))
            await #expect(throws: KithError(.corrupt, "")) { _ = try await place.import(file) }
            #expect(try await place.libraries().count == 2)
        }
        #expect(
            try FileManager.default.contentsOfDirectory(atPath: place.folder.path + "/device/libraries")
                .filter { $0.hasPrefix(".") } == [])
    }

    @Test func `another device looks in, and reads with the grant for it`() async throws {
        let place = try await Place()
        let phone = try await Place("phone")
        try await place.device.whileRunning {
            let text = String(repeating: "0123456789", count: 200_000)
            try await place.add("photos", ["2024/holiday.jpg": text, "2024/a": "", "b": ""])
            try await place.export(nil, to: "library.kithlibrary").forEach { _ in }
            let hidden = try await place.import(place.folder.path + "/library.kithlibrary")
            try await phone.device.whileRunning {
                try await pair(phone.device, with: place.device, grants: [.library])
                let client = phone.client
                let listed = try await client.call(Libraries.List.self, .init(includeStats: true), on: "laptop")
                    .libraries
                #expect(listed.map(\.name) == ["Library"] && listed[0].statistics?.files == 3)
                #expect(listed[0].path == nil && listed[0].problem == nil)
                let info = try await client.call(Libraries.Info.self, .init(), on: "laptop")
                #expect(info.path == nil && info.statistics?.locations == 1)
                // One that came from elsewhere is nobody else's before its person has said so.
                for name in [hidden.id, hidden.name] {
                    await #expect(throws: KithError(.notFound, "")) {
                        _ = try await client.call(Search.Find.self, .init(query: "", library: name), on: "laptop")
                    }
                    await #expect(throws: KithError(.notFound, "")) {
                        _ = try await client.call(Libraries.Info.self, .init(library: name), on: "laptop")
                    }
                }
                #expect(try await client.call(Tags.List.self, .init(), on: "laptop").tags.isEmpty)
                let page = try await client.call(Locations.Browse.self, .init(id: 1, path: "2024/"), on: "laptop")
                #expect(page.entries.map { $0.path.description.split(separator: "/").last } == ["a", "holiday.jpg"])
                let entry = try #require(page.entries.last)
                for (library, name) in [("Library", "x"), ("Library", "Library")] {
                    await #expect(throws: KithError(.denied, "")) {
                        _ = try await client.call(
                            Libraries.Rename.self, .init(library: library, name: name), on: "laptop")
                    }
                }
                await #expect(throws: KithError(.denied, "")) {
                    _ = try await client.call(Libraries.Delete.self, .init(library: "Library"), on: "laptop")
                }
                await #expect(throws: KithError(.denied, "")) {
                    _ = try await client.open(Locations.Read.self, .init(entry: entry.id), on: "laptop")
                }
                // What is in files is not asked with it, however the filter is spelled.
                for query in [
                    "content:0123", "CONTENT:0123", "-content:x", "content:x OR holiday", "has:text", "a has:gps",
                    "note:x",
                    "holiday -(a OR NOTE:b)", "rating:>=1", "sort:rating", "sort:name,-rating", "is:favorite",
                    "is:duplicate", "-is:duplicate", "taken:2024", "camera:x", "width:>1", "duration:>1s",
                ] {
                    await #expect(throws: KithError(.denied, ""), "\(query)") {
                        _ = try await client.call(Search.Find.self, .init(query: query), on: "laptop")
                    }
                    await #expect(throws: KithError(.denied, "")) {
                        _ = try await client.call(Search.Facets.self, .init(query: query), on: "laptop")
                    }
                    await #expect(throws: KithError(.denied, "")) {
                        _ = try await client.open(Search.Follow.self, .init(query: query), on: "laptop")
                    }
                }
                // Which grant it takes, and for what, is said.
                let refusal = await #expect(throws: KithError.self) {
                    _ = try await client.call(Search.Find.self, .init(query: "holiday note:secret"), on: "laptop")
                }
                #expect(refusal?.message.contains("`note:`") == true)
                #expect(refusal?.message.contains("library:read") == true)
                // What is no filter is a name.
                for query in ["content", "note", "rating", #""note:x""#, "name:note", "sort:name,-size"] {
                    _ = try await client.call(Search.Find.self, .init(query: query), on: "laptop")
                }
                await #expect(throws: KithError(.denied, "")) {
                    _ = try await client.call(Media.Describe.self, .init(path: entry.path), on: "laptop")
                }
                await #expect(throws: KithError(.denied, "")) {
                    _ = try await client.call(Media.Thumbnail.self, .init(path: entry.path), on: "laptop")
                }
                _ = try await place.client.call(
                    Devices.ChangeGrants.self, .init(device: "phone", add: [.libraryRead], remove: [.library]))
                #expect(
                    try await client.call(Search.Find.self, .init(query: "content:x"), on: "laptop").entries.isEmpty)
                func read(_ id: Int64, _ offset: UInt64 = 0, _ length: UInt64? = nil) async throws -> String {
                    let stream = try await client.open(
                        Locations.Read.self, .init(entry: id, offset: offset, length: length), on: "laptop"
                    ).stream
                    var bytes: [UInt8] = []
                    while let part = try await stream.read(upTo: 1 << 20) { bytes += part }
                    return String(decoding: bytes, as: UTF8.self)
                }
                #expect(try await read(entry.id) == text)
                #expect(try await read(entry.id, 1_999_995) == "56789")
                #expect(try await read(entry.id, 1_000_001, 3) == "123")
                #expect(try await read(entry.id, .max, .max).isEmpty)
                #expect(try await read(entry.id, 5, 0).isEmpty)
                // Searching goes with it.
                #expect(
                    try await client.call(Search.Find.self, .init(query: "holiday"), on: "laptop").entries.count == 1)
                // What has changed since is not read: nobody has looked whether it is meant.
                try Data("secret".utf8).write(to: URL(fileURLWithPath: place.folder.path + "/photos/2024/holiday.jpg"))
                await #expect(throws: KithError(.conflict, "")) { _ = try await read(entry.id) }
                for id in [Int64.min, 0, 1, 99_999, .max] {
                    await #expect(throws: KithError.self) { _ = try await read(id) }
                }
            }
        }
    }

    @Test func `what a person has noted, and which files are the same, takes the grant for content`() async throws {
        let place = try await Place()
        let phone = try await Place("phone")
        try await place.device.whileRunning {
            try await place.add("photos", ["holiday.jpg": "1", "copy.jpg": "1"])
            let path = Files.Path(place.folder.path + "/photos/holiday.jpg")
            _ = try await place.client.call(
                Annotations.Change.self, .init(paths: [path], isFavorite: true, rating: 4, note: "secret"))
            _ = try await place.client.call(Tags.Change.self, .init(paths: [path], add: ["best"]))
            try await phone.device.whileRunning {
                try await pair(phone.device, with: place.device, grants: [.library])
                let client = phone.client
                func holiday() async throws -> Library.Entry {
                    try #require(
                        try await client.call(Search.Find.self, .init(query: "holiday"), on: "laptop").entries.first)
                }
                var entry = try await holiday()
                #expect(entry.tags == ["best"])
                #expect(entry.note == nil && entry.rating == nil && entry.isFavorite == nil && entry.snippet == nil)
                let follow = try await client.open(Search.Follow.self, .init(query: "holiday"), on: "laptop").stream
                var differences = follow.messages.makeAsyncIterator()
                #expect(try await differences.next()?.found.first?.note == nil)
                let browsed = try await client.call(Locations.Browse.self, .init(id: 1), on: "laptop").entries
                #expect(browsed.count == 2 && browsed.allSatisfy { $0.note == nil && $0.rating == nil })
                await #expect(throws: KithError(.denied, "")) {
                    _ = try await client.call(Annotations.Get.self, .init(path: path), on: "laptop")
                }
                await #expect(throws: KithError(.denied, "")) {
                    _ = try await client.call(Duplicates.Copies.self, .init(path: path), on: "laptop")
                }
                _ = try await place.client.call(
                    Devices.ChangeGrants.self, .init(device: "phone", add: [.libraryRead], remove: [.library]))
                entry = try await holiday()
                #expect(entry.note == "secret" && entry.rating == 4 && entry.isFavorite == true)
                #expect(
                    try await client.call(Annotations.Get.self, .init(path: path), on: "laptop").note == "secret")
                _ = try await client.call(Duplicates.Copies.self, .init(path: path), on: "laptop")
                // What is mounted is nobody else's.
                await #expect(throws: KithError(.denied, "")) {
                    _ = try await client.call(Volumes.List.self, .init(), on: "laptop")
                }
                // One that is followed ends with what it takes.
                let noted = try await client.open(Search.Follow.self, .init(query: "note:secret"), on: "laptop").stream
                var found = noted.messages.makeAsyncIterator()
                #expect(try await found.next()?.found.count == 1)
                _ = try await place.client.call(
                    Devices.ChangeGrants.self, .init(device: "phone", add: [.library], remove: [.libraryRead]))
                await #expect(throws: KithError(.denied, "")) { while try await found.next() != nil {} }
                #expect(try await holiday().note == nil)
            }
        }
    }

    @Test func `text that belongs to kith is not in the index, even where it is in a location`() async throws {
        let place = try await Place()
        let phone = try await Place("phone")
        try await place.device.whileRunning {
            _ = try await phone.device.whileRunning {}
            // In the data directory of another device of the same person, and beside it.
            try Data("wombat inside".utf8).write(to: URL(fileURLWithPath: phone.folder.path + "/device/inside.txt"))
            try Data("wombat outside".utf8).write(to: URL(fileURLWithPath: phone.folder.path + "/outside.txt"))
            let location = try await place.client.call(
                Locations.Add.self, .init(path: Files.Path(phone.folder.path), mode: .content))
            try await place.scan(location.id)
            #expect(try await place.found("inside") == ["inside.txt"])
            let job = try await place.client.call(Media.Extract.self, .init(id: location.id))
            try await eventually {
                try await place.client.call(Jobs.Get.self, .init(id: job.id)).job.state == .done
            }
            #expect(try await place.found("content:wombat") == ["outside.txt"])
            for name in ["device/inside.txt", "device/kith.sqlite"] {
                let described = try await place.client.call(
                    Media.Describe.self, .init(path: Files.Path(phone.folder.path + "/" + name)))
                #expect(described.textBytes == 0 && described.problem != nil, "\(name)")
            }
        }
    }

    @Test func `the keys of a device are not read, even where they are in a location`() async throws {
        let place = try await Place()
        let phone = try await Place("phone")
        try await place.device.whileRunning {
            try await phone.device.whileRunning {
                try await pair(phone.device, with: place.device, grants: [.libraryRead])
                // The data directory of another device of the same person.
                let location = try await place.client.call(
                    Locations.Add.self, .init(path: Files.Path(phone.folder.path)))
                try await place.scan(location.id)
                let found = try await phone.client.call(
                    Search.Find.self, .init(query: "is:file in:/", limit: 1_000), on: "laptop"
                ).entries.filter { $0.path.description.contains("/device/") }
                #expect(!found.isEmpty)
                for entry in found {
                    await #expect(throws: KithError.self, "\(entry.path)") {
                        let stream = try await phone.client.open(
                            Locations.Read.self, .init(entry: entry.id), on: "laptop"
                        ).stream
                        _ = try await stream.read(upTo: 1)
                    }
                }
            }
        }
    }
}
