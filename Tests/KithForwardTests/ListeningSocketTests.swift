import Foundation
import KithIO
import KithNode
import KithTesting
import KithWire
import Synchronization
import Testing

@testable import KithForward

@Suite(.timeLimit(.minutes(4))) struct `A Unix socket that is listened at` {
    /// Says when to stop changing things.
    private final class Watch: Sendable {
        let isOver = Atomic(false)
    }

    private let folder: TemporaryFolder
    private let data: String
    private let open: String
    private let protection: ProtectedFiles

    init() throws {
        folder = try TemporaryFolder()
        data = "\(folder.path)/data"
        open = "\(folder.path)/open"
        for path in [data, open] {
            try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: false)
        }
        protection = try ProtectedFiles(directory: data)
    }

    @Test func `is taken away where it was made, and nothing else that has its name by then`() throws {
        let reactor = try Reactor.forForwarding()
        let own = try ListeningSocket(path: "\(data)/s", on: reactor)
        var listener: ListeningSocket? = try ListeningSocket(path: "\(open)/s", on: reactor, protecting: protection)
        #expect(FileManager.default.fileExists(atPath: "\(open)/s"))
        try FileManager.default.moveItem(atPath: open, toPath: "\(folder.path)/moved")
        try FileManager.default.createSymbolicLink(atPath: open, withDestinationPath: data)
        #expect(throws: KithError.self) { try ListeningSocket(path: "\(open)/t", on: reactor, protecting: protection) }
        #expect(listener != nil)
        listener = nil
        #expect(FileManager.default.fileExists(atPath: "\(data)/s"))
        // Nor is another's, where that is not the device's own.
        try FileManager.default.removeItem(atPath: open)
        let other = "\(folder.path)/other"
        try FileManager.default.createDirectory(atPath: other, withIntermediateDirectories: false)
        listener = try ListeningSocket(path: "\(folder.path)/moved/u", on: reactor, protecting: protection)
        let foreign = try ListeningSocket(path: "\(other)/u", on: reactor)
        try FileManager.default.removeItem(atPath: "\(folder.path)/moved")
        try FileManager.default.createSymbolicLink(atPath: "\(folder.path)/moved", withDestinationPath: other)
        listener = nil
        #expect(FileManager.default.fileExists(atPath: "\(other)/u"))
        withExtendedLifetime((own, foreign)) {}
    }

    @Test func `is never made in the device's own folder, however the path changes meanwhile`() async throws {
        let reactor = try Reactor.forForwarding()
        let path = "\(folder.path)/x"
        let (data, open) = (data, open)
        let watch = Watch()
        try FileManager.default.createSymbolicLink(atPath: path, withDestinationPath: open)
        let made = await withTaskGroup { group in
            var made = 0
            group.addTask {
                var target = data
                while !watch.isOver.load(ordering: .relaxed) {
                    _ = symlink(target, "\(path).new")
                    _ = rename("\(path).new", path)
                    target = target == data ? open : data
                    await Task.yield()
                }
            }
            for number in 0..<2_000 {
                do {
                    let listener = try ListeningSocket(path: "\(path)/s\(number)", on: reactor, protecting: protection)
                    made += 1
                    let found = (try? FileManager.default.contentsOfDirectory(atPath: data)) ?? ["unreadable"]
                    if !found.isEmpty { Issue.record("\(found) in the device's own folder") }
                    withExtendedLifetime(listener) {}
                } catch {
                    // The path led to the folder that is kept.
                }
            }
            watch.isOver.store(true, ordering: .relaxed)
            return made
        }
        #expect(made > 0)
    }
}
