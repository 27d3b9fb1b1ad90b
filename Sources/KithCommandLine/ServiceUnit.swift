/// The file that has a system's service manager keep a device up.
package struct ServiceUnit: Hashable, Sendable {
    /// A service manager, and for whom it runs services.
    package enum Manager: Hashable, Sendable {
        /// systemd, of the user who installs it.
        case systemdUser
        /// systemd, of the machine; the device runs as this user.
        case systemdSystem(user: String)
        /// launchd, of the user who installs it.
        case launchdUser
        /// launchd, of the machine; the device runs as this user.
        case launchdSystem(user: String)
    }

    /// The manager that runs it.
    package var manager: Manager
    /// The name that tells it from others on this machine; `kith` unless several devices run on it.
    package var name: String
    /// The absolute path of the kith command.
    package var program: String
    /// The data directory, absolute.
    package var directory: String
    /// True when what it runs may change nothing outside its user's home folder, and gain no right.
    package var isConfined: Bool

    /// Makes a description of a service.
    package init(manager: Manager, name: String, program: String, directory: String, isConfined: Bool) {
        self.manager = manager
        self.name = name
        self.program = program
        self.directory = directory
        self.isConfined = isConfined
    }

    /// Tells whether `name` can be that of a service: 1 to 48 letters, digits, hyphens and underscores.
    package static func isName(_ name: String) -> Bool {
        (1...48).contains(name.utf8.count)
            && name.utf8.allSatisfy {
                (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) || (0x61...0x7A).contains($0) || $0 == 0x2D
                    || $0 == 0x5F
            }
    }

    /// The name its manager knows the service by.
    package var identifier: String {
        let unique = name == "kith" ? "kith" : "kith-\(name)"
        switch manager {
        case .systemdUser, .systemdSystem: return unique + ".service"
        case .launchdUser, .launchdSystem: return "org.kith." + unique
        }
    }

    /// The path for the file; `home` is the user's.
    package func path(home: String, configHome: String?) -> String {
        switch manager {
        case .systemdUser: "\(configHome ?? home + "/.config")/systemd/user/\(identifier)"
        case .systemdSystem: "/etc/systemd/system/\(identifier)"
        case .launchdUser: "\(home)/Library/LaunchAgents/\(identifier).plist"
        case .launchdSystem: "/Library/LaunchDaemons/\(identifier).plist"
        }
    }

    /// The words that start the device.
    package var arguments: [String] {
        [program, "up", "--no-invite", "--detach=no", "--json=no", "--data", directory]
    }

    /// The file.
    package var text: String {
        switch manager {
        case .systemdUser: systemd(user: nil)
        case .systemdSystem(let user): systemd(user: user)
        case .launchdUser: launchd(user: nil)
        case .launchdSystem(let user): launchd(user: user)
        }
    }

    // MARK: - systemd

    private func systemd(user: String?) -> String {
        var lines = [
            "# Written by `kith service install`; `kith service uninstall` removes it.",
            "[Unit]",
            "Description=Kith device\(name == "kith" ? "" : " " + name)",
            "Documentation=man:kith(1)",
            "Wants=network-online.target",
            "After=network-online.target",
            "StartLimitIntervalSec=5min",
            "StartLimitBurst=10",
            "",
            "[Service]",
            "Type=notify",
            "ExecStart=" + arguments.map(Self.systemdWord).joined(separator: " "),
            "Restart=on-failure",
            "RestartSec=2s",
            "# SIGTERM lets running work end for five seconds; then whatever is left of it goes.",
            "KillMode=mixed",
            "TimeoutStopSec=15s",
            "# A key shall not lie on the disk because something crashed.",
            "LimitCORE=0",
            "OOMPolicy=continue",
        ]
        if user == nil { lines.removeAll { $0.contains("network-online") } }
        if let user { lines.append("User=" + user) }
        if isConfined {
            lines += [
                "# Confined: holds for everything it starts, so shells have no sudo and a read-only system.",
                "NoNewPrivileges=yes",
                "ProtectSystem=strict",
                "ReadWritePaths=" + Self.systemdWord(directory) + " %h",
                "PrivateTmp=yes",
                "PrivateDevices=yes",
                "ProtectKernelTunables=yes",
                "ProtectKernelModules=yes",
                "ProtectControlGroups=yes",
                "RestrictSUIDSGID=yes",
                "RestrictRealtime=yes",
                "LockPersonality=yes",
                "SystemCallArchitectures=native",
            ]
        } else {
            lines += [
                "# Not confined: shells and commands that other devices are granted work as in a terminal, sudo too.",
                "# `kith service install --confined` trades that for a read-only system without new rights.",
            ]
        }
        lines += ["", "[Install]", "WantedBy=\(user == nil ? "default.target" : "multi-user.target")", ""]
        return lines.joined(separator: "\n")
    }

    /// A word of ExecStart= in quotes where it needs them (systemd.service(5), systemd.syntax(7)).
    static func systemdWord(_ word: String) -> String {
        var text = ""
        var needsQuotes = word.isEmpty
        for character in word {
            switch character {
            case "%": text += "%%"
            case "$": text += "$$"
            case "\\", "\"":
                text += "\\" + String(character)
                needsQuotes = true
            case "\n":
                text += "\\n"
                needsQuotes = true
            default:
                if character.isWhitespace || character == "'" || character == ";" || character == "#" {
                    needsQuotes = true
                }
                text.append(character)
            }
        }
        return needsQuotes ? "\"\(text)\"" : text
    }

    // MARK: - launchd

    private func launchd(user: String?) -> String {
        let words = arguments.map { "        <string>\(Self.xml($0))</string>" }.joined(separator: "\n")
        let owner = user.map { "\n    <key>UserName</key>\n    <string>\(Self.xml($0))</string>" } ?? ""
        return """
            <?xml version="1.0" encoding="UTF-8"?>
            <!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
            <!-- Written by `kith service install`; `kith service uninstall` removes it. -->
            <plist version="1.0">
            <dict>
                <key>Label</key>
                <string>\(identifier)</string>\(owner)
                <key>ProgramArguments</key>
                <array>
            \(words)
                </array>
                <key>RunAtLoad</key>
                <true/>
                <key>KeepAlive</key>
                <dict>
                    <key>SuccessfulExit</key>
                    <false/>
                </dict>
                <key>ProcessType</key>
                <string>Interactive</string>
                <key>HardResourceLimits</key>
                <dict>
                    <key>Core</key>
                    <integer>0</integer>
                </dict>
                <key>StandardErrorPath</key>
                <string>\(Self.xml(directory))/kith.log</string>
            </dict>
            </plist>

            """
    }

    static func xml(_ text: String) -> String {
        text.reduce(into: "") { result, character in
            switch character {
            case "&": result += "&amp;"
            case "<": result += "&lt;"
            case ">": result += "&gt;"
            default: result.append(character)
            }
        }
    }
}
