import KithIdentity
import KithTesting
import KithWire
import Testing

@Suite struct TicketTests {
    private func ticket() throws -> Ticket {
        Ticket(
            id: try key(7).id,
            addresses: [
                try #require(NetworkAddress("192.0.2.1:4433")), try #require(NetworkAddress("[2001:db8::1]:4434")),
            ], relays: ["https://relay.example"])
    }

    @Test func `the bytes are as drawn`() throws {
        let ticket = try ticket()
        let relay = Array("https://relay.example".utf8)
        #expect(
            ticket.bytes
                == [1] + ticket.id.bytes + [2, 4, 192, 0, 2, 1, 0x11, 0x51, 6, 0x20, 0x01, 0x0D, 0xB8]
                + [UInt8](repeating: 0, count: 11) + [1, 0x11, 0x52, 1, UInt8(relay.count)] + relay)
        #expect(try Ticket(bytes: ticket.bytes) == ticket)
    }

    @Test func `the text survives in any case and with line breaks in it`() throws {
        let ticket = try ticket()
        #expect(ticket.text.hasPrefix("kith1"))
        #expect(try Ticket(text: ticket.text) == ticket)
        #expect(try Ticket(text: ticket.text.uppercased()) == ticket)
        #expect(try Ticket(text: " " + ticket.text.prefix(40) + "\n  " + ticket.text.dropFirst(40) + "\n") == ticket)
    }

    @Test func `every wrong letter of a text is noticed`() throws {
        let right = Array(try ticket().text)
        for index in right.indices {
            for letter in "az27k1-" where letter != right[index] {
                var wrong = right
                wrong[index] = letter
                #expect(throws: KithError(.invalid, "")) { _ = try Ticket(text: String(wrong)) }
            }
        }
        for count in 0..<right.count {
            #expect(throws: KithError(.invalid, "")) { _ = try Ticket(text: String(right.prefix(count))) }
        }
    }

    @Test func `bytes that are cut, lengthened or of another version are refused`() throws {
        let bytes = try ticket().bytes
        for count in 0..<bytes.count {
            #expect(throws: WireError.self) { _ = try Ticket(bytes: Array(bytes.prefix(count))) }
        }
        #expect(throws: WireError.trailing(1)) { _ = try Ticket(bytes: bytes + [0]) }
        #expect(throws: WireError.self) { _ = try Ticket(bytes: [2] + bytes.dropFirst()) }
        var many = bytes
        many[33] = 17
        #expect(throws: WireError.tooLong(limit: 16, actual: 17)) { _ = try Ticket(bytes: many) }
    }

    @Test func `no more is put in than may be taken out`() throws {
        let address = try #require(NetworkAddress("192.0.2.1:1"))
        let ticket = Ticket(
            id: try key(1).id, addresses: Array(repeating: address, count: 40),
            relays: [String(repeating: "é", count: 200)] + Array(repeating: "r", count: 9))
        #expect(ticket.addresses.count == 16 && ticket.relays == ["r", "r", "r", "r"])
        #expect(try Ticket(text: ticket.text) == ticket)
    }

    @Test func `random bytes never become a ticket by chance`() {
        var random = SeededRandom(seed: 99)
        for _ in 0..<20_000 {
            let bytes = random.bytes(Int.random(in: 0...80, using: &random))
            _ = try? Ticket(bytes: [1] + bytes)
            #expect(throws: KithError.self) { _ = try Ticket(text: "kith1" + Base32.encode(bytes)) }
        }
    }
}

@Suite struct InvitationTests {
    private func invitation(name: String = "Ana's laptop") throws -> Invitation {
        let address = try #require(NetworkAddress("192.0.2.1:4433"))
        return Invitation(ticket: Ticket(id: try key(7).id, addresses: [address]), name: name, expiresAt: 1_800_000_000)
    }

    @Test func `the text survives`() throws {
        let invitation = try invitation()
        #expect(invitation.text.hasPrefix("kith-invite1"))
        let back = try Invitation(text: invitation.text)
        #expect(back == invitation && back.id == invitation.id && back.proofKey == invitation.proofKey)
        #expect(try Invitation(text: invitation.text.uppercased()) == invitation)
    }

    @Test func `tokens are those of its relays, and bounded`() throws {
        let relays = ["https://a.example", "https://b.example"]
        let ticket = Ticket(id: try key(7).id, addresses: [], relays: relays)
        func invitation(_ tokens: [String: String]) -> Invitation {
            Invitation(ticket: ticket, name: "one", expiresAt: 1_800_000_000, relayTokens: tokens)
        }
        let tokens = [relays[1]: "secret~1", relays[0]: String(repeating: "x", count: 512)]
        let both = invitation(tokens)
        #expect(try Invitation(text: both.text) == both)
        #expect(!both.description.contains("secret"))
        // One of another relay, and what is none, is left out: the text is that of one without.
        let none = Invitation(ticket: ticket, name: "one", expiresAt: 1_800_000_000)
        for refused in [["https://c.example": "a"], [relays[0]: ""], [relays[0]: "a b"], [relays[0]: "é"]] {
            #expect(try Invitation(text: invitation(refused).text).relayTokens.isEmpty)
            #expect(invitation(refused).text.count == none.text.count)
        }
        #expect(invitation([relays[0]: String(repeating: "x", count: 513)]).text.count == none.text.count)
    }

    @Test func `a long name is cut between characters`() throws {
        for name in [String(repeating: "é", count: 60), String(repeating: "👩‍👩‍👧", count: 9), ""] {
            let back = try Invitation(text: invitation(name: name).text)
            #expect(name.hasPrefix(back.name) && back.name.utf8.count <= 63)
        }
    }

    @Test func `every wrong letter is noticed, and a ticket is no invitation`() throws {
        let invitation = try invitation()
        let right = Array(invitation.text)
        for index in right.indices {
            var wrong = right
            wrong[index] = right[index] == "q" ? "r" : "q"
            #expect(throws: KithError(.invalid, "")) { _ = try Invitation(text: String(wrong)) }
        }
        #expect(throws: KithError(.invalid, "")) { _ = try Invitation(text: invitation.ticket.text) }
        #expect(throws: KithError(.invalid, "")) { _ = try Ticket(text: invitation.text) }
    }

    @Test func `two invitations have nothing secret in common`() throws {
        let one = try invitation()
        let two = try invitation()
        #expect(one.id != two.id && one.proofKey != two.proofKey && one.secret != two.secret)
        #expect(one.secret.count == 16 && one.proofKey.count == 32)
    }

    @Test func `what names and describes an invitation does not tell its secret`() throws {
        let invitation = try invitation()
        for text in [invitation.id, invitation.description, String(reflecting: invitation)] {
            for secret in [invitation.secret, invitation.proofKey] {
                #expect(!text.contains(Hex.encode(secret)) && !text.contains("\(secret)"))
            }
            #expect(!text.contains(invitation.text.suffix(20)))
        }
    }
}
