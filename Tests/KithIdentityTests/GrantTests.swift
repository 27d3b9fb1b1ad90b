import KithIdentity
import KithWire
import Testing

@Suite struct GrantTests {
    @Test(arguments: [
        "shell", "forward", "library", "screen:view", "screen:control", "files:read=/", "files:write=/srv",
        "files:read=/home/ana/Büro=1:2", "node:a.b/*", "shell:view", "shell:agent",
        "shell:command=borg serve --append-only", "shell:command=a=b:c", "library:read",
    ])
    func `the text form survives`(text: String) throws {
        let grant = try #require(Grant(text))
        #expect(grant.description == text)
        #expect(try CBORDecoder().decode(Grant.self, from: CBOREncoder().encode(grant)) == grant)
    }

    @Test func `slashes at the end of a root do not matter`() {
        #expect(Grant("files:read=/srv/") == .files(.read, root: "/srv"))
        #expect(Grant("files:read=//") == .files(.read, root: "/"))
    }

    @Test(arguments: [
        "", "shell:", "shell:x", "Shell", "files", "files:", "files:read", "files:read=", "files:read=srv",
        "files:all=/srv",
        "files:read=/srv/../etc", "files:read=/srv/./a", "files:read=/srv//a", "files:read=/..", "files:read=/a\0b",
        "screen", "screen:", "screen:see", "node:", "forward:", "unknown", "shell:command=", "shell:command",
        "shell:command=a\nb", "shell:command=\u{1B}[2J", "library:", "library:write",
        "shell:command=" + String(repeating: "a", count: 1_025),
        "files:read=/" + String(repeating: "a", count: 5_000),
    ])
    func `other texts are refused`(text: String) {
        #expect(Grant(text) == nil)
    }

    @Test(arguments: [
        ("shell", "shell", true), ("shell", "forward", false), ("forward", "shell", false),
        ("files:read=/srv", "files:read=/srv", true), ("files:read=/srv", "files:read=/srv/a/b", true),
        ("files:read=/srv", "files:write=/srv/a", false), ("files:write=/srv", "files:read=/srv/a", true),
        ("files:read=/srv", "files:read=/srvx", false), ("files:read=/srv", "files:read=/", false),
        ("files:read=/srv/a", "files:read=/srv", false), ("files:read=/", "files:read=/etc/passwd", true),
        ("files:write=/", "shell", false), ("shell", "files:read=/", false),
        ("screen:control", "screen:view", true), ("screen:view", "screen:control", false), ("node:a", "node:b", false),
        ("node:math.*", "node:math.add", true), ("node:math.*", "node:math.slow.add", true),
        ("node:math.*", "node:math", false), ("node:math.*", "node:math.*", true), ("node:math.*", "node:*", false),
        ("node:math.*", "node:mathematics.add", false), ("node:math*", "node:math.add", false),
        ("node:math.add", "node:math.*", false), ("node:*", "node:math.add", true), ("node:*", "shell", false),
        ("node:a/*", "node:a/b", true), ("node:a/*", "node:ab", false),
        // A method and its path are the same.
        ("node:a.*", "node:a/b", true), ("node:a/*", "node:a.b", true), ("node:a/b", "node:a.b", true),
        ("node:a.b", "node:a/b", true), ("node:default:a/b", "node:a.b", true), ("node:a.b", "node:default:a/b", true),
        ("node:a.b/c", "node:a/b.c", false), ("node:a/b.c", "node:a.b.c", true), ("node:a/b/*", "node:a/b/c/d", true),
        // As topics match.
        ("node:a/*/c", "node:a/b/c", true), ("node:a/*/c", "node:a/b/d", false), ("node:a/*/c", "node:a/b/x/c", false),
        ("node:a/>", "node:a.b", true), ("node:a/>", "node:a/b/c", true), ("node:a/>", "node:a", false),
        ("node:>", "node:a.b", true), ("node:*/b", "node:a.b", true), ("node:*/b", "node:a.c", false),
        ("node:a/>", "node:a/*", true), ("node:a/>", "node:a/>", true), ("node:a/*", "node:>", false),
        ("node:a/*/c", "node:a/>", false), ("node:a/b", "node:a/*", false), ("node:users/*", "node:users/{id}", true),
        ("node:users/42", "node:users/{id}", false),
        // Networks.
        ("node:work:a/*", "node:work:a.b", true), ("node:a/*", "node:work:a/b", false),
        ("node:work:a/*", "node:a/b", false), ("node:*", "node:work:a/b", true),
        // A device's own services are granted by name.
        ("node:*", "node:$registry/services/list", false), ("node:>", "node:$registry/services/list", false),
        ("node:*/>", "node:$keys/a", false), ("node:*", "node:$keys.a", false),
        ("node:$registry/>", "node:$registry/services/list", true), ("node:$registry/*", "node:$registry/a/b", true),
        ("node:$registry/services/*/state", "node:$registry/services/math/state", true),
        ("node:$registry/services/*/state", "node:$registry/services/math/pause", false),
        ("node:$registry/>", "node:$keys/a", false), ("node:*", "node:work:$keys/a", false),
        ("shell", "node:a", false), ("library", "node:a", false),
        ("shell", "shell:command=id", true), ("shell:command=id", "shell:command=id", true),
        ("shell:command=id", "shell:command=ls", false), ("shell:command=id", "shell", false),
        ("shell:command=id", "shell:view", false), ("shell", "shell:view", true), ("shell:view", "shell", false),
        ("shell", "shell:agent", false), ("shell:agent", "shell", false), ("shell:agent", "shell:view", false),
        ("library:read", "library:read", true), ("library", "library:read", false),
        ("library:read", "files:read=/", false), ("files:read=/", "library:read", false),
    ])
    func `a grant covers what it says and no more`(held: String, needed: String, covers: Bool) throws {
        let held = try #require(Grant(held))
        let needed = try #require(Grant(needed))
        #expect(held.covers(needed) == covers)
        #expect([.library, held].allows(needed) == covers)
        #expect(![Grant]().allows(needed))
    }

    @Test(arguments: [
        "/srv/..", "/srv/../etc/passwd", "/srv/./../x", "/srv//../x", "srv/a", "", "/srv/a/", "/srv/\0/x",
    ])
    func `a path that is not plain is covered by nothing`(path: String) {
        #expect(!Grant.files(.write, root: "/").covers(.files(.read, root: path)))
        #expect(!Grant.files(.write, root: "/srv").covers(.files(.read, root: path)))
    }
}
