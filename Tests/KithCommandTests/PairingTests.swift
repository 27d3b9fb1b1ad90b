import Foundation
import KithTesting
import Testing

@Suite struct PairingTests {
    @Test func `two devices pair by an invitation and see each other`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            let seen = try await phone.expect("devices", "--json")
            #expect(seen.contains("\"name\" : \"laptop\""))
            #expect(seen.contains("\"isOnline\" : true"))
            let back = try await laptop.expect("devices", "--json")
            #expect(back.contains("\"name\" : \"phone\""))
            #expect(back.contains("\"shell\""))
            let ping = try await phone.expect("ping", "laptop", "--count", "2")
            #expect(ping.contains("2 of 2 came back"))
        }
    }

    @Test func `an invitation works once`() async throws {
        try await withTwoMachines { laptop, phone in
            let invitation = try await laptop.expect("invite", "--yes", "--text").trimmingCharacters(in: .newlines)
            try await phone.expect("pair", invitation, "--yes")
            let thief = try Machine("thief")
            let second = try await thief.kith(["pair", invitation, "--yes"])
            #expect(second.status != 0)
            #expect(second.error.contains("invitation"))
            #expect(try await !laptop.expect("devices", "--cached").contains("thief"))
            await thief.remove()
        }
    }

    @Test func `an expired, a revoked and a tampered invitation are refused`() async throws {
        try await withTwoMachines { laptop, phone in
            let short = try await laptop.expect("invite", "--yes", "--text", "--expires", "1s")
            try await Task.sleep(for: .seconds(2))  // Real time: the invitation's second, by the daemon's clock.
            let expired = try await phone.kith(["pair", short.trimmingCharacters(in: .newlines), "--yes"])
            #expect(expired.status != 0)
            #expect(expired.error.contains("expired"))

            let json = try await laptop.expect("invite", "--yes", "--json")
            let made = try #require(try JSONSerialization.jsonObject(with: Data(json.utf8)) as? [String: Any])
            let text = try #require(made["text"] as? String)
            let id = try #require((made["info"] as? [String: Any])?["id"] as? String)
            try await laptop.expect("invite", "--revoke", id)
            #expect(try await phone.kith(["pair", text, "--yes"]).status != 0)

            let good = try await laptop.expect("invite", "--yes", "--text").trimmingCharacters(in: .newlines)
            var letters = Array(good)
            let middle = letters.count / 2
            letters[middle] = letters[middle] == "a" ? "b" : "a"
            let tampered = try await phone.kith(["pair", String(letters), "--yes"])
            #expect(tampered.status == 64)
            #expect(try await laptop.expect("devices", "--json") == "[\n\n]\n")
        }
    }

    @Test func `pairing again keeps what a device may do, adds what is new, and says so at both ends`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone, "shell")
            let invitation = try await laptop.expect("invite", "--text", "--grant", "forward")
                .trimmingCharacters(in: .newlines)
            let joining = try phone.start(["pair", invitation, "--yes"])
            // The only one that waits; the daemon's log says what it keeps.
            _ = try await laptop.waitForLog(/It is paired already, and keeps what it may do here: (shell)/)
            _ = try await laptop.waitForLog(/kith accept (\S+)/)
            #expect(try await laptop.kith(["status"]).error.contains("wants to pair"))
            let accepted = try await laptop.kith(["accept", "--yes"])
            #expect(accepted.status == 0 && accepted.error.contains("wants to pair"), "\(accepted)")
            let outcome = try await joining.outcome(seconds: 30)
            #expect(outcome.status == 0 && outcome.error.contains("It is paired already"), "\(outcome)")
            #expect(try await laptop.expect("devices", "phone").contains("forward shell"))
            #expect(try await laptop.kith(["accept"]).status == 3)
            let audit = try await laptop.kith(["grant", "phone", "--remove", "shell"])
            #expect(audit.status == 0)
            #expect(
                try await laptop.expect("audit").contains(
                    /this device +devices\.grant +allowed +phone \([a-z2-7-]+\): forward/))
        }
    }

    @Test func `no terminal and no --yes pairs nobody`() async throws {
        try await withTwoMachines { laptop, phone in
            let invitation = try await laptop.expect("invite", "--yes", "--text").trimmingCharacters(in: .newlines)
            let outcome = try await phone.kith(["pair", invitation])
            #expect(outcome.status == 64)
            #expect(outcome.error.contains("--yes"))
            #expect(try await laptop.expect("devices", "--json", "--cached") == "[\n\n]\n")
        }
    }

    @Test func `both ends show the same code and the inviting end is asked`() async throws {
        try await withTwoMachines { laptop, phone in
            let invitation = try await laptop.expect("invite", "--text").trimmingCharacters(in: .newlines)
            let joining = try phone.start(["pair", invitation, "--yes"])
            // The daemon has no terminal: its log names the pairing, `kith accept` answers it.
            let request = try await laptop.waitForLog(/kith accept (\S+)/)
            let code = try await laptop.waitForLog(/show the code  ([0-9 ]+[0-9])/)
            try await laptop.expect("accept", request, "--yes")
            let outcome = try await joining.outcome(seconds: 30)
            #expect(outcome.status == 0, "\(outcome)")
            #expect(outcome.error.contains(code))
        }
    }

    @Test(arguments: [true, false])
    func `a pairing ends at the other device when one of the two is killed`(isInviter: Bool) async throws {
        try await withTwoMachines { laptop, phone in
            let invitation = try await laptop.expect("invite", "--text").trimmingCharacters(in: .newlines)
            let joining = try phone.start(["pair", invitation, "--yes"])
            _ = try await laptop.waitForLog(/kith accept (\S+)/)
            try await (isInviter ? laptop : phone).killDaemon()
            // Both wait for less than the idle limit.
            if isInviter {
                let outcome = try await joining.outcome(seconds: 60)
                #expect(outcome.error.contains("The other device is not running any more"), "\(outcome)")
            } else {
                _ = try await laptop.waitForLog(/(the other device gave up)/)
            }
        }
    }

    @Test func `a refused pairing leaves no device behind`() async throws {
        try await withTwoMachines { laptop, phone in
            let invitation = try await laptop.expect("invite", "--text", "--grant", "shell")
            let joining = try phone.start(["pair", invitation.trimmingCharacters(in: .newlines), "--yes"])
            let request = try await laptop.waitForLog(/kith accept (\S+)/)
            try await laptop.expect("accept", "--refuse", request)
            let outcome = try await joining.outcome(seconds: 30)
            #expect(outcome.status == 5 && outcome.error.contains("refused at the inviting device"), "\(outcome)")
            #expect(try await laptop.expect("devices", "--json", "--cached") == "[\n\n]\n")
            #expect(try await phone.expect("devices", "--json", "--cached") == "[\n\n]\n")
        }
    }

    // MARK: - Asking

    @Test func `accept shows who wants to pair and the code, asks, and says how it ended`() async throws {
        try await withTwoMachines { laptop, phone in
            let invitation = try await laptop.expect("invite", "--text").trimmingCharacters(in: .newlines)
            let joining = try Tmux(phone, ["pair", invitation])
            defer { joining.end() }
            let request = try await laptop.waitForLog(/kith accept (\S+)/)
            let code = try await laptop.waitForLog(/show the code  ([0-9 ]+[0-9])/)
            try await joining.show("Both devices must show the code \(code)")

            // Without a terminal nobody is asked, and nothing is agreed to.
            let mute = try await laptop.kith(["accept"])
            #expect(mute.status == 64 && mute.error.contains("kith accept \(request) --yes"), "\(mute)")
            #expect(mute.error.contains(code) && mute.error.contains("Its DeviceID is"), "\(mute)")
            #expect(try await laptop.kith(["accept", request, "--yes", "--refuse"]).status == 64)

            let accepting = try Tmux(laptop, ["accept"])
            defer { accepting.end() }
            try await accepting.show("phone wants to pair. Its DeviceID is")
            try await accepting.show("Both devices must show the code \(code)")
            try await accepting.show("Do the codes match, and do you want to pair? [y/N]")
            try accepting.type("y")
            try await accepting.show("Waiting for the other end to agree.")
            try await joining.show("Do the codes match, and do you want to pair? [y/N]")
            try joining.type("y")
            try await accepting.show("Paired with phone.")
            try await joining.show("Paired with laptop.")
        }
    }

    @Test func `a no at the joining end is heard at the other at once, and the question there is withdrawn`()
        async throws
    {
        try await withTwoMachines { laptop, phone in
            let screen = try Tmux(laptop, ["invite"])
            defer { screen.end() }
            try await screen.show("Waiting for the device that uses it")
            let invitation = try await laptop.expect("invite", "--text").trimmingCharacters(in: .newlines)
            let joining = try Tmux(phone, ["pair", invitation])
            defer { joining.end() }
            try await screen.show("Do the codes match, and do you want to pair? [y/N]")
            let accepting = try Tmux(laptop, ["accept"])
            defer { accepting.end() }
            try await accepting.show("Do the codes match, and do you want to pair? [y/N]")
            try await joining.show("Do the codes match, and do you want to pair? [y/N]")
            try joining.type("n")
            try await joining.show("Not paired: it was refused at this device. Nothing was stored at either end.")
            for end in [screen, accepting] {
                try await end.show("it was refused at the other device. Nothing was stored.")
            }
            #expect(try await laptop.expect("devices", "--json", "--cached") == "[\n\n]\n")

            // It could be tried again; refused here, it is used up.
            let again = try phone.start(["pair", invitation, "--yes"])
            while try await laptop.kith(["accept", "--refuse"]).status != 0 {}
            let outcome = try await again.outcome(seconds: 30)
            #expect(outcome.status == 5 && outcome.error.contains("refused at the inviting device"), "\(outcome)")
        }
    }

    @Test(arguments: [true, false])
    func `the inviting end hears at once that the other has been interrupted`(daemon: Bool) async throws {
        try await withTwoMachines { laptop, phone in
            if !daemon { try await phone.expect("down") }  // then `pair` is the device itself
            let invitation = try await laptop.expect("invite", "--text").trimmingCharacters(in: .newlines)
            let joining = try Tmux(phone, ["pair", invitation])
            defer { joining.end() }
            _ = try await laptop.waitForLog(/kith accept (\S+)/)
            let accepting = try Tmux(laptop, ["accept"])
            defer { accepting.end() }
            try await accepting.show("Do the codes match, and do you want to pair? [y/N]")
            try await joining.show("Do the codes match, and do you want to pair? [y/N]")
            try joining.press("C-c")
            try await joining.show("Not paired: interrupted.")
            try await accepting.show("the other device gave up. Nothing was stored.")
        }
    }

    @Test func `the joining end hears that the inviting device was stopped, and which end that was`() async throws {
        try await withTwoMachines { laptop, phone in
            let invitation = try await laptop.expect("invite", "--text").trimmingCharacters(in: .newlines)
            let joining = try phone.start(["pair", invitation, "--yes"])
            _ = try await laptop.waitForLog(/kith accept (\S+)/)
            try await laptop.expect("down")
            let outcome = try await joining.outcome(seconds: 30)
            #expect(outcome.status == 13 && outcome.error.contains("The inviting device was stopped."), "\(outcome)")
            #expect(try await phone.expect("devices", "--json", "--cached") == "[\n\n]\n")
        }
    }

    @Test func `a second daemon on one data directory is refused and changes nothing`() async throws {
        let laptop = try Machine("laptop")
        try await laptop.up()
        let second = try await laptop.kith(["up", "--no-invite"])
        #expect(second.status == 4)
        #expect(second.error.split(separator: "\n").count == 1)
        try await laptop.expect("status")
        await laptop.remove()
    }

    @Test func `an identity survives kill -9 and a restart`() async throws {
        let laptop = try Machine("laptop")
        try await laptop.up()
        let before = try await laptop.expect("status", "--json")
        try await laptop.killDaemon()
        try await laptop.up()
        let after = try await laptop.expect("status", "--json")
        let pattern = /"id" : "([^"]+)"/
        #expect(before.firstMatch(of: pattern)?.1 == after.firstMatch(of: pattern)?.1)
        await laptop.remove()
    }
}

extension Machine {
    /// Waits until the daemon's log matches, and returns the first capture.
    func waitForLog(_ pattern: Regex<(Substring, Substring)>) async throws -> String {
        var found: String?
        try await eventually {
            let log = (try? String(contentsOfFile: data + "/kith.log", encoding: .utf8)) ?? ""  // not written yet
            found = log.firstMatch(of: pattern).map { String($0.1) }
            return found != nil
        }
        return try #require(found)
    }
}
