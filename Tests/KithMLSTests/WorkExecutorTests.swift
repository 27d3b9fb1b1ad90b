import Dispatch
import Testing

@testable import KithMLS

/// All threads that the system gives.
struct ThreadedExecutor: WorkExecutor {
    func perform(_ count: Int, _ body: @Sendable (Int) -> Void) {
        DispatchQueue.concurrentPerform(iterations: count, execute: body)
    }
}

/// Groups whose work for many members is done side by side.
@Suite struct WorkExecutorTests {
    @Test func `what is made side by side stands in its order`() throws {
        for count in [0, 1, 12, 13, 100, 1_000] {
            #expect(try ThreadedExecutor().map(count) { $0 * 2 } == (0..<count).map { $0 * 2 })
        }
    }

    @Test func `of several failures the first is told`() {
        #expect(throws: MLSError.truncated) {
            try ThreadedExecutor().map(100) { number throws(MLSError) in
                if number == 40 { throw .truncated }
                if number > 40 { throw .trailingBytes }
            }
        }
    }

    @Test func `a group made side by side is a group like others`() throws {
        let members = (0..<40).map { Member("member \($0)") }
        try members[0].create()
        members[0].with { $0.configuration.executor = ThreadedExecutor() }
        let bundles = try members.dropFirst().map { try $0.keyPackage() }
        let output = try members[0].commit(CommitOptions(bundles.map { .add($0.keyPackage) }))
        guard case .welcome(let welcome)? = output.welcome else { throw MLSError.unexpectedWireFormat }
        for (index, member) in members.dropFirst().enumerated() {
            // Every other member joins alone.
            var configuration = configuration()
            if index % 2 == 0 { configuration.executor = ThreadedExecutor() }
            member.take(try Group(joining: welcome, with: bundles[index], configuration: configuration))
        }
        let update = try members[0].commit().commit
        for member in members.dropFirst() { try member.follow(update) }
        try agree(members)
    }

    @Test(arguments: [WireFormat.publicMessage, .privateMessage])
    func `a large commit is followed by those who check it on two threads`(format: WireFormat) throws {
        let members = try party(["anna", "ben", "cleo"], handshake: format)
        members[1].with { $0.configuration.executor = ThreadedExecutor() }
        var large = CommitOptions()
        large.authenticatedData = [UInt8](repeating: 9, count: 1 << 16)
        for _ in 0..<3 {
            let commit = try members[0].commit(large).commit
            for member in members.dropFirst() { #expect(try member.follow(commit).committer == 0) }
            // What a commit of one's own or a second one of the epoch would be is not.
            for member in members { #expect(throws: MLSError.wrongEpoch) { try member.follow(commit) } }
        }
        try agree(members)
    }

    @Test func `a large commit is refused for its tag first, then for its signature`() throws {
        let members = try party(["anna", "ben"], handshake: .publicMessage)
        members[1].with { $0.configuration.executor = ThreadedExecutor() }
        var forgery = Forgery()
        forgery.content = { $0.authenticatedData = [UInt8](repeating: 9, count: 1 << 16) }
        forgery.tag = { $0[0] ^= 1 }
        for (breaks, error) in [([0, 1], MLSError.invalidMembershipTag), ([1], .invalidMessageSignature)] {
            let message = try members[0].with { group throws in
                guard case .publicMessage(var message) = try group.forged(forgery) else { throw MLSError.truncated }
                var content = message.authenticated
                if breaks.contains(1) { content.signature[9] ^= 1 }
                message = try PublicMessage(
                    protecting: content, group.state.suite, membershipKey: group.state.secrets.membershipKey,
                    context: group.state.shared.contextBytes)
                if breaks.contains(0) { message.membershipTag?[0] ^= 1 }
                return MLSMessage.publicMessage(message)
            }
            #expect(throws: error) { try members[1].follow(message) }
        }
        let honest = try members[0].commit().commit
        try members[1].follow(honest)
        try agree(members)
    }

    @Test func `a bad key package among many is found side by side too`() throws {
        let members = try party(["anna"])
        members[0].with { $0.configuration.executor = ThreadedExecutor() }
        var packages = try (0..<40).map { try Member("member \($0)").keyPackage().keyPackage }
        packages[30].signature[5] ^= 1
        #expect(throws: MLSError.invalidKeyPackageSignature) {
            _ = try members[0].commit(CommitOptions(packages.map { .add($0) }))
        }
        #expect(members[0].epoch == 0)
    }
}
