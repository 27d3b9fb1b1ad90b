import KithIdentity
import KithReach
import KithWire

/// A look at what is made of etcd's answers, for fuzzers: whatever they say, nothing traps and every bound holds.
package enum EtcdInspection {
    /// Feeds lines as answers of etcd, in each place where one is read, and checks what holds afterwards.
    ///
    /// The first byte of a line says in which place.
    package static func feed(_ bytes: [UInt8]) {
        var limits = DirectoryLimits()
        (limits.records, limits.pendingWrites) = (8, 4)
        var mirror = EtcdMirror(limit: 32)
        var records = EtcdRecords(limits)
        for line in bytes.split(separator: 0x0A).prefix(64) {
            let body = Array(line.dropFirst())
            switch line[line.startIndex] & 3 {
            case 0:
                if let page = try? EtcdMessages.read(EtcdMessages.Page.self, from: body),  // a refusal is an answer
                    let changes = try? mirror.listed(page)
                {
                    apply(changes, to: &records, isListed: true)
                }
            case 1:
                if let message = try? EtcdMessages.read(EtcdMessages.Watch.self, from: body),
                    let (changes, _) = try? mirror.watched(message)
                {
                    apply(changes, to: &records, isListed: false)
                }
            case 2:
                let batch = records.nextBatch()
                guard let answer = try? EtcdMessages.read(EtcdMessages.TransactionAnswer.self, from: body),
                    let outcomes = EtcdWrites.outcomes(of: batch, answer)
                else {
                    records.failed()
                    continue
                }
                let results = zip(batch, outcomes).map { (write: $0, outcome: $1, content: EtcdRecords.Content?.none) }
                _ = records.ended(results, at: 1_000)
            default:
                if let page = try? EtcdMessages.read(EtcdMessages.Page.self, from: body) {
                    _ = mirror.receivedSign(of: page.header)
                }
                _ = try? EtcdMessages.read(EtcdMessages.Line<EtcdMessages.Lease>.self, from: body)
                _ = try? EtcdMessages.read(EtcdMessages.Refusal.self, from: body)
                _ = try? EtcdEndpoints.parse(String(decoding: body, as: UTF8.self))
                if let relay = EtcdRelay(body) { precondition(EtcdRelay(relay.bytes) == relay, "A relay survives") }
                if let key = EtcdKey(body) { precondition(key.bytes == body, "A key has one form") }
            }
            precondition(records.table.count <= limits.records, "No more records than there may be")
            precondition(records.writes.count <= limits.pendingWrites, "No more waits than may")
            precondition(records.placeCount <= limits.records, "No more devices than there may be")
        }
    }

    private static func apply(_ changes: [EtcdMirror.Change], to records: inout EtcdRecords, isListed: Bool) {
        for change in changes {
            switch change {
            case .put(let row):
                switch EtcdKey(row.key) {
                case .record(let device)?:
                    // The seeds' signatures are not looked at: whoever fuzzes could not sign.
                    let record = try? SignedRecord(unverified: device, body: Array(row.value.dropFirst(32)))
                    records.put(
                        record.map { .genuine($0) } ?? .forged, of: device, revision: row.revision, isListed: isListed,
                        at: 1_000)
                case .at(let device)?:
                    records.put(relay: String(decoding: row.value, as: UTF8.self), of: device, revision: row.revision)
                case .relay(let id)?: records.put(EtcdRelay(row.value), of: id, revision: row.revision)
                case nil: break
                }
            case .deleted(let key, let revision):
                if let key = EtcdKey(key) { records.deleted(key, revision: revision) }
            case .startedOver: records.startOver()
            case .listed(let revision, let keys):
                records.listed(Set(keys.compactMap { EtcdKey($0) }), revision: revision)
            }
        }
    }

    /// A list, changes, an answer to a write and a lease, as etcd 3.4 writes them.
    package static let seeds: [[UInt8]] = {
        let key = "a2l0aC9yZWxheS9hYmM="  // kith/relay/abc
        let device = "a2l0aC9hdC95eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eXl5eQ=="
        let header = #""header":{"cluster_id":"7","member_id":"1","revision":"4","raft_term":"2"}"#
        let row = #"{"key":"\#(key)","create_revision":"2","mod_revision":"2","version":"1","value":"e30="}"#
        let lines = [
            #"0{\#(header),"kvs":[{"key":"\#(device)","mod_revision":"3","value":"YWJj"},\#(row)],"count":"2"}"#,
            #"1{\#(header),"created":true}"#,
            #"1{\#(header),"events":[{"kv":{"key":"\#(key)","mod_revision":"5","value":"e30="}}]}"#,
            #"1{\#(header),"events":[{"type":"DELETE","kv":{"key":"\#(key)","mod_revision":"6"}}]}"#,
            #"1{\#(header),"canceled":true,"compact_revision":"3"}"#,
            #"2{\#(header),"succeeded":true,"responses":[]}"#,
            #"3{"result":{\#(header),"ID":"1735471442048361225","TTL":"20"}}"#,
            #"3{"error":"etcdserver: requested lease not found","message":"not found","code":5}"#,
            #"3{"url":"https://relay.example.org","load":3,"region":"fra"}"#, "3kith/relay/abc",
            "3http://[::1],http://a:1/",
        ]
        return lines.map { Array($0.utf8) } + [Array(lines.joined(separator: "\n").utf8)]
    }()
}
