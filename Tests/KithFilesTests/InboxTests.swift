import Foundation
import KithAPI
import KithIdentity
import KithTesting
import KithWire
import Testing

@testable import KithFiles

@Suite struct InboxTests {
    private func device(_ number: UInt8) throws -> DeviceID {
        try DeviceID(publicKey: [UInt8](repeating: number, count: 32))
    }

    private func offer(_ names: String..., bytes: UInt64 = 10, wait: UInt32 = 600) -> Offers.Send.Input {
        Offers.Send.Input(
            items: names.map { Offers.Item(name: Files.Path($0), kind: .file, size: 10) }, bytes: bytes,
            files: UInt64(names.count), waitSeconds: wait)
    }

    @Test func `an offer goes its way, and no other`() throws {
        var table = InboxTable()
        let (ana, ben) = (try device(1), try device(2))
        let entry = try table.offer(offer("a"), id: "k7m3", from: ana, name: "ana", at: 100)
        #expect(entry.state == .waiting && entry.expiresAt == 700)
        #expect(throws: KithError(.denied, "")) { try table.begin("k7m3", from: ana) }
        #expect(throws: KithError(.notFound, "")) { try table.waiting("x") }
        #expect(throws: KithError(.notFound, "")) { try table.waiting("") }
        #expect(try table.waiting("k7").entry.id == "k7m3")
        #expect(try table.accept("k7m3", into: "/in", at: 200).state == .accepted)
        #expect(throws: KithError(.conflict, "")) { try table.accept("k7m3", into: "/else", at: 200) }
        #expect(throws: KithError(.denied, "")) { try table.begin("k7m3", from: ben) }
        #expect(try table.begin("k7m3", from: ana).entry.state == .receiving)
        #expect(throws: KithError(.denied, "")) { try table.begin("k7m3", from: ana) }
        #expect(table.expiry(of: "k7m3", at: 1 << 40) == nil)
        table.received(5, of: "k7m3")
        #expect(table.entries.last?.received == 5)
        #expect(table.end("k7m3", .arrived, names: ["a"])?.state == .arrived)
        #expect(table.end("k7m3", .withdrawn) == nil)
        #expect(throws: KithError(.conflict, "")) { try table.waiting("k7m3") }
        #expect(table.entries.map(\.state) == [.arrived])
    }

    @Test func `an offer ends by itself when nobody answers, or nothing comes`() throws {
        var table = InboxTable()
        let ana = try device(1)
        _ = try table.offer(offer("a", wait: 10), id: "a", from: ana, name: "ana", at: 0)
        #expect(table.expiry(of: "a", at: 9) == nil)
        #expect(table.expiry(of: "a", at: 10) == .expired)
        _ = try table.offer(offer("b", wait: .max), id: "b", from: ana, name: "ana", at: 0)
        #expect(table.deadline(of: "b") == InboxTable.Limit.wait)
        _ = try table.accept("b", into: "/", at: 100)
        #expect(table.expiry(of: "b", at: 100 + InboxTable.Limit.begin) == .failed)
    }

    @Test func `no device fills the inbox, and no list grows without end`() throws {
        var table = InboxTable()
        for number in 0..<8 {
            _ = try table.offer(offer("a"), id: "1-\(number)", from: try device(1), name: "ana", at: 0)
        }
        #expect(throws: KithError(.exhausted, "")) {
            try table.offer(offer("a"), id: "1-8", from: try device(1), name: "ana", at: 0)
        }
        for sender in 2...8 {
            for number in 0..<8 {
                _ = try table.offer(
                    offer("a"), id: "\(sender)-\(number)", from: try device(UInt8(sender)), name: "x", at: 0)
            }
        }
        // One that has none yet may make one: eight others do not keep it out.
        _ = try table.offer(offer("a"), id: "z", from: try device(9), name: "x", at: 0)
        #expect(throws: KithError(.exhausted, "")) {
            try table.offer(offer("a"), id: "zz", from: try device(9), name: "x", at: 0)
        }
        #expect(throws: KithError(.invalid, "")) { try table.waiting("1") }
        for entry in table.entries { _ = table.end(entry.id, .rejected) }
        for number in 0..<200 {
            _ = try table.offer(
                offer("a"), id: "n\(number)", from: try device(1), name: "ana", at: Int64(number) * 60)
            _ = table.end("n\(number)", .rejected)
        }
        #expect(table.entries.count == InboxTable.Limit.past && table.open.isEmpty)
    }

    @Test func `a device that offers and withdraws pushes out nothing, and may not go on for ever`() throws {
        var table = InboxTable()
        for number in 0..<40 {
            let id = "ana-\(number)"
            _ = try table.offer(offer("a"), id: id, from: try device(1), name: "ana", isWelcome: true, at: 0)
            _ = table.end(id, .arrived)
        }
        _ = try table.offer(offer("a"), id: "tv", from: try device(2), name: "tv", at: 0)
        _ = table.end("tv", .arrived)
        for number in 1..<InboxTable.Limit.hourly {
            _ = try table.offer(offer("a"), id: "\(number)", from: try device(2), name: "tv", at: 0)
            _ = table.end("\(number)", .withdrawn)
        }
        #expect(table.past.count == InboxTable.Limit.past)
        #expect(table.past.count { $0.device == "ana" } == 40)
        #expect(table.past.contains { $0.id == "tv" })
        for time in [Int64(0), 3_599] {
            #expect(throws: KithError(.exhausted, "")) {
                try table.offer(offer("a"), id: "x", from: try device(2), name: "tv", at: time)
            }
        }
        _ = try table.offer(offer("a"), id: "w", from: try device(2), name: "tv", isWelcome: true, at: 0)
        _ = try table.offer(offer("a"), id: "x", from: try device(2), name: "tv", at: 3_600)
    }

    @Test func `what arrived is what was received, not what was announced`() throws {
        var table = InboxTable()
        _ = try table.offer(offer("a", bytes: 1 << 40), id: "a", from: try device(1), name: "ana", at: 0)
        table.received(3, of: "a")
        #expect(table.end("a", .arrived)?.received == 3)
    }

    @Test func `an offer's stream gives no more than was agreed to, names and folders included`() async throws {
        var table = InboxTable()
        let small = try table.offer(offer("a"), id: "a", from: try device(1), name: "ana", at: 0)
        #expect(InboxService.mostBytes(of: small) == 10 + (8 << 10) + (1 << 20))
        var huge = small
        (huge.bytes, huge.files) = (UInt64(Int64.max), .max)
        #expect(InboxService.mostBytes(of: huge) == .max)

        let pipe = KithAPI.Pipe()
        let stream = BoundedStream(pipe.left, limit: 5, beyond: KithError(.invalid, "too much"))
        try await pipe.right.write([1, 2, 3])
        #expect(try await stream.read(upTo: 10) == [1, 2, 3])
        try await pipe.right.write([4, 5])
        #expect(try await stream.read(upTo: 10) == [4, 5])
        try await pipe.right.write([6])
        await #expect(throws: KithError(.invalid, "")) { try await stream.read(upTo: 10) }
    }

    @Test func `a stream that is bounded, or slowed down, loses nothing of the one beneath`() async throws {
        let beyond = KithError(.invalid, "too much")
        #expect(try await WrappedStream.lost { BoundedStream($0, limit: 5, beyond: beyond) } == [])
        #expect(try await WrappedStream.lost { LimitedStream($0, limit: RateLimit(1 << 20)) } == [])
    }

    @Test func `what expired or was withdrawn leaves the list after a day, and the rest stays`() throws {
        var table = InboxTable()
        for (id, end) in [("a", Offers.State.expired), ("b", .withdrawn), ("c", .rejected), ("d", .arrived)] {
            let entry = try table.offer(offer("a"), id: id, from: try device(1), name: "ana", at: 100)
            #expect(entry.expiresAt == 700)
            _ = table.end(id, end)
        }
        #expect(table.entries(at: 700 + 86_399).map(\.id) == ["a", "b", "c", "d"])
        #expect(table.entries(at: 700 + 86_400).map(\.id) == ["c", "d"])
    }

    @Test func `an offer of what are no names is none`() throws {
        var table = InboxTable()
        let ana = try device(1)
        for name in ["", ".", "..", "a/b", "../a", "/etc/passwd", "a\0b", String(repeating: "a", count: 256)] {
            #expect(throws: KithError(.invalid, ""), "\(name)") {
                try table.offer(offer(name), id: "a", from: ana, name: "ana", at: 0)
            }
        }
        #expect(throws: KithError(.invalid, "")) {
            try table.offer(offer("a", "a"), id: "a", from: ana, name: "ana", at: 0)
        }
        #expect(throws: KithError(.invalid, "")) {
            try table.offer(offer("a", bytes: .max), id: "a", from: ana, name: "ana", at: 0)
        }
        #expect(throws: KithError(.invalid, "")) {
            let items = (0...1_000).map { Offers.Item(name: Files.Path("\($0)"), kind: .file, size: 0) }
            _ = try table.offer(
                .init(items: items, bytes: 0, files: 0), id: "a", from: ana, name: "ana", at: 0)
        }
        #expect(table.open.isEmpty)
    }

    @Test func `names that arrive hide nothing and are told apart`() {
        func safe(_ name: String) -> String { String(decoding: InboxName.safe(Array(name.utf8)), as: UTF8.self) }
        #expect(safe("photo.jpg") == "photo.jpg")
        #expect(safe("Äpfel \u{1F34E}.txt") == "Äpfel \u{1F34E}.txt")
        #expect(safe("a\u{1B}]52;c;x\u{7}\nb") == "a_]52;c;x__b")
        #expect(safe("gpj.\u{202E}exe") == "gpj._exe")
        #expect(safe(".bashrc") == "_bashrc")
        #expect(safe("-rf") == "_rf")
        #expect(safe(" ... ") == "unnamed")
        #expect(String(decoding: InboxName.safe([0xFF, 0x61]), as: UTF8.self) == "\u{FFFD}a")
        func numbered(_ name: String, _ number: Int) -> String {
            String(decoding: InboxName.numbered(Array(name.utf8), number), as: UTF8.self)
        }
        #expect(numbered("photo.jpg", 1) == "photo.jpg")
        #expect(numbered("photo.jpg", 2) == "photo (2).jpg")
        #expect(numbered("photo", 3) == "photo (3)")
        let long = String(repeating: "ä", count: 120) + ".jpg"
        #expect(numbered(long, 12).hasSuffix("ä (12).jpg"))
        #expect(InboxName.safe([UInt8](repeating: 0xFF, count: 255)).count <= 255)
        #expect(numbered(String(repeating: "ä", count: 127), 2).utf8.count <= 255)
    }

    @Test func `what was received gets names that were free, and nothing that was not offered does`() throws {
        let folders = try Folders()
        let inbox = folders.srv
        try folders.write("srv/a.txt", "mine")
        let items = ["a.txt", ".hidden", "tree"].map { Offers.Item(name: Files.Path($0), kind: .file, size: 1) }
        func fill(_ staging: InboxStaging, _ name: String, _ text: String) throws {
            let path = staging.path.description + "/" + name
            try FileManager.default.createDirectory(
                atPath: (path as NSString).deletingLastPathComponent, withIntermediateDirectories: true)
            try Data(text.utf8).write(to: URL(fileURLWithPath: path))
        }
        do {
            let staging = try InboxStaging(in: inbox)
            try fill(staging, "a.txt", "theirs")
            try fill(staging, ".hidden", "x")
            try fill(staging, "tree/deep/file", "x")
            for (link, target) in [
                ("tree/out", "/etc"), ("tree/up", ".."), ("tree/in", "deep/file"), ("tree/deep/sideways", "../in"),
                ("tree/deep/far", "../../a.txt"), ("top", "a.txt"),
            ] {
                try FileManager.default.createSymbolicLink(
                    atPath: staging.path.description + "/" + link, withDestinationPath: target)
            }
            #expect(try staging.removeLinks() == 6)
            #expect(try staging.deliver(items) == ["a (2).txt", "_hidden", "tree"])
        }
        #expect(try folders.text("srv/a.txt") == "mine" && folders.text("srv/a (2).txt") == "theirs")
        #expect(try folders.names("srv") == ["_hidden", "a (2).txt", "a.txt", "tree"])
        #expect(try folders.names("srv/tree") == ["deep"])
        #expect(try folders.names("srv/tree/deep") == ["file"])

        do {
            let staging = try InboxStaging(in: inbox)
            try fill(staging, "a.txt", "theirs")
            try fill(staging, ".ssh", "not offered")
            #expect(throws: KithError(.invalid, "")) { try staging.deliver(items) }
        }
        #expect(try folders.names("srv") == ["_hidden", "a (2).txt", "a.txt", "tree"])
    }

    @Test func `what a killed receiver left is removed by the next, what another still fills is not`() throws {
        let folders = try Folders()
        try folders.write("srv/.kith-inbox-abandonedabandon/file", "x")
        try folders.write("srv/.kith-inbox-mine", "a file of that name")
        let first = try InboxStaging(in: folders.srv)
        let second = try InboxStaging(in: folders.srv)
        let names = try folders.names("srv")
        #expect(names.count == 3 && !names.contains(".kith-inbox-abandonedabandon"))
        withExtendedLifetime((first, second)) {}
    }

    @Test func `no room is said before anything is accepted`() throws {
        let folders = try Folders()
        #expect(throws: KithError(.exhausted, "")) {
            try InboxFolder.checkRoom(for: 1 << 62, in: folders.srv + "/not/there/yet")
        }
        try InboxFolder.checkRoom(for: 1, in: folders.srv + "/not/there/yet")
        #expect(!folders.exists("srv/not"))
    }

    @Test func `the folder for downloads is the desktop's own`() throws {
        let folders = try Folders()
        let environment = ["XDG_CONFIG_HOME": folders.local]
        #expect(try InboxFolder.usual(environment: environment).hasSuffix("/Downloads/Kith"))
        try folders.write("local/user-dirs.dirs", "# x\nXDG_DOWNLOAD_DIR=\"/data/in\"\n")
        #expect(try InboxFolder.usual(environment: environment) == "/data/in/Kith")
        try folders.write("local/user-dirs.dirs", "XDG_DOWNLOAD_DIR=\"$HOME/Geladenes\"\n")
        #expect(try InboxFolder.usual(environment: environment).hasSuffix("/Geladenes/Kith"))
        #expect(
            try InboxFolder.usual(environment: ["XDG_DOWNLOAD_DIR": "/srv/in", "XDG_CONFIG_HOME": folders.local])
                == "/srv/in/Kith")
    }
}
