import ArgumentParser
import KithCommandLine
import KithWire

/// `kith web`.
struct WebCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "web",
        abstract: "Open this device's page in the browser; list the browsers that may use it, and end that.",
        discussion: helpText(
            """
              kith web                         opens the page here, and lets this browser in
              kith web --print                 prints the link instead: good once, for five minutes
              kith web list                    the browsers that may use the page, and until when
              kith web forget firefox          ends that for one of them, at once; --all for all

            The page does what you may do here, and through this device on those it is paired with. It is served to this
            machine alone, once `kith web` has asked for it, at a port that stays the same. Its name is a new one after each
            restart: `kith web` again, or `kith up --web`, which serves it from the start, and then `kith web` for a link.

            A browser that a link has let in needs no other one for twelve hours from its last use, a week at the most, while
            the device is up. It holds a key that cannot be taken out of it; there are no passwords and no cookies.

            The page of another machine, by the link that `kith web --print` prints there:

              kith up --web 8080                         there: a port that is free on both
              kith forward nas -L 8080:localhost:8080    here
            """),
        subcommands: [WebOpen.self, WebList.self, WebForget.self],
        defaultSubcommand: WebOpen.self)

    /// The error of what was built without the page.
    static let missing = KithError(
        .unsupported, "This kith was built without the page in the browser: build it with the package's trait Web.")
}
