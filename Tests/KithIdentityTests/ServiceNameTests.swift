import KithIdentity
import KithWire
import Testing

/// The names that devices go by on a local network.
@Suite struct ServiceNameTests {
    private func device() throws -> DeviceID { try DeviceID(publicKey: Array(0..<32)) }

    /// Made by Python's hmac and hashlib: HKDF (RFC 5869) of the bytes 0 to 31.
    @Test(
        arguments: [
            (500_000, 0, "4rlf7gtp4eioek26kdg2xzsdm4", "n6dlwc5lazsc6uvjy6tkcs3oym"),
            (500_000, 1, "lfjgvbsti6n5b3bfyl2c2vymwa", "g2d3mwthrsjxrrrhtfw5cbmz5q"),
            (500_001, 0, "3cg7dt2dzqqneyqg3mwf43qmee", "7cgghq2zqmzuh4kssqlh4jvcya"),
        ] as [(UInt64, UInt8, String, String)]) func `the names of an hour and an attempt are those of the definition`(
            hour: UInt64, attempt: UInt8, service: String, host: String
        ) throws
    {
        let name = ServiceName(of: try device(), hour: hour, attempt: attempt)
        #expect(name.service == service && name.host == host)
        #expect(ServiceName.isOne(service) && ServiceName.isOne(host))
    }

    @Test func `what is said by a name is read by who knows the device, and by no other name`() throws {
        let name = ServiceName(of: try device(), hour: 500_000)
        let bytes = Array("where it listens".utf8)
        let sealed = name.seal(bytes)
        #expect(sealed.count == bytes.count + 28 && sealed != name.seal(bytes))
        #expect(ServiceName(of: try device(), hour: 500_000).open(sealed) == bytes)
        for other in [
            ServiceName(of: try device(), hour: 500_001), ServiceName(of: try device(), hour: 500_000, attempt: 1),
            ServiceName(of: DeviceKey().id, hour: 500_000),
        ] { #expect(other.open(sealed) == nil) }
        for index in sealed.indices {
            var damaged = sealed
            damaged[index] ^= 1
            #expect(name.open(damaged) == nil)
        }
        for count in 0..<28 { #expect(name.open(Array(sealed.prefix(count))) == nil) }
    }

    @Test func `an hour has 3,600 seconds, and other labels are nobody's`() {
        #expect(ServiceName.hour(of: 0) == 0 && ServiceName.hour(of: 3_599_999) == 0)
        #expect(ServiceName.hour(of: 3_600_000) == 1)
        for label in [
            "", "laptop", "4rlf7gtp4eioek26kdg2xzsdm", "4rlf7gtp4eioek26kdg2xzsdm4a", "4rlf7gtp4eioek26kdg2xzsd.4",
        ] {
            #expect(!ServiceName.isOne(label), "\(label)")
        }
    }
}
