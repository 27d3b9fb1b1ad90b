import KithWire

/// The page in the browser: who may use it, and how one more is let in.
public enum Web {
    /// A browser that may use the page, as this device's own person.
    public struct Browser: Codable, Hashable, Sendable {
        /// Its identifier: the beginning of the SHA-256 of its key, 16 hexadecimal digits.
        public var id: String
        /// What it calls itself, such as `Chromium on Linux`; no two have the same.
        public var name: String
        /// The time it was let in, in seconds since 1970.
        public var addedAt: Int64
        /// The time it was last used.
        public var lastUse: Int64
        /// The time at which its right ends; use prolongs it, up to a week after it was let in.
        public var ends: Int64
        /// True while a page is open in it.
        public var isConnected: Bool

        /// Describes a browser.
        public init(
            id: String, name: String, addedAt: Int64, lastUse: Int64, ends: Int64, isConnected: Bool
        ) {
            self.id = id
            self.name = name
            self.addedAt = addedAt
            self.lastUse = lastUse
            self.ends = ends
            self.isConnected = isConnected
        }
    }

    /// Browsers.
    public struct List: Codable, Hashable, Sendable {
        /// The browsers, the one used last first.
        public var browsers: [Browser]

        /// Makes a list.
        public init(browsers: [Browser]) { self.browsers = browsers }
    }

    /// Lists the browsers that may use the page.
    public enum Browsers: Method {
        /// Nothing.
        public typealias Input = Nothing
        /// Those that may use it now.
        public typealias Output = List
        /// The stable name on every wire.
        public static let header = MethodHeader.query(
            "web.browsers", by: .owner, "Lists the browsers that may use the page.")
    }

    /// Ends the right of a browser, its connections and its tickets, at once.
    public enum Forget: Method {
        /// The input: the browser.
        public struct Input: Codable, Hashable, Sendable {
            /// Its name, its identifier or the beginning of one; `nil`: all of them.
            public var browser: String?

            /// Makes the input.
            public init(browser: String? = nil) { self.browser = browser }
        }

        /// Those whose right has ended.
        public typealias Output = List
        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "web.forget", by: .owner, "Ends the right of a browser to use the page.")
    }

    /// Makes a link that lets one browser in, and begins to serve the page when it is not served yet.
    public enum Link: Method {
        /// The input: where to serve.
        public struct Input: Codable, Hashable, Sendable {
            /// The TCP port of this machine's own addresses, kept for later; `nil`: the one kept, at first any.
            ///
            /// Another port than before ends the right of all browsers: to them it is another page.
            public var port: UInt16?

            /// Makes the input.
            public init(port: UInt16? = nil) { self.port = port }
        }

        /// The link.
        public struct Output: Codable, Hashable, Sendable {
            /// The URL: whoever opens it first, within its time, may do what this device's person may.
            public var url: String
            /// The address of the page itself, which holds no secret.
            public var page: String
            /// The seconds until it is void.
            public var seconds: Int

            /// Describes a link.
            public init(url: String, page: String, seconds: Int) {
                self.url = url
                self.page = page
                self.seconds = seconds
            }
        }

        /// The stable name on every wire.
        public static let header = MethodHeader.action(
            "web.link", by: .owner, "Makes a link that lets one browser use the page.")
    }
}

extension Web.Forget.Input: OmissibleInput {
    /// All browsers.
    public static var usual: Self { Self() }
    /// Nothing.
    public static var required: Set<String> { [] }
}

extension Web.Link.Input: OmissibleInput {
    /// At the port kept.
    public static var usual: Self { Self() }
    /// Nothing.
    public static var required: Set<String> { [] }
}
