import KithWire

/// The services a device has for others.
public enum Services {
    /// Tells of the services this device has for the caller: first all, then each change.
    ///
    /// A service is there with the actions that the caller's grants cover, and is not when they cover none. What other
    /// devices have announced to this one is not told.
    public enum Watch: StreamMethod {
        /// The input: nothing.
        public typealias Input = Nothing
        /// The answer: nothing.
        public typealias Output = Nothing
        /// The caller sends only the end.
        public typealias Upstream = Nothing
        /// What has changed.
        public typealias Downstream = Change
        /// Any paired device may ask.
        public static let header = MethodHeader.stream(
            "services.watch", by: .paired, isIdempotent: true, "Tells which services there are for the caller.")
    }

    /// A change of what there is for the caller.
    public struct Change: StreamMessage, Hashable {
        /// Grows with each change on the device; what belongs together may come in several pieces of one version.
        public var version: UInt64
        /// True for a first piece of all there is: what is known from before is to be forgotten.
        public var isWhole: Bool
        /// Services that are new, or have changed.
        public var changed: [Registry.Service]
        /// The paths of services that are gone.
        public var removed: [String]
        /// True when another piece of the same version follows.
        public var hasMore: Bool?

        /// Makes a change.
        public init(
            version: UInt64, isWhole: Bool, changed: [Registry.Service], removed: [String], hasMore: Bool? = nil
        ) {
            self.hasMore = hasMore
            self.version = version
            self.isWhole = isWhole
            self.changed = changed
            self.removed = removed
        }
    }
}
