import Foundation
import Testing

@testable import KithCommandLine

@Suite struct ServiceUnitTests {
    private func unit(
        _ manager: ServiceUnit.Manager, name: String = "kith", directory: String = "/home/ana/.local/share/kith",
        isConfined: Bool = false
    ) -> ServiceUnit {
        ServiceUnit(
            manager: manager, name: name, program: "/usr/local/bin/kith", directory: directory, isConfined: isConfined)
    }

    @Test func `the files are where the managers look for them`() {
        let home = "/home/ana"
        #expect(unit(.systemdUser).path(home: home, configHome: nil) == "/home/ana/.config/systemd/user/kith.service")
        #expect(
            unit(.systemdUser, name: "lab").path(home: home, configHome: "/c") == "/c/systemd/user/kith-lab.service")
        #expect(
            unit(.systemdSystem(user: "ana")).path(home: home, configHome: nil) == "/etc/systemd/system/kith.service")
        #expect(
            unit(.launchdUser).path(home: home, configHome: nil)
                == "/home/ana/Library/LaunchAgents/org.kith.kith.plist")
        #expect(
            unit(.launchdSystem(user: "ana"), name: "lab").path(home: home, configHome: nil)
                == "/Library/LaunchDaemons/org.kith.kith-lab.plist")
    }

    @Test(arguments: [
        ("/plain/path", "/plain/path"), ("/my data", "\"/my data\""), ("/100%", "/100%%"), ("/$HOME", "/$$HOME"),
        ("/a\"b\\c", "\"/a\\\"b\\\\c\""), ("", "\"\""), ("it's", "\"it's\""),
    ])
    func `words of ExecStart keep what they are`(word: String, expected: String) {
        #expect(ServiceUnit.systemdWord(word) == expected)
    }

    @Test func `confinement is asked for, because shells inherit it`() {
        #expect(!unit(.systemdUser).text.contains("NoNewPrivileges=yes"))
        #expect(unit(.systemdUser, isConfined: true).text.contains("\nNoNewPrivileges=yes\n"))
        #expect(unit(.systemdSystem(user: "ana")).text.contains("\nUser=ana\n"))
        #expect(unit(.systemdUser).text.contains("\nRestart=on-failure\n"))
    }

    @Test(arguments: [("kith", true), ("lab-2", true), ("", false), ("a/b", false), ("a.b", false), ("a b", false)])
    func `a name makes no path`(name: String, expected: Bool) {
        #expect(ServiceUnit.isName(name) == expected)
    }

    @Test func `the property list is one, whatever the directory is called`() throws {
        let text = unit(.launchdSystem(user: "ana"), directory: "/Users/ana/a & <b>").text
        let list = try PropertyListSerialization.propertyList(from: Data(text.utf8), format: nil) as? [String: Any]
        let arguments = try #require(list?["ProgramArguments"] as? [String])
        #expect(arguments == unit(.launchdUser, directory: "/Users/ana/a & <b>").arguments)
        #expect(list?["UserName"] as? String == "ana")
        #expect(list?["Label"] as? String == "org.kith.kith")
    }

    @Test(arguments: [false, true])
    func `systemd finds nothing to complain about`(isConfined: Bool) throws {
        let program = "/usr/bin/systemd-analyze"
        guard FileManager.default.isExecutableFile(atPath: program) else {
            print("skipped: systemd-analyze is not installed")
            return
        }
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("kith-unit-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }  // the next boot empties /tmp at the latest
        for manager in [ServiceUnit.Manager.systemdUser, .systemdSystem(user: "root")] {
            let unit = ServiceUnit(
                manager: manager, name: "kith", program: "/bin/true", directory: folder.path + "/my $data 100%",
                isConfined: isConfined)
            let file = folder.appendingPathComponent("kith.service")
            try Data(unit.text.utf8).write(to: file)
            let process = Process()
            process.executableURL = URL(fileURLWithPath: program)
            process.arguments = ["verify", "--man=no", manager == .systemdUser ? "--user" : "--system", file.path]
            var environment = ProcessInfo.processInfo.environment
            environment["XDG_RUNTIME_DIR"] = folder.path
            process.environment = environment
            let output = Pipe()
            process.standardOutput = output
            process.standardError = output
            try process.run()
            let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
            process.waitUntilExit()
            // What it says of units that are not ours is not about ours.
            let complaints = text.split(separator: "\n").filter { $0.contains("kith.service") }
            #expect(complaints.isEmpty, "\(complaints)")
        }
    }
}
