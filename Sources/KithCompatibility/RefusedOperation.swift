/// Operations of the reference that this device is asked for by name and cannot do, with what a person may do instead.
enum RefusedOperation {
    /// Why this device cannot do an operation; `nil` for one that the reference does not have either.
    static func reason(for name: String) -> String? {
        if let reason = reasons[name] { return reason }
        return groups.first { name.hasPrefix($0.prefix) }?.reason
    }

    /// The reasons of single operations.
    static let reasons: [String: String] = [
        "core.ephemeral_reset": "it keeps no index of folders that are in no location",
        "core.ephemeral_status": "it keeps no index of folders that are in no location",
        "core.reset": "a device is reset by deleting its data directory while it is down",
        "device.update": "a device has the name it was started with. `kith up --name NAME` gives it another",
        "files.duplicate_detection": "duplicates are found by `kith duplicates`, and by search: is:duplicate",
        "files.unique_to_location": "it tells copies apart by search: is:duplicate, -is:duplicate in:PATH",
        "files.validation": "the files of a location are read again by indexing.verify with `verify_content`",
        "jobs.get_copy_metadata": "the files of a copy are listed by `kith undo --list` and operations.results",
        "jobs.remote.all_devices": "the jobs of a device are for its own person",
        "jobs.remote.for_device": "the jobs of a device are for its own person",
        "media.ocr.extract": "it reads no text out of pictures",
        "media.proxy.generate": "it makes no proxies of films",
        "media.speech.transcribe": "it does not transcribe speech",
        "media.splat.generate": "it makes no splats",
        "media.thumbstrip.generate": "it makes no strips of films",
        "network.pair.confirmProxy": "devices are paired by their persons alone, and not vouched for",
        "network.pair.vouch": "devices are paired by their persons alone, and not vouched for",
        "network.pair.vouching_session": "devices are paired by their persons alone, and not vouched for",
        "network.stop": "a device is in its network as long as it is up. `kith down` stops it",
        "tags.update": "`kith tags rename` gives a tag another name",
        "test.ping": "extensions are services of other programs here, see “A service of your own”",
        "volumes.add_cloud": "it reaches no clouds",
        "volumes.remove_cloud": "it reaches no clouds",
    ]

    /// The reasons of all operations whose names begin alike.
    static let groups: [(prefix: String, reason: String)] = [
        ("models.", "it runs no models"),
        ("network.sync_setup", "libraries stay on their device; others search them with the grant `library`"),
        ("spaces.", "it keeps no spaces: the sidebar is up to each client"),
        ("sync.", "libraries stay on their device; others search them with the grant `library`"),
    ]
}
