import KithAPI
import KithRPC
import KithTesting
import KithWire
import Testing

@testable import KithCompatibility

@Suite(.timeLimit(.minutes(1))) struct `Events of libraries in the reference's terms` {
    private func message(_ event: JSONValue, in library: String = library) -> JSONValue {
        ["event": ["library": .string(library), "event": event]]
    }

    /// A device whose library has one file, with a tag.
    private func makeDevice() throws -> (AdaptedDevice, FakeCarrier) {
        let names = ["a.jpg"]
        let (adapter, carrier) = try makeAdapter(
            ["locations.list": ["locations": [["id": 3, "path": "/srv", "name": "srv"]]]],
            [
                "locations.browse": browse(names) { _ in
                    [
                        "id": 7, "path": "/srv/a.jpg", "kind": "file", "category": "image", "size": 9, "modified": 1,
                        "tags": ["work/ana"],
                    ]
                }
            ])
        return (adapter.device, carrier)
    }

    @Test(
        arguments: [
            ["files": ["changes": [["id": 7, "kind": "changed", "path": "/srv/a.jpg"]], "folder": "/srv"]],
            ["tags": ["added": ["work/ana"], "paths": ["/srv/a.jpg"], "more": 0]],
            ["tags": ["removed": ["old"], "paths": ["/srv/a.jpg"]]],
        ] as [JSONValue])
    func `describe a file that changed or was tagged as the library has it`(_ event: JSONValue) async throws {
        let (device, _) = try makeDevice()
        var events = LibraryEventAdapter(device)
        let told = await events.events(of: message(event))
        let batch = try #require(told.last { $0.resource == "file" })
        #expect(batch.name == "ResourceChangedBatch" && batch.paths == ["/srv/a.jpg"])
        let file = try #require(batch.content?.member("resources")?.list?.first)
        #expect(file.member("content_kind")?.text == "image" && file.member("size")?.whole == 9)
        #expect(file.member("tags")?.list?.first?.member("namespace")?.text == "work")
        #expect(file.member("id")?.text == CompatibleID(.entry, number: 7, of: device.id).text)
        var subscription = Subscription()
        subscription.resource = "file"
        #expect(told.contains(where: subscription.wants))
    }

    @Test(
        arguments: [
            ["tags": ["deleted": ["work"]]], ["tags": ["added": ["a"], "paths": ["/srv/a.jpg"], "more": 1]],
            ["files": ["changes": [], "more": 5, "folder": "/srv"]],
        ] as [JSONValue])
    func `have whoever follows files ask again where they are not listed`(_ event: JSONValue) async throws {
        let (device, _) = try makeDevice()
        var events = LibraryEventAdapter(device)
        var subscription = Subscription()
        subscription.resource = "file"
        #expect(await events.events(of: message(event)).filter(subscription.wants).map(\.name) == ["Refresh"])
    }

    @Test func `say what became of a library, and of a location`() async throws {
        let (device, _) = try makeDevice()
        var events = LibraryEventAdapter(device)
        func told(_ kind: String) async -> AdaptedEvent? {
            await events.events(of: message(["library": ["kind": .string(kind), "name": "Home", "before": "Old"]]))
                .first
        }
        let created = await told("created")
        #expect(created?.name == "LibraryCreated" && created?.content?.member("source")?.text == "Manual")
        #expect(created?.content?.member("id")?.text == library && created?.content?.member("path") != nil)
        #expect(await told("opened")?.name == "LibraryOpened")
        #expect(await told("closed")?.content == ["id": .string(library), "name": "Home"])
        #expect(await told("deleted")?.content?.member("deleted_data")?.flag == true)
        #expect(await told("forgotten")?.content?.member("deleted_data")?.flag == false)
        let renamed = await told("renamed")
        #expect(renamed?.resource == "library" && renamed?.name == "ResourceChangedBatch")
        let changed = await events.events(
            of: message(["locationChanged": ["location": 3, "name": "srv", "path": "/srv"]]))
        #expect(changed.map(\.resource) == ["location"])
        #expect(AdaptedEvent.names.contains("LibraryCreated"))
    }

    @Test func `come of a library that was made after the subscription`() async throws {
        struct Enough: Error {}
        let other = "99999999-2222-4333-8444-555555555555"
        let (adapter, carrier) = try makeAdapter(
            [Devices.List.name: []],
            streams: ["events.library": [message(["library": ["kind": "created", "name": "New"]], in: other)]])
        let told = Locked<[JSONValue]>([])
        let source = EventSource(adapter.device, try Subscription(["event_types": ["LibraryCreated"]]))
        await #expect(throws: Enough.self) {
            try await source.run { event in
                told.change { $0.append(event) }
                throw Enough()
            }
        }
        #expect(told.value.first?.member("LibraryCreated")?.member("id")?.text == other)
        #expect(carrier.inputs(of: "events.library").map { $0.member("library") } == [nil])
    }
}
