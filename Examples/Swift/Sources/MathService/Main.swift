import Kith
import TwoDevices

/// One device serves `math.add` and `math.sum`, the other calls them.
@main struct Main {
    static func main() async throws {
        // None of ours: the laptop does sums, and opens no shells.
        try await withTwoDevices([.node(pattern: "math.*")], laptop: .only([MathService()])) { phone, laptop in
            print("2 + 3 =", try await phone.client.call(Math.Add.self, .init(a: 2, b: 3), on: "laptop"))

            let stream = try await phone.client.open(Math.Sum.self, Nothing(), on: "laptop").stream
            for value in 1...4 {
                try await stream.send(.init(value: value))
                guard let sum = try await stream.receive() else { break }
                print("so far", sum.value)
            }
            try await stream.finish()
        }
    }
}
