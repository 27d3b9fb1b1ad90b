// swift-format-ignore-file
// Written from the table of methods, and compared with it by a test: KITH_RENEW_GOLDEN=1 writes it anew.

extension Client {
    /// The methods named `annotations.…`.
    public var annotations: AnnotationsNamespace { AnnotationsNamespace(client: self) }
    /// The methods named `api.…`.
    public var api: ApiNamespace { ApiNamespace(client: self) }
    /// The methods named `audit.…`.
    public var audit: AuditNamespace { AuditNamespace(client: self) }
    /// The methods named `device.…`.
    public var device: DeviceNamespace { DeviceNamespace(client: self) }
    /// The methods named `devices.…`.
    public var devices: DevicesNamespace { DevicesNamespace(client: self) }
    /// The methods named `duplicates.…`.
    public var duplicates: DuplicatesNamespace { DuplicatesNamespace(client: self) }
    /// The methods named `events.…`.
    public var events: EventsNamespace { EventsNamespace(client: self) }
    /// The methods named `files.…`.
    public var files: FilesNamespace { FilesNamespace(client: self) }
    /// The methods named `forward.…`.
    public var forward: ForwardNamespace { ForwardNamespace(client: self) }
    /// The methods named `inbox.…`.
    public var inbox: InboxNamespace { InboxNamespace(client: self) }
    /// The methods named `invitations.…`.
    public var invitations: InvitationsNamespace { InvitationsNamespace(client: self) }
    /// The methods named `jobs.…`.
    public var jobs: JobsNamespace { JobsNamespace(client: self) }
    /// The methods named `libraries.…`.
    public var libraries: LibrariesNamespace { LibrariesNamespace(client: self) }
    /// The methods named `locations.…`.
    public var locations: LocationsNamespace { LocationsNamespace(client: self) }
    /// The methods named `media.…`.
    public var media: MediaNamespace { MediaNamespace(client: self) }
    /// The methods named `offer.…`.
    public var offer: OfferNamespace { OfferNamespace(client: self) }
    /// The methods named `operations.…`.
    public var operations: OperationsNamespace { OperationsNamespace(client: self) }
    /// The methods named `pairing.…`.
    public var pairing: PairingNamespace { PairingNamespace(client: self) }
    /// The methods named `reach.…`.
    public var reach: ReachNamespace { ReachNamespace(client: self) }
    /// The methods named `screen.…`.
    public var screen: ScreenNamespace { ScreenNamespace(client: self) }
    /// The methods named `search.…`.
    public var search: SearchNamespace { SearchNamespace(client: self) }
    /// The methods named `services.…`.
    public var services: ServicesNamespace { ServicesNamespace(client: self) }
    /// The methods named `shell.…`.
    public var shell: ShellNamespace { ShellNamespace(client: self) }
    /// The methods named `tags.…`.
    public var tags: TagsNamespace { TagsNamespace(client: self) }
    /// The methods named `trash.…`.
    public var trash: TrashNamespace { TrashNamespace(client: self) }
    /// The methods named `trust.…`.
    public var trust: TrustNamespace { TrustNamespace(client: self) }
    /// The methods named `volumes.…`.
    public var volumes: VolumesNamespace { VolumesNamespace(client: self) }
    /// The methods named `web.…`.
    public var web: WebNamespace { WebNamespace(client: self) }
}

/// The methods named `annotations.…`, each as a function.
public struct AnnotationsNamespace: Sendable {
    /// Calls them.
    public let client: Client

    /// Marks files of the library as favourites, rates them and notes something on them.
    ///
    /// The action `annotations.change`. Callers: owner.
    public func change(
        _ input: Annotations.Change.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws {
        _ = try await client.call(Annotations.Change.self, input, on: device, options: options)
    }

    /// Reads what is noted of a file of the library.
    ///
    /// The query `annotations.get`. Callers: grant library:read.
    public func get(
        _ input: Annotations.Get.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Annotations.Get.Output {
        try await client.call(Annotations.Get.self, input, on: device, options: options)
    }

    /// Lists the changes of tags and notes, the latest first.
    ///
    /// The query `annotations.history`. Callers: owner.
    public func history(
        _ input: Annotations.History.Input = .usual, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Annotations.History.Output {
        try await client.call(Annotations.History.self, input, on: device, options: options)
    }

    /// Takes back a change of tags, stars, marks or notes.
    ///
    /// The action `annotations.undo`. Callers: owner.
    public func undo(
        _ input: Annotations.Undo.Input = .usual, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Annotations.Undo.Output {
        try await client.call(Annotations.Undo.self, input, on: device, options: options)
    }
}

/// The methods named `api.…`, each as a function.
public struct ApiNamespace: Sendable {
    /// Calls them.
    public let client: Client

    /// Lists the methods this device serves.
    ///
    /// The query `api.describe`. Callers: paired.
    public func describe(
        on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> API.Describe.Output {
        try await client.call(API.Describe.self, Nothing(), on: device, options: options)
    }

    /// Describes the methods this device serves, as an OpenRPC document.
    ///
    /// The query `api.openrpc`. Callers: paired.
    public func openrpc(
        _ input: API.Document.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> API.Document.Output {
        try await client.call(API.Document.self, input, on: device, options: options)
    }
}

/// The methods named `audit.…`, each as a function.
public struct AuditNamespace: Sendable {
    /// Calls them.
    public let client: Client

    /// Lists what was changed here, what other devices did, and what they were refused.
    ///
    /// The query `audit.list`. Callers: owner.
    public func list(
        _ input: Audit.List.Input = .usual, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Audit.List.Output {
        try await client.call(Audit.List.self, input, on: device, options: options)
    }
}

/// The methods named `device.…`, each as a function.
public struct DeviceNamespace: Sendable {
    /// Calls them.
    public let client: Client

    /// Sends bytes back.
    ///
    /// The query `device.echo`. Callers: paired.
    public func echo(
        _ input: ThisDevice.Echo.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> ThisDevice.Echo.Output {
        try await client.call(ThisDevice.Echo.self, input, on: device, options: options)
    }

    /// Describes this device: name, DeviceID, addresses, ticket.
    ///
    /// The query `device.status`. Callers: owner.
    public func status(
        on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> ThisDevice.Status.Output {
        try await client.call(ThisDevice.Status.self, Nothing(), on: device, options: options)
    }

    /// Stops this device, waiting at most five seconds for running calls.
    ///
    /// The action `device.stop`. Callers: owner.
    public func stop(
        on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws {
        _ = try await client.call(ThisDevice.Stop.self, Nothing(), on: device, options: options)
    }
}

/// The methods named `devices.…`, each as a function.
public struct DevicesNamespace: Sendable {
    /// Calls them.
    public let client: Client

    /// Forgets a paired device and cuts off what it is doing here, at once.
    ///
    /// The action `devices.forget`. Callers: owner.
    public func forget(
        _ input: Devices.Forget.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Devices.Forget.Output {
        try await client.call(Devices.Forget.self, input, on: device, options: options)
    }

    /// Gives grants to a paired device, or takes them away.
    ///
    /// The action `devices.grant`. Callers: owner.
    public func grant(
        _ input: Devices.ChangeGrants.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Devices.ChangeGrants.Output {
        try await client.call(Devices.ChangeGrants.self, input, on: device, options: options)
    }

    /// Gives labels to a paired device, or takes them away.
    ///
    /// The action `devices.label`. Callers: owner.
    public func label(
        _ input: Devices.Label.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Devices.Label.Output {
        try await client.call(Devices.Label.self, input, on: device, options: options)
    }

    /// Lists the paired devices: online, path, round trip, grants.
    ///
    /// The query `devices.list`. Callers: owner.
    public func list(
        _ input: Devices.List.Input = .usual, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Devices.List.Output {
        try await client.call(Devices.List.self, input, on: device, options: options)
    }

    /// Gives a paired device another name on this one.
    ///
    /// The action `devices.rename`. Callers: owner.
    public func rename(
        _ input: Devices.Rename.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Devices.Rename.Output {
        try await client.call(Devices.Rename.self, input, on: device, options: options)
    }
}

/// The methods named `duplicates.…`, each as a function.
public struct DuplicatesNamespace: Sendable {
    /// Calls them.
    public let client: Client

    /// Says where else the content of a file of the library is.
    ///
    /// The query `duplicates.copies`. Callers: grant library:read.
    public func copies(
        _ input: Duplicates.Copies.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Duplicates.Copies.Output {
        try await client.call(Duplicates.Copies.self, input, on: device, options: options)
    }

    /// Finds files of the library with the same content.
    ///
    /// The stream `duplicates.find`. Callers: owner.
    public func find(
        _ input: Duplicates.Find.Input = .usual, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Duplicates.Find> {
        try await client.open(Duplicates.Find.self, input, on: device, options: options)
    }
}

/// The methods named `events.…`, each as a function.
public struct EventsNamespace: Sendable {
    /// Calls them.
    public let client: Client

    /// Sends the events published on this device to another one, for its subscribers.
    ///
    /// The stream `events.follow`. Callers: paired.
    public func follow(
        _ input: Events.Follow.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Events.Follow> {
        try await client.open(Events.Follow.self, input, on: device, options: options)
    }

    /// Sends what happens to the library.
    ///
    /// The stream `events.library`. Callers: grant library.
    public func library(
        _ input: LibraryEvents.Follow.Input = .usual, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<LibraryEvents.Follow> {
        try await client.open(LibraryEvents.Follow.self, input, on: device, options: options)
    }

    /// Publishes an event to whoever subscribes to its topic.
    ///
    /// The action `events.publish`. Callers: grant node:TOPIC.
    public func publish(
        _ input: Events.Publish.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Events.Publish.Output {
        try await client.call(Events.Publish.self, input, on: device, options: options)
    }

    /// Sends the events of a topic as they are published.
    ///
    /// The stream `events.subscribe`. Callers: grant node:TOPIC.
    public func subscribe(
        _ input: Events.Subscribe.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Events.Subscribe> {
        try await client.open(Events.Subscribe.self, input, on: device, options: options)
    }
}

/// The methods named `files.…`, each as a function.
public struct FilesNamespace: Sendable {
    /// Calls them.
    public let client: Client

    /// Copies files and folders between devices.
    ///
    /// The stream `files.copy`. Callers: owner.
    public func copy(
        _ input: Files.Copy.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Files.Copy> {
        try await client.open(Files.Copy.self, input, on: device, options: options)
    }

    /// Deletes a file or folder.
    ///
    /// The action `files.delete`. Callers: grant files:write.
    public func delete(
        _ input: Files.Delete.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Files.Delete.Output {
        try await client.call(Files.Delete.self, input, on: device, options: options)
    }

    /// Copies files and folders of this device to another place on it.
    ///
    /// The stream `files.duplicate`. Callers: grant files:write.
    public func duplicate(
        _ input: Files.Duplicate.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Files.Duplicate> {
        try await client.open(Files.Duplicate.self, input, on: device, options: options)
    }

    /// Tells whether a file or folder exists.
    ///
    /// The query `files.exists`. Callers: grant files:read.
    public func exists(
        _ input: Files.Exists.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Files.Exists.Output {
        try await client.call(Files.Exists.self, input, on: device, options: options)
    }

    /// Searches a folder and everything beneath it.
    ///
    /// The stream `files.find`. Callers: grant files:read.
    public func find(
        _ input: Files.Find.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Files.Find> {
        try await client.open(Files.Find.self, input, on: device, options: options)
    }

    /// Sends the end of a file, and what is added to it.
    ///
    /// The stream `files.follow`. Callers: grant files:read.
    public func follow(
        _ input: Files.Follow.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Files.Follow> {
        try await client.open(Files.Follow.self, input, on: device, options: options)
    }

    /// Adds a stream to a running transfer of the caller.
    ///
    /// The stream `files.lane`. Callers: grant files.
    public func lane(
        _ input: Files.Substream.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Files.Substream> {
        try await client.open(Files.Substream.self, input, on: device, options: options)
    }

    /// Lists a folder.
    ///
    /// The query `files.list`. Callers: grant files:read.
    public func list(
        _ input: Files.List.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Files.List.Output {
        try await client.call(Files.List.self, input, on: device, options: options)
    }

    /// Makes a folder.
    ///
    /// The action `files.mkdir`. Callers: grant files:write.
    public func mkdir(
        _ input: Files.MakeFolder.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws {
        _ = try await client.call(Files.MakeFolder.self, input, on: device, options: options)
    }

    /// Sends a file or a tree to the caller.
    ///
    /// The stream `files.pull`. Callers: grant files:read.
    public func pull(
        _ input: Files.Pull.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Files.Pull> {
        try await client.open(Files.Pull.self, input, on: device, options: options)
    }

    /// Receives a file or a tree from the caller.
    ///
    /// The stream `files.push`. Callers: grant files:write.
    public func push(
        _ input: Files.Push.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Files.Push> {
        try await client.open(Files.Push.self, input, on: device, options: options)
    }

    /// Reads a file or a part of it.
    ///
    /// The stream `files.read`. Callers: grant files:read.
    public func read(
        _ input: Files.Read.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Files.Read> {
        try await client.open(Files.Read.self, input, on: device, options: options)
    }

    /// Renames or moves a file or folder.
    ///
    /// The action `files.rename`. Callers: grant files:write.
    public func rename(
        _ input: Files.Rename.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws {
        _ = try await client.call(Files.Rename.self, input, on: device, options: options)
    }

    /// Describes a file or folder.
    ///
    /// The query `files.stat`. Callers: grant files:read.
    public func stat(
        _ input: Files.Stat.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Files.Stat.Output {
        try await client.call(Files.Stat.self, input, on: device, options: options)
    }

    /// Adds up the disk usage of a folder.
    ///
    /// The stream `files.usage`. Callers: grant files:read.
    public func usage(
        _ input: Files.Usage.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Files.Usage> {
        try await client.open(Files.Usage.self, input, on: device, options: options)
    }

    /// Writes a file or a part of it.
    ///
    /// The stream `files.write`. Callers: grant files:write.
    public func write(
        _ input: Files.Write.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Files.Write> {
        try await client.open(Files.Write.self, input, on: device, options: options)
    }
}

/// The methods named `forward.…`, each as a function.
public struct ForwardNamespace: Sendable {
    /// Calls them.
    public let client: Client

    /// Accepts a connection that arrived at a listener.
    ///
    /// The stream `forward.accept`. Callers: grant forward.
    public func accept(
        _ input: Forward.Accept.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Forward.Accept> {
        try await client.open(Forward.Accept.self, input, on: device, options: options)
    }

    /// Opens a connection from the device.
    ///
    /// The stream `forward.connect`. Callers: grant forward.
    public func connect(
        _ input: Forward.Connect.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Forward.Connect> {
        try await client.open(Forward.Connect.self, input, on: device, options: options)
    }

    /// Sends and receives datagrams from the device.
    ///
    /// The stream `forward.datagrams`. Callers: grant forward.
    public func datagrams(
        _ input: Forward.Datagrams.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Forward.Datagrams> {
        try await client.open(Forward.Datagrams.self, input, on: device, options: options)
    }

    /// Lists what is forwarded now.
    ///
    /// The query `forward.list`. Callers: owner.
    public func list(
        on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Forward.List.Output {
        try await client.call(Forward.List.self, Nothing(), on: device, options: options)
    }

    /// Listens on the device for the caller.
    ///
    /// The stream `forward.listen`. Callers: grant forward.
    public func listen(
        _ input: Forward.Listen.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Forward.Listen> {
        try await client.open(Forward.Listen.self, input, on: device, options: options)
    }

    /// Forwards until the caller closes the stream.
    ///
    /// The stream `forward.run`. Callers: owner.
    public func run(
        _ input: Forward.Run.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Forward.Run> {
        try await client.open(Forward.Run.self, input, on: device, options: options)
    }

    /// Starts forwarding.
    ///
    /// The action `forward.start`. Callers: owner.
    public func start(
        _ input: Forward.Start.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Forward.Start.Output {
        try await client.call(Forward.Start.self, input, on: device, options: options)
    }

    /// Ends a forward.
    ///
    /// The action `forward.stop`. Callers: owner.
    public func stop(
        _ input: Forward.Stop.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Forward.Stop.Output {
        try await client.call(Forward.Stop.self, input, on: device, options: options)
    }
}

/// The methods named `inbox.…`, each as a function.
public struct InboxNamespace: Sendable {
    /// Calls them.
    public let client: Client

    /// Accepts or rejects an offer.
    ///
    /// The action `inbox.decide`. Callers: owner.
    public func decide(
        _ input: Inbox.Decide.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Inbox.Decide.Output {
        try await client.call(Inbox.Decide.self, input, on: device, options: options)
    }

    /// Lists the offers of other people and the files that have arrived.
    ///
    /// The query `inbox.list`. Callers: owner.
    public func list(
        on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Inbox.List.Output {
        try await client.call(Inbox.List.self, Nothing(), on: device, options: options)
    }

    /// Sets or shows the rule for the offers of a device.
    ///
    /// The action `inbox.rule`. Callers: owner.
    public func rule(
        _ input: Inbox.SetRule.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Inbox.SetRule.Output {
        try await client.call(Inbox.SetRule.self, input, on: device, options: options)
    }

    /// Reports offers as they arrive and change.
    ///
    /// The stream `inbox.watch`. Callers: owner.
    public func watch(
        on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Inbox.Watch> {
        try await client.open(Inbox.Watch.self, Nothing(), on: device, options: options)
    }
}

/// The methods named `invitations.…`, each as a function.
public struct InvitationsNamespace: Sendable {
    /// Calls them.
    public let client: Client

    /// Makes a one-time invitation for another device.
    ///
    /// The action `invitations.create`. Callers: owner.
    public func create(
        _ input: Invitations.Create.Input = .usual, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Invitations.Create.Output {
        try await client.call(Invitations.Create.self, input, on: device, options: options)
    }

    /// Lists the invitations that can still be used.
    ///
    /// The query `invitations.list`. Callers: owner.
    public func list(
        on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Invitations.List.Output {
        try await client.call(Invitations.List.self, Nothing(), on: device, options: options)
    }

    /// Revokes an invitation.
    ///
    /// The action `invitations.revoke`. Callers: owner.
    public func revoke(
        _ input: Invitations.Revoke.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws {
        _ = try await client.call(Invitations.Revoke.self, input, on: device, options: options)
    }
}

/// The methods named `jobs.…`, each as a function.
public struct JobsNamespace: Sendable {
    /// Calls them.
    public let client: Client

    /// Ends a job for good.
    ///
    /// The action `jobs.cancel`. Callers: owner.
    public func cancel(
        _ input: Jobs.Cancel.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Jobs.Cancel.Output {
        try await client.call(Jobs.Cancel.self, input, on: device, options: options)
    }

    /// Tells of the jobs, and of each that changes.
    ///
    /// The stream `jobs.follow`. Callers: owner.
    public func follow(
        _ input: Jobs.Follow.Input = .usual, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Jobs.Follow> {
        try await client.open(Jobs.Follow.self, input, on: device, options: options)
    }

    /// Describes a job, with its log.
    ///
    /// The query `jobs.get`. Callers: owner.
    public func get(
        _ input: Jobs.Get.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Jobs.Get.Output {
        try await client.call(Jobs.Get.self, input, on: device, options: options)
    }

    /// Lists the jobs of this device.
    ///
    /// The query `jobs.list`. Callers: owner.
    public func list(
        _ input: Jobs.List.Input = .usual, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Jobs.List.Output {
        try await client.call(Jobs.List.self, input, on: device, options: options)
    }

    /// Halts a job, over restarts too, until it is resumed.
    ///
    /// The action `jobs.pause`. Callers: owner.
    public func pause(
        _ input: Jobs.Pause.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Jobs.Pause.Output {
        try await client.call(Jobs.Pause.self, input, on: device, options: options)
    }

    /// Lets a job go on that was paused, or has failed.
    ///
    /// The action `jobs.resume`. Callers: owner.
    public func resume(
        _ input: Jobs.Resume.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Jobs.Resume.Output {
        try await client.call(Jobs.Resume.self, input, on: device, options: options)
    }
}

/// The methods named `libraries.…`, each as a function.
public struct LibrariesNamespace: Sendable {
    /// Calls them.
    public let client: Client

    /// Closes a library until it is opened again.
    ///
    /// The action `libraries.close`. Callers: owner.
    public func close(
        _ input: Libraries.Close.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Libraries.Close.Output {
        try await client.call(Libraries.Close.self, input, on: device, options: options)
    }

    /// Says what folders are like that are added to a library with nothing else said.
    ///
    /// The action `libraries.configure`. Callers: owner.
    public func configure(
        _ input: Libraries.Configure.Input = .usual, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Libraries.Configure.Output {
        try await client.call(Libraries.Configure.self, input, on: device, options: options)
    }

    /// Makes a library.
    ///
    /// The action `libraries.create`. Callers: owner.
    public func create(
        _ input: Libraries.Create.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Libraries.Create.Output {
        try await client.call(Libraries.Create.self, input, on: device, options: options)
    }

    /// Deletes a library with what it knows; files stay as they are.
    ///
    /// The action `libraries.delete`. Callers: owner.
    public func delete(
        _ input: Libraries.Delete.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws {
        _ = try await client.call(Libraries.Delete.self, input, on: device, options: options)
    }

    /// Writes a library into one file.
    ///
    /// The stream `libraries.export`. Callers: owner.
    public func export(
        _ input: Libraries.Export.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Libraries.Export> {
        try await client.open(Libraries.Export.self, input, on: device, options: options)
    }

    /// Makes a library of a file that was exported.
    ///
    /// The stream `libraries.import`. Callers: owner.
    public func `import`(
        _ input: Libraries.Import.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Libraries.Import> {
        try await client.open(Libraries.Import.self, input, on: device, options: options)
    }

    /// Describes a library, with what is in it in numbers.
    ///
    /// The query `libraries.info`. Callers: grant library.
    public func info(
        _ input: Libraries.Info.Input = .usual, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Libraries.Info.Output {
        try await client.call(Libraries.Info.self, input, on: device, options: options)
    }

    /// Lists the libraries of a device.
    ///
    /// The query `libraries.list`. Callers: grant library.
    public func list(
        _ input: Libraries.List.Input = .usual, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Libraries.List.Output {
        try await client.call(Libraries.List.self, input, on: device, options: options)
    }

    /// Opens a library that was closed, or one elsewhere.
    ///
    /// The action `libraries.open`. Callers: owner.
    public func open(
        _ input: Libraries.Open.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Libraries.Open.Output {
        try await client.call(Libraries.Open.self, input, on: device, options: options)
    }

    /// Gives a library another name.
    ///
    /// The action `libraries.rename`. Callers: owner.
    public func rename(
        _ input: Libraries.Rename.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Libraries.Rename.Output {
        try await client.call(Libraries.Rename.self, input, on: device, options: options)
    }

    /// Makes a library the one that is meant where none is named.
    ///
    /// The action `libraries.setDefault`. Callers: owner.
    public func setDefault(
        _ input: Libraries.SetDefault.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Libraries.SetDefault.Output {
        try await client.call(Libraries.SetDefault.self, input, on: device, options: options)
    }
}

/// The methods named `locations.…`, each as a function.
public struct LocationsNamespace: Sendable {
    /// Calls them.
    public let client: Client

    /// Adds a folder to the library and begins to scan it.
    ///
    /// The action `locations.add`. Callers: owner.
    public func add(
        _ input: Locations.Add.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Locations.Add.Output {
        try await client.call(Locations.Add.self, input, on: device, options: options)
    }

    /// Lists a folder as the library has it.
    ///
    /// The query `locations.browse`. Callers: grant library.
    public func browse(
        _ input: Locations.Browse.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Locations.Browse.Output {
        try await client.call(Locations.Browse.self, input, on: device, options: options)
    }

    /// Gives a folder of the library another name, mode or rules, and scans it again.
    ///
    /// The action `locations.change`. Callers: owner.
    public func change(
        _ input: Locations.Change.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Locations.Change.Output {
        try await client.call(Locations.Change.self, input, on: device, options: options)
    }

    /// Writes a folder's place in the library into a file, with tags and notes.
    ///
    /// The action `locations.export`. Callers: owner.
    public func export(
        _ input: Locations.Export.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Locations.Export.Output {
        try await client.call(Locations.Export.self, input, on: device, options: options)
    }

    /// Finds the locations whose volume is mounted elsewhere.
    ///
    /// The query `locations.findMoved`. Callers: owner.
    public func findMoved(
        _ input: Locations.FindMoved.Input = .usual, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Locations.FindMoved.Output {
        try await client.call(Locations.FindMoved.self, input, on: device, options: options)
    }

    /// Reads the files of a location whose content is not known, as a job.
    ///
    /// The action `locations.identify`. Callers: owner.
    public func identify(
        _ input: Locations.Identify.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Locations.Identify.Output {
        try await client.call(Locations.Identify.self, input, on: device, options: options)
    }

    /// Adds a folder to the library with the tags and notes of a file.
    ///
    /// The action `locations.import`. Callers: owner.
    public func `import`(
        _ input: Locations.Import.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Locations.Import.Output {
        try await client.call(Locations.Import.self, input, on: device, options: options)
    }

    /// Lists the folders whose files are in the library.
    ///
    /// The query `locations.list`. Callers: grant library.
    public func list(
        _ input: Locations.List.Input = .usual, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Locations.List.Output {
        try await client.call(Locations.List.self, input, on: device, options: options)
    }

    /// Lists the folders of the library that could not be read.
    ///
    /// The query `locations.problems`. Callers: grant library.
    public func problems(
        _ input: Locations.Problems.Input = .usual, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Locations.Problems.Output {
        try await client.call(Locations.Problems.self, input, on: device, options: options)
    }

    /// Reads a file of the library.
    ///
    /// The stream `locations.read`. Callers: grant library:read.
    public func read(
        _ input: Locations.Read.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Locations.Read> {
        try await client.open(Locations.Read.self, input, on: device, options: options)
    }

    /// Tells the library where a folder is now.
    ///
    /// The action `locations.relocate`. Callers: owner.
    public func relocate(
        _ input: Locations.Relocate.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Locations.Relocate.Output {
        try await client.call(Locations.Relocate.self, input, on: device, options: options)
    }

    /// Takes a folder out of the library; its files stay as they are.
    ///
    /// The action `locations.remove`. Callers: owner.
    public func remove(
        _ input: Locations.Remove.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws {
        _ = try await client.call(Locations.Remove.self, input, on: device, options: options)
    }

    /// Says what came of a job that read the files of a location.
    ///
    /// The query `locations.report`. Callers: owner.
    public func report(
        _ input: Locations.Report.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Locations.Report.Output {
        try await client.call(Locations.Report.self, input, on: device, options: options)
    }

    /// Brings the library to what is in a folder.
    ///
    /// The stream `locations.scan`. Callers: owner.
    public func scan(
        _ input: Locations.Scan.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Locations.Scan> {
        try await client.open(Locations.Scan.self, input, on: device, options: options)
    }

    /// Reads the files of a location again and compares them, as a job.
    ///
    /// The action `locations.verify`. Callers: owner.
    public func verify(
        _ input: Locations.Verify.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Locations.Verify.Output {
        try await client.call(Locations.Verify.self, input, on: device, options: options)
    }
}

/// The methods named `media.…`, each as a function.
public struct MediaNamespace: Sendable {
    /// Calls them.
    public let client: Client

    /// Reads the text and the properties of the files of a location, as a job.
    ///
    /// The action `media.extract`. Callers: owner.
    public func extract(
        _ input: Media.Extract.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Media.Extract.Output {
        try await client.call(Media.Extract.self, input, on: device, options: options)
    }

    /// Describes a file of the library, with what its content says.
    ///
    /// The query `media.properties`. Callers: grant library:read.
    public func properties(
        _ input: Media.Describe.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Media.Describe.Output {
        try await client.call(Media.Describe.self, input, on: device, options: options)
    }

    /// Makes a small picture of an image in the library.
    ///
    /// The query `media.thumbnail`. Callers: grant library:read.
    public func thumbnail(
        _ input: Media.Thumbnail.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Media.Thumbnail.Output {
        try await client.call(Media.Thumbnail.self, input, on: device, options: options)
    }
}

/// The methods named `offer.…`, each as a function.
public struct OfferNamespace: Sendable {
    /// Calls them.
    public let client: Client

    /// Offers files to another device, and sends them when its person accepts.
    ///
    /// The stream `offer.deliver`. Callers: owner.
    public func deliver(
        _ input: Offers.Deliver.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Offers.Deliver> {
        try await client.open(Offers.Deliver.self, input, on: device, options: options)
    }

    /// Sends the contents of an accepted offer.
    ///
    /// The stream `offer.push`. Callers: paired.
    public func push(
        _ input: Offers.Push.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Offers.Push> {
        try await client.open(Offers.Push.self, input, on: device, options: options)
    }

    /// Offers files; their contents are sent once the receiver has accepted.
    ///
    /// The stream `offer.send`. Callers: paired.
    public func send(
        _ input: Offers.Send.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Offers.Send> {
        try await client.open(Offers.Send.self, input, on: device, options: options)
    }
}

/// The methods named `operations.…`, each as a function.
public struct OperationsNamespace: Sendable {
    /// Calls them.
    public let client: Client

    /// Starts an operation on files that was planned, as a job.
    ///
    /// The action `operations.confirm`. Callers: owner.
    public func confirm(
        _ input: Operations.Confirm.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Operations.Confirm.Output {
        try await client.call(Operations.Confirm.self, input, on: device, options: options)
    }

    /// Follows an operation on files to its end.
    ///
    /// The stream `operations.follow`. Callers: owner.
    public func follow(
        _ input: Operations.Follow.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Operations.Follow> {
        try await client.open(Operations.Follow.self, input, on: device, options: options)
    }

    /// Lists the operations on files, the latest first.
    ///
    /// The query `operations.list`. Callers: owner.
    public func list(
        _ input: Operations.List.Input = .usual, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Operations.List.Output {
        try await client.call(Operations.List.self, input, on: device, options: options)
    }

    /// Finds out what an operation on files would do, and changes nothing.
    ///
    /// The query `operations.plan`. Callers: owner.
    public func plan(
        _ input: Operations.Plan.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Operations.Plan.Output {
        try await client.call(Operations.Plan.self, input, on: device, options: options)
    }

    /// Lists the steps of an operation on files, and what came of them.
    ///
    /// The query `operations.results`. Callers: owner.
    public func results(
        _ input: Operations.Results.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Operations.Results.Output {
        try await client.call(Operations.Results.self, input, on: device, options: options)
    }

    /// Plans to take back an operation on files, and changes nothing.
    ///
    /// The query `operations.undo`. Callers: owner.
    public func undo(
        _ input: Operations.Undo.Input = .usual, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Operations.Undo.Output {
        try await client.call(Operations.Undo.self, input, on: device, options: options)
    }
}

/// The methods named `pairing.…`, each as a function.
public struct PairingNamespace: Sendable {
    /// Calls them.
    public let client: Client

    /// Accepts or refuses a pairing that waits.
    ///
    /// The action `pairing.decide`. Callers: owner.
    public func decide(
        _ input: PairingMethods.Decide.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws {
        _ = try await client.call(PairingMethods.Decide.self, input, on: device, options: options)
    }

    /// Lists the failed attempts to pair of the last week.
    ///
    /// The query `pairing.failed`. Callers: owner.
    public func failed(
        on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> PairingMethods.Failed.Output {
        try await client.call(PairingMethods.Failed.self, Nothing(), on: device, options: options)
    }

    /// Pairs this device with the one that made an invitation.
    ///
    /// The stream `pairing.join`. Callers: owner.
    public func join(
        _ input: PairingMethods.Join.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<PairingMethods.Join> {
        try await client.open(PairingMethods.Join.self, input, on: device, options: options)
    }

    /// Presents a one-time invitation.
    ///
    /// The stream `pairing.present`. Callers: anyone.
    public func present(
        on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<PairingMethods.Present> {
        try await client.open(PairingMethods.Present.self, Nothing(), on: device, options: options)
    }

    /// Lists the pairings that wait for this device's person.
    ///
    /// The query `pairing.waiting`. Callers: owner.
    public func waiting(
        on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> PairingMethods.Waiting.Output {
        try await client.call(PairingMethods.Waiting.self, Nothing(), on: device, options: options)
    }

    /// Follows the pairings that wait for this device's person.
    ///
    /// The stream `pairing.watch`. Callers: owner.
    public func watch(
        on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<PairingMethods.Watch> {
        try await client.open(PairingMethods.Watch.self, Nothing(), on: device, options: options)
    }
}

/// The methods named `reach.…`, each as a function.
public struct ReachNamespace: Sendable {
    /// Calls them.
    public let client: Client

    /// Examines step by step whether a device can be reached, and why not.
    ///
    /// The stream `reach.examine`. Callers: owner.
    public func examine(
        _ input: Reach.Examine.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Reach.Examine> {
        try await client.open(Reach.Examine.self, input, on: device, options: options)
    }

    /// Takes why a stream of the caller's other end failed.
    ///
    /// The query `reach.failed`. Callers: paired.
    public func failed(
        _ input: Reach.Failed.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws {
        _ = try await client.call(Reach.Failed.self, input, on: device, options: options)
    }

    /// Has a device be reached one way, as long as the stream is open.
    ///
    /// The stream `reach.hold`. Callers: owner.
    public func hold(
        _ input: Reach.Hold.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Reach.Hold> {
        try await client.open(Reach.Hold.self, input, on: device, options: options)
    }

    /// Sends or receives bytes for a while, to measure the throughput.
    ///
    /// The stream `reach.load`. Callers: paired.
    public func load(
        _ input: Reach.Load.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Reach.Load> {
        try await client.open(Reach.Load.self, input, on: device, options: options)
    }

    /// Measures the connection to a device: latency, throughput, loss.
    ///
    /// The stream `reach.measure`. Callers: owner.
    public func measure(
        _ input: Reach.Measure.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Reach.Measure> {
        try await client.open(Reach.Measure.self, input, on: device, options: options)
    }

    /// Sets, or tells, the way by which devices are reached: auto, direct, relay or local.
    ///
    /// The action `reach.prefer`. Callers: owner.
    public func prefer(
        _ input: Reach.Prefer.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Reach.Prefer.Output {
        try await client.call(Reach.Prefer.self, input, on: device, options: options)
    }

    /// Tells the caller its grants on this device.
    ///
    /// The query `reach.standing`. Callers: paired.
    public func standing(
        _ input: Reach.Standing.Input = .usual, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Reach.Standing.Output {
        try await client.call(Reach.Standing.self, input, on: device, options: options)
    }
}

/// The methods named `screen.…`, each as a function.
public struct ScreenNamespace: Sendable {
    /// Calls them.
    public let client: Client

    /// Changes what a session of this screen may do.
    ///
    /// The action `screen.change`. Callers: owner.
    public func change(
        _ input: ScreenSessions.Change.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> ScreenSessions.Change.Output {
        try await client.call(ScreenSessions.Change.self, input, on: device, options: options)
    }

    /// Exchanges lines of text with the person at a screen.
    ///
    /// The stream `screen.chat`. Callers: grant screen:view.
    public func chat(
        _ input: Screen.Chat.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Screen.Chat> {
        try await client.open(Screen.Chat.self, input, on: device, options: options)
    }

    /// Exchanges clipboards with a screen.
    ///
    /// The stream `screen.clipboard`. Callers: grant screen:clipboard.
    public func clipboard(
        _ input: Screen.Clipboard.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Screen.Clipboard> {
        try await client.open(Screen.Clipboard.self, input, on: device, options: options)
    }

    /// Types and points on a screen.
    ///
    /// The stream `screen.control`. Callers: grant screen:control.
    public func control(
        _ input: Screen.Control.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Screen.Control> {
        try await client.open(Screen.Control.self, input, on: device, options: options)
    }

    /// Lets a device see this screen, or refuses it.
    ///
    /// The action `screen.decide`. Callers: owner.
    public func decide(
        _ input: ScreenSessions.Decide.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> ScreenSessions.Decide.Output {
        try await client.call(ScreenSessions.Decide.self, input, on: device, options: options)
    }

    /// Lists the displays that can be seen.
    ///
    /// The query `screen.displays`. Callers: grant screen:view.
    public func displays(
        on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Screen.Displays.Output {
        try await client.call(Screen.Displays.self, Nothing(), on: device, options: options)
    }

    /// Ends sessions of this screen.
    ///
    /// The action `screen.end`. Callers: owner.
    public func end(
        _ input: ScreenSessions.End.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> ScreenSessions.End.Output {
        try await client.call(ScreenSessions.End.self, input, on: device, options: options)
    }

    /// Shows when a person is asked before a session.
    ///
    /// The query `screen.rules`. Callers: owner.
    public func rules(
        on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> ScreenSessions.GetRules.Output {
        try await client.call(ScreenSessions.GetRules.self, Nothing(), on: device, options: options)
    }

    /// Lists who sees this screen, or asks to.
    ///
    /// The query `screen.sessions`. Callers: owner.
    public func sessions(
        on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> ScreenSessions.List.Output {
        try await client.call(ScreenSessions.List.self, Nothing(), on: device, options: options)
    }

    /// Says when a person is asked before a session.
    ///
    /// The action `screen.setRules`. Callers: owner.
    public func setRules(
        _ input: ScreenSessions.SetRules.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> ScreenSessions.SetRules.Output {
        try await client.call(ScreenSessions.SetRules.self, input, on: device, options: options)
    }

    /// Exchanges lines of text with those who see this screen.
    ///
    /// The stream `screen.talk`. Callers: owner.
    public func talk(
        _ input: ScreenSessions.Talk.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<ScreenSessions.Talk> {
        try await client.open(ScreenSessions.Talk.self, input, on: device, options: options)
    }

    /// Shows a display as it changes.
    ///
    /// The stream `screen.view`. Callers: grant screen:view.
    public func view(
        _ input: Screen.View.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Screen.View> {
        try await client.open(Screen.View.self, input, on: device, options: options)
    }

    /// Tells who sees this screen, or asks to.
    ///
    /// The stream `screen.watch`. Callers: owner.
    public func watch(
        on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<ScreenSessions.Watch> {
        try await client.open(ScreenSessions.Watch.self, Nothing(), on: device, options: options)
    }
}

/// The methods named `search.…`, each as a function.
public struct SearchNamespace: Sendable {
    /// Calls them.
    public let client: Client

    /// Counts what a query finds, by kind, extension, tag, year and size.
    ///
    /// The query `search.facets`. Callers: grant library.
    public func facets(
        _ input: Search.Facets.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Search.Facets.Output {
        try await client.call(Search.Facets.self, input, on: device, options: options)
    }

    /// Finds files in the library by a query.
    ///
    /// The query `search.files`. Callers: grant library.
    public func files(
        _ input: Search.Find.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Search.Find.Output {
        try await client.call(Search.Find.self, input, on: device, options: options)
    }

    /// Finds files, and tells what comes and goes.
    ///
    /// The stream `search.follow`. Callers: grant library.
    public func follow(
        _ input: Search.Follow.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Search.Follow> {
        try await client.open(Search.Follow.self, input, on: device, options: options)
    }
}

/// The methods named `services.…`, each as a function.
public struct ServicesNamespace: Sendable {
    /// Calls them.
    public let client: Client

    /// Tells which services there are for the caller.
    ///
    /// The stream `services.watch`. Callers: paired.
    public func watch(
        on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Services.Watch> {
        try await client.open(Services.Watch.self, Nothing(), on: device, options: options)
    }
}

/// The methods named `shell.…`, each as a function.
public struct ShellNamespace: Sendable {
    /// Calls them.
    public let client: Client

    /// Attaches to a running shell, at the caller's last position or with its screen.
    ///
    /// The stream `shell.attach`. Callers: grant shell.
    public func attach(
        _ input: Shell.Attach.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Shell.Attach> {
        try await client.open(Shell.Attach.self, input, on: device, options: options)
    }

    /// Ends a shell, or changes who may attach to it.
    ///
    /// The action `shell.change`. Callers: grant shell.
    public func change(
        _ input: Shell.Change.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Shell.Change.Output {
        try await client.call(Shell.Change.self, input, on: device, options: options)
    }

    /// Opens a shell or runs a command, on a terminal or on pipes.
    ///
    /// The stream `shell.open`. Callers: grant shell.
    public func open(
        _ input: Shell.Open.Input = .usual, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Shell.Open> {
        try await client.open(Shell.Open.self, input, on: device, options: options)
    }

    /// Opens or attaches a shell anywhere, and tells what its screen looks like.
    ///
    /// The stream `shell.screen`. Callers: owner.
    public func screen(
        _ input: Shell.Screen.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Shell.Screen> {
        try await client.open(Shell.Screen.self, input, on: device, options: options)
    }

    /// Lists the shells the caller may attach to.
    ///
    /// The query `shell.sessions`. Callers: grant shell.
    public func sessions(
        on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Shell.Sessions.Output {
        try await client.call(Shell.Sessions.self, Nothing(), on: device, options: options)
    }
}

/// The methods named `tags.…`, each as a function.
public struct TagsNamespace: Sendable {
    /// Calls them.
    public let client: Client

    /// Gives tags to files of the library, and takes them away.
    ///
    /// The action `tags.change`. Callers: owner.
    public func change(
        _ input: Tags.Change.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Tags.Change.Output {
        try await client.call(Tags.Change.self, input, on: device, options: options)
    }

    /// Deletes a tag and those beneath it.
    ///
    /// The action `tags.delete`. Callers: owner.
    public func delete(
        _ input: Tags.Delete.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws {
        _ = try await client.call(Tags.Delete.self, input, on: device, options: options)
    }

    /// Lists the tags.
    ///
    /// The query `tags.list`. Callers: grant library.
    public func list(
        _ input: Tags.List.Input = .usual, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Tags.List.Output {
        try await client.call(Tags.List.self, input, on: device, options: options)
    }

    /// Gives a tag and those beneath it another name, on all files at once.
    ///
    /// The action `tags.rename`. Callers: owner.
    public func rename(
        _ input: Tags.Rename.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Tags.Rename.Output {
        try await client.call(Tags.Rename.self, input, on: device, options: options)
    }
}

/// The methods named `trash.…`, each as a function.
public struct TrashNamespace: Sendable {
    /// Calls them.
    public let client: Client

    /// Plans to delete for good what is in the trash, and changes nothing.
    ///
    /// The query `trash.empty`. Callers: owner.
    public func empty(
        _ input: Trash.Empty.Input = .usual, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Trash.Empty.Output {
        try await client.call(Trash.Empty.self, input, on: device, options: options)
    }

    /// Lists what is in the trash.
    ///
    /// The query `trash.list`. Callers: owner.
    public func list(
        _ input: Trash.List.Input = .usual, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Trash.List.Output {
        try await client.call(Trash.List.self, input, on: device, options: options)
    }

    /// Plans to put things back from the trash, and changes nothing.
    ///
    /// The query `trash.restore`. Callers: owner.
    public func restore(
        _ input: Trash.Restore.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Trash.Restore.Output {
        try await client.call(Trash.Restore.self, input, on: device, options: options)
    }
}

/// The methods named `trust.…`, each as a function.
public struct TrustNamespace: Sendable {
    /// Calls them.
    public let client: Client

    /// Changes what devices under your root may do here that become known by their certificates.
    ///
    /// The action `trust.admit`. Callers: owner.
    public func admit(
        _ input: Trust.Admit.Input = .usual, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Trust.Admit.Output {
        try await client.call(Trust.Admit.self, input, on: device, options: options)
    }

    /// Makes your root key on this device, and enrols the device itself.
    ///
    /// The action `trust.begin`. Callers: owner.
    public func begin(
        on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Trust.Begin.Output {
        try await client.call(Trust.Begin.self, Nothing(), on: device, options: options)
    }

    /// Exchanges certificates with a device under your root that is not paired.
    ///
    /// The action `trust.connect`. Callers: owner.
    public func connect(
        _ input: Trust.Connect.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Trust.Connect.Output {
        try await client.call(Trust.Connect.self, input, on: device, options: options)
    }

    /// Asks for a certificate, and shows the code for the holder of the root key.
    ///
    /// The stream `trust.enrol`. Callers: owner.
    public func enrol(
        _ input: Trust.Enrol.Input = .usual, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Trust.Enrol> {
        try await client.open(Trust.Enrol.self, input, on: device, options: options)
    }

    /// Exchanges certificates under one root.
    ///
    /// The stream `trust.introduce`. Callers: anyone.
    public func introduce(
        on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Trust.Introduce> {
        try await client.open(Trust.Introduce.self, Nothing(), on: device, options: options)
    }

    /// Issues a certificate to a paired device that shows a code.
    ///
    /// The action `trust.issue`. Callers: owner.
    public func issue(
        _ input: Trust.Issue.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Trust.Issue.Output {
        try await client.call(Trust.Issue.self, input, on: device, options: options)
    }

    /// Exchanges certificates and the newer revocation list.
    ///
    /// The action `trust.meet`. Callers: paired.
    public func meet(
        _ input: Trust.Meet.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Trust.Meet.Output {
        try await client.call(Trust.Meet.self, input, on: device, options: options)
    }

    /// Gives an enrolled device the network keys it lacks.
    ///
    /// The query `trust.networks`. Callers: paired.
    public func networks(
        _ input: Trust.Networks.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Trust.Networks.Output {
        try await client.call(Trust.Networks.self, input, on: device, options: options)
    }

    /// Offers a certificate to a device that shows a code.
    ///
    /// The stream `trust.offer`. Callers: paired.
    public func offer(
        on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Trust.Offer> {
        try await client.open(Trust.Offer.self, Nothing(), on: device, options: options)
    }

    /// Renews the certificate of the device that calls.
    ///
    /// The action `trust.renew`. Callers: paired.
    public func renew(
        _ input: Trust.Renew.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Trust.Renew.Output {
        try await client.call(Trust.Renew.self, input, on: device, options: options)
    }

    /// Revokes a device for good, and tells the others.
    ///
    /// The action `trust.revoke`. Callers: owner.
    public func revoke(
        _ input: Trust.Revoke.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Trust.Revoke.Output {
        try await client.call(Trust.Revoke.self, input, on: device, options: options)
    }

    /// Shows this device's certificate, its root, and who is revoked.
    ///
    /// The query `trust.status`. Callers: owner.
    public func status(
        on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Trust.Status.Output {
        try await client.call(Trust.Status.self, Nothing(), on: device, options: options)
    }

    /// Sends a newer revocation list.
    ///
    /// The action `trust.update`. Callers: paired.
    public func update(
        _ input: Trust.Update.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws {
        _ = try await client.call(Trust.Update.self, input, on: device, options: options)
    }
}

/// The methods named `volumes.…`, each as a function.
public struct VolumesNamespace: Sendable {
    /// Calls them.
    public let client: Client

    /// Unmounts a volume, so that it can be taken out.
    ///
    /// The action `volumes.eject`. Callers: owner.
    public func eject(
        _ input: Volumes.Eject.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws {
        _ = try await client.call(Volumes.Eject.self, input, on: device, options: options)
    }

    /// Tells which file systems are mounted, and go.
    ///
    /// The stream `volumes.follow`. Callers: owner.
    public func follow(
        _ input: Volumes.Follow.Input = .usual, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> OpenedStream<Volumes.Follow> {
        try await client.open(Volumes.Follow.self, input, on: device, options: options)
    }

    /// Lists the file systems that are mounted.
    ///
    /// The query `volumes.list`. Callers: owner.
    public func list(
        _ input: Volumes.List.Input = .usual, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Volumes.List.Output {
        try await client.call(Volumes.List.self, input, on: device, options: options)
    }

    /// Measures how fast a volume is written and read, as a job.
    ///
    /// The action `volumes.test`. Callers: owner.
    public func test(
        _ input: Volumes.Test.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Volumes.Test.Output {
        try await client.call(Volumes.Test.self, input, on: device, options: options)
    }

    /// Tells what a test of a volume has measured.
    ///
    /// The query `volumes.testResult`. Callers: owner.
    public func testResult(
        _ input: Volumes.TestResult.Input, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Volumes.TestResult.Output {
        try await client.call(Volumes.TestResult.self, input, on: device, options: options)
    }
}

/// The methods named `web.…`, each as a function.
public struct WebNamespace: Sendable {
    /// Calls them.
    public let client: Client

    /// Lists the browsers that may use the page.
    ///
    /// The query `web.browsers`. Callers: owner.
    public func browsers(
        on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Web.Browsers.Output {
        try await client.call(Web.Browsers.self, Nothing(), on: device, options: options)
    }

    /// Ends the right of a browser to use the page.
    ///
    /// The action `web.forget`. Callers: owner.
    public func forget(
        _ input: Web.Forget.Input = .usual, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Web.Forget.Output {
        try await client.call(Web.Forget.self, input, on: device, options: options)
    }

    /// Makes a link that lets one browser use the page.
    ///
    /// The action `web.link`. Callers: owner.
    public func link(
        _ input: Web.Link.Input = .usual, on device: String? = nil, options: CallOptions = CallOptions()
    ) async throws -> Web.Link.Output {
        try await client.call(Web.Link.self, input, on: device, options: options)
    }
}
