import KithAPI
import KithWire
import Testing

enum Add: Method {
    struct Input: Codable, Sendable, Hashable {
        var a: Int
        var b: Int
        var note: ByteString?
    }
    typealias Output = Int
    static let header = MethodHeader.query("test.add", by: .paired, "Adds.")
    static func access(for input: Input) -> Access { input.a < 0 ? .owner : .paired }
}

@Suite struct `Methods without their types` {
    let method = AnyMethod(Add.self)

    @Test func `every form of an input means the same`() throws {
        let input = Add.Input(a: 1, b: 2, note: ByteString([0, 255]))
        for format in [Payload.Format.cbor, .json, .value] {
            let payload = try method.input.encode(input, format)
            #expect(payload.format == format)
            #expect(try method.input.decode(payload) as? Add.Input == input)
            guard case .cbor(let bytes) = try method.input.convert(payload, to: .cbor),
                case .cbor(let direct) = try method.input.encode(input, .cbor)
            else {
                Issue.record("another form")
                return
            }
            #expect(bytes == direct)
        }
    }

    @Test func `members with a default may be left out of JSON, and those that are needed may not`() throws {
        let list = AnyMethod(Files.List.self)
        let given = try list.input.decode(.json(Array(#"{"path":"/srv"}"#.utf8))) as? Files.List.Input
        #expect(given == Files.List.Input(path: "/srv"))
        #expect(throws: KithError(.invalid, "")) { try list.input.decode(.json(Array(#"{"limit":3}"#.utf8))) }
        let copy = AnyMethod(Files.Copy.self)
        let text = #"{"sources":[{"path":"/a"}],"destination":{"device":"d","path":"/b"},"landing":{"sync":true}}"#
        let input = try copy.input.decode(.json(Array(text.utf8))) as? Files.Copy.Input
        #expect(input?.receiving == Files.ReceiveOptions(sync: true))
        #expect(input?.sources == [Files.Location(device: nil, path: "/a")])
    }

    @Test func `access is asked for the very input`() throws {
        #expect(try method.access(Add.Input(a: 1, b: 2)) == .paired)
        #expect(try method.access(Add.Input(a: -1, b: 2)) == .owner)
    }

    @Test(arguments: [
        Payload.cbor([]), .cbor([0xFF]), .cbor([0xA0]), .json([]), .json(Array("{}".utf8)), .json(Array("[1]".utf8)),
        .json(Array(#"{"a":"x","b":1}"#.utf8)), .value("text"),
    ])
    func `an input of another form is invalid`(payload: Payload) {
        #expect(throws: KithError(.invalid, "")) { try method.input.decode(payload) }
    }

    @Test(arguments: ["99999999999999999999", "1e400", "1.5", "-99999999999999999999"])
    func `a number that does not fit is named with its member`(number: String) {
        let error = #expect(throws: KithError.self) {
            try method.input.decode(.json(Array(#"{"a":1,"other":1e999,"b":\#(number)}"#.utf8)))
        }
        #expect(error?.message == "The input of test.add is not what the method takes: `b` cannot be \(number).")
    }

    @Test func `a missing member is named`() throws {
        do {
            _ = try method.input.decode(.json(Array(#"{"a":1}"#.utf8)))
            Issue.record("accepted")
        } catch let error as KithError {
            #expect(error.message.contains("`b`"))
        }
    }
}
