import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithRPC
import KithWire

/// `kith subscribe`.
struct SubscribeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "subscribe",
        abstract: "Print the events of a topic as they are published.",
        discussion: helpText(
            """
              kith subscribe chat/family
              kith subscribe 'sensors/*/temperature'        * is any one name
              kith subscribe 'sensors/>' --json | jq .event.message
              kith subscribe 'sensors/>' --look-back 1h     what was retained, first
              kith subscribe backup/done --once --timeout 10m && echo done
              kith subscribe 'chat/>' --on laptop

            It prints TOPIC and MESSAGE, one event a line, until Ctrl-C; with --json every detail: publisher, time,
            number, and a gap where events are missing.

            Events published on other devices come, too, if this device holds the grant node:TOPIC there; by default \
            only of devices that hold that grant here (kith grant laptop --add 'node:sensors/*'), with --from paired \
            of all, with --from here of none. With --on it prints the events that are published on that device.

            Topics that begin with $ are a device's own ('$registry/>'); a wildcard in the first place does not stand \
            for them.
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The topic, or a pattern: * is one name, > the rest.")
    var topic: String

    @Option(
        name: .customLong("look-back"),
        help: ArgumentHelp("Print retained events first that are no older: 90s, 15m, 1h, 1d.", valueName: "time"))
    var lookBack: Lifetime?

    @Flag(help: "End after the first event.") var once = false

    @Option(help: ArgumentHelp("End after so long; without an event, with exit status 8.", valueName: "time"))
    var timeout: Lifetime?

    @Option(help: "The devices whose events to print: this one, those that may publish here, all that are paired.")
    private var from = EventSource.granted

    @Option(help: ArgumentHelp("The device whose events to print, when it is not this one.", valueName: "device"))
    var on: String?

    func run() async throws {
        let count = Locked(0)
        let ending = try await Signals.untilInterrupted {
            do {
                try await withDeadline(timeout.map { .seconds($0.seconds) }) { try await follow(counting: count) }
            } catch let error as KithError where error.code == .timedOut && timeout != nil {
                // Who waits for one has not got it; who watches for a while has seen what there was.
                guard once || count.value == 0 else { return }
                throw KithError(.timedOut, "No event of \(printable(topic)) came in time.")
            }
        }
        if let signal = ending.signal, count.value == 0 || once { throw ExitCode(128 + signal) }
    }

    private func follow(counting count: Locked<Int>) async throws {
        let client = try await runningClient(globals)
        let input = Events.Subscribe.Input(
            topic: topic, lookBackMilliseconds: lookBack.map { UInt64($0.seconds) * 1_000 },
            retainedPerTopic: once ? 1 : 16, from: from.publishers)
        let stream = try await client.open(Events.Subscribe.self, input, on: on).stream
        do {
            for try await delivery in stream.messages {
                try print(delivery)
                guard case .event = delivery else { continue }
                count.set(count.value + 1)
                if once { return try await stream.finish() }
            }
        } catch {
            stream.abort(.cancelled)
            throw error
        }
        throw KithError(.closed, "\(on.map(printable) ?? "This device") has stopped: no more events come.")
    }

    private func print(_ delivery: Events.Delivery) throws {
        if globals.json { return printLine(try jsonLine(delivery)) }
        switch delivery {
        case .event(let event):
            let message = try event.message.decode(JSONValue.self)
            // Text is printed as it is; whoever wants quotes asks for JSON.
            if case .string(let text) = message {
                printLine("\(printable(event.topic)) \(printable(text))")
            } else {
                printLine("\(printable(event.topic)) \(printable(try jsonLine(message)))")
            }
        case .gap(let gap):
            let count = gap.count.map { "\($0) events are" } ?? "events may be"
            note("kith: \(count) missing here (\(gap.reason.rawValue))")
        }
    }
}

/// The devices whose events are printed, as typed.
private enum EventSource: String, ExpressibleByArgument, CaseIterable {
    case here, granted, paired

    var publishers: Events.Publishers {
        switch self {
        case .here: .here
        case .granted: .granted
        case .paired: .paired
        }
    }
}
