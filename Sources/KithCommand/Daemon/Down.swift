import ArgumentParser
import Foundation
import Kith
import KithAPI
import KithCommandLine

/// `kith down`.
struct DownCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "down",
        abstract: "Stop this device.",
        discussion: helpText(
            """
              kith down                         running work is given a moment to end
            """))

    @OptionGroup var globals: GlobalOptions

    func run() async throws { try await Self.stop(globals) }

    /// Stops the device, and waits until it is gone.
    static func stop(_ globals: GlobalOptions) async throws {
        // One that is older can be stopped all the same, to be started as this one.
        let client = try await runningClient(globals, isAnyVersion: true)
        do {
            _ = try await withDeadline(.seconds(10)) { try await client.call(ThisDevice.Stop.self, Nothing()) }
        } catch let error as KithError where error.code == .timedOut {
            throw KithError(.timedOut, "This device does not answer. Try again, or end its process.", cause: error)
        }
        let deadline = ContinuousClock.now + StopDeadline.patience + .seconds(5)
        while Device.isRunning(directory: globals.directory), ContinuousClock.now < deadline {
            try await Task.sleep(for: .milliseconds(20))
        }
        guard !Device.isRunning(directory: globals.directory) else {
            throw KithError(
                .timedOut,
                "This device does not stop: it may wait for a disk that does not answer. Its process still runs; nothing is lost if you end it."
            )
        }
        if !globals.json { note("Stopped.") }
    }
}
