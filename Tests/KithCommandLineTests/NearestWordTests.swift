import KithCommandLine
import Testing

@Suite struct NearestWordTests {
    @Test(arguments: [
        ("status", "stauts", 1), ("status", "status", 0), ("", "abc", 3), ("grant", "grnt", 1), ("ls", "sl", 1),
        ("kitten", "sitting", 3), ("forward", "foward", 1),
    ])
    func `slips are counted`(left: String, right: String, count: Int) {
        #expect(Wording.slips(left, right) == count && Wording.slips(right, left) == count)
    }

    @Test func `only a word that is near is suggested`() {
        let words = ["ls", "cp", "status", "stat", "stats", "devices"]
        #expect(Wording.nearest(to: "stauts", in: words) == "status")
        #expect(Wording.nearest(to: "staus", in: words) == "status")
        #expect(Wording.nearest(to: "sl", in: words) == "ls")
        #expect(Wording.nearest(to: "device", in: words) == "devices")
        #expect(Wording.nearest(to: "nosuch", in: words) == nil)
        #expect(Wording.nearest(to: "", in: []) == nil)
    }
}
