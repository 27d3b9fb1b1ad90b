import CKithSystem
import KithIO

extension MountTable {
    /// The table as it is now; an empty one where the system has none, or it cannot be read.
    package static func current() -> MountTable {
        guard let text = contents(of: "/proc/self/mountinfo", limit: maximumSize) else { return MountTable(mounts: []) }
        return MountTable(parsing: text)
    }

    /// What is in a file that the system makes up as it is read; `nil` when it is not there, or is longer.
    static func contents(of path: String, limit: Int) -> [UInt8]? {
        let number = unsafe withCString(Array(path.utf8)) { unsafe kith_open(-1, $0, Int32(KITH_FILE_READ), 0) }
        guard number >= 0 else { return nil }
        let file = OpenFile(taking: number)
        var text: [UInt8] = []
        var part = [UInt8](repeating: 0, count: 64 << 10)
        while true {
            let offset = UInt64(text.count)
            // Its own refusal says no more than that there is nothing to read.
            let count = try? unsafe part.withUnsafeMutableBytes { buffer throws(SystemError) in
                try unsafe file.read(into: buffer, at: offset)
            }
            guard let count else { return nil }
            if count == 0 { return text }
            text += part[..<count]
            guard text.count <= limit else { return nil }
        }
    }
}
