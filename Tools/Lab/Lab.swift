import ArgumentParser
import Foundation

@main
struct Lab: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "kith-lab",
        abstract: "Networks to try Kith in: two devices behind NATs, an internet between them, and servers.",
        discussion: """
            Everything is a network namespace of this machine, so it needs root, nft and ip. Nothing of it reaches the \
            real network, and it is gone when the program ends.
            """,
        subcommands: [Pair.self, Kinds.self])
}

extension Lab {
    struct Kinds: ParsableCommand {
        static let configuration = CommandConfiguration(abstract: "Print the kinds of NAT.")

        func run() {
            for kind in Kind.allCases {
                print("\(kind.rawValue.padding(toLength: 16, withPad: " ", startingAt: 0))\(kind.summary)")
            }
        }
    }

    struct Pair: ParsableCommand {
        static let configuration = CommandConfiguration(
            abstract: "Make a network with two devices, and keep it until the end of the input.",
            discussion: """
                A shell on the first device, in another terminal: ip netns exec lab-PID-c1 bash
                Then `kith up --data /tmp/one` there, and on the other device the same with another folder.

                \(Change.help)
                """)

        @Argument(help: ArgumentHelp("What the first device is behind.", valueName: "kind"))
        var first: Kind

        @Argument(help: ArgumentHelp("What the second device is behind.", valueName: "kind"))
        var second: Kind

        @Flag(help: "Print JSON, a line for the network and a line for each change, for programs.")
        var json = false

        func run() throws {
            guard geteuid() == 0 else { throw LabError("a lab needs root: try sudo scripts/lab") }
            Network.removeRemains()
            let network = try Network(first, second)
            let end = Ending(network)
            defer { end.remove() }
            say(json ? description(of: network) : map(of: network))
            while let line = readLine() {
                let words = line.split(separator: " ").map(String.init)
                if words == ["quit"] { break }
                if words.isEmpty { continue }
                answer(Result { try Change.make(words, in: network) })
            }
        }

        private func answer(_ result: Result<Void, any Error>) {
            switch result {
            case .success: say(json ? "{}" : "ok")
            case .failure(let error):
                if json {
                    let data = try? JSONEncoder().encode(["error": "\(error)"])
                    say(String(decoding: data ?? Data("{}".utf8), as: UTF8.self))
                } else {
                    say("\(error)")
                }
            }
        }

        /// Prints at once, to a pipe too.
        private func say(_ line: String) { FileHandle.standardOutput.write(Data((line + "\n").utf8)) }

        private struct Description: Encodable {
            var namespaces: [String: String] = [:]
            var addresses: [String: String] = [:]
        }

        private func description(of network: Network) -> String {
            var description = Description()
            for name in ["internet", "c1", "c2", "r1", "r2", "m1", "m2"] + Network.servers.keys {
                description.namespaces[name] = network.path(name)
            }
            for (name, host) in Network.servers { description.addresses[name] = "93.184.200.\(host)" }
            for side in network.sides {
                description.addresses[side.device] = side.address(at: .home)
                description.addresses[side.router(.home)] = side.address(of: .home)
            }
            (description.addresses["first"], description.addresses["second"]) = (Network.first, Network.second)
            let encoder = JSONEncoder()
            encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
            guard let data = try? encoder.encode(description) else { return "{}" }
            return String(decoding: data, as: UTF8.self)
        }

        private func map(of network: Network) -> String {
            var lines = ["The internet answers at \(Network.first) and \(Network.second).", ""]
            for (name, host) in Network.servers.sorted(by: { $0.value < $1.value }) {
                lines.append(
                    "  \(network.space(name).padding(toLength: 24, withPad: " ", startingAt: 0))93.184.200.\(host)")
            }
            for side in network.sides {
                let name = network.space(side.device).padding(toLength: 24, withPad: " ", startingAt: 0)
                lines.append(
                    "  \(name)\(side.address(at: .home)), behind \(side.address(of: .home)): "
                        + "\(side.kinds[.home]?.rawValue ?? "")")
            }
            lines += ["", "A shell on the first device: ip netns exec \(network.space("c1")) bash", "", Change.help]
            return lines.joined(separator: "\n")
        }
    }
}

/// Removes the network at the end, whichever way that comes.
private final class Ending {
    private let network: Network
    private var sources: [any DispatchSourceSignal] = []
    private let lock = NSLock()

    init(_ network: Network) {
        self.network = network
        signal(SIGPIPE, SIG_IGN)
        for number in [SIGINT, SIGTERM, SIGHUP] {
            signal(number, SIG_IGN)
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { [self] in
                remove()
                exit(128 + number)
            }
            source.resume()
            sources.append(source)
        }
    }

    func remove() { lock.withLock { network.remove() } }
}
