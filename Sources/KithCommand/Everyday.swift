import ArgumentParser

/// The commands that make the others comfortable.
let everydayCommands: [any ParsableCommand.Type] = [
    ConfigCommand.self, CompletionsCommand.self, Complete.self, Manual.self,
    Doctor.self, BenchCommand.self, ServiceCommand.self,
]
