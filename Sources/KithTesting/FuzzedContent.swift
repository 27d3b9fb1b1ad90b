internal import KithContent
internal import KithWire

/// What must hold of files that are read for the library, and of what the process that reads them answers.
enum FuzzedContent {
    /// Reads a file; the answer made of it has to be taken by the other end, as it is.
    static func document(_ bytes: [UInt8]) {
        let content = ContentReading.read(MemorySource(bytes), [.properties, .text])
        precondition(content.properties == content.properties.plausible, "What was read can be meant")
        if let text = content.text {
            precondition(text.utf8.count <= ContentReading.textLimit, "A text is within its limit")
            precondition(text == text.collected(limit: ContentReading.textLimit), "A text is plain")
        }
        var answer = ContentExchange.Answer()
        do {
            let encoded = try CBOREncoder().encode(content.properties)
            _ = try answer.received(.properties, encoded)
            if let text = content.text { _ = try answer.received(.text, Array(text.utf8)) }
        } catch {
            preconditionFailure("What is read can be told: \(error)")
        }
        precondition(answer.content == content, "What is told is what was read")
    }

    /// Takes an answer: frame after frame, as long as they are within their limits.
    static func answer(_ bytes: [UInt8]) {
        if let request = ContentExchange.Request(Array(bytes.prefix(ContentExchange.Request.size))) {
            precondition(
                ContentExchange.Request(request.bytes) == request, "A request means what its bytes say")
        }
        var (rest, answer) = (bytes[...], ContentExchange.Answer())
        do throws(ContentExchange.Answer.Fault) {
            while rest.count >= ContentExchange.Frame.headSize {
                let (frame, count) = try answer.next(Array(rest.prefix(ContentExchange.Frame.headSize)))
                rest = rest.dropFirst(ContentExchange.Frame.headSize)
                guard rest.count >= count else { return }
                if try answer.received(frame, Array(rest.prefix(count))) { break }
                rest = rest.dropFirst(count)
            }
        } catch {
            return
        }
        precondition(answer.content.properties == answer.content.properties.plausible, "What is taken can be meant")
        precondition(answer.failure?.utf8.count ?? 0 <= ContentProperties.textLimit, "A reason is one line")
    }

    private static let numbers: [[UInt8]] = [
        [0, 0, 0, 0], [0xFF, 0xFF, 0xFF, 0xFF], [0x7F, 0xFF, 0xFF, 0xFF], [0xFF, 0xFF, 0xFF, 0x7F], [1, 0, 0, 0],
        [0, 0, 0, 1],
    ]

    /// Seeds with a number wherever `#` stands.
    private static let patterns = [
        "#ftypmp42#moov#mvhd##", "II*\0##", "MM\0*##", "RIFF#WAVEfmt ####", "RIFF#WEBPVP8X###", "fLaC#####",
        "ID3\u{3}\0\0#TIT2##", "PK\u{3}\u{4}#PK\u{5}\u{6}####\0\0", "<html><script#&#x#", "<a \"#", "<?xml?><w:t>#",
    ]

    static let documentSeeds: [[UInt8]] = numbers.flatMap { number -> [[UInt8]] in
        patterns.map { pattern -> [UInt8] in
            pattern.utf8.flatMap { byte -> [UInt8] in byte == UInt8(ascii: "#") ? number : [byte] }
        }
    }

    static let answerSeeds: [[UInt8]] = {
        var seeds: [[UInt8]] = []
        for frame in ContentExchange.Frame.allCases {
            for number in numbers { seeds.append([frame.rawValue] + number + [0xA0]) }
        }
        seeds.append(ContentExchange.Frame.properties.bytes([0xA0]) + ContentExchange.Frame.end.bytes())
        seeds.append(ContentExchange.Request(wanted: [.text]).bytes)
        return seeds
    }()
}
