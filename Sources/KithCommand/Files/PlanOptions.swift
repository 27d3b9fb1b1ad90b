import ArgumentParser
import KithAPI
import KithCommandLine
import KithWire

/// The options by which `kith cp`, `kith mv` and `kith rm` do in two steps what they do at once otherwise.
struct PlanOptions: ParsableArguments {
    @Flag(help: "Show what would be done to files of this device, and change nothing.")
    var plan = false
    @Option(help: ArgumentHelp("Do what --plan has shown, by the id it gave.", valueName: "plan-id"))
    var confirm: String?

    func validate() throws {
        guard !plan || confirm == nil else { throw ValidationError("--plan does not go with --confirm.") }
        guard confirm != "" else { throw ValidationError("--confirm takes the id of a plan; it is empty.") }
    }

    /// Whether either is asked for.
    var isUsed: Bool { plan || confirm != nil }

    /// Plans for files of this device and shows the plan, or does what was planned.
    ///
    /// The destination is the last of the paths, for what needs one. Folders are among what is copied or deleted only where
    /// it `takesFolders`; paths on other devices are refused.
    func run(
        _ kind: Operations.Kind, _ paths: [RemotePath], of command: String, conflicts: Operations.Choice,
        takesFolders: Bool = true, _ globals: GlobalOptions
    ) async throws {
        var flow = OperationFlow(globals: globals, confirmation: "kith \(command) --confirm", showsOnly: plan)
        if command == "mv" { flow.conflictHelp = "Pass -f to replace what is there, or -n to leave it" }
        if let confirm {
            return try await withClient(globals) { [flow] client in
                try await flow.carryOut(
                    confirm, kinds: [kind], otherwise: conflicts == .ask ? nil : conflicts, client)
            }
        }
        if let other = paths.first(where: { $0.device != nil }) {
            let instead =
                command == "cp" ? " Between devices, `kith cp --dry-run` shows what would be sent." : ""
            throw KithError(.unsupported, "--plan is for files of this device, and \(other) is not.\(instead)")
        }
        var all = try paths.map { try localPath($0.path) }
        let destination = kind == .delete ? nil : all.popLast()
        try await withClient(globals, creating: true) { [all, flow] client in
            let plan = try await client.call(
                Operations.Plan.self,
                .init(kind: kind, paths: all, destination: destination, conflicts: conflicts))
            if !takesFolders, let folder = plan.steps.first(where: { $0.kind == .folder && $0.source != nil }) {
                throw KithError(
                    .invalid, "\(folder.source?.description ?? "") is a folder: pass -r for all that is in it.")
            }
            try await flow.run(plan, client)
        }
    }
}
