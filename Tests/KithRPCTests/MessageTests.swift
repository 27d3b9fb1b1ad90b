import KithRPC
import KithWire
import Testing

private func parse(_ text: String) -> RPCPacket { RPCPacket(parsing: Array(text.utf8)) }

private func json(_ text: String) throws -> JSONText { try JSONText(Array(text.utf8)) }

/// The examples of the specification (jsonrpc.org/specification, section 7).
@Suite struct `The examples of the specification` {
    @Test func `a call with positional parameters`() throws {
        let packet = parse(#"{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}"#)
        #expect(
            packet
                == .single(.request(RPCRequest(id: .number("1"), method: "subtract", params: try json("[42, 23]")))))
    }

    @Test func `a call with named parameters`() throws {
        let packet = parse(
            #"{"jsonrpc": "2.0", "method": "subtract", "params": {"subtrahend": 23, "minuend": 42}, "id": 3}"#)
        guard case .single(.request(let request)) = packet else {
            Issue.record("\(packet)")
            return
        }
        #expect(request.id == .number("3"))
        #expect(try request.params?.value() == ["subtrahend": 23, "minuend": 42])
    }

    @Test func `a notification`() throws {
        #expect(
            parse(#"{"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}"#)
                == .single(.request(RPCRequest(id: nil, method: "update", params: try json("[1,2,3,4,5]")))))
        #expect(
            parse(#"{"jsonrpc": "2.0", "method": "foobar"}"#)
                == .single(.request(RPCRequest(id: nil, method: "foobar", params: nil))))
    }

    @Test func `an answer`() throws {
        #expect(
            parse(#"{"jsonrpc": "2.0", "result": 19, "id": 1}"#)
                == .single(.response(RPCResponse(id: .number("1"), result: .success(try json("19"))))))
    }

    @Test func `an answer that is an error`() {
        #expect(
            parse(#"{"jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found"}, "id": "1"}"#)
                == .single(
                    .response(
                        RPCResponse(
                            id: .string("1"),
                            result: .failure(RPCError(code: -32601, message: "Method not found"))))))
    }

    @Test(arguments: [
        #"{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]"#,
        #"[{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},{"jsonrpc": "2.0", "method"]"#,
    ])
    func `invalid JSON is a parse error, with a null id`(text: String) {
        #expect(malformedCode(parse(text)) == [-32700])
    }

    @Test(arguments: [#"{"jsonrpc": "2.0", "method": 1, "params": "bar"}"#, "[]"])
    func `an invalid request`(text: String) {
        #expect(malformedCode(parse(text)) == [-32600])
    }

    @Test func `an invalid batch answers each of its members`() {
        #expect(malformedCode(parse("[1]")) == [-32600])
        #expect(malformedCode(parse("[1,2,3]")) == [-32600, -32600, -32600])
    }

    @Test func `a mixed batch`() {
        let packet = parse(
            """
            [{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},
             {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]},
             {"jsonrpc": "2.0", "method": "subtract", "params": [42,23], "id": "2"},
             {"foo": "boo"},
             {"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"},
             {"jsonrpc": "2.0", "method": "get_data", "id": "9"}]
            """)
        guard case .batch(let messages) = packet else {
            Issue.record("\(packet)")
            return
        }
        #expect(messages.count == 6)
        let ids = messages.compactMap { message -> RPCIdentifier? in
            if case .request(let request) = message { request.id } else { nil }
        }
        #expect(ids == [.string("1"), .string("2"), .string("5"), .string("9")])
        #expect(malformedCode(.single(messages[3])) == [-32600])
    }

    private func malformedCode(_ packet: RPCPacket) -> [Int] {
        let messages: [RPCMessage] =
            switch packet {
            case .single(let message): [message]
            case .batch(let messages): messages
            }
        return messages.compactMap { message in
            guard case .malformed(let response) = message, case .failure(let error) = response.result,
                response.id == .null
            else { return nil }
            return error.code
        }
    }
}

@Suite struct `Messages` {
    @Test func `what is written reads the same`() throws {
        let requests = [
            RPCRequest(id: .number("7"), method: "files.stat", params: try json(#"{"path":"/a \"b\"\n"}"#)),
            RPCRequest(id: .string("ü\u{1F600}\u{0}"), method: "a", params: nil),
            RPCRequest(id: .null, method: "a", params: try json("[]")),
            RPCRequest.cancel(.number("7")),
        ]
        for request in requests {
            #expect(RPCPacket(parsing: request.json) == .single(.request(request)))
        }
        let responses = [
            RPCResponse(id: .number("7"), result: .success(try json("null"))),
            RPCResponse(id: .string("x"), result: .failure(RPCError(KithError(.denied, "No \"grant\".")))),
        ]
        for response in responses {
            #expect(RPCPacket(parsing: response.json) == .single(.response(response)))
        }
    }

    @Test func `what stands beside the standard's members is kept, and parameters may be any value`() throws {
        let request = RPCRequest(
            id: .number("1"), method: "m", params: try json("[1]"),
            envelope: ["on": try json("\"laptop\""), "timeout": try json("5")])
        #expect(RPCPacket(parsing: request.json) == .single(.request(request)))
        let scalar = RPCPacket(parsing: Array(#"{"jsonrpc":"2.0","id":1,"method":"m","params":7}"#.utf8))
        #expect(scalar == .single(.request(RPCRequest(id: .number("1"), method: "m", params: try json("7")))))
    }

    @Test func `an application's own code and data cross the door, both ways`() throws {
        let detail = try KithError.Detail("lamp.tooHot", data: ["degrees": 91])
        let error = RPCError(KithError(.conflict, "It is too hot.", detail: detail))
        #expect(error.code == -32002)
        #expect(error.data?.description == #"{"code":"lamp.tooHot","data":{"degrees":91}}"#)
        #expect(error.kithError == KithError(.conflict, ""))
        #expect(error.kithError.detail == detail)
        // A program that knows nothing of us numbers its errors.
        let foreign = RPCError(code: 1001, message: "Too hot.", data: try JSONText(Array("[91,\"C\"]".utf8)))
        #expect(foreign.kithError == KithError(.internal, ""))
        #expect(foreign.kithError.detail?.code == "1001")
        #expect(RPCError(foreign.kithError) == foreign)
        // What JSON-RPC keeps for itself is not an application's.
        #expect(RPCError(code: -32050, message: "", data: nil).kithError.detail == nil)
        let long = RPCError(code: 7, message: "", data: try JSONText(encoding: String(repeating: "d", count: 3_000)))
        #expect(long.kithError.detail == KithError.Detail("7"))
    }

    @Test func `an error keeps its code across the door`() {
        for code in KithError.Code.allCases {
            #expect(RPCError(KithError(code, "why")).kithError.code == code)
        }
        #expect(RPCError.parseError.kithError.code == .invalid)
    }

    @Test(arguments: [
        #"{"jsonrpc":"1.0","id":1,"method":"a"}"#,
        #"{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}"#, #"{"jsonrpc":"2.0","id":{},"method":"a"}"#,
        #"{"jsonrpc":"2.0","id":1,"result":1,"error":{"code":1,"message":""}}"#, #"{"jsonrpc":"2.0","id":1}"#, "3",
        #""text""#, "null",
    ])
    func `what is no message is malformed`(text: String) {
        guard case .single(.malformed) = parse(text) else {
            Issue.record("\(parse(text))")
            return
        }
    }

    @Test func `numbers and member order stay as they were`() throws {
        let text = #"{"b":123456789012345678901234567890.10,"a":1E400}"#
        #expect(try json(text).description == text)
    }

    @Test func `a batch of too many is refused whole`() {
        let one = #"{"jsonrpc":"2.0","method":"a"}"#
        let many = "[" + Array(repeating: one, count: RPCPacket.batchLimit + 1).joined(separator: ",") + "]"
        guard case .single(.malformed) = parse(many) else {
            Issue.record("accepted")
            return
        }
    }
}
