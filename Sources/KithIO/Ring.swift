/// A queue whose front is taken in constant time.
package struct Ring<Element> {
    private var elements: [Element?] = []
    private var head = 0

    /// Makes an empty queue.
    package init() {}

    /// The number of elements.
    package var count: Int { elements.count - head }

    /// True when there are no elements.
    package var isEmpty: Bool { count == 0 }

    /// The element at the front, which stays.
    package var first: Element? { head < elements.count ? elements[head] : nil }

    /// The element at the end, which stays.
    package var last: Element? { head < elements.count ? elements[elements.count - 1] : nil }

    /// Adds an element at the end.
    package mutating func append(_ element: Element) { elements.append(element) }

    /// Takes the element at the end.
    package mutating func popLast() -> Element? {
        guard head < elements.count else { return nil }
        let element = elements.removeLast()
        if head == elements.count {
            elements.removeAll(keepingCapacity: elements.count <= 64)
            head = 0
        }
        return element
    }

    /// Takes the element at the front.
    package mutating func popFirst() -> Element? {
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
