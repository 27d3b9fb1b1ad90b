import Foundation
import KithAPI
import KithIdentity
import KithNode
import KithWire
import Logging
import Testing

@testable import KithFiles

/// A device that sends more than it offered, to a real inbox.
@Suite(.timeLimit(.minutes(4))) struct InboxBoundTests {
    private static func attributes(_ name: String) -> TransferFrame.Attributes {
        TransferFrame.Attributes(name: Array(name.utf8), mode: 0o644, seconds: 1, nanoseconds: 2, identity: 1)
    }

    /// Starts a stream of the inbox, as the sender's device.
    private func start<Input: Sendable>(
        _ name: String, _ input: Input, of service: InboxService
    ) async throws -> (near: any ByteStream, served: Task<Void, any Error>) {
        let handler = try #require(service.handlers.first { $0.method.name == name })
        guard case .stream(let body) = handler.body else { throw KithError(.internal, "\(name) is no stream") }
        let context = CallContext(
            caller: .device(try DeviceID(publicKey: [UInt8](repeating: 7, count: 32)), name: "evil", paired: true),
            grants: [], client: Client(LocalCarrier(grants: [])))
        let pipe = KithAPI.Pipe()
        let far: any ByteStream = pipe.right
        let served = Task {
            do {
                try await body(input, context) { _ in far }
                try? await far.finish()
            } catch {
                far.abort((error as? KithError)?.code ?? .internal)
                throw error
            }
        }
        return (pipe.left, served)
    }

    /// Offers one file of ten bytes, has that accepted, and sends something; returns how it ended.
    private func push(
        into folders: Folders, _ listing: [TransferFrame], _ contents: [TransferFrame]
    ) async throws -> (state: Offers.State?, why: String?) {
        let sender = try DeviceID(publicKey: [UInt8](repeating: 7, count: 32))
        let storage = InboxStorage(
            setting: { _ in nil }, setSetting: { _, _ in },
            peer: { _ in InboxStorage.Peer(id: sender, name: "evil", pairedAt: 1) }, now: { 1 })
        let service = try InboxService(storage, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let offer = Offers.Send.Input(
            items: [Offers.Item(name: "report", kind: .folder, size: 10)], bytes: 10, files: 1)
        let (answers, offered) = try await start(Offers.Send.name, offer, of: service)
        let told = MethodStream<Offers.Answer, Nothing>(answers)
        let id = try #require(try await told.receive()?.id)
        let decide = try #require(service.handlers.first { $0.method.name == Inbox.Decide.name })
        guard case .call(let body) = decide.body else { throw KithError(.internal, "a decision is a call") }
        _ = try await body(
            Inbox.Decide.Input(id: id, accepts: true, folder: folders.srv),
            CallContext(caller: .owner, grants: [], client: Client(LocalCarrier(grants: []))))
        let (stream, pushed) = try await start(Offers.Push.name, Offers.Push.Input(id: id), of: service)
        // Where it is refused, it is cut off.
        try? await Self.send(listing, contents, over: stream)
        _ = try? await pushed.value
        var last: Offers.Answer?
        while let answer = try await told.receive() {
            last = answer
            if answer.state == .arrived || answer.state == .failed { break }
        }
        offered.cancel()
        _ = await offered.result
        return (last?.state, last?.failure?.message)
    }

    /// Lists, and sends contents when they are wanted.
    private static func send(
        _ listing: [TransferFrame], _ contents: [TransferFrame], over stream: any ByteStream
    ) async throws {
        try await stream.say(listing)
        var parser = TransferParser()
        var wanted: UInt64 = 0
        while let bytes = try await stream.read(upTo: 1_000) {
            parser.feed(bytes)
            while let frame = try parser.next() {
                guard case .send(let count) = frame else { continue }
                wanted += count
                guard wanted == UInt64(contents.count) else { continue }
                var bytes: [UInt8] = []
                for frame in contents + [.end(isComplete: true)] { try frame.append(to: &bytes) }
                try await stream.write(bytes)
                try await stream.finish()
            }
        }
    }

    /// A folder with files of these sizes, and their contents.
    private static func report(
        _ sizes: [Int], _ more: [TransferFrame] = []
    ) -> (listing: [TransferFrame], contents: [TransferFrame]) {
        let files = sizes.enumerated().map { TransferFrame.file(attributes("\($0)"), size: UInt64($1), []) }
        let contents = sizes.map { size in
            let bytes = [UInt8](repeating: 0x61, count: size)
            var hash = TreeHash(leafSize: TreeHash.leafSize(for: UInt64(size)))
            hash.update(bytes[...])
            return TransferFrame.small(root: hash.root(), bytes[...])
        }
        return ([.folder(attributes("report"))] + files + more + [.folderEnd(isComplete: true)], contents)
    }

    @Test func `as much as was offered is kept`() async throws {
        let folders = try Folders()
        let (listing, contents) = Self.report([10])
        let (state, why) = try await push(into: folders, listing, contents)
        #expect(state == .arrived, "\(why ?? "")")
        #expect(try folders.names("srv/report") == ["0"])
    }

    @Test(arguments: ["bytes", "files", "words"])
    func `nothing is kept of more than was offered`(_ what: String) async throws {
        let folders = try Folders()
        let (listing, contents) =
            switch what {
            case "bytes": Self.report([11])
            case "files": Self.report([1, 1])
            // What is no file counts as well: 17 MiB of excuses.
            default:
                Self.report(
                    [10],
                    (0..<4_352).map { number in
                        let message = String(repeating: "x", count: 4_000)
                        return .skipped(
                            Files.Skipped(
                                path: Files.Path("\(number)"), failure: Files.Failure(code: .denied, message: message)))
                    })
            }
        let (state, why) = try await push(into: folders, listing, contents)
        #expect(state == .failed && why?.contains("More was sent than had been offered") == true, "\(why ?? "")")
        #expect(try folders.names("srv").isEmpty)
    }
}
