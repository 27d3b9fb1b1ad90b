import Foundation
import KithIO
import KithIndex
import KithWire

/// The volumes that locations lie on.
extension LibraryKeeper {
    /// The volumes that are mounted, found out where blocking holds nobody up.
    static func mountedVolumes() async throws -> [MountedVolume] {
        try await DiskExecutor().run { VolumeTable().list() }
    }

    /// Notes on which volume each location is, as long as the device is up.
    func noteVolumes() async {
        do { try noteVolumes(try await Self.mountedVolumes()) } catch {
            // They are noted the next time.
        }
    }

    /// Notes on which volume each location is that is there.
    func noteVolumes(_ volumes: [MountedVolume]) throws(KithError) {
        let index = try index()
        let known = try index.locationVolumes()
        for location in try index.locations() where location.problem == nil {
            guard let volume = Self.volume(of: location.path, among: volumes), volume != known[location.id],
                Self.answers(location.path, volumes)
            else { continue }
            // An empty mount point is not what the location was.
            guard FileManager.default.fileExists(atPath: String(decoding: location.path, as: UTF8.self)) else {
                continue
            }
            if known[location.id] != nil, location.scanned != nil { continue }
            try index.note(volume, of: location.id)
        }
    }

    /// The locations that are not there, and where they lie on their volumes' present mounts.
    func movedLocations(
        _ volumes: [MountedVolume]
    ) throws(KithError) -> [(location: IndexLocation, found: [UInt8])] {
        let index = try index()
        let known = try index.locationVolumes()
        guard !known.isEmpty else { return [] }
        var moved: [(IndexLocation, [UInt8])] = []
        for location in try index.locations() {
            guard let volume = known[location.id], Self.volume(of: location.path, among: volumes) != volume else {
                continue
            }
            for mounted in volumes where mounted.fingerprint == volume.fingerprint {
                let top = mounted.mount.point == [UInt8(ascii: "/")] ? [] : mounted.mount.point
                let path = volume.path.isEmpty ? mounted.mount.point : top + [UInt8(ascii: "/")] + volume.path
                // Whether it is a folder is found out when the location is taken for it.
                guard path != location.path, mounted.problem == nil,
                    FileManager.default.fileExists(atPath: String(decoding: path, as: UTF8.self))
                else { continue }
                moved.append((location, path))
                break
            }
        }
        return moved
    }

    /// Takes a location for the folder at another path, and scans it there.
    func relocate(
        _ id: Int64, to path: [UInt8], isTrusted: Bool, _ volumes: [MountedVolume]
    ) async throws(KithError) -> IndexLocation {
        let index = try index()
        let volume = Self.volume(of: path, among: volumes)
        let known = try index.locationVolumes()[id]
        let isSame = volume != nil && known == volume
        try await release(id)
        try await index.relocate(id, to: path, isTrusted: isTrusted || isSame)
        if let volume { try index.note(volume, of: id) }
        try beginScan(id)
        return try index.location(id)
    }

    /// Whether the file system at a path has answered when it was asked: else nobody asks it anything here.
    private static func answers(_ path: [UInt8], _ volumes: [MountedVolume]) -> Bool {
        let mount = MountTable(mounts: volumes.map(\.mount)).mount(of: path)
        return volumes.first { $0.mount == mount }?.problem == nil
    }

    private static func volume(of path: [UInt8], among volumes: [MountedVolume]) -> LocationVolume? {
        let table = MountTable(mounts: volumes.map(\.mount))
        guard let mount = table.mount(of: path),
            let fingerprint = volumes.first(where: { $0.mount == mount })?.fingerprint
        else { return nil }
        let rest = path.dropFirst(mount.point == [UInt8(ascii: "/")] ? 1 : mount.point.count + 1)
        return LocationVolume(fingerprint: fingerprint, path: Array(rest))
    }
}
