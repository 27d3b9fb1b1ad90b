import ArgumentParser
import Foundation
import KithCommandLine
import KithMLS
import KithMLSVectors
import KithWire

/// `kith mls inspect`.
struct MLSInspect: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "inspect",
        abstract: "Print an MLS message as JSON.",
        discussion: helpText(
            """
              kith mls inspect message.mls
              kith mls inspect - < message.hex

            The message may be binary or hexadecimal text. What is encrypted stays so: no keys are asked for.
            """))

    @OptionGroup var globals: GlobalOptions

    @Argument(help: "The file that holds one message; - for standard input.", completion: .file())
    var file: String

    func run() throws {
        let bytes = try Self.content(of: file)
        do {
            printLine(try jsonText(Inspection(try MLSMessage(bytes))))
        } catch let error as MLSError {
            throw KithError(.invalid, "\(printable(file)) is not an MLS message: \(error).", cause: error)
        }
    }

    /// The file's bytes, of hexadecimal text what it stands for.
    private static func content(of file: String) throws -> [UInt8] {
        let data: Data
        do {
            data =
                try file == "-" ? FileHandle.standardInput.readToEnd() ?? Data() : Data(contentsOf: URL(filePath: file))
        } catch {
            throw KithError(.notFound, "Could not read \(printable(file)).", cause: error)
        }
        let bytes = [UInt8](data)
        let text = String(decoding: bytes, as: UTF8.self).filter { !$0.isWhitespace }
        // A binary message begins with the version, two bytes that are not digits.
        return Hex.decode(text) ?? bytes
    }
}
