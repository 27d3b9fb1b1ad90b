import KithIdentity
import KithRPC
import KithWire
import Testing

@testable import KithAPI

/// `Documentation/Evolution.md`, sentence by sentence.
@Suite struct `Versions of the program understand each other` {
    /// What the encoders of commit f872b1e (22 November 2026, before methods said what their streams carry) wrote.
    private static let recorded = [
        "files.list.input": "a26470617468642f737276656c696d697403",
        "header":
            "010a66696c65732e6c69737445dc0012a26470617468642f737276656c696d697403",
        "head.success": "0001a0",
        "head.failure": "011fa264636f64656664656e696564676d657373616765694e6f206772616e742e",
        "files.stat.input": "a26470617468642f7372766c666f6c6c6f77734c696e6b73f4",
        "shell.open.input":
            "a7646b656570183c66766965776572a2626964900102030405060708090a0b0c0d0e0f106b77616e74734563686f6573f56773686172"
            + "696e67646e6f6e65687465726d696e616ca26473697a65a464726f7773181867636f6c756d6e7318506a706978656c576964746800"
            + "6b706978656c48656967687400647479706565787465726d6b636f6d6d616e644c696e65626c736b656e7669726f6e6d656e74a164"
            + "4c414e4761436d666f7277617264734167656e74f4",
        "shell.open.output":
            "a5646b656570183c647573657263616e61657368656c6c672f62696e2f73686770726f63657373076773657373696f6e627331",
        "files.pull.input":
            "a36470617468642f73727669726563757273697665f56973656c656374696f6ea3676578636c7564658069686172644c696e6b73f4"
            + "6a61747472696275746573f4",
        "files.push.input":
            "a26470617468642f737276676c616e64696e67ac6473796e63f4656578616374f46664656c657465f46664727952756ef466726570"
            + "6f7274f466757064617465f4676578636c7564658068636865636b73756df4687072657365727665f5696f7665727772697465f569"
            + "77686f6c6546696c65f46a696e746f466f6c646572f4",
        "reach.standing.output":
            "a46474696d6505666772616e747382657368656c6c6f66696c65733a726561643d2f7372766776657273696f6e65302e312e306961"
            + "6464726573736573816b3139322e302e322e313a37",
        "pairing.refused": "a16772656675736564a264636f64656664656e696564676d657373616765634e6f2e",
        "files.progress":
            "a76473656e7400647769726500656279746573056566696c657300676368616e6765738067736b6970706564806a746f74616c427974"
            + "657309",
    ]

    private static func bytes(_ name: String) throws -> [UInt8] {
        let text = Array(try #require(recorded[name]).utf8)
        return try stride(from: 0, to: text.count, by: 2).map { index in
            try #require(UInt8(String(decoding: text[index..<index + 2], as: UTF8.self), radix: 16))
        }
    }

    /// What an earlier version wrote is read, and what this one writes of it is what that one reads: the same bytes.
    private static func passes<Value: Codable & Equatable>(_ name: String, _ value: Value) throws {
        let bytes = try bytes(name)
        #expect(try CBORDecoder().decode(Value.self, from: bytes) == value, "\(name)")
        #expect(try CBOREncoder().encode(value) == bytes, "\(name)")
    }

    @Test func `an earlier version's messages are read, and written so that it reads them`() throws {
        try Self.passes("files.list.input", Files.List.Input(path: "/srv", limit: 3))
        try Self.passes("files.stat.input", Files.Stat.Input(path: "/srv"))
        var client = Shell.Client(wantsEchoes: true)
        client.id = Array(1...16)
        try Self.passes(
            "shell.open.input",
            Shell.Open.Input(
                terminal: Shell.Terminal(size: Shell.Size(columns: 80, rows: 24), type: "xterm"), commandLine: "ls",
                environment: ["LANG": "C"], keep: 60, client: client))
        try Self.passes(
            "shell.open.output",
            Shell.Open.Output(process: 7, shell: "/bin/sh", user: "ana", session: "s1", keep: 60))
        try Self.passes("files.pull.input", Files.Pull.Input(path: "/srv", recursive: true))
        try Self.passes("files.push.input", Files.Push.Input(path: "/srv", receiving: Files.ReceiveOptions()))
        try Self.passes(
            "reach.standing.output",
            Reach.Standing.Output(
                grants: [.shell, .files(.read, root: "/srv")], version: "0.1.0", time: 5,
                addresses: [NetworkAddress(ipv4: (192, 0, 2, 1), port: 7)]))
        try Self.passes("pairing.refused", PairingMethods.FromInviter.refused(code: .denied, message: "No."))
        try Self.passes("files.progress", Files.Progress(bytes: 5, totalBytes: 9))
    }

    @Test func `an earlier version's headers and answers are read, and written so that it reads them`() throws {
        let header = StreamHeader(
            method: "files.list", millisecondsLeft: 1500, input: try Self.bytes("files.list.input"))
        #expect(try StreamHeader.parse(Self.bytes("header"))?.header == header)
        #expect(try header.encoded() == Self.bytes("header"))
        for (name, head) in [
            ("head.success", ResponseHead.success([0xA0])),
            ("head.failure", ResponseHead.failure(code: .denied, message: "No grant.")),
        ] {
            #expect(try ResponseHead.parse(Self.bytes(name))?.head == head)
            #expect(try head.encoded() == Self.bytes(name))
        }
    }

    @Test func `members that this version does not know are skipped`() throws {
        let probe = SchemaProbe()
        var tried = 0
        for method in API.methods {
            let sample = try #require(method.sampleInput(probe))
            guard case .json(let json) = try method.input.encode(sample, .json),
                case .object(var members) = try JSONText(json).value()
            else { continue }
            members["fromTheFuture"] = ["deep": [1, 2]]
            let text = try JSONText(encoding: JSONValue.object(members))
            guard case .json(let read) = try method.input.encode(method.input.decode(.json(text.bytes)), .json) else {
                continue
            }
            #expect(read == json, "\(method.name)")
            // In CBOR bytes are bytes: what has none is the same there.
            if let cbor = try? CBOREncoder().encode(JSONValue.object(members)),
                let value = try? method.input.decode(.cbor(cbor)),
                case .json(let again) = try method.input.encode(value, .json)
            {
                #expect(again == json, "\(method.name)")
                tried += 1
            }
        }
        #expect(tried > 30)
    }

    @Test func `a case that this version does not know is refused, in its member's name`() throws {
        let method = AnyMethod(Inbox.SetRule.self)
        let error = #expect(throws: KithError.self) {
            try method.input.decode(.json(Array(#"{"device": "x", "rule": {"action": "postpone"}}"#.utf8)))
        }
        #expect(error?.code == .invalid)
        var buffer = ReceiveBuffer()
        var writer = ByteWriter()
        writer.prefixedBytes(try CBOREncoder().encode(["postponed": ["until": 5]]))
        buffer.append(writer.bytes)
        #expect(throws: KithError(.invalid, "")) { try PairingMethods.JoinEvent.next(from: &buffer) }
    }

    @Test func `an error code that this version does not know is a fault, with its message`() throws {
        var writer = ByteWriter()
        writer.integer(UInt8(1))
        writer.prefixedBytes(try CBOREncoder().encode(["code": "postponed", "message": "Later.", "hint": "x"]))
        #expect(
            try ResponseHead.parse(writer.bytes)?.head == .failure(code: .internal, message: "Later."))
    }

    @Test func `another version of the header is refused by its number`() {
        let error = #expect(throws: KithError.self) { try StreamHeader.parse([2, 0, 0]) }
        #expect(error?.code == .unsupported)
    }

    @Test func `results are objects, but for the lists of the first version`() {
        let document = OpenRPC(describing: API.methods)
        let others = document.methods.filter { method in
            let schema = method.result.schema
            let target = schema.referenced.flatMap { document.components.schemas[$0] } ?? schema
            return target["type"] != "object"
        }
        #expect(
            Set(others.map(\.name)) == [
                "audit.list", "devices.list", "inbox.list", "invitations.list", "pairing.failed",
                "pairing.waiting", "shell.sessions",
            ])
    }

    @Test func `what devices say of their software is bounded`() {
        let long = String(repeating: "é", count: 1_000)
        let hello = Reach.Hello(version: long, protocol: .max, capabilities: Array(repeating: long, count: 1_000))
            .bounded
        #expect(hello.version.utf8.count <= 64)
        #expect(hello.capabilities.count == 64 && hello.capabilities.allSatisfy { $0.utf8.count <= 64 })
    }
}
