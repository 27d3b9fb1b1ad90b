import Kith
import TwoDevices

/// A phone makes its person's root key, enrols a laptop that shows a code, and cuts it off when it is lost.
@main struct Main {
    static func main() async throws {
        try await withTwoDevices([]) { phone, laptop in
            _ = try await phone.client.call(Trust.Begin.self, Nothing())
            try await print("the phone holds the root key:", standing(phone).isHolder)
            try await print("the laptop's certificate:", standing(laptop).state.rawValue)

            let request = try await laptop.client.open(Trust.Enrol.self, .init()).stream
            // It is on the laptop's screen, and its person types it into the phone.
            var shown = ""
            for try await event in request.messages {
                switch event {
                case .waiting(let code, _, _):
                    shown = code
                    do {
                        try await type(code == "aaaa-aaaa" ? "bbbb-bbbb" : "aaaa-aaaa", into: phone)
                    } catch let error as KithError {
                        print("a wrong code:", error.code.rawValue)
                    }
                case .wrongCode(_, let left):
                    print("the laptop allows \(left) more tries")
                    try await type(shown, into: phone)
                case .enrolled: print("the laptop is enrolled")
                case .failed(let code, let message): throw KithError(code, message)
                @unknown default: throw KithError(.unsupported, "The other device is of a later version.")
                }
            }
            try await print("the laptop's certificate:", standing(laptop).state.rawValue)

            _ = try await phone.client.call(Trust.Revoke.self, .init(device: "laptop", reason: "lost"))
            print("the lost laptop is connected:", phone.onlineDevices.contains(laptop.id))
        }
    }

    /// Has the holder of the root key issue a certificate to the laptop that shows this code.
    static func type(_ code: String, into phone: Device) async throws {
        let issued = try await phone.client.call(Trust.Issue.self, .init(device: "laptop", code: code))
        print("the phone enrolled", issued.name)
    }

    /// Tells what a device knows of its certificate and its root.
    static func standing(_ device: Device) async throws -> Trust.Status.Output {
        try await device.client.call(Trust.Status.self, Nothing())
    }
}
