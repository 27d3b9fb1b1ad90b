/// The folders that are watched, each by the number of its watch.
///
/// A folder is kept as its name in the one around it: with a path of its own, each of the hundred thousand folders of a
/// million files would take several times as much.
struct WatchedFolders {
    private struct Folder {
        /// The number of the folder around; none for one whose name is a whole path.
        var parent: Int32
        /// The folders in it that are here.
        var children: Int32 = 0
        /// Where its name stands in `text`.
        var start: UInt32
        var length: UInt16
        /// False for one that is here only because others are in it.
        var isWatched = true
    }

    private static let none: Int32 = -1
    private static let slash = UInt8(ascii: "/")

    private var folders: [Int32: Folder] = [:]
    /// Their numbers by a hash of the number of the one around and the name; of two that share one, the later.
    private var numbers: [Int: Int32] = [:]
    /// The names, one after the other, with those that are not used any more.
    private var text: [UInt8] = []
    private var unusedCount = 0
    /// The folders that are watched.
    private(set) var count = 0
    /// The bytes of all names, with those that are not used any more.
    var textCount: Int { text.count }

    /// Notes the number of the folder at a path, which may have been another one's; returns false when there is no room.
    mutating func add(_ number: Int32, at path: [UInt8]) -> Bool {
        guard text.count + path.count <= Int(UInt32.max) else { return false }
        var (parent, name) = (Self.none, path[...])
        if let (folder, last) = Self.split(path[...]), let around = self.number(at: folder), !isWithin(around, number) {
            (parent, name) = (around, last)
        }
        guard let length = UInt16(exactly: name.count) else { return false }
        let before = folders[number]
        if let before, before.parent == parent, text[range(before)].elementsEqual(name) {
            if !before.isWatched { count += 1 }
            folders[number]?.isWatched = true
            return true
        }
        var folder = Folder(parent: parent, start: UInt32(text.count), length: length)
        folder.children = before?.children ?? 0
        text += name
        numbers[Self.key(parent, name)] = number
        folders[parent]?.children += 1
        if let before { unlink(number, before) }
        folders[number] = folder
        if before?.isWatched != true { count += 1 }
        tidy()
        return true
    }

    /// The path of a folder that is watched.
    func path(of number: Int32) -> [UInt8]? {
        guard var folder = folders[number], folder.isWatched else { return nil }
        var names = [range(folder)]
        while let around = folders[folder.parent] {
            folder = around
            names.append(range(folder))
        }
        var path: [UInt8] = []
        path.reserveCapacity(names.reduce(0) { $0 + $1.count + 1 })
        for name in names.reversed() {
            if !path.isEmpty, path.last != Self.slash { path.append(Self.slash) }
            path += text[name]
        }
        return path
    }

    /// The number of the folder at a path; of one that is not watched any more, too, as long as others in it are.
    func number(at path: [UInt8]) -> Int32? { number(at: path[...]) }

    /// The numbers of a folder in another that is watched: one, or none.
    func numbers(of name: [UInt8], in parent: Int32) -> Set<Int32> {
        // One that was here before the folder around is not known to be in it.
        let number =
            number(of: name[...], in: parent) ?? path(of: parent).flatMap { self.number(at: $0.appending(name: name)) }
        return Set([number].compactMap(\.self))
    }

    /// The numbers of the folder at a path, or of those that were noted in it while it was not watched itself.
    func numbers(within path: [UInt8]) -> Set<Int32> {
        var found = Set(
            folders.lazy.filter { _, folder in
                folder.parent == Self.none && Array(text[range(folder)]).isWithin(path)
            }.map(\.key))
        if let number = number(at: path) { found.insert(number) }
        return found
    }

    /// Takes out one folder, and none in it.
    mutating func remove(_ number: Int32) {
        guard folders[number]?.isWatched == true else { return }
        count -= 1
        folders[number]?.isWatched = false
        drop(number)
        tidy()
    }

    /// Takes out folders with all that are in them; returns the numbers of those that were watched.
    mutating func removeAll(in roots: Set<Int32>) -> [Int32] {
        guard !roots.isEmpty else { return [] }
        var isGone: [Int32: Bool] = [Self.none: false]
        var way: [Int32] = []
        for start in folders.keys {
            var number = start
            while isGone[number] == nil {
                way.append(number)
                if roots.contains(number) { break }
                number = folders[number]?.parent ?? Self.none
            }
            let answer = isGone[number] ?? true
            for number in way { isGone[number] = answer }
            way.removeAll(keepingCapacity: true)
        }
        let gone = folders.keys.filter { isGone[$0] == true }
        let watched = gone.filter { folders[$0]?.isWatched == true }
        count -= watched.count
        for number in gone {
            guard let folder = folders.removeValue(forKey: number) else { continue }
            unlink(number, folder)
        }
        tidy()
        return watched
    }

    // MARK: - Links

    /// The folder around, and the name in it; `nil` for the top of the file system.
    private static func split(_ path: ArraySlice<UInt8>) -> (folder: ArraySlice<UInt8>, name: ArraySlice<UInt8>)? {
        guard let place = path.lastIndex(of: slash), place + 1 < path.endIndex else { return nil }
        return (path[..<max(place, path.startIndex + 1)], path[(place + 1)...])
    }

    private func number(at path: ArraySlice<UInt8>) -> Int32? {
        var top = path
        while true {
            if let number = number(of: top, in: Self.none) {
                return path[top.endIndex...].split(separator: Self.slash).reduce(Optional(number)) { number, name in
                    number.flatMap { self.number(of: name, in: $0) }
                }
            }
            guard let (folder, _) = Self.split(top) else { return nil }
            top = folder
        }
    }

    private func number(of name: ArraySlice<UInt8>, in parent: Int32) -> Int32? {
        guard let number = numbers[Self.key(parent, name)], let folder = folders[number], folder.parent == parent,
            text[range(folder)].elementsEqual(name)
        else { return nil }
        return number
    }

    private func range(_ folder: Folder) -> Range<Int> { Int(folder.start)..<Int(folder.start) + Int(folder.length) }

    private static func key(_ parent: Int32, _ name: ArraySlice<UInt8>) -> Int {
        var hasher = Hasher()
        hasher.combine(parent)
        unsafe name.withUnsafeBytes { unsafe hasher.combine(bytes: $0) }
        return hasher.finalize()
    }

    /// True when a folder is another one or in it.
    private func isWithin(_ number: Int32, _ other: Int32) -> Bool {
        guard folders[other] != nil else { return false }
        var number = number
        while number != other {
            guard let folder = folders[number] else { return false }
            number = folder.parent
        }
        return true
    }

    /// Takes a folder out of the one around, which may then be of no use any more.
    private mutating func unlink(_ number: Int32, _ folder: Folder) {
        let key = Self.key(folder.parent, text[range(folder)])
        if numbers[key] == number { numbers[key] = nil }
        unusedCount += Int(folder.length)
        guard folders[folder.parent] != nil else { return }
        folders[folder.parent]?.children -= 1
        drop(folder.parent)
    }

    /// Takes out a folder that is not watched once no other is in it.
    private mutating func drop(_ number: Int32) {
        guard let folder = folders[number], !folder.isWatched, folder.children == 0 else { return }
        folders[number] = nil
        unlink(number, folder)
    }

    /// Writes the names anew when most are not used any more.
    private mutating func tidy() {
        guard unusedCount > 65_536, unusedCount > text.count / 2 else { return }
        var kept: [UInt8] = []
        kept.reserveCapacity(text.count - unusedCount)
        for (number, folder) in folders {
            folders[number]?.start = UInt32(kept.count)
            kept += text[range(folder)]
        }
        (text, unusedCount) = (kept, 0)
    }
}
