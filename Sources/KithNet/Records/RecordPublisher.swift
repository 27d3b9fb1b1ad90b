package import KithIdentity
public import KithReach
package import KithWire

/// Keeps a device's record in its directories: at once when it changes, and again each five minutes.
///
/// What has not changed is repeated with the same signature, which costs a directory nothing; it is signed anew each hour.
/// The times of its records rise, also after the clock was set back and after the memory of the last one was lost: a
/// directory that knows a newer record is asked for it.
public actor RecordPublisher {
    private let key: DeviceKey
    private let client: DirectoryClient
    private let ticker: any Ticker
    private let clock: @Sendable () -> UInt64
    private let keepTime: @Sendable (UInt64) -> Void
    private var times: RecordClock
    private var schedule: PublishingSchedule
    private var record: DeviceRecord?
    private var signed: (record: SignedRecord, at: ContinuousClock.Instant)?
    private var signal: AsyncStream<Void>.Continuation?
    /// What became of the latest attempt; `nil` before the first.
    public private(set) var last: DirectoryClient.Publication?

    /// Makes a publisher.
    ///
    /// `keepTime` is told the time of each record before it is published: kept, it is the next run's `time`. `clock`
    /// returns microseconds since 1970.
    package init(
        key: DeviceKey, client: DirectoryClient, after time: UInt64 = 0,
        interval: Duration = PublishingSchedule.interval, ticker: any Ticker = ContinuousClock(),
        clock: @escaping @Sendable () -> UInt64, keepTime: @escaping @Sendable (UInt64) -> Void = { _ in }
    ) {
        self.key = key
        self.client = client
        self.ticker = ticker
        self.clock = clock
        self.keepTime = keepTime
        schedule = PublishingSchedule(interval: interval)
        times = RecordClock(after: time)
    }

    /// Publishes this from now on, or nothing any more; nothing happens when it is what is published already.
    ///
    /// What was published is not taken back: directories forget it by themselves.
    public func publish(_ record: DeviceRecord?) {
        guard record != self.record else { return }
        self.record = record
        signed = nil
        guard record != nil else { return }
        schedule.changed(at: ticker.now)
        signal?.yield()
    }

    /// Publishes until the task is cancelled.
    public func run() async {
        let (signals, signal) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        self.signal = signal
        signal.yield()
        let ticker = ticker
        await withTaskGroup(of: Void.self) { group in
            defer { group.cancelAll() }
            var timer: ContinuousClock.Instant?
            for await _ in signals {
                if let due = schedule.due, due <= ticker.now { await publishNow() }
                guard let due = schedule.due, due != timer else { continue }
                timer = due
                group.addTask {
                    try? await ticker.sleep(until: due, tolerance: nil)  // ends early only when cancelled
                    signal.yield()
                }
            }
        }
    }

    private func publishNow() async {
        guard let wanted = record else { return }
        var isKept = false
        // Twice: the second time after what a directory knows already.
        for _ in 0..<2 {
            guard let packet = signedRecord() else { break }
            let publication = await client.publish(packet)
            last = publication
            guard wanted == record else { return }  // it has changed meanwhile, and is due again
            isKept = !publication.kept.isEmpty
            guard let newer = publication.newerTime else { break }
            times.saw(newer)
            signed = nil
            isKept = false
        }
        schedule.published(isKept, at: ticker.now)
    }

    /// The record as it is to be published; `nil` when it cannot be written, which ``last`` then says nothing of.
    private func signedRecord() -> SignedRecord? {
        let now = ticker.now
        if let signed, now - signed.at < PublishingSchedule.signatureLifetime { return signed.record }
        guard let record, let time = times.next(at: clock()) else { return nil }
        keepTime(time)
        guard let packet = try? record.signed(by: key, at: time) else { return nil }  // checked when it was given
        signed = (packet, now)
        return packet
    }
}
