import Foundation
import KithIdentity
import KithStore
import KithWire

extension Store {
    /// Warns of folders that one grant lets a device write and another grant leads into, for a person who has just
    /// granted.
    ///
    /// A device that may write above another's folder decides what is found there; one that may write to the program of
    /// a forced command decides what that does. `grants` are those given now, to the device `id`, or by an invitation
    /// when there is none. Returns at most sixteen warnings.
    func overlaps(of grants: [Grant], to id: DeviceID?, called name: String) throws(KithError) -> [String] {
        guard grants.contains(where: { [.files, .shell].contains($0.kind) }) else { return [] }
        var all: [Holding] = []
        for device in try devices() {
            for grant in device.grants where device.id != id || !grants.contains(grant) {
                if let holding = try Holding(grant, device.name, in: self) { all.append(holding) }
            }
        }
        var new: [Holding] = []
        for grant in grants { if let holding = try Holding(grant, name, in: self) { new.append(holding) } }
        var warnings: [String] = []
        for (index, one) in new.enumerated() {
            for other in all + new[(index + 1)...] {
                if let warning = one.warning(above: other) ?? other.warning(above: one) { warnings.append(warning) }
            }
        }
        return Array(warnings.prefix(16))
    }
}

/// A grant of some device that leads to files.
private struct Holding {
    private let holder: String
    private let grant: Grant
    /// As they are named, and as they are, or were when they were granted.
    private let places: [String]

    /// `nil` for a grant of something else.
    init?(_ grant: Grant, _ holder: String, in store: Store) throws(KithError) {
        switch grant {
        case .files(_, let root): places = [root, try store.grantedRoot(root)]
        case .shellCommand(let line):
            let files = ForcedCommand(line).files(
                home: ShellAccount.current().home, path: ShellAccount.path(ProcessInfo.processInfo.environment),
                isThere: { FileManager.default.fileExists(atPath: $0) })
            places = files + files.map { Store.resolved($0) }
        default: return nil
        }
        self.holder = holder
        self.grant = grant
    }

    /// Says that this one lets its holder change where the other leads; `nil` when it does not.
    func warning(above other: Holding) -> String? {
        guard case .files(.write, let root) = grant else { return nil }
        let isSame = holder == other.holder
        switch other.grant {
        case .files(_, let below):
            guard places.contains(where: { above in other.places.contains { $0 != above && Self.covers(above, $0) } })
            else { return nil }
            return isSame
                ? "\(holder) may write to \(root), and so to \(below) in it, whatever is granted of that."
                : "\(holder) may write to \(root), and so decides what \(other.holder) finds in \(below)."
        default:
            guard places.contains(where: { above in other.places.contains { Self.mayChange($0, from: above) } })
            else { return nil }
            return "\(holder) may write to \(root), and so decides what \(other.grant) does for "
                + (isSame ? "it." : "\(other.holder).")
        }
    }

    private static func covers(_ root: String, _ path: String) -> Bool {
        Grant.files(.write, root: root).covers(.files(.write, root: path))
    }

    /// Tells whether a device that may write to `root` can put another file at `path`: the system lets this user change
    /// it, or a folder on the way to it.
    private static func mayChange(_ path: String, from root: String) -> Bool {
        guard covers(root, path) else { return false }
        var place = path
        while covers(root, place) {
            if FileManager.default.isWritableFile(atPath: place) { return true }
            guard place != "/" else { break }
            place = (place as NSString).deletingLastPathComponent
        }
        return false
    }
}
