import Testing

@testable import KithRFB

@Suite struct HandshakeTests {
    /// Made with OpenSSL 3.0.19: `openssl enc -des-ecb -nopad -provider legacy`, the key's bits reversed in each byte.
    @Test(arguments: [
        ("000102030405060708090a0b0c0d0e0f", "secret", "ee22539f33a5983ec12f9c2edbc995dd"),
        ("000102030405060708090a0b0c0d0e0f", "mypasswd1", "beeb58e885bedde338a58a8a7275575e"),
        ("000102030405060708090a0b0c0d0e0f", "", "491e890de9ace932838a49792f2213f3"),
        ("ffeeddccbbaa99887766554433221100", "secret", "1def176f7183196ba3f34c8eb0a59298"),
        ("ffeeddccbbaa99887766554433221100", "mypasswd1", "991d1d625058a5f64bdaba6f0d2a2d84"),
        ("ffeeddccbbaa99887766554433221100", "", "70b9c395685e7d892e680dcd8db27f52"),
    ])
    func `the answer to a challenge is OpenSSL's`(challenge: String, password: String, answer: String) {
        let response = DES.response(to: bytes(challenge), password: Array(password.utf8))
        #expect(response == bytes(answer))
    }

    private func bytes(_ hex: String) -> [UInt8] {
        stride(from: 0, to: hex.count, by: 2).compactMap { UInt8(hex.dropFirst($0).prefix(2), radix: 16) }
    }

    @Test(arguments: [3, 7, 8], [nil, "secret"])
    func `every version connects with and without a password`(version: Int, password: String?) throws {
        let frame = try RFBFrameBuffer(width: 20, height: 10)
        var client = RFBClient.Options()
        client.version = version
        client.password = password.map { Array($0.utf8) }
        var talk = try Conversation(
            frame, client: client, server: .init(name: "Büro", password: password.map { Array($0.utf8) }))
        talk.piece = 1
        try talk.settle(frame)
        #expect(talk.clientEvents.first == .connected(name: "Büro"))
        #expect(talk.serverEvents.first == .connected(isShared: true))
        #expect(talk.fromClient.starts(with: Array("RFB 003.00\(version)\n".utf8)))
        #expect(talk.client.frameBuffer.bounds == frame.bounds)
    }

    @Test(arguments: [3, 7, 8]) func `a wrong password is refused, and both ends say so`(version: Int) throws {
        let frame = try RFBFrameBuffer(width: 20, height: 10)
        var options = RFBClient.Options()
        options.version = version
        options.password = Array("guess".utf8)
        var client = try RFBClient(options)
        var server = try RFBServer(
            .init(name: "", password: Array("secret".utf8)), width: frame.width, height: frame.height,
            challenge: Conversation.challenge)
        var refusal: RFBError?
        for _ in 0..<4 {
            try client.receive(server.takeOutput())
            #expect(try client.nextEvent() == nil)
            try server.receive(client.takeOutput())
            do throws(RFBError) { _ = try server.nextEvent(at: .now) } catch { refusal = error; break }
        }
        #expect(refusal == .authenticationFailed(reason: "The password is wrong."))
        // The reason is sent before the connection is closed, and nothing is read any more.
        try client.receive(server.takeOutput())
        let expected = version == 8 ? "The password is wrong." : "wrong password"
        #expect(throws: RFBError.authenticationFailed(reason: expected)) { try client.nextEvent() }
        #expect(throws: RFBError.authenticationFailed(reason: "The password is wrong.")) { try server.receive([1]) }
        #expect(server.isUpdateDue == false)
    }

    @Test func `a server that asks for a password gets none that was not given`() throws {
        var client = try RFBClient(.init())
        try client.receive(Array("RFB 003.008\n".utf8) + [1, 2])
        #expect(throws: RFBError.passwordNeeded) { try client.nextEvent() }
    }

    @Test func `the reason of a refusal is passed on`() throws {
        var client = try RFBClient(.init())
        try client.receive(Array("RFB 003.008\n".utf8) + [0, 0, 0, 0, 4] + Array("full".utf8))
        #expect(throws: RFBError.refused(reason: "full")) { try client.nextEvent() }
    }

    @Test func `versions that others made up are spoken to as 3 8`() throws {
        for version in ["003.889", "004.001", "005.000"] {
            var client = try RFBClient(.init())
            try client.receive(Array("RFB \(version)\n".utf8) + [1, 1])
            #expect(try client.nextEvent() == nil)
            #expect(client.takeOutput() == Array("RFB 003.008\n".utf8) + [1])
        }
    }

    @Test func `what is not the protocol is refused at once`() throws {
        var client = try RFBClient(.init())
        try client.receive(Array("H".utf8))
        #expect(throws: RFBError.notRFB) { try client.nextEvent() }
        var server = try RFBServer(.init(name: ""), width: 1, height: 1, challenge: Conversation.challenge)
        try server.receive(Array("GET /".utf8))
        #expect(throws: RFBError.notRFB) { try server.nextEvent(at: .now) }
    }

    @Test func `a security type that is not known is named`() throws {
        var client = try RFBClient(.init())
        try client.receive(Array("RFB 003.008\n".utf8) + [2, 19, 30])
        #expect(throws: RFBError.unsupportedSecurity([19, 30])) { try client.nextEvent() }
    }
}
