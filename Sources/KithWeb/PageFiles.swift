import CKithPage
import Crypto
import KithWire
import NIOCore

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// The files of the page, which are part of the program.
struct PageFiles: Sendable {
    /// A file.
    struct File: Sendable {
        var bytes: ByteBuffer
        /// What a browser that has it asks with.
        var tag: String
    }

    private let places: [String: Int]
    private let folder: String?

    /// Those of this program; in a debug build those in the folder `KITH_WEB_PAGE` of the environment, as they are when
    /// they are asked for.
    init(environment: [String: String] = [:]) {
        var places: [String: Int] = [:]
        for index in 0..<kith_page_count() {
            guard let file = unsafe kith_page_file(index) else { continue }
            places[unsafe String(cString: file.pointee.path)] = index
        }
        self.places = places
        #if DEBUG
        folder = environment["KITH_WEB_PAGE"].flatMap { $0.isEmpty ? nil : $0 }
        #else
        folder = nil
        #endif
    }

    /// A file by its path; `nil` when there is none.
    func file(_ path: String) -> File? {
        if let folder { return file(path, in: folder) }
        guard let index = places[path], let file = unsafe kith_page_file(index) else { return nil }
        let bytes = unsafe UnsafeRawBufferPointer(start: file.pointee.bytes, count: file.pointee.length)
        return unsafe Self.file(Array(bytes))
    }

    private func file(_ path: String, in folder: String) -> File? {
        let names = path.split(separator: "/", omittingEmptySubsequences: false)
        guard !names.contains(where: { $0.isEmpty || $0.hasPrefix(".") }),
            // One that is not there is an answer.
            let data = try? Data(contentsOf: URL(fileURLWithPath: "\(folder)/\(path)"))
        else { return nil }
        return Self.file(Array(data))
    }

    private static func file(_ bytes: [UInt8]) -> File {
        File(
            bytes: ByteBuffer(bytes: bytes),
            tag: "\"\(Base64.encodeURL(SHA256.hash(data: bytes).prefix(12)))\"")
    }
}
