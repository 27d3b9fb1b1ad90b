import KithIdentity
import KithStore
import KithWire

extension Store {
    /// Warnings about folders one grant lets be written and another one lies in, for a person who has just granted.
    ///
    /// Who may write above another's folder decides what is found there. `grants` are what was given now, to the device
    /// `id`, or by an invitation when there is none. At most sixteen.
    func overlaps(of grants: [Grant], to id: DeviceID?, called name: String) throws(KithError) -> [String] {
        guard grants.contains(where: { $0.kind == .files }) else { return [] }
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

/// A grant of files somebody holds.
private struct Holding {
    private let holder: String
    private let root: String
    private let access: Grant.FileAccess
    /// As it is named, and as it was when it was granted.
    private let places: [String]

    /// `nil` for a grant of something else.
    init?(_ grant: Grant, _ holder: String, in store: Store) throws(KithError) {
        guard case .files(let access, let root) = grant else { return nil }
        self.holder = holder
        self.root = root
        self.access = access
        places = [root, try store.grantedRoot(root)]
    }

    /// Says that this one lets its holder change where the other leads; `nil` when it does not.
    func warning(above other: Holding) -> String? {
        guard access == .write else { return nil }
        let isAbove = places.contains { above in
            other.places.contains { $0 != above && Grant.files(.write, root: above).covers(.files(.write, root: $0)) }
        }
        guard isAbove else { return nil }
        return holder == other.holder
            ? "\(holder) may write to \(root), and so to \(other.root) in it, whatever is granted of that."
            : "\(holder) may write to \(root), and so decides what \(other.holder) finds in \(other.root)."
    }
}
