#if Screen && os(Linux) && canImport(CXCB)
import CXCB
import KithAPI
import KithIO
import KithWire

/// The content of a clipboard on its way to us.
final class X11ClipboardRead {
    /// The time an owner has for each step.
    static let patience = Duration.seconds(2)
    /// The time all steps have together.
    static let wholePatience = Duration.seconds(20)

    let selection: UInt32
    let target: UInt32
    /// The content; `nil` when the owner has none in that form.
    let result = Promise<Result<[UInt8]?, KithError>>()
    var bytes: [UInt8] = []
    var isIncremental = false
    private let begin = ContinuousClock.now
    private(set) var deadline = ContinuousClock.now + X11ClipboardRead.patience

    init(selection: UInt32, target: UInt32) {
        self.selection = selection
        self.target = target
    }

    /// Gives the owner time for the next step.
    func goOn() { deadline = min(.now + Self.patience, begin + Self.wholePatience) }

    func finish(_ result: Result<[UInt8]?, KithError>) { self.result.fulfil(result) }
}

extension X11Clipboards {
    /// Asks the owner of a clipboard for its content in one form.
    ///
    /// - Throws: `KithError` `.exhausted` when as many questions as are allowed wait for their answers.
    func read(_ selection: UInt32, as target: UInt32) throws(KithError) -> X11ClipboardRead {
        let properties = connection.atoms.transfers
        // One after the other: an answer that comes too late finds nobody.
        guard
            let index = (0..<properties.count).map({ (nextRead + $0) % properties.count })
                .first(where: { reads[properties[$0]] == nil })
        else { throw KithError(.exhausted, "\(properties.count) requests for clipboards wait for their answers.") }
        nextRead = index + 1
        let read = X11ClipboardRead(selection: selection, target: target)
        reads[properties[index]] = read
        unsafe xcb_delete_property(connection.raw, window, properties[index])
        unsafe xcb_convert_selection(connection.raw, window, selection, target, properties[index], 0)
        connection.flush()
        beginSweeping()
        return read
    }

    /// Takes an owner's answer.
    func answered(_ event: xcb_selection_notify_event_t) {
        guard event.property != 0 else {
            let refused = reads.first {
                $0.value.selection == event.selection && $0.value.target == event.target && !$0.value.isIncremental
            }
            guard let refused else { return }
            reads[refused.key] = nil
            refused.value.finish(.success(nil))
            return
        }
        guard let read = reads[event.property], read.selection == event.selection, read.target == event.target else {
            unsafe xcb_delete_property(connection.raw, window, event.property)
            return
        }
        guard let (type, count) = size(of: event.property) else { return }
        if type == connection.atoms[.incremental] {
            // The least that it will be.
            let least = take(event.property, limit: 4).reversed().reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
            guard least <= UInt32(ScreenClipboard.contentLimit) else { return refuse(event.property) }
            read.isIncremental = true
            read.goOn()
        } else if count > ScreenClipboard.contentLimit {
            refuse(event.property)
        } else {
            reads[event.property] = nil
            read.finish(.success(take(event.property, limit: count)))
        }
        connection.flush()
    }

    /// Takes a part of what comes in parts; an empty one is the end.
    func arrived(_ property: UInt32) {
        guard let read = reads[property], read.isIncremental, let (_, count) = size(of: property) else { return }
        guard read.bytes.count + count <= ScreenClipboard.contentLimit else { return refuse(property) }
        let part = take(property, limit: count)
        connection.flush()
        read.goOn()
        if part.isEmpty {
            reads[property] = nil
            read.finish(.success(read.bytes))
        } else {
            read.bytes += part
        }
    }

    private func refuse(_ property: UInt32) {
        unsafe xcb_delete_property(connection.raw, window, property)
        connection.flush()
        reads.removeValue(forKey: property)?.finish(
            .failure(
                KithError(
                    .exhausted,
                    "The clipboard has more than \(ScreenClipboard.contentLimit / 1_000_000) MB; nothing of it is sent."
                )))
    }

    /// The type of a property of ours, and its bytes; `nil` when it is not there.
    private func size(of property: UInt32) -> (type: UInt32, count: Int)? {
        let answer = try? unsafe connection.reply(
            to: xcb_get_property(connection.raw, 0, window, property, 0, 0, 0), xcb_get_property_reply
        ) { unsafe (type: $0.pointee.type, count: Int($0.pointee.bytes_after)) }
        guard let answer, answer.type != 0 else { return nil }
        return answer
    }

    /// Takes the bytes of a property away; it has at most `limit`.
    private func take(_ property: UInt32, limit: Int) -> [UInt8] {
        let words = UInt32((limit + 3) / 4)
        let cookie = unsafe xcb_get_property(connection.raw, 1, window, property, 0, 0, words)
        let bytes = try? unsafe connection.reply(to: cookie, xcb_get_property_reply) { reply in
            let count = unsafe max(Int(xcb_get_property_value_length(reply)), 0)
            return unsafe Array(UnsafeRawBufferPointer(start: xcb_get_property_value(reply), count: count))
        }
        return bytes ?? []  // the connection ended, which is found out elsewhere
    }
}
#endif
