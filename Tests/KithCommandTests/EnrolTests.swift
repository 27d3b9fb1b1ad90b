import Foundation
import KithTesting
import Testing

@Suite(.timeLimit(.minutes(4))) struct EnrolTests {
    private struct Status: Decodable {
        struct Member: Decodable {
            var name: String?
            var state: String
        }
        var state: String
        var root: String?
        var isHolder: Bool
        var serial: String?
        var revocations: UInt64
        var members: [Member]
    }

    private func trust(_ machine: Machine) async throws -> Status {
        try JSONDecoder().decode(Status.self, from: Data(try await machine.expect("trust", "--json").utf8))
    }

    /// Starts `kith enrol` and waits for its code.
    private func ask(_ machine: Machine, _ more: String...) async throws -> (running: Running, code: String) {
        let running = try machine.start(["enrol"] + more)
        let sign = "  kith enrol \(machine.name) "
        var code = ""
        try await eventually {
            let text = running.soFar
            guard let range = text.range(of: sign), let end = text[range.upperBound...].firstIndex(of: "\n") else {
                return !running.process.isRunning
            }
            code = String(text[range.upperBound..<end])
            return true
        }
        try #require(!code.isEmpty, "\(running.soFar)")
        return (running, code)
    }

    @Test func `a device is enrolled by its code, keeps that over a restart, and is revoked for good`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            #expect(try await phone.expect("trust").contains("No certificate"))
            let early = try await laptop.kith(["enrol", "phone", "abcd-ef23"])
            #expect(early.status == 3 && early.error.contains("kith enrol --begin"), "\(early)")
            try await laptop.expect("enrol", "--begin")
            #expect(try await laptop.kith(["enrol", "--begin"]).status == 4)
            #expect(try await laptop.kith(["enrol", "phone", "abcd-ef23"]).status == 3)

            let without = try await phone.kith(["keys", "network", "family"])
            #expect(without.status == 3 && without.error.contains("root key"), "\(without)")
            let family = try await laptop.expect("keys", "network", "family")
            #expect(try await laptop.expect("keys", "network", "family") == family && family.count == 27)
            let work = try await laptop.expect("keys", "profile", "work")
            #expect(try await laptop.expect("keys", "label", "backup").contains("backup"))
            let listed = try await laptop.expect("keys")
            for line in ["network      family   \(family)", "profile      work     \(work)", "label        backup"] {
                #expect(listed.contains(line), "\(listed)")
            }
            let secret = try await laptop.expect("call", "$keys/ensure", #"{"label": "backup"}"#)
            #expect(secret.contains("\"key\""), "\(secret)")
            #expect(try await laptop.kith(["keys", "profile", "a:b"]).status != 0)

            let (asking, code) = try await ask(phone)
            let wrong = code == "aaaa-aaaa" ? "bbbb-bbbb" : "aaaa-aaaa"
            let refused = try await laptop.kith(["enrol", "phone", wrong])
            #expect(refused.status == 5 && refused.error.contains("2 more tries"), "\(refused)")
            let issued = try await laptop.expect("enrol", "phone", "-", input: Data("\(code.uppercased())\n".utf8))
            #expect(issued.contains("phone is one of your devices"), "\(issued)")
            let asked = try await asking.outcome(seconds: 60)
            #expect(asked.status == 0 && asked.output.contains("Enrolled by laptop"), "\(asked)")
            #expect(asked.error.contains("wrong code"), "\(asked)")

            let (here, there) = (try await trust(phone), try await trust(laptop))
            #expect(here.state == "valid" && !here.isHolder && there.state == "valid" && there.isHolder)
            #expect(here.root == there.root && there.members.map(\.name) == ["phone"])
            try await phone.expect("down")
            #expect(try await trust(phone).serial == here.serial)
            try await phone.up()
            #expect(try await phone.expect("trust").contains("held by laptop"))

            // While nobody asks, there is nothing to answer.
            #expect(try await laptop.kith(["enrol", "phone", code]).status == 3)

            let revoked = try await laptop.expect("revoke", "phone", "--reason", "lost")
            #expect(revoked.contains("Revoked phone"), "\(revoked)")
            #expect(try await phone.kith(["ping", "laptop", "-c", "1"]).status == 6)
            #expect(try await laptop.expect("trust").contains("lost"))
            #expect(try await laptop.kith(["revoke", "phone"]).status == 3)
            let invitation = try await laptop.expect("invite", "--yes", "--text")
            let again = try await phone.kith(
                ["pair", invitation.trimmingCharacters(in: .whitespacesAndNewlines), "--yes"])
            #expect(again.status != 0, "\(again)")
            #expect(try await laptop.expect("audit").contains("revoked by the root"))
        }
    }

    @Test func `the text of the QR code enrols a device, and a request ends with its command`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone)
            try await laptop.expect("enrol", "--begin", "--json")
            let (stopped, old) = try await ask(phone)
            kill(stopped.process.processIdentifier, SIGINT)
            #expect(try await stopped.outcome(seconds: 60).status == 130)
            #expect(try await laptop.kith(["enrol", "phone", old]).status == 3)

            let running = try phone.start(["enrol", "--json"])
            struct Waiting: Decodable {
                struct Code: Decodable { var text: String }
                var waiting: Code
            }
            var text: String?
            try await eventually {
                text = try? JSONDecoder().decode(Waiting.self, from: Data(running.soFar.utf8)).waiting.text
                return text != nil
            }
            try await laptop.expect("enrol", try #require(text))
            #expect(try await running.outcome(seconds: 60).output.contains("enrolled"))
            #expect(try await trust(phone).state == "valid")
        }
    }

    @Test func `two devices that were enrolled know each other by their certificates, unpaired, until one is revoked`()
        async throws
    {
        try await withTwoMachines { laptop, phone in
            let tablet = try Machine("tablet")
            do {
                try await tablet.up()
                try await laptop.expect("enrol", "--begin")
                for machine in [phone, tablet] {
                    try await laptop.invite(machine)
                    let (asking, code) = try await ask(machine)
                    try await laptop.expect("enrol", machine.name, code)
                    #expect(try await asking.outcome(seconds: 60).status == 0)
                }
                let status = try await tablet.expect("status", "--json")
                let ticket = String(try #require(status.firstMatch(of: /"ticket" : "([^"]+)"/)).1)
                #expect(try await phone.kith(["ping", "tablet", "-c", "1"]).status == 3)
                let connected = try await phone.expect("connect", ticket)
                #expect(connected.contains("known by its certificate until"), "\(connected)")
                #expect(try await tablet.expect("devices", "phone").contains("its certificate, until"))
                #expect(try await phone.expect("devices").contains(", certified"))
                for (one, other) in [(phone, "tablet"), (tablet, "phone")] {
                    try await one.expect("ping", other, "-c", "1")
                    let listing = try await one.kith(["ls", "\(other):/"])
                    #expect(listing.status == 5, "\(listing)")
                }
                #expect(try await tablet.expect("audit").contains("is known by its certificate; it may do nothing"))
                // Over a restart, of both.
                for machine in [phone, tablet] {
                    try await machine.expect("down")
                    try await machine.up()
                }
                try await phone.expect("ping", "tablet", "-c", "1")
                try await tablet.expect("ping", "phone", "-c", "1")

                // Forgotten by a person, it stays away.
                try await tablet.expect("forget", "phone")
                #expect(try await phone.kith(["connect", ticket]).status == 6)
                #expect(try await phone.kith(["ping", "tablet", "-c", "1"]).status == 6)
                let back = try await phone.expect("status", "--json")
                let own = String(try #require(back.firstMatch(of: /"ticket" : "([^"]+)"/)).1)
                try await tablet.expect("connect", own)
                try await phone.expect("ping", "tablet", "-c", "1")

                // What such devices may do is each person's choice, and whether they come at all.
                let folder = tablet.folder.path
                #expect(try await tablet.expect("trust", "--grant", "files:read=\(folder)").contains(folder))
                #expect(try await tablet.expect("trust", "--no-grant", "--no-admit").contains("by pairing only"))
                #expect(try await tablet.kith(["trust", "--no-grant", "--grant", "shell"]).status == 64)
                try await phone.expect("ping", "tablet", "-c", "1")

                try await laptop.expect("ping", "tablet", "-c", "1")
                try await laptop.expect("revoke", "phone", "--reason", "lost")
                try await eventually { try await !tablet.expect("devices", "--cached").contains("phone") }
                #expect(try await phone.kith(["ping", "tablet", "-c", "1"]).status == 6)
                try await tablet.expect("trust", "--admit")
                #expect(try await phone.kith(["connect", ticket]).status == 6)
            } catch {
                await tablet.remove()
                throw error
            }
            await tablet.remove()
        }
    }

    @Test func `a command line that makes no sense is refused before anything is asked`() async throws {
        let machine = try Machine("odd")
        #expect(try await machine.kith(["connect", "laptop", "nowhere"]).status == 64)
        for words in [
            ["--begin", "--replace"], ["laptop", "code", "--begin"], ["--days", "9"],
            ["laptop", "code", "--days", "0"],
            ["kith-enrol1-nonsense"],
        ] {
            #expect(try await machine.kith(["enrol"] + words).status == 64, "\(words)")
        }
        #expect(try await machine.kith(["revoke", "phone", "--reason", "bored"]).status == 64)
        await machine.remove()
    }
}
