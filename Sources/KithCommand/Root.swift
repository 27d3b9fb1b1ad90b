import ArgumentParser
import CKithSystem
import Foundation
import Kith
import KithCommandLine
import KithWire

/// The `kith` command.
@main
struct Root: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "kith",
        abstract: "Your devices, and the people you trust, as one private network.",
        discussion: helpText(
            """
            Start this device, invite another one, and use it by name:

              kith up                                 start this device; shows a one-time invitation
              kith invite --grant shell               make another invitation
              kith pair INVITATION                    on the other device: use it
              kith shell laptop                       a shell there
              kith cp -r laptop:/srv/photos .         files from there
              kith browse laptop                      both, side by side
              kith web                                all of it on a page in the browser

            Every command takes --data DIR (or $KITH_DATA): the folder that holds this device's key and state. It may
            stand before the command, too. Two folders on one machine are two devices.

            Exit status: 0 done; 1 a fault of kith; 3 not found; 4 conflict; 5 not permitted; 6 not paired;
            7 unreachable; 8 timed out; 9 cancelled; 10 not supported; 11 no room left; 12 data damaged;
            13 connection lost; 64 the command line is wrong. `kith shell DEVICE -- CMD` passes on CMD's own.
            """),
        version: "kith \(kithVersion)",
        groupedSubcommands: [
            CommandGroup(
                name: "This device",
                subcommands: [
                    UpCommand.self, DownCommand.self, StatusCommand.self, WebCommand.self, AuditCommand.self,
                    PassphraseCommand.self,
                ]),
            CommandGroup(
                name: "Other devices",
                subcommands: [
                    InviteCommand.self, PairCommand.self, AcceptCommand.self, DevicesCommand.self, GrantCommand.self,
                    RenameCommand.self, LabelCommand.self, ForgetCommand.self, PingCommand.self, PathCommand.self,
                    EnrolCommand.self,
                    ConnectCommand.self, RevokeCommand.self, TrustCommand.self, KeysCommand.self,
                ]),
            CommandGroup(
                name: "Services",
                subcommands: [
                    ShellCommand.self, ScreenCommand.self, ForwardCommand.self, ViaCommand.self, CpCommand.self,
                    SyncCommand.self,
                    BrowseCommand.self, LsCommand.self, StatCommand.self, CatCommand.self, HeadCommand.self,
                    TailCommand.self, FindCommand.self, DuCommand.self, EditCommand.self, MkdirCommand.self,
                    MvCommand.self, RmCommand.self, SendCommand.self, InboxCommand.self, PublishCommand.self,
                    SubscribeCommand.self, ServicesCommand.self, StatsCommand.self,
                ]),
            CommandGroup(
                name: "Library",
                subcommands: [
                    AddCommand.self, SearchCommand.self, LibraryCommand.self, TagsCommand.self, NoteCommand.self,
                    FavoriteCommand.self, RateCommand.self,
                    FindDuplicatesCommand.self, JobsCommand.self,
                    EventsCommand.self,
                    OrganizeCommand.self, TrashCommand.self, UndoCommand.self, VolumesCommand.self,
                    InfoCommand.self, ThumbnailCommand.self,
                ]),
            CommandGroup(name: "Servers", subcommands: [RelayCommand.self, DirectoryCommand.self]),
            CommandGroup(
                name: "Everyday",
                subcommands: [
                    ConfigCommand.self, CompletionsCommand.self, CompleteCommand.self, ManualCommand.self,
                    DoctorCommand.self, BenchCommand.self, ServiceCommand.self,
                ]),
            CommandGroup(
                name: "For programs",
                subcommands: [CallCommand.self, RPCCommand.self, APICommand.self, MLSCommand.self]),
        ]
    )

    static func main() async {
        occupyStandardStreams()
        kith_hide_memory()
        _ = PassphraseInput.fromEnvironment
        InvitationText.hideArguments()
        ignoreBrokenPipes()
        func asksForJSON(_ words: [String]) -> Bool { words.prefix(while: { $0 != "--" }).contains("--json") }
        var json = asksForJSON(CommandLine.arguments)
        do {
            var (command, words) = try parse(withSettings: Array(CommandLine.arguments.dropFirst()))
            json = asksForJSON(words)
            // Whatever asked for it, from here on everybody sees it, also what is started.
            if words.prefix(while: { $0 != "--" }).contains("--plain") { unsafe setenv("KITH_PLAIN", "1", 1) }
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
        } catch let status as ExitCode {
            leave(status.rawValue)
        } catch let error as KithError {
            let error = await suggestingColon(error, in: CommandLine.arguments)
            report(error, json: json)
            leave(error.code.exitStatus)
        } catch is CancellationError {
            leave(KithError.Code.cancelled.exitStatus)
        } catch {
            let typed = Array(CommandLine.arguments.dropFirst())
            if let unknown = try? unknownCommand(in: typed) {
                report(unknown, json: json)
                leave(unknown.code.exitStatus)
            }
            switch exitCode(for: error) {
            case .success: exit(withError: error)  // --help and --version
            case .validationFailure:
                let wrong = wrongCommandLine(error, typed)
                report(wrong, json: json)
                leave(wrong.code.exitStatus)
            default:
                let failure = KithError(.internal, error.localizedDescription, cause: error)
                report(failure, json: json)
                leave(failure.code.exitStatus)
            }
        }
    }
}
