extension API {
    /// Every method that this version declares.
    package static let methods: [AnyMethod] = [
        AnyMethod(API.Describe.self), AnyMethod(Audit.List.self), AnyMethod(Devices.ChangeGrants.self),
        AnyMethod(Devices.Forget.self), AnyMethod(Devices.List.self), AnyMethod(Devices.Rename.self),
        AnyMethod(Events.Follow.self), AnyMethod(Events.Publish.self), AnyMethod(Events.Subscribe.self),
        AnyMethod(Files.Copy.self), AnyMethod(Files.Delete.self), AnyMethod(Files.Duplicate.self),
        AnyMethod(Files.Exists.self), AnyMethod(Files.Find.self), AnyMethod(Files.Follow.self),
        AnyMethod(Files.Substream.self), AnyMethod(Files.List.self), AnyMethod(Files.MakeFolder.self),
        AnyMethod(Files.Pull.self), AnyMethod(Files.Push.self), AnyMethod(Files.Read.self),
        AnyMethod(Files.Rename.self), AnyMethod(Files.Stat.self), AnyMethod(Files.Usage.self),
        AnyMethod(Files.Write.self), AnyMethod(Forward.Accept.self), AnyMethod(Forward.Connect.self),
        AnyMethod(Forward.Datagrams.self), AnyMethod(Forward.List.self), AnyMethod(Forward.Listen.self),
        AnyMethod(Forward.Run.self), AnyMethod(Forward.Start.self), AnyMethod(Forward.Stop.self),
        AnyMethod(Inbox.Decide.self), AnyMethod(Inbox.List.self), AnyMethod(Inbox.SetRule.self),
        AnyMethod(Inbox.Watch.self), AnyMethod(Invitations.Create.self), AnyMethod(Invitations.List.self),
        AnyMethod(Invitations.Revoke.self), AnyMethod(Offers.Deliver.self), AnyMethod(Offers.Push.self),
        AnyMethod(Offers.Send.self), AnyMethod(PairingMethods.Decide.self), AnyMethod(PairingMethods.Failed.self),
        AnyMethod(PairingMethods.Join.self),
        AnyMethod(PairingMethods.Present.self), AnyMethod(PairingMethods.Waiting.self),
        AnyMethod(PairingMethods.Watch.self), AnyMethod(Reach.Examine.self), AnyMethod(Reach.Load.self),
        AnyMethod(Reach.Measure.self), AnyMethod(Reach.Standing.self), AnyMethod(Services.Watch.self),
        AnyMethod(Shell.Attach.self),
        AnyMethod(Shell.Change.self), AnyMethod(Shell.Open.self), AnyMethod(Shell.Sessions.self),
        AnyMethod(ThisDevice.Echo.self), AnyMethod(ThisDevice.Status.self), AnyMethod(ThisDevice.Stop.self),
        AnyMethod(API.Document.self), AnyMethod(Reach.Failed.self),
    ]
}
