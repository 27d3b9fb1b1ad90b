import Foundation
import GRDB
package import KithIdentity
package import KithWire

/// An event that is kept until the devices it is for have acknowledged it.
package struct OutboxEvent: Hashable, Sendable {
    /// The topic.
    package var topic: String
    /// The message, as CBOR.
    package var message: [UInt8]
    /// The time at which this device began to count, in milliseconds since 1970.
    package var epoch: UInt64
    /// The event's number.
    package var sequence: UInt64
    /// The time of publication, in milliseconds since 1970.
    package var time: Int64
    /// The device that published it here.
    package var sender: DeviceID?
    /// The time at which it is given up, in milliseconds since 1970.
    package var expiry: Int64

    /// Makes an event.
    package init(
        topic: String, message: [UInt8], epoch: UInt64, sequence: UInt64, time: Int64, sender: DeviceID?, expiry: Int64
    ) {
        self.topic = topic
        self.message = message
        self.epoch = epoch
        self.sequence = sequence
        self.time = time
        self.sender = sender
        self.expiry = expiry
    }
}

/// An event of the outbox, and one device it is for.
package struct OutboxDelivery: Hashable, Sendable {
    /// Its number; later ones have greater numbers.
    package var number: UInt64
    /// The event.
    package var event: OutboxEvent
    /// The device.
    package var device: DeviceID
    /// The number of times it was sent.
    package var tries: Int
}

extension Store {
    /// The most deliveries in the outbox.
    package static let outboxLimit = 10_000
    /// The most bytes of messages in the outbox: 64 MiB.
    package static let outboxByteLimit = 64 << 20

    /// Keeps an event for `devices`, of which each has it until ``removeFromOutbox(_:of:)``.
    ///
    /// - Throws: `KithError` `.exhausted` when the outbox is full; nothing is kept then.
    package func addToOutbox(_ event: OutboxEvent, for devices: [DeviceID]) throws(KithError) {
        guard !devices.isEmpty else { return }
        try transaction("keep an event") { database in
            try Self.removeOrphans(database)
            let count = try Int.fetchOne(database, sql: "SELECT COUNT(*) FROM outbox_deliveries") ?? 0
            let bytes = try Int.fetchOne(database, sql: "SELECT TOTAL(LENGTH(message)) FROM outbox") ?? 0
            guard count + devices.count <= Self.outboxLimit, bytes + event.message.count <= Self.outboxByteLimit else {
                throw KithError(
                    .exhausted,
                    "The outbox is full: \(count) deliveries wait for devices that do not take them. See who is missing: kith devices"
                )
            }
            try database.execute(
                sql: """
                    INSERT INTO outbox (topic, message, epoch, sequence, time, sender, expiry)
                    VALUES (?, ?, ?, ?, ?, ?, ?)
                    """,
                arguments: [
                    event.topic, Data(event.message), Int64(bitPattern: event.epoch), Int64(bitPattern: event.sequence),
                    event.time, event.sender.map { Data($0.bytes) }, event.expiry,
                ])
            let number = database.lastInsertedRowID
            for device in devices {
                try database.execute(
                    sql: """
                        INSERT INTO outbox_deliveries (event, device, tries)
                        SELECT ?, id, 0 FROM devices WHERE id = ?
                        """, arguments: [number, Data(device.bytes)])
            }
        }
    }

    /// The deliveries for a device with numbers above `number`, in their order, at most `limit`.
    package func outbox(
        for device: DeviceID, after number: UInt64, limit: Int
    ) throws(KithError) -> [OutboxDelivery] {
        try deliveries(
            "WHERE device = ? AND d.number > ? ORDER BY d.number LIMIT ?",
            [Data(device.bytes), Int64(clamping: number), limit])
    }

    /// The deliveries that are to be given up: older than they may be at `now`, or tried `tries` times.
    package func abandonedDeliveries(at now: Int64, tries: Int, limit: Int) throws(KithError) -> [OutboxDelivery] {
        try deliveries("WHERE e.expiry <= ? OR d.tries >= ? ORDER BY d.number LIMIT ?", [now, tries, limit])
    }

    /// The time at which the next delivery is to be given up; `nil`: there is none.
    package func nextOutboxExpiry() throws(KithError) -> Int64? {
        try transaction("read the outbox") { database in
            try Self.removeOrphans(database)
            return try Int64.fetchOne(database, sql: "SELECT MIN(expiry) FROM outbox")
        }
    }

    /// Counts that deliveries are being sent.
    package func countTries(_ numbers: [UInt64]) throws(KithError) {
        guard !numbers.isEmpty else { return }
        try transaction("note a delivery") { database in
            for number in numbers {
                try database.execute(
                    sql: "UPDATE outbox_deliveries SET tries = tries + 1 WHERE number = ?",
                    arguments: [Int64(clamping: number)])
            }
        }
    }

    /// Forgets deliveries for a device, and the events that are for nobody else.
    package func removeFromOutbox(_ numbers: [UInt64], of device: DeviceID) throws(KithError) {
        guard !numbers.isEmpty else { return }
        try transaction("note a delivery") { database in
            for number in numbers {
                try database.execute(
                    sql: "DELETE FROM outbox_deliveries WHERE number = ? AND device = ?",
                    arguments: [Int64(clamping: number), Data(device.bytes)])
            }
            try Self.removeOrphans(database)
        }
    }

    /// Forgets events that are for nobody any more: all have them, or were forgotten themselves.
    private static func removeOrphans(_ database: Database) throws {
        try database.execute(
            sql: "DELETE FROM outbox WHERE NOT EXISTS (SELECT 1 FROM outbox_deliveries WHERE event = outbox.number)")
    }

    private func deliveries(
        _ condition: String, _ arguments: StatementArguments
    ) throws(KithError) -> [OutboxDelivery] {
        try transaction("read the outbox") { database in
            let rows = try Row.fetchAll(
                database,
                sql: """
                    SELECT d.number AS delivery, d.device AS device, d.tries AS tries, e.* FROM outbox_deliveries d
                    JOIN outbox e ON e.number = d.event \(condition)
                    """, arguments: arguments)
            return try rows.map { row in
                let (message, device, sender): (Data, Data, Data?) = (row["message"], row["device"], row["sender"])
                let (epoch, sequence, delivery): (Int64, Int64, Int64) = (
                    row["epoch"], row["sequence"], row["delivery"]
                )
                return OutboxDelivery(
                    number: UInt64(clamping: delivery),
                    event: OutboxEvent(
                        topic: row["topic"], message: Array(message), epoch: UInt64(bitPattern: epoch),
                        sequence: UInt64(bitPattern: sequence), time: row["time"],
                        sender: try sender.map { try DeviceID(publicKey: Array($0)) }, expiry: row["expiry"]),
                    device: try DeviceID(publicKey: Array(device)), tries: row["tries"])
            }
        }
    }
}
