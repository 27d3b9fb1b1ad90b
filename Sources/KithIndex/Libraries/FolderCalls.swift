import CKithSystem

/// Calls on names in a folder held open that Swift cannot make by itself.
enum FolderCalls {
    /// Renames within a folder; returns 0, or the number of the failure (`EEXIST` when it may not overwrite).
    static func rename(_ name: String, to other: String, in folder: Int32, overwrites: Bool) -> Int32 {
        let status = unsafe kith_file_rename(folder, name, folder, other, overwrites ? 1 : 0)
        return status < 0 ? -status : 0
    }
}
