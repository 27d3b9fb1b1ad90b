import Kith
import KithSocket
import KithTesting
import Testing

/// Its name as a method whose types are known.
private enum Now: Method {
    struct Input: Codable, Sendable { var place: String }
    struct Output: Codable, Sendable, Hashable {
        var degrees: Int
        var caller: String?
    }
    static let header = MethodHeader.query("weather/now", by: .grant(.node), "Tells the weather.")
}

extension RawPeer {
    fileprivate func say(_ json: String) async { await send(json + "\n") }

    /// Registers a service at the device in `directory`, whose program this is from now on.
    fileprivate static func serving(
        _ methods: String, as service: String = "weather", in directory: String
    ) async throws -> (peer: RawPeer, answer: String) {
        let peer = try RawPeer(directory)
        await peer.say(#"{"jsonrpc":"2.0","id":0,"method":"rpc.hello","params":{"protocol":2}}"#)
        _ = await peer.line()
        await peer.say(
            #"{"jsonrpc":"2.0","id":1,"method":"rpc.register","params":{"service":"\#(service)","methods":[\#(methods)]}}"#
        )
        return (peer, await peer.line())
    }

    /// The identifier of the next request.
    fileprivate func request() async throws -> (id: String, line: String) {
        let line = await line()
        let start = try #require(line.firstRange(of: #""id":"$"#), "\(line)")
        return (String(line[start.upperBound...].prefix { $0 != "\"" }), line)
    }

    fileprivate func answer(_ id: String, _ result: String) async {
        await say(#"{"jsonrpc":"2.0","id":"$\#(id)","result":\#(result)}"#)
    }

    fileprivate func notice(_ method: String, _ id: String, _ more: String = "") async {
        await say(#"{"jsonrpc":"2.0","method":"\#(method)","params":{"id":"$\#(id)"\#(more)}}"#)
    }
}

private let now = #"{"name":"now","kind":"query","summary":"Tells the weather."}"#
private let ticks =
    #"{"name":"ticks","kind":"stream","upstream":{"form":"messages"},"downstream":{"form":"messages"}}"#

@Suite(.timeLimit(.minutes(4))) struct `A service of another program` {
    /// Runs two devices, `phone` holding `grants` on `laptop`, each given with its folder.
    private func withDevices(
        grants: [Grant],
        _ body: (_ phone: Device, _ here: String, _ laptop: Device, _ there: String) async throws -> Void
    ) async throws {
        let (there, here) = (try TemporaryFolder(), try TemporaryFolder())
        var (options, other) = (onLoopback, onLoopback)
        (options.name, other.name) = ("laptop", "phone")
        let laptop = try await Device.open(directory: there.path, options: options)
        let phone = try await Device.open(directory: here.path, options: other)
        try await laptop.whileRunning {
            try await phone.whileRunning {
                try await pair(phone, with: laptop, grants: grants)
                try await body(phone, here.path, laptop, there.path)
            }
        }
    }

    @Test func `is called here and from a device that holds its grant, by name and by type`() async throws {
        try await withDevices(grants: [.node(pattern: "weather/*")]) { phone, here, laptop, there in
            let (peer, answer) = try await RawPeer.serving("\(now),\(ticks)", in: there)
            #expect(answer.contains("weather/now"))
            async let own = laptop.client.call(named: "weather/now", ["place": "Graz"])
            let first = try await peer.request()
            #expect(!first.line.contains("caller") && first.line.contains(#""params":{"place":"Graz"}"#))
            await peer.answer(first.id, #"{"degrees":21}"#)
            #expect(try await own == ["degrees": 21])

            async let named = phone.client.call(named: "weather/now", ["place": "Wien"], on: "laptop")
            let second = try await peer.request()
            #expect(second.line.contains(#""caller":{"id":"\#(phone.id)","name":"phone"}"#), "\(second.line)")
            await peer.answer(second.id, #"{"degrees":-4,"list":[1.5,null,true,"é"]}"#)
            #expect(try await named == ["degrees": -4, "list": [.number(1.5), .null, true, "é"]])

            async let typed = phone.client.call(Now.self, .init(place: "Linz"), on: "laptop")
            await peer.answer(try await peer.request().id, #"{"degrees":3,"caller":"phone"}"#)
            #expect(try await typed == Now.Output(degrees: 3, caller: "phone"))
            async let inside = laptop.client.call(Now.self, .init(place: "Linz"))
            await peer.answer(try await peer.request().id, #"{"degrees":4}"#)
            #expect(try await inside == Now.Output(degrees: 4))

            let failing = Task { try await phone.client.call(named: "weather/now", on: "laptop") }
            let third = try await peer.request()
            await peer.say(
                #"{"jsonrpc":"2.0","id":"$\#(third.id)","error":{"code":-32001,"message":"No such place."}}"#)
            await #expect(throws: KithError(.notFound, "")) { try await failing.value }

            let listed = try await phone.client.call(API.Describe.self, Nothing(), on: "laptop").methods
            #expect(listed.filter { $0.service == "weather" }.map(\.name) == ["weather/now", "weather/ticks"])
            let document = try await phone.client.call(API.Document.self, .init(method: "weather/ticks"), on: "laptop")
            #expect(document.methods.first?.upstream?.form == .messages)
        }
    }

    @Test func `is not asked for what its input's schema does not allow, here or from another device`() async throws {
        let schema = #"{"type":"object","required":["count"],"properties":{"count":{"type":"integer","minimum":1}}}"#
        let count = #"{"name":"count","kind":"query","input":\#(schema)}"#
        let flow = #"{"name":"flow","kind":"stream","downstream":{"form":"messages"},"input":\#(schema)}"#
        try await withDevices(grants: [.node(pattern: "weather/*")]) { phone, here, laptop, there in
            let (peer, answer) = try await RawPeer.serving("\(count),\(flow)", in: there)
            #expect(answer.contains("weather/flow"))
            let socket = try #require(try await SocketCarrier.connect(directory: here))
            defer { socket.close() }
            for (client, device) in [
                (laptop.client, nil), (phone.client, "laptop"), (Client(socket), "laptop"),
            ] as [(Client, String?)] {
                for (input, expected) in [
                    ([:], "params.count: is missing."), (["count": 0], "params.count: must be at least 1."),
                    (["count": "3"], "params.count: must be a whole number, not text."),
                    (["more"], "params: must be an object, not an array."),
                ] as [(JSONValue, String)] {
                    let refused = await #expect(throws: KithError.self) {
                        try await client.call(named: "weather/count", input, on: device)
                    }
                    #expect(refused?.code == .invalid && refused?.message == expected)
                    let unopened = await #expect(throws: KithError.self) {
                        try await client.open(named: "weather/flow", input, on: device)
                    }
                    #expect(unopened?.code == .invalid && unopened?.message == expected)
                }
                // The first that it hears of is the first that is right.
                async let right = client.call(named: "weather/count", ["count": 3], on: device)
                let request = try await peer.request()
                #expect(request.line.contains(#""params":{"count":3}"#), "\(request.line)")
                await peer.answer(request.id, "true")
                #expect(try await right == true)
            }
        }
    }

    @Test func `a method that the embedding program declares at run time is checked as well`() async throws {
        struct Adding: Service {
            let isAsked = Locked(false)
            var handlers: [Handler] {
                let method = DynamicMethod(
                    .query("sums.half", by: .owner, "Halves."), input: ["properties": ["of": ["type": "number"]]])
                return [
                    .call(method) { _, _ in
                        isAsked.set(true)
                        return 1
                    }
                ]
            }
        }
        let folder = try TemporaryFolder()
        let device = try await Device.open(directory: folder.path, options: onLoopback)
        let service = Adding()
        try device.add(service)
        let error = await #expect(throws: KithError.self) {
            try await device.client.call(named: "sums.half", ["of": "x"])
        }
        #expect(error?.message == "params.of: must be a number, not text.")
        #expect(!service.isAsked.value)
        #expect(try await device.client.call(named: "sums.half", ["of": 2]) == 1)
    }

    @Test func `carries streams between devices, through the sockets of both`() async throws {
        try await withDevices(grants: [.node(pattern: "weather/ticks")]) { phone, here, laptop, there in
            let (peer, _) = try await RawPeer.serving(ticks, in: there)
            // A method that only the other device knows, asked for at this one's socket.
            let caller = try RawPeer(here)
            await caller.say(#"{"jsonrpc":"2.0","id":0,"method":"rpc.hello","params":{"protocol":2}}"#)
            _ = await caller.line()
            await caller.say(#"{"jsonrpc":"2.0","id":5,"method":"weather/ticks","on":"laptop","params":{"from":1}}"#)
            let id = try await peer.request().id
            await peer.answer(id, #"{"ready":true}"#)
            #expect(await caller.line() == #"{"jsonrpc":"2.0","id":5,"result":{"ready":true}}"#)
            await caller.say(#"{"jsonrpc":"2.0","method":"$/message","params":{"id":5,"message":{"every":2}}}"#)
            #expect(await peer.line().contains(#""message":{"every":2}}"#))
            for value in 0..<100 {
                await peer.notice("$/message", id, #","message":{"tick":\#(value)}"#)
                #expect(await caller.line().contains(#""message":{"tick":\#(value)}}"#))
            }
            await peer.notice("$/end", id)
            #expect(await caller.line().contains("$/finish"))
            await caller.say(#"{"jsonrpc":"2.0","method":"$/finish","params":{"id":5}}"#)
            #expect(await caller.line() == #"{"jsonrpc":"2.0","method":"$/end","params":{"id":5}}"#)

            let stream = try await { [client = phone.client] in
                async let opening = client.open(named: "weather/ticks", on: "laptop")
                let second = try await nextRequest(peer)
                await peer.answer(second, "{}")
                return (try await opening, second)
            }()
            try await stream.0.send(["every": 1] as JSONValue)
            while await !peer.line().contains(#""message":{"every":1}"#) {}
            await peer.notice("$/message", stream.1, #","message":7"#)
            #expect(try await stream.0.next() == 7)
            peer.hangUp()
            await #expect(throws: KithError(.closed, "")) { try await stream.0.next() }
        }
    }

    /// The identifier of the next request, past what is said of streams.
    private func nextRequest(_ peer: RawPeer) async throws -> String {
        while true {
            let line = await peer.line()
            if line.contains(#""method":"weather/"#), let start = line.firstRange(of: #""id":"$"#) {
                return String(line[start.upperBound...].prefix { $0 != "\"" })
            }
            try #require(!line.isEmpty)
        }
    }

    @Test func `is nobody's without the grant, and its audit says so`() async throws {
        try await withDevices(grants: [.node(pattern: "weather/ticks")]) { phone, _, laptop, there in
            let (peer, _) = try await RawPeer.serving(
                #"\#(now),{"name":"mine","kind":"action","access":"owner"},{"name":"all","kind":"query","access":"paired"}"#,
                in: there)
            for name in ["weather/now", "weather/mine"] {
                await #expect(throws: KithError(.denied, "")) {
                    try await phone.client.call(named: name, on: "laptop")
                }
            }
            async let open = phone.client.call(named: "weather/all", on: "laptop")
            // Nothing came before.
            let request = try await peer.request()
            #expect(request.id == "1" && request.line.contains("weather/all"))
            await peer.answer(request.id, "[]")
            #expect(try await open == [])
            let refused = try await laptop.client.call(Audit.List.self, .init(limit: 100)).filter {
                $0.decision == "denied"
            }
            #expect(Set(refused.map(\.method)) == ["weather/now", "weather/mine"])
        }
    }

    @Test func `has a name that no other has, and which is free when it has gone`() async throws {
        try await withDevices(grants: []) { _, _, laptop, there in
            let (first, answer) = try await RawPeer.serving(
                #"{"name":"list","kind":"query"},{"name":"read","kind":"stream"}"#, as: "notes", in: there)
            #expect(answer.contains(#"["notes/list","notes/read"]"#))
            // Not another method of it either: who was granted `notes/*` would call another program.
            for (name, method) in [("notes", "list"), ("notes", "x"), ("files", "list"), ("files", "x"), ("api", "x")] {
                let (peer, refusal) = try await RawPeer.serving(
                    #"{"name":"\#(method)","kind":"query"}"#, as: name, in: there)
                #expect(refusal.contains("-32002") && refusal.contains("There is a service \(name)"), "\(refusal)")
                peer.hangUp()
                await #expect(throws: KithError(.unsupported, "")) {
                    try await laptop.client.call(named: "\(name)/x")
                }
            }
            let (_, twice) = try await RawPeer.serving(
                #"{"name":"x","kind":"query"},{"name":"x","kind":"action"}"#, as: "twice", in: there)
            #expect(twice.contains("-32002"), "\(twice)")
            first.hangUp()
            try await eventually {
                try await RawPeer.serving(#"{"name":"list","kind":"action"}"#, as: "notes", in: there).answer
                    .contains("result")
            }
        }
    }

    @Test func `is one of a few`() async throws {
        let folder = try TemporaryFolder()
        var options = onLoopback
        options.node.externalServices = 1
        let device = try await Device.open(directory: folder.path, options: options)
        try await device.whileRunning {
            let (first, _) = try await RawPeer.serving(now, in: folder.path)
            let (second, refusal) = try await RawPeer.serving(now, as: "other", in: folder.path)
            #expect(refusal.contains("-32008"), "\(refusal)")
            #expect(Node.Options().externalServices == 32)
            first.hangUp()
            second.hangUp()
        }
    }

    @Test func `that goes away fails what it was asked, and is not known any more`() async throws {
        try await withDevices(grants: [.node(pattern: "*")]) { phone, _, laptop, there in
            let (peer, _) = try await RawPeer.serving("\(now),\(ticks)", in: there)
            let asked = Task { try await phone.client.call(named: "weather/now", on: "laptop") }
            _ = try await peer.request()
            peer.hangUp()
            await #expect(throws: KithError(.closed, "")) { try await asked.value }
            await #expect(throws: KithError(.unsupported, "")) {
                try await phone.client.call(named: "weather/now", on: "laptop")
            }
            await #expect(throws: KithError(.unsupported, "")) { try await laptop.client.call(named: "weather/now") }
            // Again, as something else: nothing is remembered of what it was.
            let (again, _) = try await RawPeer.serving(#"{"name":"now","kind":"action"}"#, in: there)
            async let later = phone.client.call(named: "weather/now", on: "laptop")
            await again.answer(try await again.request().id, "7")
            #expect(try await later == 7)
        }
    }
}

@Suite(.timeLimit(.minutes(4))) struct `A method that is known only at run time` {
    private struct Weather: Service {
        static let now = DynamicMethod(
            .query("weather.now", by: .grant(.node), "Tells the weather."),
            input: ["type": "object", "properties": ["place": ["type": "string"]], "required": ["place"]])
        static let sums = DynamicMethod(
            .stream("weather.sums", by: .paired, "Answers each number with the sum so far."),
            upstream: .messages(["type": "integer"]), downstream: .messages(["type": "integer"]))
        static let bytes = DynamicMethod(
            .stream("weather.bytes", by: .paired, "Sends back what it gets."), upstream: .bytes, downstream: .bytes)

        var handlers: [Handler] {
            [
                .call(Self.now) { input, context in
                    ["asked": input, "by": context.caller == .owner ? "me" : "another"]
                },
                .stream(Self.sums) { _, _, accept in
                    let stream = try await accept("ready")
                    var sum: Int64 = 0
                    while case .integer(let number)? = try await stream.next() {
                        sum += number
                        try await stream.send(.integer(sum))
                    }
                },
                .stream(Self.bytes) { _, _, accept in
                    let stream = try await accept([:])
                    while case .bytes(let bytes)? = try await stream.receive() { try await stream.send(bytes: bytes) }
                },
            ]
        }
    }

    @Test func `is served and called on this device and another, as JSON, as CBOR, and by the names alone`()
        async throws
    {
        let (there, here) = (try TemporaryFolder(), try TemporaryFolder())
        var options = onLoopback
        options.name = "laptop"
        options.services.own = [Weather()]
        let laptop = try await Device.open(directory: there.path, options: options)
        let phone = try await Device.open(directory: here.path, options: onLoopback)
        try await laptop.whileRunning {
            try await phone.whileRunning {
                try await pair(phone, with: laptop, grants: [.node(pattern: "weather.now")])
                let carrier = try #require(try await SocketCarrier.connect(directory: there.path))
                for (client, device, name) in [
                    (laptop.client, nil, "me"), (Client(carrier), nil, "me"), (phone.client, "laptop", "another"),
                ] as [(Client, String?, JSONValue)] {
                    #expect(
                        try await client.call(named: "weather.now", ["place": "Graz"], on: device)
                            == ["asked": ["place": "Graz"], "by": name])
                    let stream = try await client.open(named: "weather.sums", on: device)
                    #expect(String(decoding: stream.answer, as: UTF8.self) == #""ready""#)
                    for (number, sum) in [(1, 1), (2, 3), (3, 6)] as [(JSONValue, JSONValue)] {
                        try await stream.send(number)
                        #expect(try await stream.next() == sum)
                    }
                    await #expect(throws: KithError(.invalid, "")) {
                        try await stream.send(bytes: [1]); while try await stream.next() != nil {}
                    }
                    let bytes = try await client.open(named: "weather.bytes", on: device)
                    try await bytes.send(bytes: [1, 2, 3])
                    #expect(try await bytes.receive() == .bytes([1, 2, 3]))
                    try await bytes.finish()
                    #expect(try await bytes.receive() == nil)
                    await #expect(throws: KithError(.unsupported, "")) {
                        try await client.call(named: "weather.then", on: device)
                    }
                }
                // Ours, by their names alone.
                let status = try await phone.client.call(named: "device.echo", ["bytes": "AQI="], on: "laptop")
                #expect(status == ["bytes": "AQI="])
                let document = try await laptop.client.call(API.Document.self, .init(method: "weather.now"))
                #expect(document.methods.first?.params.map(\.name) == ["place"])
            }
        }
    }
}
