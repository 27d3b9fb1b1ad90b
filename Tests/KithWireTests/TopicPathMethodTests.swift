import KithWire
import Testing

/// Names of methods and paths are one namespace.
struct TopicPathMethodTests {
    @Test(arguments: [
        ("math.add", "default:math/add"), ("math/add", "default:math/add"), ("default:math/add", "default:math/add"),
        ("math.slow.add", "default:math/slow.add"), ("weather/now", "default:weather/now"),
        ("my.weather/now", "default:my.weather/now"), ("users/{id}", "default:users/{id}"),
        ("users/42/name", "default:users/42/name"), ("work:math.add", "work:math/add"),
        ("my.home:math.add", "my.home:math/add"), ("math", "default:math"), ("my.weather/", "default:my.weather"),
        ("$registry/services/list", "default:$registry/services/list"),
    ]) func `a name says which path it is`(name: String, path: String) throws {
        #expect(try TopicPath(method: name).description == path)
    }

    @Test(arguments: [
        ("math/add", "math.add"), ("math/slow.add", "math.slow.add"), ("my.weather/now", "my.weather/now"),
        ("users/{id}", "users/{id}"), ("a/b/c", "a/b/c"), ("work:math/add", "work:math.add"), ("math", "math"),
        ("my.weather", "my.weather/"), ("a/*", "a/*"), ("a/>", "a/>"), ("a.b:c/d", "a.b:c.d"),
    ]) func `a path has one name, which says the same path again`(path: String, name: String) throws {
        let path = try TopicPath(path)
        #expect(path.methodName == name)
        #expect(try TopicPath(method: name) == path)
    }

    @Test(arguments: ["", "a:b:c", "*a.b", ".", "a.b*", "a\u{0}.b"])
    func `what is no path is no name`(name: String) {
        #expect(throws: KithError(.invalid, "")) { try TopicPath(method: name) }
    }

    @Test(arguments: [
        ("a/b", "a/b", true), ("a/*", "a/b", true), ("a/*", "a/*", true), ("a/*", "a/{x}", true),
        ("a/{x}", "a/b", true),
        ("a/*", "a/>", false), ("a/>", "a/*", true), ("a/>", "a/b/c", true), ("a/>", "a", false), ("a/b", "a/*", false),
        ("a/b", "a/{x}", false), ("a/b", "a/b/c", false), ("a/b/c", "a/b", false), (">", "a/>", true),
        ("*/b", "a/b", true), ("n:a/*", "a/b", false), ("a/>", "a/b/>", true), ("a/b/>", "a/>", false),
    ]) func `a pattern covers what it stands for, patterns too`(held: String, wanted: String, covers: Bool) throws {
        #expect(try TopicPath(held).covers(TopicPath(wanted)) == covers)
    }
}
