import KithTesting
import KithWire
import Testing

@testable import KithAPI

struct CarrierWrapperTests {
    private struct Hour: ClientInterceptor {
        func intercept(_ call: OutgoingCall, next: NextCall<OutgoingCall>) async throws {
            var call = call
            call.options.timeout = .seconds(3600)
            try await next(call)
        }
    }

    @Test func `a client with interceptors loses no form of a call, and intercepts each`() async throws {
        let asked = try await WrappedCarrier.asked { Client($0).intercepted(by: [Hour()]) }
        #expect(Set(asked.keys) == Set(WrappedCarrier.Requirement.allCases))
        for (form, options) in asked { #expect(options.timeout == .seconds(3600), "\(form)") }
    }

    @Test func `a client's trace goes with every form of a call`() async throws {
        let trace = TraceContext(
            traceID: [UInt8](repeating: 1, count: 16), spanID: [UInt8](repeating: 2, count: 8), flags: 1)
        let asked = try await WrappedCarrier.asked {
            var client = Client($0)
            client.trace = trace
            return client
        }
        #expect(Set(asked.keys) == Set(WrappedCarrier.Requirement.allCases))
        for (form, options) in asked { #expect(options.trace == trace, "\(form)") }
    }

    @Test func `every requirement of a carrier is passed on by its wrappers`() throws {
        let requirements = try SourceText.requirements(of: "Carrier", in: "KithAPI/Client.swift")
        #expect(requirements.count == WrappedCarrier.Requirement.allCases.count)
        let wrappers = [
            ("KithAPI/CarrierWrapper.swift", "extension CarrierWrapper {"),
            ("KithSocket/ReconnectingCarrier.swift", "class ReconnectingCarrier: Carrier {"),
            ("Kith/Device.swift", "struct DeviceCarrier: Carrier {"),
            ("KithTesting/WrappedCarrier.swift", "class WrappedCarrier: Carrier {"),
        ]
        for (file, head) in wrappers {
            let missing = try SourceText.missing(requirements, from: head, in: file)
            #expect(missing == [], "\(head) leaves these to the default, which loses what is beneath")
        }
        // Whoever else keeps a carrier and is one is a wrapper, and stands above.
        let known = Set(wrappers.map { $0.1.split(separator: " ")[1].split(separator: ":")[0] })
        for (name, text) in try SourceText.types(conformingTo: "Carrier") where !known.contains(name[...]) {
            #expect(!text.contains(/\n    (?:private |package |public )*let \w+: (?:any Carrier|Client)\n/), "\(name)")
        }
    }
}
