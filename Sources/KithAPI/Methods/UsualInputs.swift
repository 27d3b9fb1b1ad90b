// What stands for the members that may be left out of an input in JSON: the defaults of its initialiser.

extension Files.List.Input: OmissibleInput {
    /// A thousand entries from the first.
    public static var usual: Self { Self(path: "/") }
    /// The folder.
    public static var required: Set<String> { ["path"] }
}

extension Files.Stat.Input: OmissibleInput {
    /// The thing itself, a link as one.
    public static var usual: Self { Self(path: "/") }
    /// Which one.
    public static var required: Set<String> { ["path"] }
}

extension Files.MakeFolder.Input: OmissibleInput {
    /// One folder, with the usual permissions.
    public static var usual: Self { Self(path: "/") }
    /// Which one.
    public static var required: Set<String> { ["path"] }
}

extension Files.Rename.Input: OmissibleInput {
    /// Nothing is replaced.
    public static var usual: Self { Self(from: "/", to: "/") }
    /// Both paths.
    public static var required: Set<String> { ["from", "to"] }
}

extension Files.Delete.Input: OmissibleInput {
    /// Without what is in it.
    public static var usual: Self { Self(path: "/") }
    /// Which one.
    public static var required: Set<String> { ["path"] }
}

extension Files.Read.Input: OmissibleInput {
    /// From the beginning to the end.
    public static var usual: Self { Self(path: "/") }
    /// The file.
    public static var required: Set<String> { ["path"] }
}

extension Files.Write.Input: OmissibleInput {
    /// The whole file, in place of one of that name.
    public static var usual: Self { Self(path: "/") }
    /// The file.
    public static var required: Set<String> { ["path"] }
}

extension Files.Follow.Input: OmissibleInput {
    /// The last ten lines.
    public static var usual: Self { Self(path: "/") }
    /// The file.
    public static var required: Set<String> { ["path"] }
}

extension Files.Find.Input: OmissibleInput {
    /// Everything in it, at all depths.
    public static var usual: Self { Self(path: "/") }
    /// The folder.
    public static var required: Set<String> { ["path"] }
}

extension Files.Usage.Input: OmissibleInput {
    /// Folders at all depths.
    public static var usual: Self { Self(path: "/") }
    /// The folder.
    public static var required: Set<String> { ["path"] }
}

extension Files.Copy.Input: OmissibleInput {
    /// As `kith cp` does without options.
    public static var usual: Self { Self(sources: [], destination: Files.Location(device: nil, path: "/")) }
    /// From where to where.
    public static var required: Set<String> { ["sources", "destination"] }
}

extension Files.Duplicate.Input: OmissibleInput {
    /// As `kith cp` does without options.
    public static var usual: Self { Self(sources: [], destination: "/") }
    /// From where to where.
    public static var required: Set<String> { ["sources", "destination"] }
}

extension Reach.Standing.Input: OmissibleInput {
    /// Nothing said of the caller.
    public static var usual: Self { Self() }
    /// Nothing.
    public static var required: Set<String> { [] }
}

extension Devices.List.Input: OmissibleInput {
    /// As they are known to be, without trying to reach them.
    public static var usual: Self { Self(probe: false) }
    /// None.
    public static var required: Set<String> { [] }
}

extension Devices.ChangeGrants.Input: OmissibleInput {
    /// Nothing is given, nothing taken away.
    public static var usual: Self { Self(device: "", add: [], remove: []) }
    /// The device.
    public static var required: Set<String> { ["device"] }
}

extension Audit.List.Input: OmissibleInput {
    /// The newest fifty.
    public static var usual: Self { Self(limit: 50) }
    /// None.
    public static var required: Set<String> { [] }
}

extension Invitations.Create.Input: OmissibleInput {
    /// For ten minutes, for nothing yet, and a person is asked.
    public static var usual: Self { Self(grants: [], lifetimeSeconds: 600, isAutomatic: false) }
    /// None.
    public static var required: Set<String> { [] }
}

extension PairingMethods.Join.Input: OmissibleInput {
    /// The other device may do nothing here.
    public static var usual: Self { Self(invitation: "", grants: []) }
    /// The invitation.
    public static var required: Set<String> { ["invitation"] }
}

extension Offers.Deliver.Input: OmissibleInput {
    /// Ten minutes are waited.
    public static var usual: Self { Self(paths: [], device: "") }
    /// What, and to whom.
    public static var required: Set<String> { ["paths", "device"] }
}

extension Shell.Open.Input: OmissibleInput {
    /// The person's own shell, without a terminal, shared with nobody.
    public static var usual: Self { Self() }
    /// None.
    public static var required: Set<String> { [] }
}

extension Shell.Attach.Input: OmissibleInput {
    /// To type into it, with two thousand lines of what was there.
    public static var usual: Self { Self(session: "") }
    /// The session.
    public static var required: Set<String> { ["session"] }
}

extension Shell.Change.Input: OmissibleInput {
    /// It goes on, shared as it is.
    public static var usual: Self { Self(session: "") }
    /// The session.
    public static var required: Set<String> { ["session"] }
}
