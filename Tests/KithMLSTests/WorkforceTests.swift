import Dispatch
import Testing

@testable import KithMLS

/// Groups whose work for many members is done side by side.
@Suite struct WorkforceTests {
    /// All threads that the system gives.
    private struct Crowd: Workforce {
        func perform(_ count: Int, _ body: @Sendable (Int) -> Void) {
            DispatchQueue.concurrentPerform(iterations: count, execute: body)
        }
    }

    @Test func `what is made side by side stands in its order`() throws {
        for count in [0, 1, 12, 13, 100, 1_000] {
            #expect(try Crowd().map(count) { $0 * 2 } == (0..<count).map { $0 * 2 })
        }
    }

    @Test func `of several failures the first is told`() {
        #expect(throws: MLSError.truncated) {
            try Crowd().map(100) { number throws(MLSError) in
                if number == 40 { throw .truncated }
                if number > 40 { throw .trailingBytes }
            }
        }
    }

    @Test func `a group made side by side is a group like others`() throws {
        let members = (0..<40).map { Member("member \($0)") }
        try members[0].create()
        members[0].with { $0.configuration.workforce = Crowd() }
        let bundles = try members.dropFirst().map { try $0.keyPackage() }
        let output = try members[0].commit(CommitOptions(bundles.map { .add($0.keyPackage) }))
        guard case .welcome(let welcome)? = output.welcome else { throw MLSError.unexpectedWireFormat }
        for (index, member) in members.dropFirst().enumerated() {
            // Every other member joins alone.
            var configuration = configuration()
            if index % 2 == 0 { configuration.workforce = Crowd() }
            member.take(try Group(joining: welcome, with: bundles[index], configuration: configuration))
        }
        let update = try members[0].commit().commit
        for member in members.dropFirst() { try member.follow(update) }
        try agree(members)
    }

    @Test func `a bad key package among many is found side by side too`() throws {
        let members = try party(["anna"])
        members[0].with { $0.configuration.workforce = Crowd() }
        var packages = try (0..<40).map { try Member("member \($0)").keyPackage().keyPackage }
        packages[30].signature[5] ^= 1
        #expect(throws: MLSError.invalidKeyPackageSignature) {
            _ = try members[0].commit(CommitOptions(packages.map { .add($0) }))
        }
        #expect(members[0].epoch == 0)
    }
}
