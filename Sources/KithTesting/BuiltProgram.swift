internal import Foundation

/// The path of a program that is built beside the tests.
package func builtProgram(_ name: String) -> String {
    let tests = CommandLine.arguments[0]
    // The test runner may be elsewhere: then the bundle is named among its arguments.
    let places = [tests] + CommandLine.arguments.dropFirst()
    for place in places {
        let folder = URL(fileURLWithPath: place).deletingLastPathComponent().path
        if FileManager.default.isExecutableFile(atPath: folder + "/" + name) { return folder + "/" + name }
    }
    return FileManager.default.currentDirectoryPath + "/.build/debug/" + name
}
