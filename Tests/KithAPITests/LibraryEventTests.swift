import KithRPC
import KithWire
import Testing

@testable import KithAPI

@Suite struct `Events of a library` {
    private typealias Change = LibraryEvents.FileChange

    private func files(_ changes: [(Change.Kind, String)], more: UInt64 = 0, in folder: String) -> LibraryEvent {
        .files(
            LibraryEvents.FileChanges(
                changes: changes.enumerated().map {
                    Change(id: Int64($0.offset), kind: $0.element.0, path: Files.Path($0.element.1))
                }, more: more, folder: Files.Path(folder)))
    }

    private func paths(_ event: LibraryEvent?) -> [String]? {
        guard case .files(let files)? = event else { return nil }
        return files.changes.map(\.path.description)
    }

    @Test func `are narrowed to what is wanted, file by file`() {
        let event = files([(.added, "/srv/a/x"), (.removed, "/srv/b/y"), (.added, "/srv/ab")], in: "/srv")
        func wanted(_ input: LibraryEvents.Follow.Input) -> [String]? { paths(input.wanted(of: event)) }
        #expect(wanted(.init()) == ["/srv/a/x", "/srv/b/y", "/srv/ab"])
        #expect(wanted(.init(types: [.fileAdded])) == ["/srv/a/x", "/srv/ab"])
        #expect(wanted(.init(types: [.fileMoved])) == nil)
        #expect(wanted(.init(path: "/srv/a")) == ["/srv/a/x"])
        #expect(wanted(.init(path: "/srv/a/")) == ["/srv/a/x"])
        #expect(wanted(.init(path: "/")) == ["/srv/a/x", "/srv/b/y", "/srv/ab"])
        #expect(wanted(.init(path: "/srv/c")) == nil)
        #expect(wanted(.init(path: "/home")) == nil)
        #expect(wanted(.init(resources: [.tag])) == nil)
        #expect(wanted(.init(resources: [.tag, .file]))?.count == 3)
    }

    @Test func `that do not list all are wanted where the rest may be`() {
        let event = files([(.added, "/srv/a/x")], more: 9, in: "/srv/a")
        #expect(paths(LibraryEvents.Follow.Input(types: [.fileRemoved]).wanted(of: event)) == [])
        #expect(paths(LibraryEvents.Follow.Input(path: "/srv/a/y").wanted(of: event)) == [])
        #expect(paths(LibraryEvents.Follow.Input(path: "/srv/b").wanted(of: event)) == nil)
    }

    @Test func `about a move are wanted at both ends`() {
        let change = Change(id: 1, kind: .moved, path: "/srv/b/x", from: "/srv/a/x")
        let event = LibraryEvent.files(.init(changes: [change], folder: "/srv"))
        for path: Files.Path in ["/srv/a", "/srv/b", "/srv/a/x"] {
            #expect(LibraryEvents.Follow.Input(path: path).wanted(of: event) == event)
        }
    }

    @Test func `of jobs and volumes are narrowed to a job, a type, a kind of thing and a path`() {
        let job = LibraryEvent.jobChanged(
            .init(id: "ab12", number: 1, kind: "move", title: "", state: .done, created: 1))
        let removed = LibraryEvent.jobRemoved(.init(id: "ab34"))
        let volume = LibraryEvent.volumeAdded(
            .init(path: "/media/stick", device: "/dev/sdb1", fileSystem: "exfat", kind: .external))
        func wanted(_ input: LibraryEvents.Follow.Input) -> [LibraryEvent] {
            [job, removed, volume].compactMap(input.wanted(of:))
        }
        #expect(wanted(.init()) == [job, removed, volume])
        #expect(wanted(.init(resources: [.job])) == [job, removed])
        #expect(wanted(.init(types: [.jobRemoved, .volumeAdded])) == [removed, volume])
        #expect(wanted(.init(job: "ab1")) == [job] && wanted(.init(job: "ab")) == [job, removed])
        #expect(wanted(.init(path: "/media")) == [volume] && wanted(.init(path: "/media/stick/a")) == [volume])
        #expect(wanted(.init(path: "/srv")).isEmpty)
    }

    @Test func `of a later version are read, as unknown`() throws {
        let text = #"{"event":{"library":"default","epoch":1,"sequence":2,"time":3,"event":{"volumeGone":{"id":7}}}}"#
        let delivery = try JSONText(Array(text.utf8)).decode(LibraryEvents.Delivery.self)
        guard case .event(let event) = delivery else { throw KithError(.invalid, "\(delivery)") }
        #expect(event.event == .unknown && event.position == .init(epoch: 1, sequence: 2))
    }

    @Test func `are the same behind JSON and CBOR`() throws {
        let place = LibraryEvents.Place(location: 1, name: "tree", path: Files.Path(bytes: [47, 255]))
        let job = Jobs.Job(
            id: "6f1c2a52-8d6f-4f0e-9f3e-0d6a2a1a5b10", number: 7, kind: "move", title: "move 3 files", state: .running,
            progress: .init(phase: "move", completed: 1, total: 3, rate: 2.5), created: 1, started: 2)
        let volume = Volumes.Volume(
            path: "/media/stick", device: "/dev/sdb1", fileSystem: "exfat", kind: .external, label: "Stick")
        let events: [LibraryEvent] = [
            files([(.added, "/srv/a")], more: 2, in: "/srv"), .locationAdded(place), .locationRemoved(place),
            .scanBegan(place), .scanProgressed(.init(place: place, progress: .init(entries: 3))),
            .scanEnded(.init(place: place, progress: .init(isLast: true), problem: "gone")),
            .tags(.init(added: ["a/b"], paths: ["/srv/a"], more: 1)), .jobChanged(job),
            .jobProgressed(job), .jobRemoved(.init(id: job.id)), .volumeAdded(volume), .volumeRemoved(volume),
            .locationChanged(place), .annotations(.init(fields: [.rating, .note], paths: ["/srv/a"], more: 1)),
            .library(.init(kind: .created, name: "Work")), .library(.init(kind: .opened, name: "Work")),
            .library(.init(kind: .closed, name: "Work")), .library(.init(kind: .deleted, name: "Work")),
            .library(.init(kind: .forgotten, name: "Work")),
            .library(.init(kind: .renamed, name: "Work", before: "Old")),
        ]
        for event in events {
            #expect(try JSONText(encoding: event).decode(LibraryEvent.self) == event)
            #expect(try CBORDecoder().decode(LibraryEvent.self, from: CBOREncoder().encode(event)) == event)
        }
        #expect(Set(events.map { "\($0.kinds)" }).count == events.count)
        #expect(Set(events.flatMap(\.kinds)) == Set(LibraryEvent.Kind.allCases))
    }

    @Test func `of notes and libraries are narrowed to a path, a type and a kind of thing`() {
        let notes = LibraryEvent.annotations(.init(fields: [.note], paths: ["/srv/a"]))
        let library = LibraryEvent.library(.init(kind: .renamed, name: "Work", before: "Old"))
        let place = LibraryEvent.locationChanged(.init(location: 1, name: "srv", path: "/srv"))
        func wanted(_ input: LibraryEvents.Follow.Input) -> [LibraryEvent] {
            [notes, library, place].compactMap(input.wanted(of:))
        }
        #expect(wanted(.init()) == [notes, library, place])
        #expect(wanted(.init(path: "/srv/b")) == [library, place] && wanted(.init(path: "/srv/a")).count == 3)
        #expect(wanted(.init(resources: [.annotation])) == [notes] && wanted(.init(resources: [.library])) == [library])
        #expect(wanted(.init(types: [.libraryRenamed, .locationChanged])) == [library, place])
        #expect(wanted(.init(types: [.libraryDeleted])).isEmpty)
    }
}
