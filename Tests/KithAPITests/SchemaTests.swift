import Foundation
import KithAPI
import KithIdentity
import KithRPC
import KithTesting
import KithWire
import Testing

@Suite struct `The table of methods describes itself` {
    private static let document = OpenRPC(describing: API.methods)
    private static let golden = URL(filePath: #filePath).deletingLastPathComponent()
        .appending(path: "Golden/openrpc.json")

    @Test func `the form of every method is known to the last member`() throws {
        let text = String(decoding: try JSONEncoder().encode(Self.document), as: UTF8.self)
        #expect(!text.contains("$comment"), "a type needs SchemaDescribing")
        #expect(Self.document.methods.count == API.methods.count)
        for method in Self.document.methods {
            for name in Self.document.types(of: method) { #expect(Self.document.components.schemas[name] != nil) }
        }
    }

    @Test func `a header promises no more than is checked`() throws {
        func word(for access: Access) -> String {
            switch access {
            case .anyone: "anyone"
            case .paired: "paired"
            case .owner: "owner"
            // Whatever topic the input names.
            case .granted(.node(pattern: "")): "grant node:TOPIC"
            case .granted(let grant): "grant \(grant.description.prefix { $0 != "=" })"
            case .holding(let kind, _): "grant \(kind.rawValue)"
            }
        }
        let probe = SchemaProbe()
        for method in API.methods {
            let input = try #require(method.sampleInput(probe), "\(method.name) has an input that cannot be made up")
            #expect(word(for: try method.access(input)) == method.header.callersText, "\(method.name)")
        }
    }

    @Test func `a query may be asked for again, an action only when it says so`() throws {
        for method in Self.document.methods where method.kind == .query {
            #expect(method.isIdempotent, "\(method.name)")
        }
        func header(_ name: String) throws -> MethodHeader {
            try #require(API.methods.first { $0.name == name }).header
        }
        #expect(try header("devices.rename").isIdempotent)
        #expect(try !header("files.delete").isIdempotent)
        #expect(try !header("shell.open").isIdempotent)
        #expect(try header("pairing.present").isOpenToUnpaired)
        #expect(try header("trust.introduce").isOpenToUnpaired)
        #expect(API.methods.filter(\.header.isOpenToUnpaired).count == 2)
    }

    @Test func `a narrowed grant is the owner's until the method checks it`() {
        func access(_ callers: MethodHeader.Callers) -> Access {
            MethodHeader.query("lamp.get", by: callers, "").access
        }
        #expect(access(.grant(.files, "read")) == .owner)
        #expect(access(.grant(.shell)) == .holding(.shell))
        #expect(access(.grant(.node)) == .granted(.node(pattern: "lamp.get")))
    }

    /// Renew it as the golden file, with `KITH_RENEW_GOLDEN=1`.
    @Test func `the reference is up to date`() throws {
        let page = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "Documentation/Methods.md")
        if ProcessInfo.processInfo.environment["KITH_RENEW_GOLDEN"] == "1" {
            try Self.document.reference.write(to: page, atomically: true, encoding: .utf8)
        }
        #expect(try String(contentsOf: page, encoding: .utf8) == Self.document.reference)
    }

    @Test func `a method's example can be called as it stands`() throws {
        for name in ["files.list", "files.copy", "devices.rename", "inbox.decide", "reach.examine", "files.delete"] {
            let entry = try #require(Self.document.methods.first { $0.name == name })
            let line = Self.document.exampleCall(of: entry)
            let json = line.split(separator: "'").dropFirst().first ?? "{}"
            let method = try #require(API.methods.first { $0.name == name })
            #expect(throws: Never.self, "\(line)") { try method.input.decode(.json(Array(json.utf8))) }
        }
    }

    /// Renew it with `KITH_RENEW_GOLDEN=1 swift test --filter KithAPITests`, and read what has changed: a member that is
    /// gone, or newly required, breaks callers.
    @Test func `no method has changed its form`() throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        let now = String(decoding: try encoder.encode(Self.document), as: UTF8.self) + "\n"
        if ProcessInfo.processInfo.environment["KITH_RENEW_GOLDEN"] == "1" {
            try now.write(to: Self.golden, atomically: true, encoding: .utf8)
        }
        #expect(try String(contentsOf: Self.golden, encoding: .utf8) == now)
    }

    @Test func `members that may be left out say what stands for them`() throws {
        let list = try #require(Self.document.methods.first { $0.name == "files.list" })
        #expect(list.params.first { $0.name == "path" }?.required == true)
        let limit = try #require(list.params.first { $0.name == "limit" })
        #expect(limit.required == false)
        #expect(limit.schema["default"] == .integer(Int64(Files.List.Input(path: "/").limit)))
    }

    @Test func `what may be left out of an input in JSON may be left out in CBOR`() throws {
        let probe = SchemaProbe()
        var tried = 0
        for method in API.methods {
            guard let sample = method.sampleInput(probe),
                case .cbor(let whole) = try method.input.encode(sample, .cbor),
                var members = try? CBORDecoder().decode([String: AnyValue].self, from: whole),
                let entry = Self.document.methods.first(where: { $0.name == method.name })
            else { continue }
            for param in entry.params where param.required != true { members[param.name] = nil }
            let short = try CBOREncoder().encode(members)
            let json = try JSONEncoder().encode(members)
            tried += 1
            guard case .json(let fromCBOR) = try method.input.convert(.cbor(short), to: .json),
                case .json(let fromJSON) = try method.input.encode(method.input.decode(.json(Array(json))), .json)
            else { throw KithError(.internal, "Another form.") }
            // What is drawn by lot differs.
            if method.name != "shell.attach", method.name != "shell.open" {
                #expect(fromCBOR == fromJSON, "\(method.name)")
            }
        }
        #expect(tried > 40)
    }

    @Test func `a member left out has its default, and one that is given does not`() throws {
        let method = AnyMethod(Files.List.self)
        let bytes = try CBOREncoder().encode(["path": "/srv"])
        let input = try #require(try method.input.decode(.cbor(bytes)) as? Files.List.Input)
        #expect(input == Files.List.Input(path: "/srv"))
        let given = try CBOREncoder().encode(["limit": 3])
        // The path must be given.
        #expect(throws: KithError(.invalid, "")) { try method.input.decode(.cbor(given)) }
    }

    @Test func `an optional member has no other default than nil`() throws {
        let probe = SchemaProbe()
        for method in API.methods {
            guard let type = method.inputType as? any OmissibleInput.Type else { continue }
            guard case .object(let usual) = try JSONText(encoding: type.usual).value() else { continue }
            for member in Self.members(of: type, probe) where !member.isRequired {
                #expect(usual[member.name] == nil, "\(method.name): \(member.name)")
            }
        }
    }

    private static func members<Input: OmissibleInput>(
        of type: Input.Type, _ probe: SchemaProbe
    ) -> [SchemaProbe.Member] {
        probe.members(of: type) ?? []
    }

    @Test func `what is drawn by lot may be left out, and is not told as a default`() throws {
        let attach = try #require(Self.document.methods.first { $0.name == "shell.attach" })
        let drawn = attach.params.filter { $0.required == false && $0.schema["default"] == nil }
        #expect(!drawn.isEmpty)
        #expect(Self.document == OpenRPC(describing: API.methods))
    }

    @Test func `every case of a message is told`() {
        func frame(_ frame: ShellFrame) -> String {
            switch frame {
            case .input: "input"
            case .endOfInput: "endOfInput"
            case .resize: "resize"
            case .signal: "signal"
            case .received: "received"
            case .agent: "agent"
            case .output: "output"
            case .errorOutput: "errorOutput"
            case .exited: "exited"
            case .taken: "taken"
            case .jump: "jump"
            case .screen: "screen"
            case .echoed: "echoed"
            case .ended: "ended"
            }
        }
        // Whoever adds a case is stopped by the switch, and sent here.
        #expect(ShellFrame.schemaCases.contains(frame(.endOfInput)))
        #expect(Set(ShellFrame.schemaCases).count == 14)
    }
}
