import ArgumentParser
import Foundation
import Kith
import KithAPI
import KithIdentity
import KithWire
internal import KithReach

/// Says what a person should know of grants.
func noteWarnings(_ warnings: [String]?) {
    for warning in warnings ?? [] { note("Warning: \(printable(warning))") }
}

extension Devices.Info {
    /// A device as it is called and who it is, for commands that change what it may do: only the id decides that.
    var whole: String { "\(printable(name)), DeviceID \(id)," }
}

/// A paired device in words.
struct DeviceText {
    private let device: Devices.Info

    init(_ device: Devices.Info) { self.device = device }

    private var name: String { printable(device.name) + (device.looksLike == nil ? "" : " (!)") }

    /// The same with a star behind a favorite's.
    private var starredName: String { name + (device.isFavorite == true ? " *" : "") }

    private var labels: String { (device.labels ?? []).map(printable).joined(separator: " ") }

    /// The device's state: online, or last seen.
    private var state: String {
        if device.hasForgotten == true { return "has forgotten this device" }
        if let until = device.certifiedUntil, until <= Int64(Date().timeIntervalSince1970) {
            return "cut off: certificate over"
        }
        let certified = device.certifiedUntil == nil ? "" : ", certified"
        let heard = device.quietSeconds.map { "last heard \(Self.seconds($0)) ago" }
        // A connection gives a sign of life each ten seconds.
        let isQuiet = device.quietSeconds.map { $0 > 15 } ?? false
        if device.isOnline { return (isQuiet ? heard ?? "online" : "online") + certified }
        let lan = device.localAddresses == nil ? "" : ", lan"
        if let heard { return "offline, \(heard)\(certified)\(lan)" }
        return (device.lastSeen.map { "offline, \(Self.ago($0))" } ?? "offline, never seen") + certified + lan
    }

    /// The way to it while it is online, and the round trip; a relay's whole URL, or its host alone.
    private func path(withKey: Bool) -> String {
        guard device.isOnline, let path = device.path else { return "" }
        let place = withKey ? path : Self.host(of: path)
        return [pathKind, printable(place), carrier.map { "by \($0)" }, roundTrip.map { "(\($0))" }]
            .compactMap(\.self).joined(separator: " ")
    }

    /// The host of a relay's URL, and its port where that is not the usual one; an address as it is.
    private static func host(of path: String) -> String {
        guard let relay = RelayAddress(path) else { return path }
        return String(relay.withoutKey.description.split(separator: "/").last ?? "")
    }

    /// The same without its address.
    private var shortPath: String {
        guard device.isOnline, device.path != nil else { return "" }
        return [pathKind, carrier, roundTrip].compactMap(\.self).joined(separator: " ")
    }

    /// The other ways that are held: the relay beside a direct path, as a rule.
    private var otherPaths: [String] {
        guard device.isOnline else { return [] }
        return (device.paths ?? []).filter { !$0.isActive }.map { path in
            [
                path.kind.rawValue, printable(path.place),
                path.roundTripMilliseconds.map { "(\(Self.milliseconds($0)))" } ?? "(not measured yet)",
            ].joined(separator: " ")
        }
    }

    private var pathKind: String {
        guard let path = device.path, let address = NetworkAddress(path) else { return "relay" }
        return address.isPrivate || address.isLoopback || address.isLinkLocal ? "lan" : "direct"
    }

    /// The transport to the relay it goes through.
    private var carrier: String? { device.relayCarrier.map { printable($0).uppercased() } }

    private var roundTrip: String? { device.roundTripMilliseconds.map { Self.milliseconds($0) } }

    /// The program that runs there, as far as it said.
    private var program: String? { device.version.map { "Kith \(printable($0))" } }

    /// The same where it is another than here.
    private var otherProgram: String { device.version == kithVersion ? "" : program.map { ", \($0)" } ?? "" }

    /// How it became known.
    private var origin: String {
        guard let until = device.certifiedUntil else { return "pairing, \(Self.ago(device.pairedAt))" }
        return "its certificate, until \(date(until)); since \(Self.ago(device.pairedAt))"
    }

    private static func ago(_ time: Int64) -> String {
        let words = relative(time)
        return words == "now" ? "just now" : words
    }

    private static func seconds(_ value: Double) -> String { "\(Int(min(max(value, 0), 1e6).rounded())) s" }

    private static func milliseconds(_ value: Double) -> String {
        let hundredths = Int((min(max(value, 0), 1e9) * 100).rounded())
        let fraction = String(hundredths % 100)
        return "\(hundredths / 100).\(fraction.count < 2 ? "0" : "")\(fraction) ms"
    }

    private var grantsHere: [String] { device.grants.isEmpty ? ["nothing"] : device.grantTexts }

    private var grantsThere: [String] {
        guard device.hasForgotten != true, let grants = device.grantsThere else { return ["?"] }
        // Its report while it is connected holds; else the last one it sent.
        guard !device.isOnline, let time = device.grantsThereAt else { return Self.words(grants) }
        return Self.words(grants) + ["(\(Self.ago(time)))"]
    }

    private static func words(_ grants: [Grant]) -> [String] {
        grants.isEmpty ? ["nothing"] : grants.map { printable($0.description) }
    }

    /// All of them as a table where its lines have at most `width` characters, else one below the other.
    static func list(_ devices: [Devices.Info], width: Int) -> String {
        let texts = devices.map { DeviceText($0) }
        let text = table(headings, texts.flatMap(\.rows), width: nil)
        let lines = text.split(separator: "\n").dropFirst()
        guard lines.contains(where: { $0.count > width }) else { return text }
        return texts.map(\.paragraph).joined(separator: "\n")
    }

    /// All of them as a table with a line for each, however long: for programs that read lines.
    static func lines(_ devices: [Devices.Info]) -> String {
        table(
            headings,
            devices.map { device in
                let text = DeviceText(device)
                let grants = [text.grantsHere, text.grantsThere].map { $0.joined(separator: ", ") }
                return [text.name, device.id.short, text.state + text.otherProgram, text.path(withKey: false)] + grants
            })
    }

    private static let headings = ["NAME", "DEVICE", "STATE", "PATH", "MAY DO HERE", "YOU MAY THERE"]

    /// A line of the table for each grant.
    private var rows: [[String]] {
        let (here, there) = (grantsHere, grantsThere)
        return (0..<max(here.count, there.count)).map { line in
            (line == 0 ? [starredName, device.id.short, state + otherProgram, shortPath] : ["", "", "", ""])
                + [here, there].map { line < $0.count ? $0[line] : "" }
        }
    }

    private var paragraph: String {
        let path = path(withKey: false)
        return """
            \(styled(starredName, .bold))  \(device.id.short)  \(state)\(path.isEmpty ? "" : ", \(path)")\(program.map { ", \($0)" } ?? "")
                may do here: \(grantsHere.joined(separator: " "))
                you may there: \(grantsThere.joined(separator: " "))\(labels.isEmpty ? "" : "\n    labels: \(labels)")
            """
    }

    /// Everything there is to say of it.
    var details: String {
        var lines = [
            ("DeviceID", device.id.description), ("state", state), ("known by", origin),
            ("may do here", grantsHere.joined(separator: " ")), ("you may there", grantsThere.joined(separator: " ")),
        ]
        if let program { lines.insert(("version", program), at: 2) }
        for other in otherPaths.reversed() { lines.insert(("held ready", other), at: 2) }
        let path = path(withKey: true)
        if !path.isEmpty { lines.insert(("path", path), at: 2) }
        if !labels.isEmpty { lines.append(("labels", labels)) }
        if device.isFavorite == true { lines.append(("favorite", "yes")) }
        if let failure = device.failure { lines.insert(("reason", printable(failure)), at: 2) }
        for (index, address) in (device.localAddresses ?? []).enumerated() {
            lines.append((index == 0 ? "on the LAN" : "", address.description))
        }
        for (index, address) in device.addresses.enumerated() {
            let times = device.addressesGoodAt ?? []
            let good = index < times.count ? times[index] : nil
            lines.append(
                (index == 0 ? "addresses" : "", "\(address)  \(good.map { "good \(Self.ago($0))" } ?? "not tried")"))
        }
        let width = lines.map(\.0.count).max() ?? 0
        return
            ([styled(name, .bold)]
            + lines.map { "  \($0 + String(repeating: " ", count: width - $0.count))  \($1)" })
            .joined(separator: "\n")
    }
}
