#if Viewer && Screen && os(Linux) && canImport(CXCB)
import Foundation
import KithTesting
import Testing

/// Files that are put on the window of `kith screen`.
@Suite(.serialized, .enabled("no X server or kith-viewer is installed") { XServer.isInstalled })
struct ScreenDropTests {
    @Test func `files and folders that are put on the window arrive there, and it says where, or why not`() async throws
    {
        try await onStage { stage in
            let running = try stage.open()
            let window = try await stage.window()
            let target = try #require(UInt32(window))
            let source = try DragSource(stage.desk)
            let text = stage.phone.path("Übung 1 – né.txt")
            try write("homework", to: text)
            try write("one", to: stage.phone.path("album/first photo.txt"))
            try write("two", to: stage.phone.path("album/more/é.txt"))
            try source.drop(paths: [text, stage.phone.path("album") + "/"], on: target)
            try await stage.says("2 things are in \(stage.laptop.folder.path) on laptop: 14 B.", running)
            for (name, content) in [
                ("Übung 1 – né.txt", "homework"), ("album/first photo.txt", "one"), ("album/more/é.txt", "two"),
            ] {
                #expect(try String(contentsOfFile: stage.laptop.path(name), encoding: .utf8) == content)
            }
            // Said in the window, too: it is drawn over the picture.
            try await eventually(within: .seconds(30)) { try await stage.picture(window) != stage.hostPicture() }
            // What cannot be read is named, and keeps nothing else from arriving.
            let (gone, late) = (stage.phone.path("gone"), stage.phone.path("late.txt"))
            try write("late", to: late)
            try source.drop(paths: [gone, late], on: target)
            try await stage.says(
                "Cannot read \(gone): no such file or folder. The rest is in \(stage.laptop.folder.path) on laptop: 4 B.",
                running)
            #expect(try String(contentsOfFile: stage.laptop.path("late.txt"), encoding: .utf8) == "late")
            // Nothing but files is taken, and that harms nothing.
            try source.drop("some words", as: "text/plain", on: target)
            try source.drop("smb://server/share/film.mkv\r\n", on: target)
            try await stage.laptop.expect("grant", "phone", "--remove", "files:write=\(stage.laptop.folder.path)")
            try source.drop(paths: [text], on: target)
            try await stage.says("On the other device: kith grant phone --add files:write=", running)
            running.process.interrupt()
            let outcome = try await running.outcome(seconds: 30)
            #expect(outcome.status == 130 && outcome.error.split(separator: "\n").count == 3, "\(outcome)")
        }
    }
}
#endif
