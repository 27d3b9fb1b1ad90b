extension Configuration {
    /// A file with every setting there is, each explained as by `--help` and commented out.
    package static func example(for root: CommandDescription, path: String) -> String {
        let commands = root.all.filter { !$0.path.isEmpty && !$0.command.settable.isEmpty }
        let common =
            commands.first.map { first in
                first.command.settable.filter { argument in
                    commands.allSatisfy { $0.command.settable.contains(argument) }
                }
            } ?? []
        var lines = [
            "# Settings of \(root.name): \(path)",
            "#",
            "# A key is the long name of an option; flags are yes or no. The command line counts before the environment,",
            "# that before the section of a device, that before the section of a command, that before what stands here on",
            "# top. --FLAG=no takes back a yes. A value with a blank at an end, or with \" #\", is written in double quotes.",
            "# `\(root.name) config check` looks for mistakes, `\(root.name) config` shows what holds.",
            "",
            "# For every command:",
            "",
        ]
        for argument in common { lines += entry(argument) }
        lines += [
            "# Devices by other names, with settings of their own for the commands used on them:",
            "#",
            "#   [device work lab-*]            names as typed; * and ? stand for anything, !lab-9 takes one out",
            "#   device = laptop                what is meant",
            "#   directory = /srv/app           an option of any command that takes a device",
            "#   cp.quiet = yes                 one of `\(root.name) cp` only",
            "",
        ]
        for (path, command) in commands {
            let own = command.settable.filter { !common.contains($0) && $0.shouldDisplay }
            guard !own.isEmpty else { continue }
            lines += ["[\(path.joined(separator: " "))]", "# \(command.abstract)", ""]
            for argument in own { lines += entry(argument) }
        }
        return lines.joined(separator: "\n")
    }

    private static func entry(_ argument: CommandDescription.Argument) -> [String] {
        guard let key = argument.key, argument.shouldDisplay else { return [] }
        let value = argument.kind == .flag ? "no" : argument.defaultValue ?? argument.valueName.uppercased()
        let needsQuotes = value.isEmpty || value.unicodeScalars.contains { ["#", "\"", "\\"].contains($0) }
        let text = needsQuotes ? quoted(value) : value
        return ["# \(argument.abstract)", "#\(key) = \(text)", ""]
    }

    /// A value as it is written in double quotes.
    package static func quoted(_ value: String) -> String {
        var text = "\"".unicodeScalars
        for scalar in value.unicodeScalars {
            switch scalar {
            case "\\", "\"": text += ["\\", scalar]
            case "\n": text += ["\\", "n"]
            case "\t": text += ["\\", "t"]
            default: text.append(scalar)
            }
        }
        text.append("\"")
        return String(text)
    }
}
