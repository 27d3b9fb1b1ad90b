import Foundation
import Kith
import KithAPI
import KithIdentity
import KithTesting
import KithWire
import Testing

@Suite(.timeLimit(.minutes(4))) struct `Events of the library` {
    /// A device that is up, with a tree of files in its library.
    private struct Place {
        let folder: TemporaryFolder
        let device: Device
        var top: String { folder.path + "/tree" }

        init(folder: TemporaryFolder, device: Device) { (self.folder, self.device) = (folder, device) }

        func write(_ name: String) throws {
            try Data(name.utf8).write(to: URL(fileURLWithPath: top + "/" + name))
        }
    }

    private func withPlace(
        _ door: Door = .inProcess, _ body: (_ place: Place, _ client: Client) async throws -> Void
    ) async throws {
        let folder = try TemporaryFolder()
        var options = onLoopback
        (options.name, options.apiPort) = ("laptop", 0)
        let device = try await Kith.open(dataDirectory: folder.path + "/device", options: options)
        let place = Place(folder: folder, device: device)
        try FileManager.default.createDirectory(atPath: place.top + "/docs", withIntermediateDirectories: true)
        try await device.whileRunning {
            let (client, close) = try await door.client(of: device, in: folder.path + "/device")
            defer { close() }
            try await body(place, client)
        }
    }

    /// Waits for the first event that `matches`; gaps are faults.
    private func event<Deliveries: AsyncIteratorProtocol>(
        _ iterator: inout Deliveries, where matches: (LibraryEvent) -> Bool
    ) async throws -> LibraryEvents.Numbered
    where Deliveries.Element == LibraryEvents.Delivery, Deliveries: SendableMetatype {
        while let delivery = try await iterator.next(isolation: #isolation) {
            guard case .event(let event) = delivery else {
                Issue.record("\(delivery)")
                continue
            }
            if matches(event.event) { return event }
        }
        throw KithError(.closed, "The events ended.")
    }

    private func adds(_ path: String) -> (LibraryEvent) -> Bool {
        { event in
            guard case .files(let files) = event else { return false }
            return files.changes.contains { $0.kind == .added && $0.path == Files.Path(path) }
        }
    }

    /// What happens to libraries alone: a device begins jobs by itself.
    private static let ofLibraries = LibraryEvents.Follow.Input(resources: [.file, .location, .tag])

    /// Begins to follow, and returns when the subscription is there.
    private func follow(
        _ client: Client, _ place: Place, _ input: LibraryEvents.Follow.Input = ofLibraries, on device: String? = nil
    ) async throws -> Task<[LibraryEvents.Numbered], any Error> {
        let before = place.device.events?.counts.subscriptions ?? 0
        let task = Task {
            var all: [LibraryEvents.Numbered] = []
            for try await delivery in client.events(input, on: device) {
                guard case .event(let event) = delivery else { continue }
                all.append(event)
                if case .scanEnded = event.event { break }
            }
            return all
        }
        try await eventually { place.device.events?.counts.subscriptions == before + 1 }
        return task
    }

    @Test(arguments: Door.allCases)
    func `tell in their order what a first scan finds, by every carrier`(_ door: Door) async throws {
        try await withPlace(door) { place, client in
            try place.write("docs/report.txt")
            let following = try await follow(client, place)
            let location = try await client.locations.add(.init(path: Files.Path(place.top)))
            let events = try await following.value
            #expect(events.map(\.sequence) == events.map(\.sequence).sorted())
            let library = try await client.libraries.info().id
            #expect(Set(events.map(\.epoch)).count == 1 && events.allSatisfy { $0.library == library && $0.time > 0 })
            let expected = LibraryEvents.Place(location: location.id, name: "tree", path: Files.Path(place.top))
            #expect(events.first?.event == .locationAdded(expected))
            #expect(events.dropFirst().first?.event == .scanBegan(expected))
            guard case .scanEnded(let scan)? = events.last?.event else { throw KithError(.invalid, "\(events)") }
            #expect(scan.place == expected && scan.progress.isLast && scan.progress.added == 2 && scan.problem == nil)
            let files = events.compactMap { if case .files(let files) = $0.event { files } else { nil } }
            let added = files.flatMap(\.changes).filter { $0.kind == .added }
            #expect(
                Set(added.map(\.path)) == [Files.Path(place.top + "/docs"), Files.Path(place.top + "/docs/report.txt")])
            #expect(files.allSatisfy { $0.folder.description.hasPrefix(place.top) })
            // Leaving the loop ends the subscription.
            try await eventually { place.device.events?.counts.subscriptions == 0 }
        }
    }

    @Test func `tell what a watched tree does, and what becomes of tags`() async throws {
        try await withPlace { place, client in
            let location = try await client.locations.add(.init(path: Files.Path(place.top)))
            try await eventually { try await client.locations.list().locations.first?.isWatched == true }
            let stream = try await client.open(
                LibraryEvents.Follow.self,
                .init(types: [.fileAdded, .fileMoved, .fileRemoved, .tagsChanged, .locationRemoved])
            ).stream
            defer { stream.abort(.cancelled) }
            var events = stream.messages.makeAsyncIterator()
            try place.write("one.txt")
            let one = try await event(&events, where: adds(place.top + "/one.txt"))
            try FileManager.default.moveItem(atPath: place.top + "/one.txt", toPath: place.top + "/docs/two.txt")
            let moved = try await event(&events) { event in
                guard case .files(let files) = event else { return false }
                return files.changes.contains { $0.kind == .moved && $0.from == Files.Path(place.top + "/one.txt") }
            }
            #expect(moved.sequence > one.sequence)
            _ = try await client.tags.change(.init(paths: [Files.Path(place.top + "/docs/two.txt")], add: ["work/new"]))
            let tagged = try await event(&events) { if case .tags = $0 { true } else { false } }
            #expect(tagged.event == .tags(.init(added: ["work/new"], paths: [Files.Path(place.top + "/docs/two.txt")])))
            try FileManager.default.removeItem(atPath: place.top + "/docs/two.txt")
            _ = try await event(&events) { event in
                guard case .files(let files) = event else { return false }
                return files.changes.map(\.kind) == [.removed]
                    && files.changes[0].path == Files.Path(place.top + "/docs/two.txt")
            }
            try await client.tags.delete(.init(name: "work"))
            #expect(try await event(&events) { _ in true }.event == .tags(.init(deleted: ["work"])))
            try await client.locations.remove(.init(id: location.id))
            #expect(
                try await event(&events) { _ in true }.event
                    == .locationRemoved(.init(location: location.id, name: "tree", path: Files.Path(place.top))))
        }
    }

    @Test func `tell what a person notes, and what becomes of locations and of libraries`() async throws {
        try await withPlace { place, client in
            try place.write("one.txt")
            let location = try await client.locations.add(.init(path: Files.Path(place.top)))
            try await eventually { try await client.locations.list().locations.first?.scanned != nil }
            let stream = try await client.open(
                LibraryEvents.Follow.self,
                .init(
                    types: [.locationChanged, .annotationsChanged], resources: [.location, .annotation])
            ).stream
            defer { stream.abort(.cancelled) }
            var events = stream.messages.makeAsyncIterator()
            let one = Files.Path(place.top + "/one.txt")
            _ = try await client.annotations.change(.init(paths: [one], rating: 4, note: "secret"))
            #expect(
                try await event(&events) { _ in true }.event
                    == .annotations(.init(fields: [.rating, .note], paths: [one])))
            _ = try await client.locations.change(.init(id: location.id, name: "letters"))
            let changed = LibraryEvents.Place(location: location.id, name: "letters", path: Files.Path(place.top))
            #expect(try await event(&events) { _ in true }.event == .locationChanged(changed))
            // The same again is no news; other rules are.
            _ = try await client.locations.change(.init(id: location.id, name: "letters"))
            _ = try await client.locations.change(
                .init(id: location.id, rules: .init(patterns: ["*.o"], followsIgnoreFiles: false)))
            #expect(try await event(&events) { _ in true }.event == .locationChanged(changed))
            let libraries = try await client.open(LibraryEvents.Follow.self, .init(resources: [.library])).stream
            defer { libraries.abort(.cancelled) }
            var changes = libraries.messages.makeAsyncIterator()
            let made = try await client.libraries.create(.init(name: "Work"))
            _ = try await client.libraries.rename(.init(library: "Work", name: "Office"))
            _ = try await client.libraries.close(.init(library: "Office"))
            _ = try await client.libraries.open(.init(library: "Office"))
            try await client.libraries.delete(.init(library: "Office"))
            let expected: [LibraryEvents.LibraryChange] = [
                .init(kind: .created, name: "Work"), .init(kind: .renamed, name: "Office", before: "Work"),
                .init(kind: .closed, name: "Office"), .init(kind: .opened, name: "Office"),
                .init(kind: .deleted, name: "Office"),
            ]
            for change in expected {
                let next = try await event(&changes) { _ in true }
                #expect(next.event == .library(change) && next.library == made.id)
            }
        }
    }

    @Test(arguments: Door.allCases)
    func `go on behind the last one that came, or say that some are missing`(_ door: Door) async throws {
        try await withPlace(door) { place, client in
            let following = try await follow(client, place)
            let location = try await client.locations.add(.init(path: Files.Path(place.top)))
            let last = try #require(try await following.value.last)
            // Nobody follows now.
            try place.write("docs/later.txt")
            for try await progress in try await client.locations.scan(.init(id: location.id)).stream.messages
            where progress.isLast { break }
            var again = client.events(.init(after: last.position)).makeAsyncIterator()
            let missed = try await event(&again, where: adds(place.top + "/docs/later.txt"))
            #expect(missed.epoch == last.epoch && missed.sequence > last.sequence)

            var other = client.events(.init(after: .init(epoch: 1, sequence: 1))).makeAsyncIterator()
            guard case .gap(let gap)? = try await other.next() else { throw KithError(.invalid, "no gap") }
            #expect(gap.reason == .restarted)
        }
    }

    @Test func `reach another device with the grant, and no other`() async throws {
        try await withPlace { place, _ in
            let other = try TemporaryFolder()
            var options = onLoopback
            options.name = "phone"
            let phone = try await Kith.open(dataDirectory: other.path, options: options)
            try await phone.whileRunning {
                try await pair(phone, with: place.device, grants: [.files(.read, root: "/"), .node(pattern: "*")])
                await #expect(throws: KithError(.denied, "")) {
                    for try await _ in phone.client.events(on: "laptop") {}
                }
                _ = try await place.device.client.call(
                    Devices.ChangeGrants.self, .init(device: "phone", add: [.library], remove: []))
                let before = place.device.events?.counts.subscriptions ?? 0
                let following = try await follow(phone.client, place, on: "laptop")
                try place.write("docs/report.txt")
                _ = try await place.device.client.locations.add(.init(path: Files.Path(place.top)))
                let events = try await following.value
                #expect(events.contains { adds(place.top + "/docs/report.txt")($0.event) })
                try await eventually { place.device.events?.counts.subscriptions == before }

                // What its person notes is for those who may read files.
                let own = place.device.client
                let one = Files.Path(place.top + "/docs/report.txt")
                let stream = try await phone.client.open(
                    LibraryEvents.Follow.self, .init(resources: [.tag, .annotation]), on: "laptop"
                ).stream
                var heard = stream.messages.makeAsyncIterator()
                _ = try await own.annotations.change(.init(paths: [one], rating: 4))
                _ = try await own.tags.change(.init(paths: [one], add: ["work"]))
                #expect(try await event(&heard) { _ in true }.event == .tags(.init(added: ["work"], paths: [one])))
                _ = try await own.call(
                    Devices.ChangeGrants.self, .init(device: "phone", add: [.libraryRead], remove: []))
                _ = try await own.annotations.change(.init(paths: [one], rating: 3))
                #expect(
                    try await event(&heard) { _ in true }.event == .annotations(.init(fields: [.rating], paths: [one])))
                stream.abort(.cancelled)
                try await eventually { place.device.events?.counts.subscriptions == before }
                // Whoever loses the grant hears no more.
                let ended = try await follow(phone.client, place, .init(types: [.tagsChanged]), on: "laptop")
                _ = try await place.device.client.call(
                    Devices.ChangeGrants.self, .init(device: "phone", add: [], remove: [.library, .libraryRead]))
                await #expect(throws: KithError.self) { try await ended.value }
                try await eventually { place.device.events?.counts.subscriptions == before }
            }
        }
    }

    @Test func `do not wait for whoever reads nothing`() async throws {
        try await withPlace { place, client in
            for number in 0..<600 { try place.write("docs/\(number).txt") }
            // Two that read nothing at all, and one that does.
            let slow = [
                try await client.open(LibraryEvents.Follow.self, .init(buffer: 1)),
                try await client.open(LibraryEvents.Follow.self, .init(buffer: 4_096)),
            ]
            let following = try await follow(client, place)
            let location = try await client.locations.add(.init(path: Files.Path(place.top)))
            let events = try await following.value
            let listed = events.reduce(0) { count, event in
                guard case .files(let files) = event.event else { return count }
                return count + files.changes.count + Int(files.more)
            }
            #expect(listed == 601)
            for _ in 0..<40 {
                for try await progress in try await client.locations.scan(.init(id: location.id)).stream.messages
                where progress.isLast { break }
            }
            for opened in slow { opened.stream.abort(.cancelled) }
            try await eventually { place.device.events?.counts.subscriptions == 0 }
        }
    }

    @Test func `end at once when the device stops`() async throws {
        var following: Task<[LibraryEvents.Numbered], any Error>?
        let folder = try TemporaryFolder()
        var options = onLoopback
        options.node.drain = .seconds(100)
        let device = try await Kith.open(dataDirectory: folder.path, options: options)
        let place = Place(folder: folder, device: device)
        let running = Task { try await device.run() }
        following = try await follow(device.client, place)
        device.beginGracefulShutdown()
        try await running.value
        // It ends with a word, or without; it does not hang.
        _ = await following?.result
    }

    @Test(arguments: [0, 4_097, UInt64.max]) func `refuse a buffer that is none`(_ size: UInt64) async throws {
        try await withPlace { _, client in
            await #expect(throws: KithError(.invalid, "")) {
                for try await _ in client.events(.init(buffer: size)) {}
            }
            await #expect(throws: KithError(.notFound, "")) {
                for try await _ in client.events(.init(library: "no such")) {}
            }
            let found = try await client.search.find("x")
            #expect(found.isEmpty)
        }
    }
}
