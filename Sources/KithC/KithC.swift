// The functions of CKith.h, which says all about them.

public import CKith
import Kith
import KithAPI
import KithIO
import KithRPC
import KithWire

/// As CKith.h says.
@c @implementation
public func kith_version() -> UnsafePointer<CChar>? { unsafe StaticText.version.pointer }

/// As CKith.h says.
@c @implementation
public func kith_code_text(_ code: Int32) -> UnsafePointer<CChar>? {
    unsafe (StaticText.codes[code] ?? StaticText.unknown).pointer
}

/// Text that lives as long as the process.
@safe private struct StaticText: @unchecked Sendable {  // never changed
    let pointer: UnsafePointer<CChar>

    init(_ text: String) {
        let copy = UnsafeMutablePointer<CChar>.allocate(capacity: text.utf8.count + 1)
        for (place, byte) in text.utf8.enumerated() { unsafe copy[place] = CChar(bitPattern: byte) }
        unsafe copy[text.utf8.count] = 0
        unsafe pointer = UnsafePointer(copy)
    }

    static let version = StaticText(kithVersion)
    static let unknown = StaticText("Not a code of Kith.")
    static let codes: [Int32: StaticText] = [
        KITH_OK: StaticText("Done."),
        KITH_UNSUPPORTED: StaticText("The device does not know the method."),
        KITH_INVALID: StaticText("The request is wrong."),
        KITH_INTERNAL: StaticText("A fault of Kith's."),
        KITH_NOT_FOUND: StaticText("What was asked for does not exist."),
        KITH_CONFLICT: StaticText("It is there already, or in use."),
        KITH_DENIED: StaticText("The grant is missing."),
        KITH_UNPAIRED: StaticText("The caller is not paired with the device."),
        KITH_UNREACHABLE: StaticText("The device cannot be reached now."),
        KITH_TIMED_OUT: StaticText("The time passed first."),
        KITH_CANCELLED: StaticText("It was called off."),
        KITH_EXHAUSTED: StaticText("A limit was met."),
        KITH_CORRUPT: StaticText("Bytes that should agree do not."),
        KITH_CLOSED: StaticText("The connection, the stream or the call has ended."),
    ]
}

// MARK: - Devices

private struct OpenOptions: Decodable {
    var name: String?
    var port: UInt16?
    var passphrase: String?
    var listens: Bool?
    var shell: Bool?
    var files: Bool?
    var forward: Bool?
    var inbox: Bool?

    var options: Device.Options {
        var options = Device.Options()
        options.name = name
        options.port = port
        options.passphrase = passphrase.map { SecretBytes(Array($0.utf8)) }
        options.listens = listens ?? true
        options.services.shell = shell ?? true
        options.services.files = files ?? true
        options.services.forward = forward ?? true
        options.services.inbox = inbox ?? true
        return options
    }
}

/// As CKith.h says.
@c @implementation
public func kith_device_open(
    _ directory: UnsafePointer<CChar>?, _ options: UnsafePointer<CChar>?, _ options_length: Int, _ opened: kith_opened?,
    _ context: UnsafeMutableRawPointer?, _ error: UnsafeMutablePointer<kith_error>?
) -> Int32 {
    unsafe attempt(error) {
        let directory = try unsafe needed(directory, "The directory")
        let callback = unsafe Callback(try given(opened, "opened"), context)
        let input = try unsafe value(options, options_length, limit: 64 << 10, "The options")
        let options: Device.Options
        do { options = try input.decode(OpenOptions.self).options } catch {
            throw KithError(.invalid, "The options make no sense: compare them with CKith.h.", cause: error)
        }
        Task(name: "kith_device_open") {
            let result: Result<(kith_handle, String), KithError>
            do {
                let device = try await Device.open(directory: directory, options: options)
                let object = DeviceObject(device)
                do {
                    result = .success((try Handles.all.add(object), "\(device.id)"))
                } catch {
                    await object.free()
                    throw error
                }
            } catch { result = .failure(told(error)) }
            Callbacks.post {
                switch result {
                case .success((let handle, let id)):
                    unsafe withText(Array(id.utf8)) { text, _ in
                        unsafe callback.function(callback.context, nil, handle, text)
                    }
                case .failure(let error):
                    unsafe withError(error) { unsafe callback.function(callback.context, $0, 0, nil) }
                }
            }
        }
    }
}

/// As CKith.h says.
@c @implementation
public func kith_device_start(
    _ device: kith_handle, _ running: kith_running?, _ context: UnsafeMutableRawPointer?,
    _ error: UnsafeMutablePointer<kith_error>?
) -> Int32 {
    unsafe attempt(error) {
        let callback = unsafe Callback(try given(running, "running"), context)
        try Handles.all.object(device, as: DeviceObject.self).start { isUp, failure in
            Callbacks.post {
                unsafe withError(failure) { unsafe callback.function(callback.context, device, isUp ? 1 : 0, $0) }
            }
        }
    }
}

/// As CKith.h says.
@c @implementation
public func kith_device_stop(_ device: kith_handle, _ error: UnsafeMutablePointer<kith_error>?) -> Int32 {
    unsafe attempt(error) { try Handles.all.object(device, as: DeviceObject.self).stop() }
}

/// As CKith.h says.
@c @implementation
public func kith_device_free(
    _ device: kith_handle, _ done: kith_done?, _ context: UnsafeMutableRawPointer?,
    _ error: UnsafeMutablePointer<kith_error>?
) -> Int32 {
    unsafe attempt(error) {
        let callback = unsafe Callback(done, context)
        let object = try Handles.all.take(device, as: DeviceObject.self)
        Task(name: "kith_device_free") {
            await object.free()
            Callbacks.post { unsafe callback.function?(callback.context) }
        }
    }
}

// MARK: - Calls

/// What a call and the opening of a stream have in common.
private struct Request: Sendable {
    var device: DeviceObject
    var method: String
    var on: String?
    var options = CallOptions()
    var json: [UInt8]

    init(device: DeviceObject, method: String, json: [UInt8]) {
        self.device = device
        self.method = method
        self.json = json
    }

    init(
        _ device: kith_handle, _ method: UnsafePointer<CChar>?, _ on: UnsafePointer<CChar>?, _ timeout: UInt64,
        _ json: UnsafePointer<CChar>?, _ length: Int
    ) throws {
        self.init(
            device: try Handles.all.object(device, as: DeviceObject.self),
            method: try unsafe needed(method, "The method"), json: try unsafe value(json, length, "The input").bytes)
        self.on = try unsafe text(on, "The device")
        guard timeout <= 1 << 52 else { throw KithError(.invalid, "The timeout is at most 2^52 milliseconds.") }
        if timeout > 0 { options.timeout = .milliseconds(Int64(timeout)) }
    }
}

/// As CKith.h says.
@c @implementation
public func kith_call(
    _ device: kith_handle, _ method: UnsafePointer<CChar>?, _ on: UnsafePointer<CChar>?, _ timeout: UInt64,
    _ json: UnsafePointer<CChar>?, _ length: Int, _ answered: kith_answered?, _ context: UnsafeMutableRawPointer?,
    _ call: UnsafeMutablePointer<kith_handle>?, _ error: UnsafeMutablePointer<kith_error>?
) -> Int32 {
    unsafe attempt(error) {
        let callback = unsafe Callback(try given(answered, "answered"), context)
        let request = try unsafe Request(device, method, on, timeout, json, length)
        try unsafe begin(request, callback) { unsafe call?.pointee = $0 }
    }
}

/// As CKith.h says.
@c @implementation
public func kith_cancel(_ call: kith_handle, _ error: UnsafeMutablePointer<kith_error>?) -> Int32 {
    unsafe attempt(error) { try Handles.all.object(call, as: Work.self).device.cancel(call) }
}

/// As CKith.h says.
@c @implementation
public func kith_publish(
    _ device: kith_handle, _ topic: UnsafePointer<CChar>?, _ message: UnsafePointer<CChar>?, _ length: Int,
    _ answered: kith_answered?, _ context: UnsafeMutableRawPointer?, _ error: UnsafeMutablePointer<kith_error>?
) -> Int32 {
    unsafe attempt(error) {
        let callback = unsafe Callback(answered ?? { _, _, _, _ in }, context)
        let topic = try JSONText(encoding: try unsafe needed(topic, "The topic"))
        let message = try unsafe value(message, length, "The message")
        let input = JSONText(members: [(name: "topic", value: topic), (name: "message", value: message)])
        let object = try Handles.all.object(device, as: DeviceObject.self)
        try unsafe begin(Request(device: object, method: "events.publish", json: input.bytes), callback) { _ in }
    }
}

private func begin(_ request: Request, _ callback: Callback<kith_answered>, number: (kith_handle) -> Void) throws {
    try request.device.work(Work(request.device), number: number) { handle in
        let result: Result<[UInt8], KithError>
        do {
            result = .success(
                try await request.device.device.client.carrier.call(
                    named: request.method, json: request.json, on: request.on, options: request.options))
        } catch { result = .failure(told(error)) }
        await Callbacks.run {
            // It is none any more when its callback comes.
            Handles.all.remove(handle, as: Work.self)
            switch result {
            case .success(let json):
                unsafe withText(json) { unsafe callback.function(callback.context, nil, $0, $1) }
            case .failure(let error):
                unsafe withError(error) { unsafe callback.function(callback.context, $0, nil, 0) }
            }
        }
    }
}

// MARK: - Streams

/// As CKith.h says.
@c @implementation
public func kith_stream_open(
    _ device: kith_handle, _ method: UnsafePointer<CChar>?, _ on: UnsafePointer<CChar>?, _ timeout: UInt64,
    _ json: UnsafePointer<CChar>?, _ length: Int, _ streamed: kith_streamed?, _ context: UnsafeMutableRawPointer?,
    _ stream: UnsafeMutablePointer<kith_handle>?, _ error: UnsafeMutablePointer<kith_error>?
) -> Int32 {
    unsafe attempt(error) {
        let callback = unsafe Callback(try given(streamed, "streamed"), context)
        guard let stream = unsafe stream else { throw KithError(.invalid, "The place for the stream is NULL.") }
        let request = try unsafe Request(device, method, on, timeout, json, length)
        try unsafe open(request, callback) { unsafe stream.pointee = $0 }
    }
}

/// As CKith.h says.
@c @implementation
public func kith_send(
    _ stream: kith_handle, _ is_bytes: Int32, _ data: UnsafePointer<CChar>?, _ length: Int,
    _ error: UnsafeMutablePointer<kith_error>?
) -> Int32 {
    unsafe attempt(error) {
        let object = try Handles.all.object(stream, as: StreamObject.self)
        let piece = try unsafe copied(data, length, limit: 1 << 20, "What is sent")
        let areBytes = is_bytes != 0
        try object.send(areBytes ? piece : JSONText(piece).bytes, areBytes: areBytes)
    }
}

/// As CKith.h says.
@c @implementation
public func kith_finish(_ stream: kith_handle, _ error: UnsafeMutablePointer<kith_error>?) -> Int32 {
    unsafe attempt(error) { try Handles.all.object(stream, as: StreamObject.self).finish() }
}

/// As CKith.h says.
@c @implementation
public func kith_subscribe(
    _ device: kith_handle, _ topic: UnsafePointer<CChar>?, _ streamed: kith_streamed?,
    _ context: UnsafeMutableRawPointer?, _ subscription: UnsafeMutablePointer<kith_handle>?,
    _ error: UnsafeMutablePointer<kith_error>?
) -> Int32 {
    unsafe attempt(error) {
        let callback = unsafe Callback(try given(streamed, "streamed"), context)
        guard let subscription = unsafe subscription else {
            throw KithError(.invalid, "The place for the subscription is NULL.")
        }
        let topic = try JSONText(encoding: try unsafe needed(topic, "The topic"))
        let object = try Handles.all.object(device, as: DeviceObject.self)
        let input = JSONText(members: [(name: "topic", value: topic)])
        try unsafe open(Request(device: object, method: "events.subscribe", json: input.bytes), callback) {
            unsafe subscription.pointee = $0
        }
    }
}

/// As CKith.h says.
@c @implementation
public func kith_unsubscribe(_ subscription: kith_handle, _ error: UnsafeMutablePointer<kith_error>?) -> Int32 {
    unsafe attempt(error) {
        try Handles.all.object(subscription, as: StreamObject.self).device.cancel(subscription)
    }
}

private func open(_ request: Request, _ callback: Callback<kith_streamed>, number: (kith_handle) -> Void) throws {
    let object = StreamObject(request.device)
    try request.device.work(object, number: number) { handle in
        @Sendable func tell(_ event: Int32, _ data: [UInt8]) async {
            await Callbacks.run {
                unsafe withText(data) { unsafe callback.function(callback.context, handle, event, nil, $0, $1) }
            }
        }
        var failure: KithError?
        do {
            let stream = try await request.device.device.client.carrier.open(
                named: request.method, json: request.json, on: request.on, options: request.options)
            defer { stream.cancel() }
            await tell(KITH_STREAM_OPENED, stream.answer)
            try await withThrowingTaskGroup(of: Bool.self) { group in
                defer { group.cancelAll() }
                group.addTask {
                    while let item = try await stream.receive() {
                        switch item {
                        case .message(let json): await tell(KITH_STREAM_MESSAGE, json)
                        case .bytes(let bytes): await tell(KITH_STREAM_BYTES, bytes)
                        }
                    }
                    return true
                }
                group.addTask {
                    try await object.pump(into: stream)
                    return false
                }
                // The end of our direction is not the end of the stream.
                while let isOver = try await group.next(), !isOver {}
            }
            try Task.checkCancellation()
        } catch { failure = told(error) }
        await Callbacks.run { [failure] in
            Handles.all.remove(handle, as: Work.self)
            unsafe withError(failure) {
                unsafe callback.function(callback.context, handle, KITH_STREAM_ENDED, $0, nil, 0)
            }
        }
    }
}

// MARK: - Services

/// A request that C is to answer.
private final class OpenRequest: Sendable {
    let promise = Promise<Result<JSONValue, KithError>>()
}

/// A service whose handlers are one C function.
private struct CService: Service {
    let info: ServiceInfo
    let handlers: [Handler]

    init(_ registration: Registration, _ callback: Callback<kith_requested>) throws {
        info = ServiceInfo(registration.service)
        handlers = try registration.methods.map { method in
            guard method.header.kind != .stream else {
                throw KithError(.unsupported, "\(method.name) is a stream: those cannot be served from C.")
            }
            return .call(method) { input, context in
                let json = try JSONText(encoding: input).bytes
                let caller = context.caller.device.map { Array("\($0)".utf8) }
                let request = OpenRequest()
                let handle = try Handles.all.add(request)
                defer { Handles.all.remove(handle, as: OpenRequest.self) }
                Callbacks.post {
                    unsafe withText(Array(method.name.utf8)) { name, _ in
                        unsafe withText(json) { text, count in
                            guard let caller else {
                                return unsafe callback.function(callback.context, handle, name, nil, text, count)
                            }
                            unsafe withText(caller) { id, _ in
                                unsafe callback.function(callback.context, handle, name, id, text, count)
                            }
                        }
                    }
                }
                return try await request.promise.valueUnlessCancelled().get()
            }
        }
    }
}

/// As CKith.h says.
@c @implementation
public func kith_service_add(
    _ device: kith_handle, _ registration: UnsafePointer<CChar>?, _ length: Int, _ requested: kith_requested?,
    _ context: UnsafeMutableRawPointer?, _ service: UnsafeMutablePointer<kith_handle>?,
    _ error: UnsafeMutablePointer<kith_error>?
) -> Int32 {
    unsafe attempt(error) {
        let callback = unsafe Callback(try given(requested, "requested"), context)
        let object = try Handles.all.object(device, as: DeviceObject.self)
        let declared = try Registration(
            try unsafe value(registration, length, limit: Registration.sizeLimit, "The registration"))
        let added = try unsafe CService(declared, callback)
        let id = try object.device.add(added)
        do {
            let handle = try Handles.all.add(ServiceObject(object, id))
            do { try object.keep(handle) } catch {
                Handles.all.remove(handle, as: ServiceObject.self)
                throw error
            }
            unsafe service?.pointee = handle
        } catch {
            Task(name: "kith_service_add") { await object.device.remove(id) }
            throw error
        }
    }
}

/// As CKith.h says.
@c @implementation
public func kith_service_remove(
    _ service: kith_handle, _ done: kith_done?, _ context: UnsafeMutableRawPointer?,
    _ error: UnsafeMutablePointer<kith_error>?
) -> Int32 {
    unsafe attempt(error) {
        let callback = unsafe Callback(done, context)
        let object = try Handles.all.take(service, as: ServiceObject.self)
        object.device.forget(service)
        Task(name: "kith_service_remove") {
            await object.device.device.remove(object.id)
            Callbacks.post { unsafe callback.function?(callback.context) }
        }
    }
}

/// As CKith.h says.
@c @implementation
public func kith_reply(
    _ request: kith_handle, _ json: UnsafePointer<CChar>?, _ length: Int, _ error: UnsafeMutablePointer<kith_error>?
) -> Int32 {
    unsafe attempt(error) {
        let answer = try unsafe value(json, length, "The answer").decode(JSONValue.self)
        try Handles.all.take(request, as: OpenRequest.self).promise.fulfil(.success(answer))
    }
}

/// As CKith.h says.
@c @implementation
public func kith_reply_error(
    _ request: kith_handle, _ code: Int32, _ message: UnsafePointer<CChar>?, _ error: UnsafeMutablePointer<kith_error>?
) -> Int32 {
    unsafe attempt(error) {
        let failure = KithError(
            KithError.Code(rpcCode: Int(code)), try unsafe text(message, "The message") ?? "The service refused.")
        try Handles.all.take(request, as: OpenRequest.self).promise.fulfil(.failure(failure))
    }
}
