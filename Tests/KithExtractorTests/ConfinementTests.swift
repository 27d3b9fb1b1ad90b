#if os(Linux)
import CKithSystem
import Foundation
import KithTesting
import Testing

/// A process that tries what a file that took it over would try.
private final class Captive {
    private let socket: Int32
    let process: Int32

    init() throws {
        var (socket, process): (Int32, Int32) = (-1, -1)
        try #require(kith_helper_start(builtProgram("kith-confined"), &socket, &process) == 0)
        (self.socket, self.process) = (socket, process)
        var ready = [UInt8](repeating: 1, count: 5)
        try #require(kith_helper_receive(socket, &ready, 5, nil, 60_000) == 0)
        try #require(ready == [0, 0, 0, 0, 0], "it is not confined")
    }

    deinit { kith_socket_close(socket) }

    private func answer() -> Int32? {
        var number: Int32 = 0
        let status = unsafe withUnsafeMutableBytes(of: &number) {
            unsafe kith_helper_receive(socket, $0.baseAddress, 4, nil, 60_000)
        }
        return status == 0 ? number : nil
    }

    /// What came of it: 0 for success, an errno negated, `nil` when the process ended.
    func attempt(_ what: Character) -> Int32? {
        var byte = what.asciiValue ?? 0
        guard kith_helper_send(socket, &byte, 1, -1, 60_000) == 0 else { return nil }
        return answer()
    }

    func end() -> Int32 { kith_helper_end(process) }
}

@Suite struct ConfinementTests {
    @Test func `nothing can be reached from inside`() throws {
        let captive = try Captive()
        // Open, make, look at; connect; fork both ways, execute; signal, trace; run what was written; raise a limit.
        for what in "owscfFekpxl" {
            let result = captive.attempt(what)
            let isRefused = result == -EPERM || result == -EACCES || what == "F" && result == -ENOSYS
            #expect(isRefused, "\(what): \(result ?? 0)")
        }
        // It still does what it is for.
        #expect(captive.attempt("a") == 0)
        #expect(captive.attempt("t") == 0)
        #expect(!FileManager.default.fileExists(atPath: "/tmp/kith-confined"))
        _ = captive.end()
    }

    @Test func `memory has a limit that does not end it`() throws {
        let captive = try Captive()
        #expect(captive.attempt("m") == -ENOMEM)
        #expect(captive.attempt("a") == 0)
        _ = captive.end()
    }

    @Test func `a loop without end is ended by the kernel`() throws {
        let captive = try Captive()
        #expect(captive.attempt("b") == nil)
        #expect(captive.end() == 256 + SIGKILL)
    }

    @Test func `a crash is told as one`() throws {
        let captive = try Captive()
        #expect(captive.attempt("d") == nil)
        #expect(captive.end() == 256 + SIGABRT)
    }

    @Test func `it has its socket and nothing else`() throws {
        let captive = try Captive()
        defer { _ = captive.end() }
        // As root sees it: the process itself is not to be looked into by others.
        let open = try FileManager.default.contentsOfDirectory(atPath: "/proc/\(captive.process)/fd")
        #expect(Set(open) == ["0", "1", "2"])
        let status = try String(contentsOfFile: "/proc/\(captive.process)/status", encoding: .utf8)
        #expect(status.contains("NoNewPrivs:\t1"))
        #expect(status.contains("Seccomp:\t2"))
    }

    @Test func `a program that is not there is an error`() {
        var (socket, process): (Int32, Int32) = (-1, -1)
        #expect(kith_helper_start("/nonexistent/program", &socket, &process) == -ENOENT)
    }
}
#endif
