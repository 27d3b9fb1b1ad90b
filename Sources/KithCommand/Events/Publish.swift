import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithRPC
import KithWire

/// `kith publish`.
struct PublishCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "publish",
        abstract: "Publish an event to whoever subscribes to its topic.",
        discussion: helpText(
            """
              kith publish chat/family '"Dinner is ready"'
              kith publish sensors/kitchen/temperature 21.5 --retain 1h
              kith publish lights/hall '{"on": true}' --on server
              kith publish backup/done '{"files": 812}' --guarantee
              sensor | kith publish sensors/kitchen/log -            a line, an event

            The message is any JSON value; with “-”, each line of standard input is one, also text that is not JSON.

            Programs on this device that subscribe get it at once; other devices get it if they subscribe and hold the
            grant node:TOPIC here (kith grant laptop --add node:chat/family), and take it from devices that hold that
            grant there. With --on it is published there, as one of that device's own events.

            --retain keeps it for those who subscribe later and look back (kith subscribe --look-back). --guarantee
            keeps it on disk until every paired device that may have it has taken it; one that fails ten times, or
            is not taken within a day, becomes an event of $dead/TOPIC.
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The topic: names with slashes between them.")
    var topic: String

    @Argument(help: "The message, a JSON value; - for the lines of standard input.")
    var message: String

    @Option(help: ArgumentHelp("Keep it so long for those who look back: 90s, 15m, 1h, 1d.", valueName: "time"))
    var retain: Lifetime?

    @Flag(help: "Keep it on the device.") var local = false

    @Flag(help: "Keep it on disk until the other devices have taken it.") var guarantee = false

    @Option(help: ArgumentHelp("The device to publish on, when it is not this one.", valueName: "device"))
    var on: String?

    func validate() throws {
        guard !(local && guarantee) else {
            throw ValidationError("--local keeps the event here, --guarantee is for other devices: choose one.")
        }
    }

    func run() async throws {
        let client = try await runningClient(globals)
        guard message == "-" else {
            let value: JSONValue
            do {
                value = try JSONText(Array(message.utf8)).value()
            } catch {
                throw KithError(
                    .invalid, "The message is not JSON: \(printable(message)). Text stands in quotes: '\"text\"'.")
            }
            return try await publish(value, client)
        }
        let input = StandardStreams()
        var framer = LineFramer()
        var hasEnded = false
        while !hasEnded {
            if let more = await input.read() {
                framer.append(more)
            } else {
                hasEnded = true
                framer.append([0x0A])
            }
            while let line = try framer.next() {
                if line.isEmpty { continue }
                // What is not JSON is text.
                let value = (try? JSONText(line).value()) ?? .string(String(decoding: line, as: UTF8.self))
                try await publish(value, client)
            }
        }
    }

    private func publish(_ value: JSONValue, _ client: Client) async throws {
        let answer = try await client.call(
            Events.Publish.self,
            Events.Publish.Input(
                topic: topic, message: Events.Message(value),
                retainMilliseconds: retain.map { UInt64($0.seconds) * 1_000 }, isLocal: local,
                isGuaranteed: guarantee),
            on: on)
        if globals.json { printLine(try jsonText(answer)) }
    }
}
