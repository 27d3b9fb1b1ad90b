import Foundation
import Testing

/// The names of devices, which decide nothing.
@Suite struct NamesTests {
    @Test func `names that look alike are told apart, and what changes rights shows who it is`() async throws {
        try await withTwoMachines { laptop, phone in
            // A machine that calls itself as this one's friend is called, to the eye.
            let evil = try Machine("evil")
            do {
                for name in ["this", "th1s", "", "."] {
                    let refused = try await evil.kith(["up", "--detach", "--no-invite", "--name=\(name)"])
                    #expect(refused.status != 0 && refused.error.contains("name"), "\(name): \(refused)")
                }
                try await evil.expect("up", "--detach", "--no-invite", "--name", "рһоոе")
                try await laptop.invite(phone)
                try await laptop.invite(evil)
                let json = try await laptop.expect("devices", "--cached", "--json")
                #expect(json.contains("\"phone\"") && json.contains("-2\""))
                // A number is no disguise.
                #expect(json.contains("looksLike"))
                #expect(try await laptop.expect("devices", "--cached").contains("-2 (!)"))
                let own = String(
                    try #require(try await laptop.expect("status", "--json").firstMatch(of: /"id" : "([^"]+)"/)).1)
                let confusing = try await laptop.kith(["rename", "phone", String(own.prefix(11))])
                #expect(confusing.status != 0 && confusing.error.contains("DeviceID"), "\(confusing)")
                let id = String(
                    try #require(try await phone.expect("status", "--json").firstMatch(of: /"id" : "([^"]+)"/)).1)
                let granted = try await laptop.expect("grant", "phone", "--add", "forward")
                #expect(granted.contains("phone, DeviceID \(id), may: forward"), "\(granted)")
                let taken = try await laptop.kith(["rename", "phone", "th1s"])
                #expect(taken.status == 64, "\(taken)")
                let renamed = try await laptop.expect("rename", "phone", "handy")
                #expect(renamed.contains("handy") && renamed.contains(id), "\(renamed)")
                #expect(try await laptop.kith(["rename", "handy", String(id.prefix(11))]).status == 0)
                let forgotten = try await laptop.expect("forget", id)
                #expect(forgotten.contains(id), "\(forgotten)")
            } catch {
                await evil.remove()
                throw error
            }
            await evil.remove()
        }
    }

    @Test func `labels and favorites find a device among others, and outlive another pairing`() async throws {
        try await withTwoMachines { laptop, phone in
            try await laptop.invite(phone)
            let labelled = try await laptop.expect("label", "phone", "Home", "work", "home", "--favorite")
            #expect(labelled == "phone has the labels Home, work, and comes first.\n")
            #expect(try await laptop.expect("devices", "--cached", "--label", "HOME", "--favorites").contains("phone"))
            let none = try await laptop.kith(["devices", "--cached", "--label", "home", "--label", "garden"])
            #expect(none.status == 0 && none.output.isEmpty && none.error.contains("kith label"), "\(none)")
            for (label, status) in [("two words", 64 as Int32), ("", 64), ("--remove=garden", 3), ("--remove=OK", 64)] {
                let refused = try await laptop.kith(["label", "phone", "ok", label])
                #expect(refused.status == status, "\(label): \(refused)")
            }
            // What was refused changed nothing.
            let json = try await laptop.expect("devices", "--cached", "--json")
            #expect(json.contains("\"Home\"") && !json.contains("\"ok\"") && json.contains("\"isFavorite\" : true"))
            try await laptop.invite(phone)
            let details = try await laptop.expect("devices", "phone", "--cached")
            #expect(details.contains("Home work") && details.contains("favorite"), "\(details)")
            let plain = try await laptop.expect("label", "phone", "--remove", "work", "--no-favorite")
            #expect(plain == "phone has the labels Home.\n")
        }
    }
}
