import KithReach
import KithTesting
import KithWire
import Testing

@testable import KithRelayServer

@Suite("etcd's rows, followed") struct EtcdMirrorTests {
    private typealias Row = EtcdMessages.Row

    private func row(_ key: String, _ revision: Int64) -> EtcdMessages.Row {
        EtcdMessages.Row(key: Array("kith/\(key)".utf8), value: [1], revision: revision)
    }

    private func page(
        _ revision: Int64, _ rows: [EtcdMessages.Row], more: Bool = false, cluster: String = "7"
    ) throws -> EtcdMessages.Page {
        let header = #"{"cluster_id":"\#(cluster)","revision":"\#(revision)"}"#
        return EtcdMessages.Page(
            header: try EtcdMessages.read(EtcdMessages.Header.self, from: Array(header.utf8)), rows: rows, hasMore: more
        )
    }

    private func message(_ text: String, cluster: String = "7", revision: Int64 = 9) throws -> EtcdMessages.Watch {
        let header = #""header":{"cluster_id":"\#(cluster)","revision":"\#(revision)"}"#
        return try EtcdMessages.read(
            EtcdMessages.Watch.self, from: Array("{\(header)\(text.isEmpty ? "" : ",")\(text)}".utf8))
    }

    private func event(_ key: String, _ revision: Int64) -> String {
        let text = Base64.encode(Array("kith/\(key)".utf8))
        return #"{"kv":{"key":"\#(text)","mod_revision":"\#(revision)","value":"AQ=="}}"#
    }

    private func watching(from revision: Int64 = 5) throws -> EtcdMirror {
        var mirror = EtcdMirror(limit: 8)
        _ = try mirror.listed(page(revision - 1, []))
        return mirror
    }

    @Test func `all pages of a list are of the revision of the first, and the watch begins behind it`() throws {
        var mirror = EtcdMirror(limit: 8)
        #expect(mirror.next == .list(from: Array("kith/".utf8), revision: 0))
        let (a, b) = (row("a", 2), row("b", 3))
        #expect(try mirror.listed(page(4, [a], more: true)) == [.put(a)])
        #expect(mirror.next == .list(from: a.key + [0], revision: 4))
        // By now the rows have a later one.
        #expect(try mirror.listed(page(9, [b])) == [.put(b), .listed(revision: 4, keys: [a.key, b.key])])
        #expect(mirror.next == .watch(from: 5))
    }

    @Test func `a watch that ends goes on behind the last change`() throws {
        var mirror = try watching()
        #expect(try mirror.watched(message(#""created":true"#)).goesOn)
        #expect(mirror.next == .watch(from: 5))
        let (changes, goesOn) = try mirror.watched(message(#""events":[\#(event("a", 6)),\#(event("b", 6))]"#))
        #expect(goesOn && changes == [.put(row("a", 6)), .put(row("b", 6))])
        #expect(mirror.next == .watch(from: 7))
        let gone = #"{"type":"DELETE","kv":{"key":"a2l0aC9h","mod_revision":"8"}}"#
        #expect(
            try mirror.watched(message(#""events":[\#(gone)]"#)).changes
                == [.deleted(key: Array("kith/a".utf8), revision: 8)])
        #expect(mirror.next == .watch(from: 9))
    }

    @Test func `between the parts of one revision a watch goes on at that revision`() throws {
        var mirror = try watching()
        _ = try mirror.watched(message(#""fragment":true,"events":[\#(event("a", 6))]"#))
        #expect(mirror.next == .watch(from: 6))
        _ = try mirror.watched(message(#""events":[\#(event("b", 6))]"#))
        #expect(mirror.next == .watch(from: 7))
    }

    @Test func `what is compacted away is listed anew, and a cancelled watch goes on where it was`() throws {
        var mirror = try watching()
        #expect(try !mirror.watched(message(#""canceled":true,"cancel_reason":"no leader""#)).goesOn)
        #expect(mirror.next == .watch(from: 5))
        #expect(try !mirror.watched(message(#""canceled":true,"compact_revision":"7""#)).goesOn)
        #expect(mirror.next == .list(from: Array("kith/".utf8), revision: 0))
        // It is the same cluster: what is known counts.
        #expect(try mirror.listed(page(9, [])) == [.listed(revision: 9, keys: [])])
    }

    @Test func `another cluster's rows count from the beginning`() throws {
        var mirror = try watching()
        #expect(try !mirror.watched(message(#""events":[\#(event("a", 6))]"#, cluster: "8")).goesOn)
        #expect(try mirror.listed(page(2, [], cluster: "8")) == [.startedOver, .listed(revision: 2, keys: [])])
        #expect(mirror.next == .watch(from: 3))
    }

    @Test func `a member that stays behind is of a cluster that was set back`() throws {
        var mirror = try watching(from: 50)
        let (behind, level) = (try page(7, []).header, try page(49, []).header)
        for _ in 1..<EtcdMirror.signsOfGoingBack { #expect(mirror.receivedSign(of: behind) == true) }
        #expect(mirror.receivedSign(of: level) == true)
        for _ in 1..<EtcdMirror.signsOfGoingBack { #expect(mirror.receivedSign(of: behind) == true) }
        #expect(mirror.receivedSign(of: behind) == false)
        #expect(try mirror.listed(page(7, [])).first == .startedOver)
    }

    @Test func `what etcd would not say is refused, and the list begins again`() throws {
        let (a, b) = (row("a", 2), row("b", 3))
        for wrong in [
            try page(0, []), try page(4, [b, a]), try page(4, [a, a]), try page(4, [], more: true),
            try page(4, [row("a", 0)]), try page(.max, []),
            try page(4, [EtcdMessages.Row(key: Array("other".utf8), value: [], revision: 1)]),
            try page(4, [EtcdMessages.Row(key: Array("a".utf8), value: [], revision: 1)]),
            try page(4, (0..<9).map { row("\($0)", 1) }),
        ] {
            var mirror = EtcdMirror(limit: 8)
            #expect(throws: WireError.self) { try mirror.listed(wrong) }
            #expect(mirror.next == .list(from: Array("kith/".utf8), revision: 0))
        }
        var mirror = EtcdMirror(limit: 8)
        _ = try mirror.listed(page(4, [a], more: true))
        #expect(throws: WireError.self) { try mirror.listed(page(4, [b], cluster: "8")) }
        for events in [event("a", 4), "\(event("a", 7)),\(event("a", 6))", event("a", .max)] {
            var mirror = try watching()
            let wrong = try message(#""events":[\#(events)]"#)
            #expect(throws: WireError.self) { try mirror.watched(wrong) }
            #expect(mirror.next == .watch(from: 5))
        }
    }

    @Test func `endpoints are URLs without secrets`() throws {
        let all = try EtcdEndpoints.parse("http://10.0.0.5:2379, https://etcd.example.org,http://[::1]:99/")
        #expect(
            all.map(\.description) == ["http://10.0.0.5:2379", "https://etcd.example.org:2379", "http://[::1]:99"])
        for wrong in [
            "", "10.0.0.5:2379", "http://", "http://a:b@c", "http://a/b", "http://a,http://a", "ftp://a", "http://a:0",
            "http://a?b", [String](repeating: "http://a", count: 17).joined(separator: ","),
        ] {
            #expect(throws: KithError.self, "\(wrong)") { try EtcdEndpoints.parse(wrong) }
        }
    }

    @Test func `each member is asked before there is a pause, which grows to eight seconds`() throws {
        var endpoints = EtcdEndpoints(try EtcdEndpoints.parse("http://a,http://b,http://c"))
        var (asked, pauses): ([String], [Duration]) = ([], [])
        for _ in 0..<60 {
            asked.append(endpoints.current.host)
            pauses.append(endpoints.failed(jitter: 0.5))
        }
        #expect(asked.prefix(4) == ["a", "b", "c", "a"])
        #expect(pauses.prefix(6) == [.zero, .zero, .milliseconds(250), .zero, .zero, .milliseconds(500)])
        #expect(pauses.max() == .seconds(8) && pauses.last == .seconds(8))
        endpoints.succeeded()
        #expect(!endpoints.haveAllFailed)
        #expect((0..<3).map { _ in endpoints.failed(jitter: 0.5) }.last == .milliseconds(250))
    }
}
