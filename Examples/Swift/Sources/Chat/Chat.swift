import Kith
import TwoDevices

/// A line of a conversation.
struct Line: Codable, Sendable {
    var from: String
    var text: String
}

/// Two devices that talk by events: each publishes its own lines, and hears those of all.
///
/// Whoever comes late reads what was said in the last hour.
@main struct Main {
    static func main() async throws {
        // To hear a device, and to be heard by it: `kith grant phone --add 'node:chat/*'`.
        try await withTwoDevices([.node(pattern: "chat/*")]) { phone, laptop in
            var hears = try laptop.subscribe("chat/*", as: Line.self, lookBack: .seconds(3_600)).makeAsyncIterator()
            try say("Is anybody home?", from: "phone", on: phone)
            guard let question = try await hears.next() else { return }
            print("laptop reads: \(question.message.from): \(question.message.text)")
            try say("Yes.", from: "laptop", on: laptop)

            // Subscribed after both were said.
            var late = try phone.subscribe("chat/*", as: Line.self, lookBack: .seconds(3_600)).makeAsyncIterator()
            var lines: [String] = []
            while lines.count < 2, let event = try await late.next() {
                lines.append("\(event.message.from): \(event.message.text)")
            }
            // Each device's own lines are in order; those of two devices have none but their times.
            for line in lines.sorted() { print("phone reads: \(line)") }
        }
    }

    static func say(_ text: String, from name: String, on device: Device) throws {
        try device.publish(
            Line(from: name, text: text), to: "chat/\(name)", options: .init(retain: .seconds(3_600)))
    }
}
