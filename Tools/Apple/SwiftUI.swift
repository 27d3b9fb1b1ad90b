// What Examples/SwiftUI uses of SwiftUI, declared as Apple declares it and doing nothing: on Linux the sample is type-checked
// against this (scripts/apple-typecheck).

@MainActor public protocol App {
    associatedtype Body: Scene
    @SceneBuilder var body: Body { get }
    init()
}

extension App {
    public static func main() {}
}

@MainActor public protocol Scene {
    associatedtype Body: Scene
    @SceneBuilder var body: Body { get }
}

@MainActor public protocol View {
    associatedtype Body: View
    @ViewBuilder var body: Body { get }
}

extension Never: Scene, View {
    public var body: Never { return fatalError("nothing is shown") }
}

@resultBuilder public struct SceneBuilder {
    public static func buildBlock<Content: Scene>(_ content: Content) -> Content { content }
}

@resultBuilder public struct ViewBuilder {
    public static func buildExpression<Content: View>(_ content: Content) -> Content { content }
    public static func buildBlock<each Content: View>(_ content: repeat each Content) -> TupleView<
        (repeat each Content)
    > {
        TupleView((repeat each content))
    }
    public static func buildIf<Content: View>(_ content: Content?) -> Content? { content }
    public static func buildEither<First: View, Second: View>(first: First) -> _ConditionalContent<First, Second> {
        _ConditionalContent()
    }
    public static func buildEither<First: View, Second: View>(second: Second) -> _ConditionalContent<First, Second> {
        _ConditionalContent()
    }
}

extension Optional: View where Wrapped: View {
    public var body: Never { return fatalError("nothing is shown") }
}

/// A view that is shown by the system.
public protocol PrimitiveView: View where Body == Never {}
extension PrimitiveView {
    public var body: Never { return fatalError("nothing is shown") }
}

public struct TupleView<Content>: PrimitiveView {
    nonisolated public init(_ content: Content) {}
}

public struct _ConditionalContent<First: View, Second: View>: PrimitiveView {
    nonisolated public init() {}
}

public struct WindowGroup<Content: View>: Scene {
    public init(@ViewBuilder content: () -> Content) {}
    public var body: Never { return fatalError("nothing is shown") }
}

extension Scene {
    public func onChange<Value: Equatable>(
        of value: Value, initial: Bool = false, _ action: @escaping (_ old: Value, _ new: Value) -> Void
    ) -> some Scene { self }
}

extension View {
    public func task(
        priority: TaskPriority = .userInitiated, _ action: sending @escaping @isolated(any) () async -> Void
    ) -> some View { self }
}

public struct Text: PrimitiveView {
    public init<Content: StringProtocol>(_ content: Content) {}
}

public struct Spacer: PrimitiveView {
    public init() {}
}

public struct HStack<Content: View>: PrimitiveView {
    public init(@ViewBuilder content: () -> Content) {}
}

public struct List<Content: View>: PrimitiveView {
    public init(@ViewBuilder content: () -> Content) {}
}

public struct ForEach<Data: RandomAccessCollection, ID: Hashable, Content: View>: PrimitiveView {
    public init(_ data: Data, id: KeyPath<Data.Element, ID>, @ViewBuilder content: @escaping (Data.Element) -> Content)
    {}
}

public struct Button: PrimitiveView {
    public init<Title: StringProtocol>(_ title: Title, action: @escaping @MainActor () -> Void) {}
}

public struct TextField: PrimitiveView {
    public init<Title: StringProtocol>(_ title: Title, text: Binding<String>) {}
}

@propertyWrapper public struct Binding<Value> {
    public init() {}
    public var wrappedValue: Value {
        get { fatalError("nothing is shown") }
        nonmutating set {}
    }
    public var projectedValue: Binding<Value> { self }
}

@propertyWrapper public struct State<Value> {
    private let value: Value
    public init(wrappedValue: Value) { value = wrappedValue }
    public var wrappedValue: Value {
        get { value }
        nonmutating set {}
    }
    public var projectedValue: Binding<Value> { Binding() }
}

@propertyWrapper public struct Environment<Value> {
    private let path: KeyPath<EnvironmentValues, Value>
    public init(_ path: KeyPath<EnvironmentValues, Value>) { self.path = path }
    public var wrappedValue: Value { EnvironmentValues()[keyPath: path] }
}

public struct EnvironmentValues {
    public var scenePhase: ScenePhase { .active }
}

public enum ScenePhase: Comparable, Sendable {
    case background
    case inactive
    case active
}
