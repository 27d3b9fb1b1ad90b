import KithAPI
import KithIdentity
import KithWire

/// The methods of a service in another process, as this device serves them.
struct ExternalHandlers: Service {
    /// The most calls of one method that one device may have running.
    static let callsPerDevice = 32

    private let service: any ExternalService

    init(_ service: any ExternalService) { self.service = service }

    var name: String { service.name }

    var info: ServiceInfo { ServiceInfo(service.name) }

    var handlers: [Handler] {
        service.methods.map { Handler.external($0, by: service).limited(to: Self.callsPerDevice) }
    }

    /// Checks that its methods are named for it and closed to unpaired devices.
    ///
    /// - Throws: `KithError` `.invalid`.
    func check() throws(KithError) {
        for method in service.methods {
            guard method.name.hasPrefix(service.name + "/"), method.name.utf8.count <= StreamHeader.methodLimit else {
                throw KithError(.invalid, "\(method.name.prefix(128)) is not a name of the service \(service.name).")
            }
            guard method.access != .anyone else {
                throw KithError(.invalid, "\(method.name) cannot be open to devices that are not paired.")
            }
        }
    }
}

/// A method of another device.
struct RemoteName: Hashable, Sendable {
    var device: DeviceID
    var method: String
}

/// Methods that only the other device knows.
extension Node {
    /// The entry for a method of another device: ours, where its types are declared here, else what that device says.
    func method(_ name: String, on device: String, options: CallOptions) async throws -> AnyMethod {
        if let known = methods.method(name), known.isShared { return known }
        let target = try resolve(device)
        let remote = RemoteName(device: target.id, method: name)
        let known = remoteMethod(remote)
        // What it has announced need not be asked.
        if let path = try? TopicPath(method: name),
            let action = providers.providers(of: path).first(where: { $0.device == target.id })?.action,
            action.kind != .stream
        {
            if let known, known.kind == action.kind, known.header.isIdempotent == action.isIdempotent { return known }
            let method = AnyMethod(
                DynamicMethod(
                    MethodHeader(
                        name: action.name.contains("{") ? path.methodName : action.name, kind: action.kind,
                        callers: .owner, isIdempotent: action.isIdempotent, summary: action.summary)))
            remember(method, for: remote)
            return method
        }
        if let known { return known }
        let table = try await call(API.Describe.self, Nothing(), on: target.id.description, options: options)
        let path = try? TopicPath(method: name)
        let match =
            table.methods.first { $0.name == name }
            ?? table.methods.first { entry in
                guard let path, let other = try? TopicPath(method: entry.name) else { return false }
                return other == path || path.matches(template: other)
            }
        guard let entry = match else {
            throw KithError(.unsupported, "\(target.name) does not know the method \(name.prefix(bytes: 128)).")
        }
        func way(_ form: StreamForm?) throws -> DynamicMethod.Way {
            switch form {
            case .bytes: return .bytes
            case .messages: return .messages()
            case .nothing: return .nothing
            case nil:
                guard entry.kind == .stream else { return .nothing }
                throw KithError(
                    .unsupported, "\(target.name) does not say what \(name.prefix(128)) carries. Update Kith there.")
            }
        }
        let method = AnyMethod(
            DynamicMethod(
                MethodHeader(
                    name: entry.name.contains("{") ? name : entry.name, kind: entry.kind, callers: .owner,
                    isIdempotent: false, summary: entry.summary),
                upstream: try way(entry.upstream), downstream: try way(entry.downstream)))
        remember(method, for: remote)
        return method
    }

    /// Runs a request to another device; when it fails, forgets the device's description of the method, which may be stale.
    func asked<Result>(
        _ name: String, on device: String, _ body: () async throws -> Result
    ) async throws -> Result {
        do {
            return try await body()
        } catch {
            // One that cannot be found has said nothing, and of what is declared here none was asked.
            if methods.method(name)?.isShared != true, let target = try? resolve(device) {
                remember(nil, for: RemoteName(device: target.id, method: name))
            }
            throw error
        }
    }
}
