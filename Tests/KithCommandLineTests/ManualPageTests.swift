import Foundation
import Testing

@testable import KithCommandLine

@Suite struct ManualPageTests {
    private let pages = ManualPage.all(of: Sample.root, date: "November 21, 2026")

    @Test func `there is a page of the whole and of each command that help shows`() {
        let names = ["kith", "kith-up", "kith-shell", "kith-cp", "kith-call", "kith-service", "kith-service-install"]
        #expect(pages.map(\.fileName) == names.map { $0 + ".1" })
    }

    @Test func `a page has what help has: options, defaults and examples`() throws {
        let page = try #require(pages.first { $0.fileName == "kith-shell.1" }).text
        #expect(page.contains(".Nm kith\\-shell\n.Nd Open \\&a shell\n"))
        #expect(page.contains(".It Fl \\&C Ar value , Fl \\-directory Ar value\n"))
        #expect(page.contains("The default is \\(ti."))
        #expect(page.contains(".Sh EXAMPLES\n.Bd -literal\nkith shell laptop\n.Ed"))
        #expect(page.contains("More to say."))
        #expect(page.contains(".Xr kith 1"))
    }

    @Test func `what roff would obey is text`() throws {
        let command = CommandDescription(
            "kith", abstract: "Say \\fB.so /etc/passwd. It's \"quoted\".",
            discussion: ".TH begins\n\n  .so /etc/passwd\n  'x \\n",
            arguments: [
                CommandDescription.Argument(.option, names: Sample.long("at"), valueName: "Op", abstract: ".br é –")
            ])
        let page = try #require(ManualPage.all(of: command, date: "November 21, 2026").first).text
        let requests = page.split(separator: "\n").filter { $0.hasPrefix(".") || $0.hasPrefix("'") }
        #expect(
            requests.allSatisfy {
                !$0.hasPrefix(".so") && !$0.hasPrefix(".TH") && !$0.hasPrefix(".br") && !$0.hasPrefix("'")
            })
        #expect(page.contains("\\efB.so"))
        #expect(page.contains("\\[u00E9] \\[u2013]"))
    }

    @Test func `the formatters find nothing to complain about`() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("kith-manual-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }  // the next boot empties /tmp at the latest
        for page in pages { try Data(page.text.utf8).write(to: folder.appendingPathComponent(page.fileName)) }
        for (program, arguments) in [
            ("/usr/bin/mandoc", ["-Tlint", "-Wall"]), ("/usr/bin/groff", ["-ww", "-mdoc", "-Tutf8", "-z"]),
        ] {
            guard FileManager.default.isExecutableFile(atPath: program) else {
                print("skipped: \(program) is not installed")
                continue
            }
            for page in pages {
                let process = Process()
                process.executableURL = URL(fileURLWithPath: program)
                process.arguments = arguments + [folder.appendingPathComponent(page.fileName).path]
                let output = Pipe()
                process.standardOutput = output
                process.standardError = output
                try process.run()
                let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
                process.waitUntilExit()
                // The pages it refers to are not installed where the test runs.
                let complaints = text.split(separator: "\n").filter { !$0.contains("referenced manual not found") }
                #expect(complaints.isEmpty, "\(program) \(page.fileName): \(complaints)")
            }
        }
    }
}
