import KithAPI
import Testing

@testable import KithFiles

@Suite struct PartialTests {
    /// Goes on with the partial of `key`, and whether the transfer that had it was told to end.
    private func resume(
        _ folder: Descriptor, _ keeping: Partial.Keeping, _ active: ActivePartials, isToldToEnd: Locked<Bool>
    ) throws -> Partial {
        try Partial.resume(
            Partial.Key(name: Array("thing".utf8), identity: 1), in: folder, isFolder: false, mode: 0o600,
            keeping: keeping, active: active
        ) { isToldToEnd.set(true) }
    }

    @Test func `a transfer whose sender names one thing twice does not wait for itself`() throws {
        let folders = try Folders()
        let folder = try Descriptor.open(Array(folders.srv.utf8), [.folder])
        let (active, keeping, isToldToEnd) = (ActivePartials(), Partial.Keeping(), Locked(false))
        let first = try resume(folder, keeping, active, isToldToEnd: isToldToEnd)
        let second = try resume(folder, keeping, active, isToldToEnd: isToldToEnd)
        #expect(!isToldToEnd.value)
        #expect(first.name != second.name && !second.isResumed)
        withExtendedLifetime(first) {}
    }
}
