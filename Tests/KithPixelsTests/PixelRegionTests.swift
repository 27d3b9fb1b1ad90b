import KithPixels
import KithTesting
import Testing

@Suite struct PixelRegionTests {
    private static let space = PixelRectangle(x: 0, y: 0, width: 24, height: 24)

    private static func rectangle(_ random: inout SeededRandom) -> PixelRectangle {
        PixelRectangle(
            x: Int.random(in: -2..<24, using: &random), y: Int.random(in: -2..<24, using: &random),
            width: Int.random(in: 0...9, using: &random), height: Int.random(in: 0...9, using: &random))
    }

    private static func pixels(_ rectangle: PixelRectangle) -> Set<[Int]> {
        Set(rectangle.rows.flatMap { y in rectangle.columns.map { [$0, y] } })
    }

    @Test func `rectangles do with pixels what sets do`() {
        var random = SeededRandom.fromEnvironment()
        for _ in 0..<500 {
            let (first, second) = (Self.rectangle(&random), Self.rectangle(&random))
            let (a, b) = (Self.pixels(first), Self.pixels(second))
            #expect(Self.pixels(first.intersection(second)) == a.intersection(b), "\(random)")
            #expect(first.intersects(second) == !a.isDisjoint(with: b), "\(random)")
            #expect(first.contains(second) == b.isSubset(of: a), "\(random)")
            #expect(Self.pixels(first.union(second)).isSuperset(of: a.union(b)), "\(random)")
            let rest = first.subtracting(second)
            #expect(Set(rest.flatMap { Self.pixels($0) }) == a.subtracting(b), "\(random)")
            #expect(rest.reduce(0) { $0 + $1.area } == a.subtracting(b).count, "\(random)")
        }
    }

    @Test func `a region holds exactly what was put in, in rectangles that do not overlap`() {
        var random = SeededRandom.fromEnvironment()
        for _ in 0..<100 {
            var (region, model) = (PixelRegion(), Set<[Int]>())
            for _ in 0..<8 {
                let rectangle = Self.rectangle(&random)
                if random.chance(0.7) {
                    region.insert(rectangle)
                    model.formUnion(Self.pixels(rectangle))
                } else {
                    region.subtract(rectangle)
                    model.subtract(Self.pixels(rectangle))
                }
                #expect(Set(region.rectangles.flatMap { Self.pixels($0) }) == model, "\(random)")
                #expect(region.area == model.count, "\(random)")
            }
            region.clip(to: Self.space)
            #expect(region.area == model.intersection(Self.pixels(Self.space)).count, "\(random)")
        }
    }

    @Test func `a region of many pieces stays within its limit and loses no pixel`() {
        var random = SeededRandom.fromEnvironment()
        var (region, points) = (PixelRegion(), [[Int]]())
        for _ in 0..<2000 {
            let (x, y) = (Int.random(in: 0..<1920, using: &random), Int.random(in: 0..<1080, using: &random))
            region.insert(PixelRectangle(x: x, y: y, width: 2, height: 2))
            points.append([x, y])
            #expect(region.rectangles.count <= PixelRegion.limit)
        }
        for (index, first) in region.rectangles.enumerated() {
            #expect(!region.rectangles[(index + 1)...].contains { $0.intersects(first) }, "\(random)")
        }
        #expect(
            points.allSatisfy { region.contains(x: $0[0], y: $0[1]) && region.contains(x: $0[0] + 1, y: $0[1] + 1) })
    }
}
