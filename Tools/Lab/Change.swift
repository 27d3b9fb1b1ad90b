/// A line of input, which changes the network.
enum Change {
    static let help = """
        What can be changed, for the device 1 or 2, a line each:
          nat 1 KIND              put another kind of NAT into the router in use (kith-lab kinds)
          drop 1 udp|tcp|all      its router drops that without a word;  pass 1 udp|tcp|all
          unplug 1                takes its cable out;  plug 1
          uplink 1 home|mobile [v4|v6|dual]
                                  use the network at home or the one on the move, by these families
          renumber 1              its router gets another public address
          expire 1 SECONDS        its router forgets mappings that were idle so long
          mtu 1 BYTES             packets to the internet are no larger
          quality 1 LEVEL         makes its way to the internet bad: 1 is good, 9 hardly works, 0 is a cable again
          distance NAME MS        makes the round trip from there to the internet so long; NAME is a router (r1, r2, m1, m2)
                                  or a server (relay1, relay2, directory)
          share lan|apart|hairpin both devices are behind the first one's router, in networks it joins, keeps apart, or keeps
                                  apart and joins at its public address; their ports have to differ
          share carrier|carrier-hairpin
                                  the routers at home are behind one NAT of a carrier, likewise
          quit                    ends the lab, as the end of the input does
        """

    static func make(_ words: [String], in network: Network) throws {
        if words.count == 3, words[0] == "distance" {
            return try network.move(words[1], away: try count(words[2], 0...10_000), by: program)
        }
        if words.count == 2, words[0] == "share" {
            guard let sharing = Sharing(rawValue: words[1]) else {
                throw LabError("\(words[1]) is none of \(Sharing.allCases.map(\.rawValue).joined(separator: ", "))")
            }
            return try network.share(sharing)
        }
        guard words.count >= 2, let number = Int(words[1]), (1...2).contains(number) else {
            throw LabError("a change is a word and the device it is for, 1 or 2: nat 1 symmetric")
        }
        let side = network.sides[number - 1]
        let rest = Array(words.dropFirst(2))
        switch (words[0], rest.count) {
        case ("nat", 1):
            guard let kind = Kind(rawValue: rest[0]) else {
                throw LabError("\(rest[0]) is none of \(Kind.allCases.map(\.rawValue).joined(separator: ", "))")
            }
            try network.set(kind, of: side, side.uplink)
        case ("drop", 1), ("pass", 1):
            guard ["udp", "tcp", "all"].contains(rest[0]) else { throw LabError("\(rest[0]) is none of udp, tcp, all") }
            try network.drop(rest[0], side, words[0] == "drop")
        case ("unplug", 0): try network.plug(side, false)
        case ("plug", 0): try network.plug(side, true)
        case ("uplink", 1...2):
            guard let uplink = Network.Uplink(rawValue: rest[0]) else {
                throw LabError("\(rest[0]) is not home or mobile")
            }
            let families = rest.count == 2 ? rest[1] : "v4"
            guard ["v4", "v6", "dual"].contains(families) else { throw LabError("\(families) is none of v4, v6, dual") }
            try network.use(side, uplink, families: families == "dual" ? ["v4", "v6"] : [families])
        case ("renumber", 0): try network.renumber(side)
        case ("expire", 1): try network.expire(side, after: try count(rest[0], 1...86_400))
        case ("mtu", 1): try network.limit(side, to: try count(rest[0], 576...65_535))
        case ("quality", 1):
            let number = try count(rest[0], 0...Level.count)
            try network.degrade(side, to: Level(number), by: program)
        default: throw LabError("there is no such change: \(words.joined(separator: " "))")
        }
    }

    /// The kith-link that was built with this program.
    private static var program: String {
        let own = CommandLine.arguments[0]
        return (own.split(separator: "/", omittingEmptySubsequences: false).dropLast() + ["kith-link"])
            .joined(separator: "/")
    }

    private static func count(_ text: String, _ range: ClosedRange<Int>) throws -> Int {
        guard let number = Int(text), range.contains(number) else {
            throw LabError("\(text) is no number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }
}
