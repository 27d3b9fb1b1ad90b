import Foundation
import Kith
import KithRPC
import KithTesting
import Testing

@Suite(.timeLimit(.minutes(2))) struct `A shell on another device that is drawn here` {
    @Test func `is opened with the grant, by this device's own person, and spoken in JSON`() async throws {
        let (there, here) = (try TemporaryFolder(), try TemporaryFolder())
        var options = onLoopback
        options.name = "laptop"
        options.shell = "/bin/sh"
        let laptop = try await Device.open(directory: there.path, options: options)
        let phone = try await Device.open(directory: here.path, options: onLoopback)
        try await laptop.whileRunning {
            try await phone.whileRunning {
                try await pair(phone, with: laptop, grants: [])
                let input = Shell.Screen.Input(device: "laptop", columns: 60, rows: 15, commandLine: "exec cat")
                await #expect(throws: KithError(.denied, "")) {
                    _ = try await phone.client.open(Shell.Screen.self, input)
                }
                _ = try await laptop.client.call(
                    Devices.ChangeGrants.self, .init(device: phone.id.description, add: [.shell], remove: []))
                // Drawn by the other device it would be that one's person's.
                await #expect(throws: KithError(.denied, "")) {
                    _ = try await phone.client.open(
                        Shell.Screen.self, .init(columns: 60, rows: 15), on: "laptop")
                }
                let stream = try await phone.client.open(
                    named: "shell.screen",
                    ["device": "laptop", "columns": 60, "rows": 15, "commandLine": "exec cat"])
                try await stream.send(["text": "hello\n"])
                var mirror = ScreenMirror()
                func next() async throws {
                    let message = try #require(try await stream.next())
                    let update = try JSONText(encoding: message).decode(Shell.Screen.Update.self)
                    try mirror.apply(update)
                    if let number = update.number { try await stream.send(["shown": .integer(Int64(number))]) }
                }
                while mirror.text != "hello\nhello" { try await next() }
                try await stream.send(["key": ["name": "d", "control": true]])
                while mirror.exit == nil { try await next() }
                #expect(mirror.exit == Shell.Screen.Exit(code: 0))
            }
        }
    }
}
