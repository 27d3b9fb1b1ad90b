import KithTesting
import Testing

@testable import KithIO

@Suite struct SlotTableTests {
    @Test func `a number finds its value until that is removed`() {
        var table = SlotTable<String>()
        let (first, second) = (table.insert("first"), table.insert("second"))
        #expect(first != 0 && second != 0 && first != second)
        #expect(table.count == 2 && Set(table.numbers) == [first, second])
        table.update(first) { $0 += "!" }
        let (removed, again) = (table.remove(first), table.remove(first))
        #expect(removed == "first!" && again == nil)
        let (gone, kept) = (table.update(first) { $0 }, table.update(second) { $0 })
        #expect(gone == nil && kept == "second")
        #expect(table.count == 1 && table.numbers == [second])
    }

    @Test func `the number of a value that has gone is never another's`() {
        var table = SlotTable<Int>()
        var numbers: Set<UInt64> = []
        for value in 0..<1_000 {
            let number = table.insert(value)
            let (isNew, removed) = (numbers.insert(number).inserted, table.remove(number))
            #expect(isNew && removed == value)
        }
        let (none, other) = (table.update(0) { $0 }, table.remove(.max))
        #expect(table.count == 0 && none == nil && other == nil)
    }

    @Test func `it does what a dictionary does`() {
        var random = SeededRandom.fromEnvironment()
        var (table, dictionary) = (SlotTable<Int>(), [UInt64: Int]())
        for step in 0..<5_000 {
            if dictionary.isEmpty || random.chance(0.5) {
                dictionary[table.insert(step)] = step
            } else if let number = dictionary.keys.randomElement(using: &random) {
                let (removed, expected) = (table.remove(number), dictionary.removeValue(forKey: number))
                #expect(removed == expected, "\(random)")
            }
        }
        #expect(table.count == dictionary.count && Set(table.numbers) == Set(dictionary.keys), "\(random)")
        for (number, value) in dictionary {
            let found = table.update(number) { $0 }
            #expect(found == value, "\(random)")
        }
    }
}
