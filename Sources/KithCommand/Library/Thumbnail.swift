import ArgumentParser
import Foundation
import KithAPI
import KithCommandLine
import KithWire

/// `kith thumbnail`.
struct ThumbnailCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "thumbnail",
        abstract: "Make a small picture of an image in the library, as a JPEG.",
        discussion: helpText(
            """
              kith thumbnail photo.heic -o small.jpg
              kith thumbnail --size 1024 photo.jpg > larger.jpg
              kith thumbnail --device laptop /srv/photos/photo.jpg -o small.jpg

            It is turned as it is to be shown, and says nothing of place and camera. Of JPEG, PNG, GIF, WebP, TIFF, HEIF and
            AVIF, as far as the libraries for them were there when kith was built. It is kept, and found again also while the file is
            away.
            """))

    @OptionGroup var globals: GlobalOptions
    @OptionGroup var library: LibraryOptions
    @Option(help: "The most pixels of the longer side: 256 or 1024.") var size = 256
    @Option(
        name: .shortAndLong, help: ArgumentHelp("Write it to this file, over what is there.", valueName: "file"),
        completion: .file())
    var output: String?
    @Option(help: "Ask this device; the path is a whole one there.") var device: String?
    @Argument(help: "The image.", completion: .file()) var file: String

    func validate() throws {
        guard size == 256 || size == 1_024 else { throw ValidationError("--size is 256 or 1024.") }
    }

    func run() async throws {
        guard output != nil || isatty(STDOUT_FILENO) == 0 else {
            throw KithError(.invalid, "A terminal does not show a JPEG. Say where it goes: -o FILE.")
        }
        let path = try device == nil ? wholePaths([file])[0] : Files.Path(bytes: Array(file.utf8))
        try await withClient(globals) { client in
            let made = try await client.call(
                Media.Thumbnail.self, .init(library: library.name(on: device), path: path, size: size), on: device)
            guard let output else { return try writeOutput(Data(made.bytes.bytes)) }
            do { try Data(made.bytes.bytes).write(to: URL(fileURLWithPath: output), options: .atomic) } catch {
                throw KithError(
                    .denied, "\(printable(output)) cannot be written: \(error.localizedDescription)", cause: error)
            }
            if globals.json {
                printLine(try jsonText(["width": made.width, "height": made.height, "bytes": made.bytes.bytes.count]))
            } else {
                let size = DuCommand.humanSize(UInt64(made.bytes.bytes.count))
                note("\(printable(output)): \(made.width) × \(made.height), \(size)")
            }
        }
    }
}
