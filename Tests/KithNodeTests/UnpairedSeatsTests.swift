import KithIdentity
import Testing

@testable import KithNode

@Suite struct `The connections of unpaired devices` {
    private let seats = UnpairedSeats(total: 16, perPlace: 4, perDevice: 2)

    private func guest(_ place: UInt8, isIdle: Bool = true, _ device: DeviceID = DeviceKey().id) -> UnpairedSeats.Guest
    {
        UnpairedSeats.Guest(device: device, place: [place], isIdle: isIdle)
    }

    @Test func `are shared: a place that has fewer takes from the one that has most, oldest first`() {
        var guests = (0..<13).map { guest(UInt8(1 + $0 / 4)) }
        #expect(seats.verdict(on: guest(9), among: guests) == .admit)
        guests += (0..<3).map { guest(UInt8(20 + $0)) }
        #expect(guests.count == 16)
        #expect(seats.verdict(on: guest(9), among: guests) == .displace(0))
        // Pairings that are under way give way only where more than one of them comes from one place.
        let busy = guests.map { UnpairedSeats.Guest(device: $0.device, place: $0.place, isIdle: false) }
        #expect(seats.verdict(on: guest(9), among: busy) == .displace(0))
        let spread = (0..<16).map { guest($0, isIdle: false) }
        #expect(seats.verdict(on: guest(99), among: spread) == .refuse)
        #expect(seats.verdict(on: guest(99), among: spread.map { guest($0.place[0]) }) == .displace(0))
    }

    @Test func `of one place are few, whatever their keys`() {
        var guests = [guest(1, isIdle: false), guest(1), guest(1), guest(1)]
        #expect(seats.verdict(on: guest(1), among: guests) == .displace(1))
        guests = guests.map { UnpairedSeats.Guest(device: $0.device, place: [1], isIdle: false) }
        #expect(seats.verdict(on: guest(1), among: guests) == .refuse)
        #expect(seats.verdict(on: guest(2), among: guests) == .admit)
    }

    @Test func `of one device replace each other`() {
        let device = DeviceKey().id
        let guests = [guest(1, isIdle: false, device), guest(1, device)]
        #expect(seats.verdict(on: guest(2, device), among: guests) == .displace(1))
    }
}
