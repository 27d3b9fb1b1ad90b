import Foundation
import KithTesting
import Testing

/// `kith screen` and `kith up --screen-source`, between two devices.
@Suite(.timeLimit(.minutes(5))) struct ScreenViewTests {
    /// Whether there are an X server and a program to type into.
    private static let hasX11: Bool = {
        let missing = ["Xvfb", "xterm", "xsetroot", "Xtigervnc"].filter {
            !FileManager.default.isExecutableFile(atPath: "/usr/bin/\($0)")
        }
        if !missing.isEmpty { print("Skipped without \(missing.joined(separator: ", ")): scripts/bootstrap --test") }
        return missing.isEmpty
    }()

    /// An X server, and its display.
    private func start(_ program: String, _ arguments: [String]) throws -> (server: ChildProcess, display: String) {
        let server = try ChildProcess("/usr/bin/\(program)", ["-displayfd", "1"] + arguments, output: .connected)
        var line = Data()
        while let more = try server.output?.read(upToCount: 1), more.first != 0x0A, !more.isEmpty { line += more }
        return (server, ":" + String(decoding: line, as: UTF8.self))
    }

    /// Pairs two devices, of which the second may do all with the screen of the first.
    private func pair(_ laptop: Machine, _ desk: Machine, source: [String]) async throws {
        try await laptop.up(["--screen-source"] + source)
        try await desk.up(["--screen-source", "none"])
        try await laptop.invite(desk, "screen:control", "screen:clipboard", "screen:unattended")
    }

    @Test(.enabled(if: hasX11))
    func `a VNC server's screen reaches a VNC viewer by way of two devices, exact to the pixel`() async throws {
        let (laptop, desk, third) = (try Machine("laptop"), try Machine("desk"), try Machine("third"))
        // Any port that is free: another program's would be a conflict, and the test fails.
        let port = Int.random(in: 20_000..<30_000)
        let (server, display) = try start(
            "Xtigervnc",
            ["-geometry", "500x300", "-depth", "24", "-rfbport", "\(port)", "-localhost", "-SecurityTypes", "None"])
        defer { server.kill() }
        let root = ["DISPLAY": display]
        try ChildProcess("/usr/bin/xsetroot", ["-solid", "#2a6f97"], environment: root).waitUntilExit()
        let terminal = try ChildProcess("/usr/bin/xterm", ["-geometry", "40x8+30+20"], environment: root)
        defer { terminal.kill() }
        try await pair(laptop, desk, source: ["vnc://localhost:\(port)"])

        let showing = try desk.start(["screen", "laptop", "--vnc", "0", "--json"], byEnvironment: true)
        struct Address: Decodable {
            var vnc: [String]
            var password: String
        }
        var address: Address?
        try await eventually(within: .seconds(60)) {
            address = try? JSONDecoder().decode(Address.self, from: Data(showing.soFar.utf8))  // not whole yet
            return address != nil
        }
        let (place, password) = try (#require(address?.vnc.first), #require(address?.password))
        try "\(password)\n".write(toFile: third.path("password"), atomically: true, encoding: .utf8)
        try await third.up([
            "--screen-source", "vnc://\(place)", "--screen-source-password-file", third.path("password"),
        ])
        try await eventually(within: .seconds(60)) {
            let shot = try await third.kith(["screen", "shot", "-o", third.path("shot.png")])
            guard shot.status == 0 else { return false }
            return try await third.bash(
                """
                xwd -display \(display) -root -silent | convert xwd:- '\(third.path("there.png"))'
                compare -metric AE '\(third.path("there.png"))' '\(third.path("shot.png"))' null:
                """
            ).status == 0
        }
        showing.process.interrupt()
        #expect(try await showing.outcome(seconds: 30).status == 130)
        for machine in [third, desk, laptop] { await machine.remove() }
    }

    @Test(.enabled(if: hasX11))
    func `who asks to see the screen, and who does, is named wherever its person looks`() async throws {
        let (laptop, desk) = (try Machine("laptop"), try Machine("desk"))
        let (server, display) = try start("Xvfb", ["-screen", "0", "200x100x24", "-nolisten", "tcp", "-noreset"])
        defer { server.kill() }
        let front = try laptop.start([
            "up", "--name", "laptop", "--no-invite", "--no-discovery", "--screen-source", "x11:\(display)",
        ])
        try await eventually { try await laptop.kith(["status"]).output.contains("is up") }
        try await desk.up(["--screen-source", "none"])
        try await laptop.invite(desk, "screen:view")
        let showing = try desk.start(["screen", "laptop", "--no-window", "--record", "x.mkv"], byEnvironment: true)
        let denied = try await showing.outcome(seconds: 60)
        #expect(denied.status == 5, "\(denied)")
        try await laptop.expect("grant", "desk", "--add", "screen:record")
        let recording = try desk.start(["screen", "laptop", "--no-window", "--record", "x.mkv"], byEnvironment: true)
        try await eventually(within: .seconds(60)) { front.errorSoFar.contains("desk asks to see this screen") }
        for command in ["status", "devices"] {
            let asked = try await laptop.kith([command])
            #expect(asked.error.contains("desk asks to see this screen (see, record): kith screen allow "), "\(asked)")
        }
        struct Session: Decodable { var id: String }
        let sessions = try await laptop.expect("screen", "sessions", "--json")
        let session = try #require(JSONDecoder().decode([Session].self, from: Data(sessions.utf8)).first)
        try await laptop.expect("screen", "allow", session.id)
        try await eventually { front.errorSoFar.contains("desk sees this screen (see, record): kith screen end ") }
        #expect(try await laptop.kith(["status"]).error.contains("desk sees this screen (see, record)"))
        recording.process.interrupt()
        _ = try await recording.outcome(seconds: 60)
        try await eventually { front.errorSoFar.contains("desk sees this screen no more.") }
        #expect(try await !laptop.kith(["status"]).error.contains("this screen"))
        front.process.interrupt()
        #expect(try await front.outcome(seconds: 60).status == 0)
        for machine in [desk, laptop] { await machine.remove() }
    }

    @Test(
        .enabled(if: hasX11),
        .enabled(
            if: FileManager.default.isExecutableFile(atPath: "/usr/bin/ffprobe"),
            "ffmpeg is not installed: scripts/bootstrap --test does that"))
    func `a session is recorded with a grant for that, and what kill -9 leaves plays`() async throws {
        let (laptop, desk) = (try Machine("laptop"), try Machine("desk"))
        let (server, display) = try start("Xvfb", ["-screen", "0", "401x300x24", "-nolisten", "tcp", "-noreset"])
        defer { server.kill() }
        try await pair(laptop, desk, source: ["x11:\(display)"])
        let words = ["screen", "laptop", "--no-window", "--record"]
        let refused = try await desk.start(words + ["lesson.mkv"], byEnvironment: true).outcome(seconds: 60)
        #expect(refused.status == 5 && refused.error.contains("screen:record"), "\(refused)")
        #expect(try await desk.bash("test ! -e lesson.mkv").status == 0)

        try await laptop.expect("grant", "desk", "--add", "screen:record")
        /// Records until `signal`, once there is a picture.
        func record(_ file: String, until signal: Int32) async throws -> Machine.Outcome {
            let recording = try desk.start(words + [file, "--json"], byEnvironment: true)
            try await eventually(within: .seconds(60)) { try await desk.bash("test -s \(file)").status == 0 }
            let told = try await laptop.expect("screen", "sessions")
            #expect(told.contains("see, record"), "\(told)")
            kill(recording.process.processIdentifier, signal)
            let outcome = try await recording.outcome(seconds: 60)
            let packets = try await desk.bash(
                "ffprobe -v error -count_packets -show_entries stream=codec_name,nb_read_packets -of csv=p=0 \(file)")
            #expect(packets.status == 0 && packets.output.hasPrefix("h264,"), "\(packets)")
            return outcome
        }
        let outcome = try await record("lesson.mkv", until: SIGINT)
        struct Summary: Decodable {
            var files: [String]
            var pictures: Int
        }
        let summary = try JSONDecoder().decode(Summary.self, from: Data(outcome.output.utf8))
        #expect(outcome.status == 0 && summary.files == ["lesson.mkv"] && summary.pictures > 0)
        _ = try await record("killed.mkv", until: SIGKILL)

        let again = try await desk.start(words + ["lesson.mkv"], byEnvironment: true).outcome(seconds: 60)
        #expect(again.status == 64 && again.error.contains("another name"), "\(again)")
        for machine in [desk, laptop] { await machine.remove() }
    }

    @Test(.enabled(if: hasX11))
    func `a terminal shows the screen, types and points there, and is as before when one leaves`() async throws {
        let (laptop, desk) = (try Machine("laptop"), try Machine("desk"))
        let (server, display) = try start("Xvfb", ["-screen", "0", "800x460x24", "-nolisten", "tcp", "-noreset"])
        defer { server.kill() }
        let root = ["DISPLAY": display]
        try ChildProcess("/usr/bin/xsetroot", ["-solid", "#ff0000"], environment: root).waitUntilExit()
        let terminal = try ChildProcess(
            "/usr/bin/xterm", ["-geometry", "40x8+0+0", "-e", "cat > '\(laptop.path("typed"))'"], environment: root)
        defer { terminal.kill() }
        try await pair(laptop, desk, source: ["x11:\(display)"])

        let screen = try Tmux(desk, ["screen", "laptop", "--terminal"])
        defer { screen.end() }
        try await screen.show("ctrl+] leaves · laptop 800×460")
        try await eventually { try screen.screen().contains("▀▀▀▀▀▀▀▀▀▀") }
        // A click where the window is: the 80 by 23 cells show ten by twenty pixels each.
        func mouse(_ code: Int, _ column: Int, _ row: Int, _ end: String) throws {
            try screen.send("\u{1B}[<\(code);\(column);\(row)\(end)")
        }
        try mouse(0, 6, 3, "M")
        try mouse(0, 6, 3, "m")
        try await eventually {
            let place = try await laptop.bash("DISPLAY=\(display) xdotool getmouselocation").output
            return place.hasPrefix("x:55 y:50 ")
        }
        try await eventually {
            try screen.send("a")
            try screen.press("Enter")
            return (try? String(contentsOfFile: laptop.path("typed"), encoding: .utf8))?.contains("a\n") == true
        }
        try screen.send("Grüße ~{}")
        try screen.press("Enter")
        try await eventually {
            (try? String(contentsOfFile: laptop.path("typed"), encoding: .utf8))?.hasSuffix("Grüße ~{}\n") == true
        }
        try screen.resize(columns: 60, rows: 20)
        try await screen.show("ctrl+] leaves · laptop 800×460")
        try screen.press("C-]")
        try await eventually { try screen.value("#{alternate_on}") == "0" }
        for machine in [desk, laptop] { await machine.remove() }
    }

    private struct Measured: Decodable {
        struct Times: Decodable {
            var count: Int
            var median: Double
            var maximum: Double
        }
        var width: Int
        var firstBytes: Int
        var wholeMilliseconds: Times
        var wholeBytes: Int
        var pointerMilliseconds: Times?
        var picturesPerSecond: Double
    }

    @Test(.enabled(if: hasX11))
    func `kith bench measures a screen: pictures, the pointer, and what moves there by itself`() async throws {
        let (laptop, desk) = (try Machine("laptop"), try Machine("desk"))
        let (server, display) = try start("Xvfb", ["-screen", "0", "320x240x24", "-nolisten", "tcp"])
        defer { server.kill() }
        let terminal = try ChildProcess(
            "/usr/bin/xterm", ["-e", "while :; do date +%N; sleep 0.05; done"], environment: ["DISPLAY": display])
        defer { terminal.kill() }
        try await pair(laptop, desk, source: ["x11:\(display)"])
        let text = try await desk.expect("bench", "laptop", "--screen", "--time", "2", "--requests", "9", "--json")
        let measured = try JSONDecoder().decode(Measured.self, from: Data(text.utf8))
        #expect(measured.width == 320 && measured.firstBytes > 0 && measured.wholeBytes > 0)
        #expect(measured.wholeMilliseconds.count == 5 && measured.wholeMilliseconds.median > 0)
        // Each move is taken back.
        #expect(measured.pointerMilliseconds?.count == 10)
        #expect(measured.picturesPerSecond > 0)
        try await laptop.expect("grant", "desk", "--remove", "screen:control", "--add", "screen:view")
        let seen = try await desk.expect("bench", "laptop", "--screen", "--time", "0.1")
        #expect(seen.contains("320×240") && seen.contains("screen:control"), "\(seen)")
        for machine in [desk, laptop] { await machine.remove() }
    }

    @Test func `what makes no sense is said before anything is opened`() async throws {
        let machine = try Machine("alone")
        for (words, text) in [
            (["screen", "laptop", "--terminal", "--scale", "1:1"], "for the window"),
            (["screen", "laptop", "--vnc", "99999"], "0 to 65535"),
            (["screen", "laptop", "--vnc", "laptop"], "./laptop.sock"),
            (["screen", "laptop", "--vnc", "0", "--terminal"], "Choose one"),
            (["screen", "laptop", "--terminal", "--vnc-password-file", "x"], "goes with --vnc"),
            (["up", "--screen-source", "vnc://me:secret@localhost"], "--screen-source-password-file"),
        ] {
            let outcome = try await machine.start(words, byEnvironment: true).outcome(seconds: 60)
            #expect(outcome.status != 0 && outcome.error.contains(text), "\(words): \(outcome)")
        }
        await machine.remove()
    }
}
