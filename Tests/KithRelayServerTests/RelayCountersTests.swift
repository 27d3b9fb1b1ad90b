import Testing

@testable import KithRelayServer

@Suite("A relay's counters") struct RelayCountersTests {
    @Test func `the page for Prometheus has a kind and a value for each`() {
        let counters = RelayCounters()
        counters.sentBytes.count(1_200)
        let lines = counters.text.split(separator: "\n")
        #expect(lines.contains("kith_relay_sent_bytes_total 1200"))
        #expect(lines.contains("# TYPE kith_relay_clients gauge"))
        #expect(lines.count % 3 == 0)
    }
}
