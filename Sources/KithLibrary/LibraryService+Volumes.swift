import Foundation
import KithAPI
import KithIndex
import KithNode
import KithWire

/// Locations whose volumes are mounted elsewhere.
extension LibraryService {
    /// The methods about them.
    var volumesHandlers: [Handler] {
        [
            .call(Locations.FindMoved.self) { input, _ in try await self.findMoved(input) }.limited(to: 4),
            .call(Locations.Relocate.self) { input, _ in try await self.relocate(input) },
        ]
    }

    private func findMoved(_ input: Locations.FindMoved.Input) async throws -> Locations.FindMoved.Output {
        let keeper = try await ownKeeper(input.library)
        let volumes = try await LibraryKeeper.mountedVolumes()
        // Those that are there are noted now, so that they are known when they are not.
        try await keeper.noteVolumes(volumes)
        return Locations.FindMoved.Output(
            locations: try await keeper.movedLocations(volumes).map { location, found in
                Locations.Moved(
                    id: location.id, name: location.name, path: Files.Path(bytes: location.path),
                    found: Files.Path(bytes: found))
            })
    }

    private func relocate(_ input: Locations.Relocate.Input) async throws -> Library.Location {
        let parsed = try input.path.parsed()
        guard parsed.anchor == .top else {
            throw KithError(.invalid, "\(input.path) is no whole path: it does not begin with a slash.")
        }
        let path = [UInt8(ascii: "/")] + Array(parsed.components.joined(separator: [UInt8(ascii: "/")]))
        let location = try await ownKeeper(input.library).relocate(
            input.id, to: path, isTrusted: input.force, try await LibraryKeeper.mountedVolumes())
        return Library.Location(
            id: location.id, name: location.name, path: Files.Path(bytes: location.path),
            rules: Library.Rules(
                patterns: location.rules.patterns, followsIgnoreFiles: location.rules.followsIgnoreFiles),
            added: location.added, scanned: location.scanned, isScanning: true, problem: location.problem,
            mode: Library.Mode(rawValue: location.mode.rawValue))
    }
}
