import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithIdentity
import KithWire

/// `kith connect`.
struct ConnectCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "connect",
        abstract: "Make this device and another one of yours known to each other, without pairing them.",
        discussion: helpText(
            """
            For two devices that were enrolled under your root key (`kith enrol`), and have not met. They show each other
            their certificates, and each then knows the other for as long as its certificate holds. What that one may do is
            what `kith trust --grant` says on each device: nothing, as a rule.

              kith connect kith1...                    the ticket that `kith status` shows on the other device
              kith connect DEVICEID 192.0.2.7:4433     its DeviceID, and an address of it
              kith connect laptop                      one that is known here, when its certificate here is over

            Nothing is connected because a device announces itself on the network: it must be named here.
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The other device: its ticket, its DeviceID, or its name where it is known.")
    var device: String

    @Argument(
        help: ArgumentHelp("Where it is, such as 192.0.2.7:4433.", valueName: "address"), transform: Self.address)
    var addresses: [NetworkAddress] = []

    private static func address(_ argument: String) throws -> NetworkAddress {
        guard let address = NetworkAddress(argument), address.port != 0 else {
            throw ValidationError("An address has a port: 192.0.2.7:4433 or [2001:db8::7]:4433.")
        }
        return address
    }

    func run() async throws {
        var input = Trust.Connect.Input(device: device, addresses: addresses)
        if device.lowercased().hasPrefix("kith1") {
            let ticket = try Ticket(text: device)
            input = Trust.Connect.Input(
                device: ticket.id.description,
                addresses: Array((addresses + ticket.addresses).prefix(Ticket.maxAddresses)), relays: ticket.relays)
        }
        let wanted = input
        let info = try await withClient(globals, listening: true) { try await $0.call(Trust.Connect.self, wanted) }
        guard !globals.json else { return printLine(try jsonText(info)) }
        let until = info.certifiedUntil.map { "known by its certificate until \(date($0))" } ?? "paired already"
        printLine("\(styled(printable(info.name), .green)), DeviceID \(info.id): \(until).")
        let grants = info.grants.map { printable($0.description) }.joined(separator: ", ")
        note(
            "It may do here: \(grants.isEmpty ? "nothing" : grants). To change that: kith grant \(printable(info.name))"
        )
    }
}
