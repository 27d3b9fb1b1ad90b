import Foundation
import KithAPI
import KithIO
import KithWire

/// The arguments of this process as the system has them: a name in one need not be UTF-8, and is not whole as text.
enum ExactArguments {
    /// The bytes of some arguments, in the order in which they stand on the command line.
    static func bytes(of words: [String]) -> [[UInt8]] {
        bytes(of: words, in: all())
    }

    /// The same for a command line.
    static func bytes(of words: [String], in all: [[UInt8]]) -> [[UInt8]] {
        // Each stands for one word, the first for the first.
        var rest = all.filter { String(validating: $0, as: UTF8.self) == nil }
        return words.map { word in
            let text = Array(word.utf8)
            let place = rest.firstIndex { String(decoding: $0, as: UTF8.self).utf8.elementsEqual(text) }
            return place.map { rest.remove(at: $0) } ?? text
        }
    }

    private static func all() -> [[UInt8]] {
        (0..<Int(CommandLine.argc)).map { number in
            guard let argument = unsafe CommandLine.unsafeArgv[number] else { return [] }
            return unsafe Array(UnsafeRawBufferPointer(start: argument, count: strlen(argument)))
        }
    }
}

/// The path from the top of the file system, without links and `..` in it; `nil`, with `errno`, when nothing is there.
func realPath(_ path: [UInt8]) -> [UInt8]? {
    guard let real = unsafe withCString(path, { path in unsafe realpath(path, nil) }) else { return nil }
    defer { unsafe free(real) }
    return unsafe Array(UnsafeRawBufferPointer(start: real, count: strlen(real)))
}

/// The paths of files in arguments, from the top of the file system, without links in the folders on the way: a link is
/// meant itself.
func wholePaths(_ files: [String]) throws(KithError) -> [Files.Path] {
    var paths: [Files.Path] = []
    for file in ExactArguments.bytes(of: files) { paths.append(Files.Path(bytes: try wholePath(file))) }
    return paths
}

/// The paths of folders in arguments, from the top of the file system: a folder is meant, wherever a link leads to it.
func folderPaths(_ folders: [String]) throws(KithError) -> [Files.Path] {
    var paths: [Files.Path] = []
    for folder in ExactArguments.bytes(of: folders) {
        paths.append(Files.Path(bytes: try wholePath(folder + [UInt8(ascii: "/"), UInt8(ascii: ".")])))
    }
    return paths
}

private func wholePath(_ file: [UInt8]) throws(KithError) -> [UInt8] {
    let (slash, dot) = (UInt8(ascii: "/"), UInt8(ascii: "."))
    var path = file[...]
    while path.count > 1, path.last == slash { path = path.dropLast() }
    let place = path.lastIndex(of: slash)
    let last = Array(place.map { path[($0 + 1)...] } ?? path)
    let folder = place.map { $0 == path.startIndex ? [slash] : Array(path[..<$0]) } ?? [dot]
    // Of `.` and `..` the folder itself is meant.
    let isWhole = last.isEmpty || last == [dot] || last == [dot, dot]
    guard !path.isEmpty, let real = realPath(isWhole ? Array(path) : folder) else {
        let reason = path.isEmpty ? "it is empty" : unsafe String(cString: strerror(errno))
        throw KithError(.notFound, "\(printable(String(decoding: file, as: UTF8.self))): \(reason).")
    }
    return isWhole ? real : (real == [slash] ? real : real + [slash]) + last
}
