import KithWire
import Testing

struct TopicPathTests {
    // MARK: - Text

    @Test(arguments: [
        ("auth/login", "default:auth/login"), ("main:auth/login", "main:auth/login"), ("main:auth", "main:auth"),
        ("main:services/{service_path}/state", "main:services/{service_path}/state"),
        ("main:services/*/state", "main:services/*/state"), ("main:services/>", "main:services/>"),
        ("main:{}", "main:{}"), ("main:>", "main:>"), ("a//b/", "default:a/b"), ("main:/a", "main:a"),
        ("test-network_01:service", "test-network_01:service"),
        ("test_network:$registry/services/list", "test_network:$registry/services/list"), ("1/2", "default:1/2"),
        ("main:häuser/größe", "main:häuser/größe"),
    ]) func `a path is written with its network and without empty segments`(text: String, canonical: String) throws {
        let path = try TopicPath(text)
        #expect(path.description == canonical)
        #expect(try TopicPath(canonical) == path)
        #expect(try TopicPath(canonical).hashValue == path.hashValue)
    }

    @Test func `another default network stands before a path that names none`() throws {
        #expect(try TopicPath("auth/login", network: "main").description == "main:auth/login")
        #expect(try TopicPath("other:auth/login", network: "main").description == "other:auth/login")
    }

    @Test(arguments: [
        "", ":", "main:", ":auth/login", "main:auth:login", "main:services/>/state", "main:>/>", "/", "//", "main:a*b",
        "main:a>", "main:{x", "main:x}", "main:{x}y", "main:{a{b}}", "main:{x}/{x}", "ma/in:a", "ma*:a", "main:a\u{7}",
        "main:a\u{202E}b", "main:a\0", String(repeating: "a/", count: 33), String(repeating: "a", count: 1025),
    ]) func `what breaks a rule is refused`(text: String) {
        #expect(throws: KithError(.invalid, "")) { try TopicPath(text) }
    }

    @Test func `a path at the limits is read`() throws {
        #expect(try TopicPath(Array(repeating: "a", count: 32).joined(separator: "/")).segments.count == 32)
        let longest = "n:" + String(repeating: "a", count: 1022)
        #expect(try TopicPath(longest).description == longest)
        // The network counts, also one that the text does not name.
        #expect(throws: KithError(.invalid, "")) { try TopicPath(String(repeating: "a", count: 1022), network: "main") }
        #expect(throws: KithError(.invalid, "")) { try TopicPath("a", network: "a:b") }
    }

    @Test func `texts that mean the same are equal, and hash alike`() throws {
        // The same letter, composed and with a mark of its own.
        let paths = try Set(["main:caf\u{E9}/a", "main:cafe\u{301}//a/"].map { try TopicPath($0) })
        #expect(paths.count == 1)
        #expect(try TopicPath("main:a") != TopicPath("other:a"))
        #expect(try TopicPath("main:{a}") != TopicPath("main:{b}"))
    }

    // MARK: - Parts

    @Test(arguments: [
        ("main:auth/users/details", "auth", "users/details"), ("main:auth", "auth", ""),
        ("main:services/{x}/>", "services", "{x}/>"),
    ]) func `a path has a service and an action`(text: String, service: String, action: String) throws {
        let path = try TopicPath(text)
        #expect(path.service == service)
        #expect(path.action == action)
    }

    @Test(arguments: [
        ("services/{x}", false, true, false), ("services/*", true, false, false), ("services/>", true, false, false),
        ("services/{x}/*", true, true, false), ("services/x", false, false, true),
    ]) func `only wildcards make a pattern, only names a template`(
        text: String, isPattern: Bool, isTemplate: Bool, isConcrete: Bool
    ) throws {
        let path = try TopicPath(text)
        #expect(path.isPattern == isPattern)
        #expect(path.isTemplate == isTemplate)
        #expect(path.isConcrete == isConcrete)
    }

    @Test func `paths are made of their parts`() throws {
        let auth = try TopicPath(service: "auth", network: "main")
        #expect(try auth.child("login") == TopicPath("main:auth/login"))
        #expect(try auth.child("login").parent() == auth)
        #expect(try auth.member("users/{id}") == TopicPath("main:auth/users/{id}"))
        #expect(try auth.child("login").starts(with: auth))
        #expect(try !auth.starts(with: auth.child("login")))
        #expect(try !auth.starts(with: TopicPath("other:auth")))
        #expect(try !TopicPath("main:authority/x").starts(with: auth))
        #expect(throws: KithError(.invalid, "")) { try auth.parent() }
        #expect(throws: KithError(.invalid, "")) { try auth.child("a/b") }
        #expect(throws: KithError(.invalid, "")) { try auth.child("") }
        #expect(throws: KithError(.invalid, "")) { try auth.child("a:b") }
        #expect(throws: KithError(.invalid, "")) { try auth.member("a:b") }
        #expect(throws: KithError(.invalid, "")) { try auth.member("") }
        #expect(throws: KithError(.invalid, "")) { try TopicPath("main:services/auth").member("login") }
        #expect(throws: KithError(.invalid, "")) { try TopicPath("main:services/>").child("login") }
        #expect(throws: KithError(.invalid, "")) { try TopicPath(service: "a/b") }
    }

    // MARK: - Matching

    @Test(arguments: [
        ("main:services/*/state", "main:services/math/state", true),
        ("main:services/*/state", "main:services/math/state/active", false),
        ("main:services/*/state", "main:services/math", false),
        ("main:services/*/state", "other:services/math/state", false),
        ("main:*/state", "main:auth/state", true), ("main:*", "main:auth", true), ("main:*", "main:auth/x", false),
        ("services/*/events/>", "services/auth/events/user/login", true),
        ("services/*/events/>", "services/auth/events/user", true),
        // One or more, as in NATS: never none.
        ("services/*/events/>", "services/auth/events", false), ("main:services/>", "main:services", false),
        ("main:>", "main:services", true), ("main:>", "other:services", false),
        ("main:auth/login", "main:auth/login", true), ("main:auth/login", "main:auth/logout", false),
        ("main:auth/login", "main:auth/Login", false),
        // A template matches no path, and nothing matches what is not one topic.
        ("main:services/{x}", "main:services/math", false), ("main:services/*", "main:services/{x}", false),
        ("main:services/*", "main:services/*", false), ("main:services/>", "main:services/>", false),
    ]) func `a pattern matches the topics it stands for`(pattern: String, topic: String, matches: Bool) throws {
        #expect(try TopicPath(pattern).matches(TopicPath(topic)) == matches)
    }

    @Test(arguments: [
        ("services/math/state", "services/{service_path}/{action}", true),
        ("services/math/state", "services/{service_path}", false),
        ("services/math/state", "services/{service_path}/status", false),
        ("services/math/state", "services/math/state", true), ("services/math/state", "services/*/state", false),
        ("services/math/state", "services/>", false), ("services/{x}", "services/{x}", false),
    ]) func `a path has the form of a template`(path: String, template: String, matches: Bool) throws {
        #expect(try TopicPath(path).matches(template: TopicPath(template)) == matches)
    }

    @Test func `a path gives the values of a template's names`() throws {
        let path = try TopicPath("main:services/math/users/admin")
        let template = try TopicPath("services/{service}/users/{user_id}")
        #expect(try path.parameters(in: template) == ["service": "math", "user_id": "admin"])
        #expect(try TopicPath("a/b").parameters(in: TopicPath("{}/b")) == ["": "a"])
        #expect(try TopicPath("a/b").parameters(in: TopicPath("a/b")) == [:])
        #expect(throws: KithError(.invalid, "")) { try path.parameters(in: TopicPath("users/{a}/users/{b}")) }
        // The whole path is compared.
        #expect(throws: KithError(.invalid, "")) {
            try TopicPath("$registry/services/math/state").parameters(in: TopicPath("services/{service_path}/state"))
        }
    }

    @Test func `a template and values make a path`() throws {
        let template = try TopicPath("services/{service_path}/{action}")
        let path = try TopicPath(
            template: template, parameters: ["service_path": "math", "action": "add", "more": "x"], network: "main")
        #expect(path.description == "main:services/math/add")
        #expect(try path.parameters(in: template) == ["service_path": "math", "action": "add"])
        #expect(throws: KithError(.invalid, "")) { try TopicPath(template: template, parameters: ["action": "add"]) }
        for value in ["", "a/b", "*", ">", "{x}", "a:b"] {
            #expect(throws: KithError(.invalid, ""), "\(value)") {
                try TopicPath(template: template, parameters: ["service_path": value, "action": "add"])
            }
        }
    }

    @Test func `a path is one text in CBOR and comes back`() throws {
        let path = try TopicPath("main:services/*/>")
        let bytes = try CBOREncoder().encode([path])
        #expect(try CBORDecoder().decode([TopicPath].self, from: bytes) == [path])
        #expect(try CBORDecoder().decode([String].self, from: bytes) == ["main:services/*/>"])
        #expect(throws: (any Error).self) {
            try CBORDecoder().decode([TopicPath].self, from: CBOREncoder().encode(["a:b:c"]))
        }
    }

    @Test func `a plain path is read as any other, and is as long as any other may be`() throws {
        for (plain, other) in [("a/b", "default:a/b"), ("//a//b c//", "default:a/b c"), ("a.b/$c", "default:a.b/$c")] {
            let (path, same) = (try TopicPath(plain), try TopicPath(other))
            #expect(path == same && path.hashValue == same.hashValue)
            #expect(path.text == same.text && path.description == same.description && path.isConcrete)
        }
        let longest = String(repeating: "a", count: TopicPath.byteLimit - "default:".utf8.count)
        #expect(try TopicPath(longest).description.utf8.count == TopicPath.byteLimit)
        for text in ["", "/", "//", longest + "a", "a\tb", "a\u{7F}", String(repeating: "a/", count: 33)] {
            #expect(throws: KithError(.invalid, "")) { try TopicPath(text) }
        }
    }
}
