import KithStore
import KithWire

/// Who may use the page: kept in the device's database, and written into its audit log.
struct WebBrowsers: Sendable {
    /// The time after which a browser's right ends, in seconds, unless it is used.
    static let idle: Int64 = 12 * 3_600
    /// The time after which it ends in any case.
    static let longest: Int64 = 7 * 86_400

    /// Asks the database.
    let store: @Sendable ((Store) throws(KithError) -> Void) throws(KithError) -> Void
    /// The time, in seconds since 1970.
    let now: @Sendable () -> Int64

    private func ask<Value>(_ body: (Store, Int64) throws(KithError) -> Value) throws(KithError) -> Value {
        var value: Value?
        let now = now()
        try store { store throws(KithError) in value = try body(store, now) }
        guard let value else { throw KithError(.closed, "The device is not up.") }
        return value
    }

    /// Lets a browser in that came by a link.
    func add(key: [UInt8], name: String) throws(KithError) -> BrowserRecord {
        try ask { (store, now) throws(KithError) in
            let browser = try store.addBrowser(
                key: key, name: name, ends: now + Self.idle, latestEnd: now + Self.longest, now: now)
            try store.record(Self.entry(browser, "web.login", .allowed, "let in by a link", now))
            return browser
        }
    }

    /// The browser with a key, whose right may have ended.
    func find(key: [UInt8]) throws(KithError) -> BrowserRecord? {
        try ask { (store, _) throws(KithError) in Optional.some(try store.browser(key: key)) } ?? nil
    }

    /// Notes that a browser is used; `nil` when its right has ended.
    func use(_ id: String) throws(KithError) -> BrowserRecord? {
        try ask { (store, now) throws(KithError) in
            Optional.some(try store.useBrowser(id, ends: now + Self.idle, now: now))
        } ?? nil
    }

    /// Notes a login that was refused.
    func refused(_ name: String, _ why: String) throws(KithError) {
        try ask { (store, now) throws(KithError) in
            try store.record(
                // Whoever it is has no share of the log by the name that it gives itself.
                AuditEntry(
                    time: now, device: "a browser", method: "web.login", decision: .denied,
                    detail: "“\(name)”: \(why)"))
        }
    }

    /// Notes a login of a browser that is known.
    func entered(_ browser: BrowserRecord) throws(KithError) {
        try ask { (store, now) throws(KithError) in
            try store.record(Self.entry(browser, "web.login", .allowed, "signed in again", now))
        }
    }

    /// Those that may use the page.
    func list() throws(KithError) -> [BrowserRecord] {
        try ask { (store, now) throws(KithError) in try store.browsers(now: now) }
    }

    /// Ends the right of a browser, or of all.
    func forget(_ reference: String?) throws(KithError) -> [BrowserRecord] {
        try ask { (store, now) throws(KithError) in
            let gone = try store.forgetBrowsers(reference, now: now)
            for browser in gone { try store.record(Self.entry(browser, "web.forget", .allowed, "cut off", now)) }
            return gone
        }
    }

    /// The port kept, if any.
    func port() throws(KithError) -> UInt16? {
        try ask { (store, _) throws(KithError) in
            Optional.some(try store.setting(Self.portSetting).flatMap { UInt16($0) })
        } ?? nil
    }

    /// Keeps another port: to browsers it is another page, whose keys none of them has.
    func keep(port: UInt16) throws(KithError) {
        let before = try self.port()
        guard before != port else { return }
        try ask { (store, _) throws(KithError) in try store.setSetting(Self.portSetting, String(port)) }
        if before != nil { _ = try forget(nil) }
    }

    private static let portSetting = "web port"

    private static func entry(
        _ browser: BrowserRecord, _ method: String, _ decision: AuditEntry.Decision, _ detail: String, _ now: Int64
    ) -> AuditEntry {
        AuditEntry(
            time: now, device: "browser “\(browser.name)”", method: method, decision: decision,
            detail: "\(detail) (\(browser.id))")
    }
}
