// Packets that will never be acknowledged, without anybody's path being at fault.
extension Recovery {
    /// Offers the contents of all packets of a space again: the server sent a Retry, or has not answered at all.
    mutating func resend(_ space: PacketSpace) {
        let index = space.rawValue
        var number = spaces[index].base
        while number < spaces[index].next {
            if spaces[index].state(number) == .outstanding {
                let packet = spaces[index].take(number)
                if packet.isInFlight { bytesInFlight -= Int(packet.size) }
                lostQueue.append((space, packet.content))
            }
            number += 1
        }
        spaces[index].advance()
    }

    /// Forgets the packets of a space, which goes on with the next number: they were rejected early data.
    mutating func withdraw(_ space: PacketSpace) {
        dropInFlight(space)
        remembered[space.rawValue] = []
    }
}
