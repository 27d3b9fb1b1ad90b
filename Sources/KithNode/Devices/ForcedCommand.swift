/// The one line that a device may run (`shell:command=LINE`), and the files that decide what it does.
///
/// Only a shell can parse a line for a shell, so every word of it that may name a file is taken for one.
struct ForcedCommand {
    private let words: [String]

    init(_ line: String) {
        words = line.split { " \t\n;|&()<>=`'\"".contains($0) }.map(String.init)
    }

    /// The files that the line names, absolute: those that words are paths of, from the home folder on, and where in the
    /// folders of `path` a program lies, or would be found before it.
    func files(home: String, path: String, isThere: (String) -> Bool) -> [String] {
        words.flatMap { word -> [String] in
            if let start = ["~/", "$HOME/", "${HOME}/"].first(where: word.hasPrefix) {
                return [home + "/" + word.dropFirst(start.count)]
            }
            if word.hasPrefix("/") { return [word] }
            if word.contains("/") { return [home + "/" + word] }
            let inHome = home + "/" + word
            let programs = path.split(separator: ":").filter { $0.hasPrefix("/") }.map { "\($0)/\(word)" }
            let found = programs.firstIndex(where: isThere).map { Array(programs[...$0]) } ?? []
            return found + (isThere(inHome) ? [inHome] : [])
        }
    }
}
