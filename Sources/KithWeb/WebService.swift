package import Kith
import KithAPI
import KithIO
import KithIdentity
package import KithNode
import KithStore
package import KithWire
package import Logging
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// The page in the browser, as a service of a device: nothing listens until it is asked for.
package final class WebService: Service {
    /// The options of the page.
    package struct Options: Sendable {
        /// Serves the page from the start, at ``port``.
        package var opensAtStart = false
        /// The port; `nil`: the one kept, at first any.
        package var port: UInt16?
        /// The environment: in a debug build `KITH_WEB_PAGE` is a folder with the page's files.
        package var environment: [String: String] = [:]
        package var ticker: any Ticker = ContinuousClock()
        /// The time, in seconds since 1970.
        package var now: @Sendable () -> Int64 = { Int64(time(nil)) }

        /// The defaults.
        package init() {}
    }

    private let options: Options
    private let host: WebHost
    private let files: PageFiles
    private let guests = WebGuests()
    private let links: LinkBox
    private let door = Mutex<WebDoor?>(nil)
    /// Held while the door is opened or closed.
    private let turn = AsyncMutex()

    /// Makes the service of a device, to be added to it.
    package init(for device: Device, options: Options = Options(), logger: Logger) {
        self.options = options
        links = LinkBox()
        files = PageFiles(environment: options.environment)
        // The device owns its services.
        host = WebHost(
            id: device.id, name: device.name,
            sign: { [weak device] (message) throws(KithError) in
                guard let device else { throw KithError(.closed, "The device is gone.") }
                return try device.doorSignature(for: message)
            },
            client: device.client,
            serve: { [weak device] number in
                guard let device else {
                    closeDescriptor(number)
                    throw KithError(.closed, "The device is gone.")
                }
                try await device.serve(caller: number)
            },
            browsers: WebBrowsers(
                store: { [weak device] (body) throws(KithError) in
                    guard let device else { throw KithError(.closed, "The device is gone.") }
                    try device.withStore(body)
                }, now: options.now),
            links: links, ticker: options.ticker, logger: logger)
    }

    /// Opens the door where it is to be open from the start; the device does without it where that cannot be.
    package func start(_ context: StartContext) async throws {
        do {
            try await openIfWanted()
        } catch {
            host.logger.warning("the page is not served", metadata: ["error": "\(error)"])
        }
    }

    /// Opens the door where it is to be open from the start: for who wants to know whether that can be.
    package func openIfWanted() async throws {
        guard options.opensAtStart else { return }
        _ = try await open(options.port)
    }

    /// Closes the door.
    package func stop() async {
        await turn.lock()
        defer { turn.unlock() }
        await close()
    }

    private func close() async {
        let door = door.withLock { door in
            defer { door = nil }
            return door
        }
        await door?.close()
    }

    /// The address of the page; `nil` while nothing is served.
    package var page: String? { door.withLock { $0?.names.page } }

    /// The methods it serves.
    package var handlers: [Handler] {
        [
            .call(Web.Browsers.self) { _, _ in try self.list() },
            .call(Web.Forget.self) { input, _ in try self.forget(input.browser) },
            .call(Web.Link.self) { input, _ in try await self.link(input.port) },
        ]
    }

    private func list() throws -> Web.List { Web.List(browsers: try host.browsers.list().map(describe)) }

    private func forget(_ reference: String?) throws -> Web.List {
        let gone = try host.browsers.forget(reference)
        for browser in gone { guests.cut(browser.id) }
        return Web.List(browsers: gone.map(describe))
    }

    private func describe(_ browser: BrowserRecord) -> Web.Browser {
        Web.Browser(
            id: browser.id, name: browser.name, addedAt: browser.addedAt, lastUse: browser.lastUse, ends: browser.ends,
            isConnected: guests.isConnected(browser.id))
    }

    private func link(_ port: UInt16?) async throws -> Web.Link.Output {
        let door = try await open(port)
        let secret = links.make(at: options.ticker.now)
        return Web.Link.Output(
            url: door.names.page + "#" + Base64.encodeURL(secret), page: door.names.page,
            seconds: Int(LoginLinks.lifetime.components.seconds))
    }

    /// Opens the door, or moves it to another port.
    private func open(_ wanted: UInt16?) async throws -> WebDoor {
        await turn.lock()
        defer { turn.unlock() }
        let kept = try host.browsers.port()
        if let door = door.withLock({ $0 }) {
            guard let wanted, wanted != door.names.port else { return door }
            await close()
        }
        if let wanted {
            guard wanted != 0 else { throw KithError(.invalid, "The page's port is 1 to 65535.") }
            return try await open(at: wanted)
        }
        if let kept {
            do {
                return try await open(at: kept)
            } catch let error as KithError where error.code == .conflict {
                host.logger.notice("another program has the page's port", metadata: ["port": "\(kept)"])
            }
        }
        // Out of the way of the ports that systems give to whoever asks for any.
        for _ in 0..<20 {
            do {
                return try await open(at: UInt16.random(in: 20_000..<30_000))
            } catch let error as KithError where error.code == .conflict {
                continue
            }
        }
        throw KithError(.exhausted, "No port is free for the page. Choose one: kith web --port NUMBER")
    }

    private func open(at port: UInt16) async throws -> WebDoor {
        let opened = try await WebDoor.open(port: port, host: host, guests: guests, files: files)
        do {
            try host.browsers.keep(port: port)
        } catch {
            await opened.close()
            throw error
        }
        let current = Set(try host.browsers.list().map(\.id))
        for browser in guests.all where !current.contains(browser) { guests.cut(browser) }
        door.withLock { $0 = opened }
        return opened
    }
}

/// The links that are good now.
final class LinkBox: Sendable {
    private let links = Mutex(LoginLinks())

    func make(at now: ContinuousClock.Instant) -> [UInt8] { links.withLock { $0.make(at: now) } }

    func use(_ proof: [UInt8], over transcript: [UInt8], at now: ContinuousClock.Instant) -> LoginLinks.Outcome {
        links.withLock { $0.use(proof, over: transcript, at: now) }
    }
}

/// The C function whose name a method of ``WebService`` hides.
private func closeDescriptor(_ number: Int32) { _ = close(number) }
