/// A queue whose front is taken in constant time.
@usableFromInline package struct Ring<Element> {
    @usableFromInline var elements: [Element?] = []
    @usableFromInline var head = 0

    /// Makes an empty queue.
    @inlinable package init() {}

    /// The number of elements.
    @inlinable package var count: Int { elements.count - head }

    /// True when there are no elements.
    @inlinable package var isEmpty: Bool { count == 0 }

    /// The element at the front, which stays.
    @inlinable package var first: Element? { head < elements.count ? elements[head] : nil }

    /// The element at the end, which stays.
    @inlinable package var last: Element? { head < elements.count ? elements[elements.count - 1] : nil }

    /// Adds an element at the end.
    @inlinable package mutating func append(_ element: Element) { elements.append(element) }

    /// Takes the element at the end.
    @inlinable package mutating func popLast() -> Element? {
        guard head < elements.count else { return nil }
        let element = elements.removeLast()
        if head == elements.count {
            elements.removeAll(keepingCapacity: elements.count <= 64)
            head = 0
        }
        return element
    }

    /// Takes the element at the front.
    @inlinable package mutating func popFirst() -> Element? {
        guard head < elements.count else { return nil }
        let element = elements[head].take()
        head += 1
        if head == elements.count {
            elements.removeAll(keepingCapacity: elements.count <= 64)
            head = 0
        } else if head >= 64, head * 2 >= elements.count {
            elements.removeFirst(head)
            head = 0
        }
        return element
    }
}

extension Ring: Sendable where Element: Sendable {}
