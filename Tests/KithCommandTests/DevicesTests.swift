import Foundation
import KithAPI
import KithIdentity
import KithTesting
import Testing

@testable import KithCommand

@Suite(.timeLimit(.minutes(4))) struct DevicesTests {
    private struct Info: Decodable {
        var isOnline: Bool
        var hasForgotten: Bool?
        var grantsThere: [String]?
        var grantsThereAt: Int64?
        var failure: String?
    }

    private func only(_ machine: Machine, _ words: String...) async throws -> Info {
        let outcome = try await machine.kith(["devices", "--json"] + words)
        try #require(outcome.status == 0, "\(outcome)")
        return try #require(try JSONDecoder().decode([Info].self, from: Data(outcome.output.utf8)).first)
    }

    @Test func `what a device may do on another one is shown, and remembered when that one is down`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell", "files:read=/srv")
            let online = try await only(phone)
            #expect(online.isOnline && online.hasForgotten == false)
            #expect(online.grantsThere.map(Set.init) == ["shell", "files:read=/srv"])
            let told = try #require(online.grantsThereAt)
            let text = try await phone.expect("devices")
            #expect(text.contains("YOU MAY THERE") && text.contains("files:read=/srv"), "\(text)")
            struct Status: Decodable {
                struct Connected: Decodable {
                    var name: String
                    var version: String?
                }
                var version: String
                var connected: [Connected]?
            }
            let status = try JSONDecoder().decode(
                Status.self, from: Data(try await phone.expect("status", "--json").utf8))
            #expect(status.connected?.map(\.name) == ["laptop"])
            #expect(status.connected?.first?.version == status.version)
            #expect(try await phone.expect("status").contains("laptop  Kith \(status.version)"))
            #expect(try await phone.expect("devices", "laptop").contains("Kith \(status.version)"))
            let screen = try Tmux(phone, ["devices"])
            defer { screen.end() }
            try await screen.show("files:read=/srv")
            #expect(try screen.screen().contains("YOU MAY THERE"))

            try await laptop.expect("grant", "phone", "--remove", "shell")
            #expect(try await only(phone).grantsThere == ["files:read=/srv"])
            try await laptop.expect("down")
            let offline = try await only(phone)
            #expect(!offline.isOnline && offline.hasForgotten == false)
            #expect(offline.grantsThere == ["files:read=/srv"] && offline.grantsThereAt.map { $0 >= told } == true)
            // The kernel of this very machine says that nobody listens.
            #expect(offline.failure?.contains("no Kith is running there") == true, "\(offline)")
            #expect(try await phone.expect("devices", "lap").contains("reason"))
            // Without asking, the answer is the old one, and marked so.
            let old = try await phone.expect("devices", "--cached")
            #expect(old.contains("offline") && old.contains("(just now)") || old.contains(" ago)"), "\(old)")
        }
    }

    @Test func `a device that was killed while connected is offline at once, and calls to it say why`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell", "files:read=/srv")
            let why = "laptop's machine answers, but no Kith is running there. Start it there: kith up"
            // Each of them is the first to find the connection dead.
            for words in [
                ["ping", "laptop", "-c", "1"], ["ls", "laptop:/srv"], ["shell", "laptop", "--", "true"], ["devices"],
            ] {
                #expect(try await only(phone).isOnline)
                try await laptop.killDaemon()
                let outcome = try await phone.kith(words)
                if words == ["devices"] {
                    #expect(outcome.output.contains("offline") && !outcome.output.contains("online,"), "\(outcome)")
                } else {
                    #expect(outcome.status == 7 && outcome.error.contains(why), "\(words): \(outcome)")
                }
                #expect(try await !only(phone, "--cached").isOnline)
                try await laptop.up()
            }
            // Back so soon that the connection might still be thought of: whichever end dialed it.
            for machine in [laptop, phone] {
                #expect(try await only(phone).isOnline)
                try await machine.killDaemon()
                try await machine.up()
                try await phone.expect("ping", "laptop", "-c", "1")
            }
        }
    }

    @Test func `a device that no longer answers is not said to be online`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone)
            #expect(try await only(phone).isOnline)
            let pid = try await laptop.daemonPID()
            kill(pid, SIGSTOP)
            defer { kill(pid, SIGCONT) }
            let text = try await phone.expect("devices")
            #expect(text.contains("  offline, last heard ") && !text.contains("online"), "\(text)")
            #expect(try await only(phone).failure?.contains("not done in time") == false)
            // What is not asked says nothing for half a minute.
            try await eventually { try await !only(phone, "--cached").isOnline }
            kill(pid, SIGCONT)
            try await eventually { try await only(phone).isOnline }
        }
    }

    @Test func `a call waits for a device that no longer answers as long as it is told to`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone)
            let call = ["call", "device.echo", #"{"bytes":""}"#, "--on", "laptop", "--timeout"]
            #expect(try await phone.kith(call + ["20.5"]).status == 0)
            let pid = try await laptop.daemonPID()
            kill(pid, SIGSTOP)
            defer { kill(pid, SIGCONT) }
            let outcome = try await phone.kith(call + ["1.5"], seconds: 20)
            #expect(outcome.status == 8 && outcome.error.contains("laptop does not answer"), "\(outcome)")
            for wrong in ["0", "-1", "nan", "1e300", "soon"] {
                #expect(try await phone.kith(call.dropLast() + ["--timeout=\(wrong)"]).status == 64)
            }
        }
    }

    @Test func `a table shows the silence of a device, and the host of its relay alone`() throws {
        let key = DeviceKey().id
        func lines(_ path: String?, quiet: Double?, isOnline: Bool = true) -> String {
            var info = Devices.Info(
                name: "laptop", id: key, isOnline: isOnline, path: path, roundTripMilliseconds: nil, grants: [],
                addresses: [], pairedAt: 0, lastSeen: nil)
            info.quietSeconds = quiet
            return DeviceText.lines([info]).split(separator: "\n").last.map { "\($0)" } ?? ""
        }
        #expect(lines("192.0.2.1:4433", quiet: 3).contains("  online  direct 192.0.2.1:4433  "))
        #expect(lines("https://relay.example#\(key)+ca", quiet: nil).contains("  online  relay relay.example  "))
        #expect(lines("http://relay.example:3340#\(key)", quiet: 20).contains("  relay relay.example:3340  "))
        #expect(lines("http://[2001:db8::1]:3340", quiet: 20).contains("  relay [2001:db8::1]:3340  "))
        #expect(lines(nil, quiet: 20).contains("  last heard 20 s ago  "))
        #expect(lines(nil, quiet: 40, isOnline: false).contains("  offline, last heard 40 s ago  "))
    }

    @Test func `a device that has forgotten this one is told from one that is offline`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            _ = try await only(phone)
            try await laptop.expect("forget", "phone")
            #expect(try await only(phone).hasForgotten == true)
            #expect(try await phone.expect("devices").contains("has forgotten this device"))
            #expect(try await phone.expect("devices", "--cached").contains("has forgotten this device"))
            // Paired anew, it is one of them again.
            try await laptop.invite(phone)
            let again = try await only(phone)
            #expect(again.hasForgotten == false && again.grantsThere == [])
        }
    }

    @Test func `long grants stand one below the other on a screen, and a device on one line in a pipe`() async throws {
        try await withTwoMachines { laptop, phone in
            let grants = ["files:read=/srv/photographs/holidays", "files:write=/srv/photographs/incoming"]
            try await laptop.invite(phone, grants[0], grants[1], "shell")
            try await phone.invite(laptop, grants[0])
            let screen = try Tmux(phone, ["devices"])
            defer { screen.end() }
            try await screen.show("you may there: files:read")
            let lines = try await phone.expect("devices").split(separator: "\n")
            #expect(lines.count == 2 && lines[1].hasPrefix("laptop  "), "\(lines)")
            #expect(grants.allSatisfy { lines[1].contains($0) }, "\(lines)")
        }
    }
}
