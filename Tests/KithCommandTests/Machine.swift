import Foundation
import KithTesting
import Synchronization
import Testing

/// One of a person's machines: a data directory and the real `kith` command.
final class Machine: Sendable {
    let name: String
    /// A folder of this machine's own: `data` is its data directory, the rest is free for the test.
    let folder: URL
    var data: String { folder.appendingPathComponent("data").path }

    /// Makes a machine that is not up yet.
    init(_ name: String) throws {
        self.name = name
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("kith-\(name)-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    }

    /// The output of a command, and its exit status.
    struct Outcome: CustomStringConvertible {
        var status: Int32
        var output: String
        var error: String
        var description: String { "exit \(status)\n\(output)\n\(error)" }
    }

    /// Runs `kith` on this machine and waits for it, for at most `seconds`.
    @discardableResult
    func kith(_ arguments: [String], input: Data? = nil, seconds: Double = 60) async throws -> Outcome {
        try await start(arguments, input: input).outcome(seconds: seconds)
    }

    /// Runs `kith` and expects it to succeed.
    @discardableResult
    func expect(
        _ arguments: String..., input: Data? = nil, sourceLocation: SourceLocation = #_sourceLocation
    ) async throws -> String {
        let outcome = try await kith(arguments, input: input)
        try #require(outcome.status == 0, "\(arguments): \(outcome)", sourceLocation: sourceLocation)
        return outcome.output
    }

    /// Starts `kith` on this machine; its data directory is given behind the first word, or by the environment.
    func start(
        _ arguments: [String], input: Data? = nil, environment more: [String: String] = [:],
        byEnvironment: Bool = false, program: URL = Machine.program
    ) throws -> Running {
        let running = Running()
        running.process.executableURL = program
        running.process.arguments =
            byEnvironment ? arguments : Array(arguments.prefix(1)) + ["--data", data] + arguments.dropFirst()
        var environment = ProcessInfo.processInfo.environment
        environment["NO_COLOR"] = "1"
        if byEnvironment { environment["KITH_DATA"] = data }
        environment.merge(more) { $1 }
        running.process.environment = environment
        running.process.currentDirectoryURL = folder
        try running.launch(input: input)
        return running
    }

    /// Runs a line of bash in which `kith` is the command, on this machine's data directory.
    func bash(_ line: String, seconds: Double = 60) async throws -> Outcome {
        try await start(
            ["-c", "kith() { '\(Machine.program.path)' \"$@\"; }; \(line)"], byEnvironment: true,
            program: URL(fileURLWithPath: "/bin/bash")
        ).outcome(seconds: seconds)
    }

    /// Starts the daemon and waits until it answers.
    func up(_ more: String...) async throws { try await up(more) }

    func up(_ more: [String]) async throws {
        let shell = path("bash")
        if !FileManager.default.fileExists(atPath: shell) {
            // Reads no files of the person whose suite this is: what a test ends half through them stays behind.
            let script = "#!/bin/sh\nexec /bin/bash --norc --noprofile \"$@\"\n"
            try Data(script.utf8).write(to: URL(fileURLWithPath: shell))
            try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: shell)
        }
        try await expect("up", input: nil, more: ["--detach", "--no-invite", "--shell", shell, "--name", name] + more)
    }

    private func expect(_ command: String, input: Data?, more: [String]) async throws {
        let outcome = try await kith([command] + more)
        try #require(outcome.status == 0, "\(outcome)")
    }

    /// Stops the daemon, if there is one, and removes everything.
    func remove() async {
        _ = try? await kith(["down"], seconds: 15)  // down already is fine
        try? FileManager.default.removeItem(at: folder)  // the next boot empties /tmp at the latest
    }

    /// The pid of the daemon.
    func daemonPID() async throws -> pid_t {
        let status = try JSONSerialization.jsonObject(with: Data(try await expect("status", "--json").utf8))
        return pid_t(try #require((status as? [String: Any])?["pid"] as? Int))
    }

    /// Ends the daemon as a power cut would, and waits until the kernel has taken its lock and its socket back.
    func killDaemon() async throws {
        kill(try await daemonPID(), SIGKILL)
        try await eventually { try await kith(["down"]).status == 3 }
    }

    /// Pairs `other` with this machine: `other` may then do here what `grants` say.
    func invite(_ other: Machine, _ grants: String...) async throws {
        var arguments = ["invite", "--yes", "--text"]
        for grant in grants { arguments += ["--grant", grant] }
        let invitation = try await kith(arguments)
        try #require(invitation.status == 0, "\(invitation)")
        try await other.expect("pair", invitation.output.trimmingCharacters(in: .whitespacesAndNewlines), "--yes")
    }

    /// A path in this machine's folder.
    func path(_ name: String) -> String { folder.appendingPathComponent(name).path }

    /// The `kith` built beside this test bundle.
    static let program: URL = {
        let bundle = URL(fileURLWithPath: CommandLine.arguments[0]).deletingLastPathComponent()
        return bundle.appendingPathComponent("kith")
    }()
}

/// A running `kith`.
final class Running: @unchecked Sendable {  // set up before it is shared; Process and its pipes are thread-safe after
    let process = Process()
    private let output = Pipe()
    private let error = Pipe()
    private var readers: [Task<Data, Never>] = []
    private let printed = Mutex((output: Data(), error: Data()))

    /// The standard output so far.
    var soFar: String { String(decoding: printed.withLock { $0.output }, as: UTF8.self) }
    /// The standard error so far.
    var errorSoFar: String { String(decoding: printed.withLock { $0.error }, as: UTF8.self) }

    fileprivate func launch(input: Data?) throws {
        process.standardOutput = output
        process.standardError = error
        if let input {
            let file = FileManager.default.temporaryDirectory.appendingPathComponent("kith-input-\(UUID().uuidString)")
            try input.write(to: file)
            process.standardInput = try FileHandle(forReadingFrom: file)
            try FileManager.default.removeItem(at: file)
        } else {
            process.standardInput = FileHandle.nullDevice
        }
        // Where the suite runs in the background it is ignored, and so by all that is started here.
        signal(SIGINT, SIG_DFL)
        try process.run()
        readers = [output, error].map { pipe in
            let handle = pipe.fileHandleForReading
            let isOutput = pipe === output
            return Task.detached { [self] in
                await Running.readAll(handle) { part in
                    self.printed.withLock { if isOutput { $0.output += part } else { $0.error += part } }
                }
            }
        }
    }

    /// Waits for the end; kills the process when it takes longer.
    func outcome(seconds: Double) async throws -> Machine.Outcome {
        let process = process
        let watchdog = Task.detached {
            try await Task.sleep(for: .seconds(seconds))  // Real time: a process that hangs tells nobody.
            kill(process.processIdentifier, SIGKILL)
        }
        let texts = [await readers[0].value, await readers[1].value]
        await onThread { process.waitUntilExit() }
        watchdog.cancel()
        let status = process.terminationReason == .exit ? process.terminationStatus : 128 + process.terminationStatus
        return Machine.Outcome(
            status: status, output: String(decoding: texts[0], as: UTF8.self),
            error: String(decoding: texts[1], as: UTF8.self))
    }

    private static func readAll(_ handle: FileHandle, _ take: @escaping @Sendable (Data) -> Void) async -> Data {
        await onThread {
            var all = Data()
            while case let part = handle.availableData, !part.isEmpty {
                all += part
                take(part)
            }
            return all
        }
    }
}

/// Runs a program of this machine and returns what it prints.
func local(_ words: [String]) throws -> String {
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
    process.arguments = words
    process.environment = ProcessInfo.processInfo.environment.merging(["LC_ALL": "C"]) { $1 }
    let output = Pipe()
    process.standardOutput = output
    process.standardError = FileHandle.nullDevice
    try process.run()
    let data = output.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    return String(decoding: data, as: UTF8.self)
}

/// Writes a file, and makes the folders it lies in.
func write(_ text: String, to path: String) throws {
    try FileManager.default.createDirectory(
        atPath: (path as NSString).deletingLastPathComponent, withIntermediateDirectories: true)
    try Data(text.utf8).write(to: URL(fileURLWithPath: path))
}

/// Runs `body` with two machines that are up, and takes them down after it.
func withTwoMachines(_ body: (_ laptop: Machine, _ phone: Machine) async throws -> Void) async throws {
    let laptop = try Machine("laptop")
    let phone = try Machine("phone")
    do {
        try await laptop.up()
        try await phone.up()
        try await body(laptop, phone)
    } catch {
        await laptop.remove()
        await phone.remove()
        throw error
    }
    await laptop.remove()
    await phone.remove()
}

/// The processes of a test that hold the writing end of a named pipe, as all do that one of them starts.
final class Holders: Sendable {
    let path: String
    private let descriptor: CInt

    /// Makes the pipe.
    init(_ path: String) throws {
        self.path = path
        try #require(mkfifo(path, 0o600) == 0)
        descriptor = open(path, O_RDONLY | O_NONBLOCK)
        try #require(descriptor >= 0)
    }

    deinit { close(descriptor) }

    /// True when none holds it: before the first has opened it, and after the last has ended.
    var areGone: Bool {
        var byte: UInt8 = 0
        return read(descriptor, &byte, 1) == 0
    }
}
