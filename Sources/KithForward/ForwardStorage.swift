import Foundation
import KithAPI
import KithWire

/// The part of a device's forwards that outlives the process: those to restore, and who is who.
public struct ForwardStorage: Sendable {
    let load: @Sendable () throws -> String?
    let save: @Sendable (String) throws -> Void
    let resolve: @Sendable (String) throws -> (id: String, name: String)
    let own: String

    /// Makes a storage.
    ///
    /// - Parameters:
    ///   - own: how this device is named on others: its DeviceID, or the beginning of it.
    ///   - load: what was saved last; `nil` when nothing ever was.
    ///   - save: keeps a text, atomically.
    ///   - resolve: the DeviceID and the name of the device that a person named.
    public init(
        own: String, load: @escaping @Sendable () throws -> String?, save: @escaping @Sendable (String) throws -> Void,
        resolve: @escaping @Sendable (String) throws -> (id: String, name: String)
    ) {
        self.own = own
        self.load = load
        self.save = save
        self.resolve = resolve
    }
}

/// A forward as it is kept: the device by its DeviceID, because its name may come to mean another one.
struct SavedForward: Codable, Hashable, Sendable {
    /// The DeviceID.
    var device: String
    /// The name the device had.
    var name: String
    var rules: [Forward.Rule]
}

extension ForwardStorage {
    /// The forwards that were saved.
    ///
    /// - Throws: `.corrupt` when that cannot be read; it is not written over then.
    func forwards() throws -> [SavedForward] {
        guard let text = try load() else { return [] }
        do {
            return try JSONDecoder().decode([SavedForward].self, from: Data(text.utf8))
        } catch {
            throw KithError(
                .corrupt, "The forwards that are kept cannot be read; they were left as they are.", cause: error)
        }
    }

    /// Saves them all, in place of those before.
    func save(_ forwards: [SavedForward]) throws {
        _ = try self.forwards()
        try save(String(decoding: try JSONEncoder().encode(forwards), as: UTF8.self))
    }
}
