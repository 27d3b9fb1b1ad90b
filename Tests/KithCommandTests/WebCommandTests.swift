#if Web
import Foundation
import KithTesting
import Testing

/// `kith web` by the real command.
@Suite struct WebCommandTests {
    @Test func `without a daemon it says how to start one`() async throws {
        let machine = try Machine("down")
        let outcome = try await machine.kith(["web", "--print"])
        #expect(outcome.status == 3 && outcome.error.contains("kith up"), "\(outcome)")
        await machine.remove()
    }

    @Test func `the page is off until asked for, and its port outlives the daemon`() async throws {
        let machine = try Machine("page")
        try await machine.up()
        let link = try await machine.expect("web", "--print")
        let parts = link.split(separator: "#")
        #expect(parts.count == 2 && parts[1].dropLast().count == 22, "\(link)")
        let page = String(parts[0])
        let answer = try await machine.bash("curl -sS -o /dev/null -w '%{http_code}' \(page)")
        #expect(answer.output == "200", "\(answer)")
        #expect(try await machine.kith(["web", "list"]).error.contains("kith web"))
        try await machine.expect("down")
        #expect(try await machine.bash("curl -sS \(page)").status != 0)
        try await machine.up("--web")
        let next = try await machine.expect("web", "--print")
        #expect(next.split(separator: "#")[0].hasSuffix(page.drop { $0 != "." }) && !next.hasPrefix(page), "\(next)")
        #expect(try await machine.bash("curl -sS -o /dev/null -w '%{http_code}' \(page)").output == "421")
        #expect(try await machine.kith(["web", "forget", "nobody"]).status == 3)
        #expect(try await machine.kith(["web", "forget"]).status == 64)
        await machine.remove()
    }

    @Test func `kith up serves it at the port it is told, also by the file of settings`() async throws {
        let machine = try Machine("settings")
        let port = UInt16.random(in: 20_000..<30_000)
        try FileManager.default.createDirectory(
            atPath: machine.data, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
        try write("[up]\nweb = \(port)\n", to: machine.data + "/config")
        #expect(chmod(machine.data + "/config", 0o600) == 0)
        try await machine.up()
        #expect(try await machine.expect("web", "--print").contains(".localhost:\(port)/#"))
        for word in ["0", "99999", "maybe"] {
            let wrong = try await machine.kith(["up", "--web", word])
            #expect(wrong.status == 64 && wrong.error.contains("--web takes a port"), "\(wrong)")
        }
        await machine.remove()
    }

    @Test func `the browser is led to the link by a file that only this user reads`() async throws {
        let machine = try Machine("browser")
        try await machine.up()
        // A browser that says with which words it was started, and what is in the file.
        try FileManager.default.createDirectory(atPath: machine.path("bin"), withIntermediateDirectories: true)
        try write("#!/bin/sh\necho \"$@\" > '\(machine.path("words"))'\n", to: machine.path("bin/xdg-open"))
        #expect(chmod(machine.path("bin/xdg-open"), 0o755) == 0)
        let line = "PATH='\(machine.path("bin"))':$PATH DISPLAY=:99 kith web"
        let outcome = try await machine.bash(line)
        #expect(
            outcome.status == 0 && outcome.output.contains(/Opened http:\/\/kith-[a-z2-7]{8}\.localhost:/), "\(outcome)"
        )
        let words = try String(contentsOfFile: machine.path("words"), encoding: .utf8)
        let file = machine.data + "/kith.web.html"
        #expect(words == file + "\n")
        let attributes = try FileManager.default.attributesOfItem(atPath: file)
        #expect(attributes[.posixPermissions] as? Int == 0o600)
        #expect(try String(contentsOfFile: file, encoding: .utf8).contains("url=http://kith-"))
        #expect(!outcome.output.contains("#"))
        let blind = try await machine.bash("unset DISPLAY WAYLAND_DISPLAY; kith web")
        #expect(blind.output.hasPrefix("http://kith-") && blind.error.contains("no display"), "\(blind)")
        await machine.remove()
    }
}
#endif
