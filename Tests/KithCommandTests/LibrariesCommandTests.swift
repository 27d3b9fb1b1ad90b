import Foundation
import KithTesting
import Testing

@Suite(.timeLimit(.minutes(3))) struct LibrariesCommandTests {
    /// Makes a tree with these files on a machine; returns its path without links in it.
    private func tree(_ name: String, on machine: Machine, _ files: [String: String]) throws -> String {
        let top = URL(fileURLWithPath: machine.folder.path).resolvingSymlinksInPath().path + "/" + name
        for (file, text) in files {
            let path = top + "/" + file
            try FileManager.default.createDirectory(
                atPath: (path as NSString).deletingLastPathComponent, withIntermediateDirectories: true)
            try write(text, to: path)
        }
        return top
    }

    @Test func `libraries are made, filled, chosen, moved and deleted, up or down`() async throws {
        try await withTwoMachines { laptop, _ in
            let photos = try tree("photos", on: laptop, ["holiday.jpg": "12345"])
            let work = try tree("work", on: laptop, ["holiday plan.txt": "1"])
            try await laptop.expect("add", photos)
            try await laptop.expect("library", "create", "Work")
            let added = try await laptop.expect("add", work, "--library", "work")
            #expect(added.hasPrefix("work: 1 name"))
            #expect(try await laptop.expect("search", "holiday") == "\(photos)/holiday.jpg\n")
            #expect(try await laptop.expect("search", "holiday", "--library", "Work") == "\(work)/holiday plan.txt\n")
            let byEnvironment = try await laptop.start(
                ["search", "holiday"], environment: ["KITH_LIBRARY": "Work"]
            ).outcome(seconds: 60)
            #expect(byEnvironment.output == "\(work)/holiday plan.txt\n", "\(byEnvironment)")
            try await laptop.expect("tags", "add", "plans", "\(work)/holiday plan.txt", "--library", "Work")
            #expect(try await laptop.expect("tags", "list", "--library", "Work").contains("plans"))
            #expect(try await laptop.expect("tags", "list").isEmpty)

            // The overview says which is which; with one library it is its locations alone.
            let overview = try await laptop.expect("library")
            #expect(overview.contains("Library  default, 1 file") && overview.contains("Work  1 file"), "\(overview)")
            #expect(overview.contains(photos) && overview.contains(work))
            let listed =
                try JSONSerialization.jsonObject(
                    with: Data(try await laptop.expect("library", "list", "--json").utf8)) as? [[String: Any]]
            #expect(listed?.map { $0["name"] as? String } == ["Library", "Work"])
            #expect(listed?.allSatisfy { ($0["locations"] as? [Any])?.count == 1 } == true)
            #expect(try await laptop.expect("library", "default", "Work") == "Work\n")
            #expect(try await laptop.expect("library", "default") == "Work\n")
            #expect(try await laptop.expect("library", "info").contains("Work"))
            #expect(try await laptop.expect("library", "ls", "work") == "holiday plan.txt\n")
            #expect(try await laptop.expect("library", "ls", work) == "holiday plan.txt\n")

            let file = laptop.path("work.kithlibrary")
            try await laptop.expect("library", "export", file)
            let twice = try await laptop.kith(["library", "export", file])
            #expect(twice.status == 4 && twice.error.contains("is there already"), "\(twice)")
            try await laptop.killDaemon()
            let imported = try await laptop.kith(["library", "import", file])
            #expect(imported.status == 0 && imported.error.contains("Work 2 is here: 1 file"), "\(imported)")
            #expect(imported.error.contains(work) && imported.error.contains("kith library rescan"), "\(imported)")
            try await laptop.expect("library", "rescan", "--library", "Work 2")
            #expect(try await laptop.expect("search", "tag:plans", "--library", "Work 2").contains("holiday plan"))
            let unasked = try await laptop.kith(["library", "delete", "Work 2"])
            #expect(unasked.status == 64 && unasked.error.contains("--yes"), "\(unasked)")
            try await laptop.expect("library", "delete", "Work 2", "--yes")
            try await laptop.expect("library", "rename", "Work", "Old")
            try await laptop.expect("library", "close", "old")
            let closed = try await laptop.kith(["search", "holiday", "--library", "Old"])
            #expect(closed.status != 0 && closed.error.contains("kith library open 'Old'"), "\(closed)")
            try await laptop.expect("library", "open", "Old")
            let unknown = try await laptop.kith(["search", "holiday", "--library", "Music"])
            #expect(unknown.status == 3 && unknown.error.contains("kith library list"), "\(unknown)")
        }
    }

    @Test func `what is found on another device is copied from its locations`() async throws {
        try await withTwoMachines { laptop, phone in
            let photos = try tree(
                "photos", on: laptop,
                [
                    "2024/holiday.jpg": "12345", "2025/holiday.jpg": "678", "2025/empty holiday": "", "secret/a": "x",
                    "2024/trip/one": "1", "2024/trip/deep/two": "22",
                ])
            try await laptop.expect("add", photos)
            try await laptop.invite(phone, "library")
            let target = phone.path("copies")
            let denied = try await phone.kith(["search", "holiday", "--device", "laptop", "--copy", target])
            #expect(denied.status == 5 && denied.error.contains("library:read"), "\(denied)")
            try await laptop.expect("grant", "phone", "--add", "library:read")
            let copied = try await phone.kith(["search", "holiday", "--device", "laptop", "--copy", target])
            #expect(copied.status == 0 && copied.error.contains("3 files copied"), "\(copied)")
            let names = try FileManager.default.contentsOfDirectory(atPath: target).sorted()
            #expect(names == ["empty holiday", "holiday (2).jpg", "holiday.jpg"])
            let texts = try names.map { try String(contentsOfFile: target + "/" + $0, encoding: .utf8) }
            #expect(Set(texts) == ["", "12345", "678"])
            // Once more: all is there.
            let again = try await phone.kith(["search", "holiday", "--device", "laptop", "--copy", target, "--json"])
            #expect(again.status == 0 && !again.output.contains("\"isThere\" : false"), "\(again)")
            #expect(try FileManager.default.contentsOfDirectory(atPath: target).count == 3)
            // A folder comes with what is in it, once.
            try await phone.expect("search", "trip", "--device", "laptop", "--copy", phone.path("trips"))
            #expect(try String(contentsOfFile: phone.path("trips/trip/deep/two"), encoding: .utf8) == "22")
            #expect(try FileManager.default.contentsOfDirectory(atPath: phone.path("trips")) == ["trip"])

            #expect(try await phone.expect("library", "--device", "laptop").contains(photos))
            #expect(
                try await phone.expect("library", "ls", "photos/2024", "--device", "laptop") == "holiday.jpg\ntrip/\n")
            let info = try await phone.expect("library", "info", "--device", "laptop")
            #expect(info.contains("Library") && !info.contains(laptop.data), "\(info)")
            // Files of this device are named so that nobody takes them for those of the other one.
            let environment = try await phone.start(
                ["search", "holiday", "--device", "laptop", "--count"], environment: ["KITH_LIBRARY": "Mine"]
            ).outcome(seconds: 60)
            #expect(environment.output == "3\n", "\(environment)")
        }
    }

    @Test func `what is wrong with a library is said by doctor`() async throws {
        try await withTwoMachines { laptop, _ in
            let disk = laptop.path("disk")
            try await laptop.expect("library", "create", "Archive", "--path", disk)
            #expect(try await laptop.expect("doctor").contains("libraries: One is open."))
            try await laptop.expect("library", "close", "Archive")
            try FileManager.default.moveItem(atPath: disk, toPath: disk + ".away")
            let open = try await laptop.kith(["library", "open", "Archive"])
            #expect(open.status == 3 && open.error.contains("Connect its disk"), "\(open)")
            try FileManager.default.moveItem(atPath: disk + ".away", toPath: disk)
            try write("damaged", to: disk + "/index.sqlite")
            let damaged = try await laptop.kith(["library", "open", "Archive"])
            #expect(damaged.status == 12, "\(damaged)")
            let doctor = try await laptop.kith(["doctor"])
            #expect(doctor.status == 1 && doctor.output.contains("FAIL  library Archive"), "\(doctor)")
        }
    }
}
