import Kith
import KithTrust
import TwoDevices

/// What a sensor says: the temperature to everybody who hears it, who is at home to the family.
struct Reading: Codable, Sendable {
    var celsius: Double
    @Family var present: [String]?
}

enum FamilyLabel: FieldLabel { static let label = "family" }
typealias Family<Value: Codable & Sendable> = Labelled<FamilyLabel, Value>

/// A laptop publishes readings; a phone hears them, first without the family's key and then with it.
@main struct Main {
    static func main() async throws {
        let family = NetworkKey(named: try KeyLabel("family"))
        // The laptop can encrypt to the family, and could not read its own readings again.
        let sensor = FieldKeys(context: "example-sensor", sealing: ["family": [family.key.publicKey]])
        let reader = FieldKeys(context: "example-sensor", opening: [family.key])

        try await withTwoDevices([.node(pattern: "home/*")]) { phone, laptop in
            let reading = Reading(celsius: 21.5, present: ["Ann", "Ben"])
            try sensor.use { _ = try laptop.publish(reading, to: "home/kitchen", options: .init(retain: .seconds(60))) }
            try await print("the phone reads", newest(phone))
            try await reader.use { try await print("with the family's key", newest(phone)) }
        }
    }

    static func newest(_ phone: Device) async throws -> String {
        let readings = try phone.subscribe("home/*", as: Reading.self, lookBack: .seconds(60))
        for try await event in readings {
            let reading = event.message
            let present = reading.present?.joined(separator: ", ") ?? "nobody"
            return "\(reading.celsius) °C; at home: \(reading.$present.isSealed ? "not for you" : present)"
        }
        return "nothing"
    }
}
