#if canImport(Darwin)
extension TrashCan {
    /// The trash of this system.
    static let systemLayout: any TrashLayout = AppleTrash()
}
#endif
