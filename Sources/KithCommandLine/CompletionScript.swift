/// The few lines a shell needs to ask `kith complete` for what can stand at the cursor.
package enum CompletionScript: String, CaseIterable, Sendable {
    case bash, zsh, fish

    /// The script.
    package var text: String {
        switch self {
        case .bash:
            """
            # Completion of kith for bash. Install: kith completions bash > \
            ~/.local/share/bash-completion/completions/kith
            _kith() {
                local IFS=$'\\n'
                COMPREPLY=($(set -f; "${COMP_WORDS[0]/#\\~/$HOME}" complete bash -- \\
                    "${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null))
                # The words bring their own blanks, and none after a folder or a device.
                compopt -o nospace 2>/dev/null
            }
            complete -F _kith kith
            """
        case .zsh:
            """
            #compdef kith
            # Completion of kith for zsh. Install: kith completions zsh > DIR/_kith, with DIR in $fpath.
            _kith() {
                local line kind word help ret=1
                local -a whole wholeShown partial partialShown
                local tab=$'\\t'
                for line in "${(@f)$("${(Q)~words[1]}" complete zsh -- "${(Q)PREFIX}" \\
                    "${(@Q)words[2,CURRENT-1]}" 2>/dev/null)}"; do
                    kind=${line%%$tab*} word=${${line#*$tab}%%$tab*} help=${line##*$tab}
                    case $kind in
                        word) whole+=("$word") wholeShown+=("$word${help:+  -- $help}") ;;
                        part) partial+=("$word") partialShown+=("$word${help:+  -- $help}") ;;
                        files) _files && ret=0 ;;
                        folders) _files -/ && ret=0 ;;
                    esac
                done
                (( $#whole )) && compadd -l -d wholeShown -a whole && ret=0
                (( $#partial )) && compadd -l -S '' -d partialShown -a partial && ret=0
                return ret
            }
            if [[ $funcstack[1] == _kith ]]; then _kith "$@"; else compdef _kith kith; fi
            """
        case .fish:
            """
            # Completion of kith for fish. Install: kith completions fish > ~/.config/fish/completions/kith.fish
            function __kith_complete
                set -l words (commandline -opc)
                set -l current (commandline -ct)
                set -l plain (string unescape -- $current 2>/dev/null; or string trim -l -c '"\\'' -- $current)
                for line in (command $words[1] complete fish -- "$plain" $words[2..-1] 2>/dev/null)
                    switch $line
                        case files
                            __fish_complete_path "$plain"
                        case folders
                            __fish_complete_directories "$plain"
                        case '*'
                            echo $line
                    end
                end
            end
            complete -c kith -f -a '(__kith_complete)'
            """
        }
    }

    /// The output of `kith complete` for this shell.
    ///
    /// For bash it takes the line as typed, and what readline takes for the word.
    package func lines(_ completion: Completion, line: ShellLine? = nil, replaced: String = "") -> [String] {
        switch self {
        case .bash:
            guard let line else { return [] }
            let lines = completion.candidates.compactMap { line.replacement(for: $0, replacing: replaced) }
            // Readline closes the quotes behind the only way to go on; a second one keeps them open for the rest.
            if line.openQuote != nil, let only = lines.first, lines.count == 1,
                completion.candidates.allSatisfy(\.isPartial)
            {
                return [only, only + "…"]
            }
            return lines
        case .zsh, .fish:
            var lines: [String] = []
            for candidate in completion.candidates {
                let help = candidate.help.replacingTabs
                switch self {
                case .zsh: lines.append("\(candidate.isPartial ? "part" : "word")\t\(candidate.word)\t\(help)")
                default: lines.append("\(candidate.word)\t\(help)")
                }
            }
            if completion.sources.contains(.files) { lines.append("files") }
            if completion.sources.contains(.folders) { lines.append("folders") }
            return lines
        }
    }
}

extension String {
    /// One line without tabs.
    fileprivate var replacingTabs: String {
        String(String.UnicodeScalarView(unicodeScalars.map { $0.value < 0x20 ? " " : $0 }))
    }
}
