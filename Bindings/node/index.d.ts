/** Any JSON value. */
export type JSONValue = null | boolean | number | string | JSONValue[] | { [name: string]: JSONValue }

/** The version of the library. */
export const version: string

/** The codes of errors, by name. */
export const codes: Readonly<Record<
  'unsupported' | 'invalid' | 'internal' | 'notFound' | 'conflict' | 'denied' | 'unpaired' | 'unreachable' | 'timedOut' |
  'cancelled' | 'exhausted' | 'corrupt' | 'closed', number>>

/** A failure; throw one in a handler to choose what the caller sees. */
export class KithError extends Error {
  constructor(code: number, message: string)
  /** One of {@link codes}. */
  readonly code: number
}

/** Options for opening a device, as in CKith.h. */
export interface DeviceOptions {
  name?: string
  port?: number
  passphrase?: string
  listens?: boolean
  shell?: boolean
  files?: boolean
  forward?: boolean
  inbox?: boolean
}

/** Options of a call or a stream. */
export interface CallOptions {
  /** The device to ask: a name or DeviceID; absent for this one; `*` for any that serves the method. */
  on?: string
  /** Milliseconds until the answer; 0 for no limit. */
  timeout?: number
}

/** A stream: iterate over what comes; leaving the loop cancels it. More than 4,096 unread messages end it. */
export class Stream<Message = JSONValue> implements AsyncIterableIterator<Message> {
  private constructor()
  /** What the service answered when it accepted. */
  readonly accepted: Promise<JSONValue>
  /** Sends one message, or bytes. Throws `exhausted` while 64 are waiting: send again a little later. */
  send(message: JSONValue | Buffer): void
  /** Ends our direction. */
  finish(): void
  /** Calls it off; afterwards it does nothing. */
  cancel(): void
  next(): Promise<IteratorResult<Message>>
  return(): Promise<IteratorResult<Message>>
  [Symbol.asyncIterator](): this
}

/** What is known of a call beside its input. */
export interface CallContext {
  /** The DeviceID of the paired device that calls; `null` for this device's own person. */
  caller: string | null
}

/** Answers a call; what it throws is the answer, if it is a {@link KithError}. */
export type Handler = (input: any, context: CallContext) => JSONValue | void | Promise<JSONValue | void>

/** A method: its handler, with the members of rpc.register (Documentation/Socket.md). */
export interface Method {
  handler: Handler
  kind?: 'query' | 'action'
  summary?: string
  access?: string
  idempotent?: boolean
  input?: JSONValue
  output?: JSONValue
}

/** A service that a device offers. */
export interface Service {
  /** Stops serving; resolves when the last call is over. */
  remove(): Promise<void>
}

/** A device in this process. Free it when done: until then Node.js may not exit. */
export class Device {
  private constructor()
  /** Opens a data directory. */
  static open(directory: string, options?: DeviceOptions): Promise<Device>
  /** Its DeviceID. */
  readonly id: string
  /** Runs it; resolves when it is up. */
  start(): Promise<void>
  /** Stops it; resolves when it is down. */
  stop(): Promise<void>
  /** Ends everything and frees the directory. */
  free(): Promise<void>
  /** Calls a query or an action by its name or path. */
  call<Answer = JSONValue>(method: string, input?: unknown, options?: CallOptions & { signal?: AbortSignal }): Promise<Answer>
  /** Opens a stream. */
  stream<Message = JSONValue>(method: string, input?: unknown, options?: CallOptions): Stream<Message>
  /** Publishes an event. */
  publish(topic: string, message: unknown): Promise<void>
  /** Follows the events of a topic or a pattern; the members of an event are those of `kith api show events.subscribe`. */
  subscribe(topic: string, options?: { [name: string]: JSONValue }): Stream
  /** Serves methods at `SERVICE/METHOD`. */
  serve(service: string, methods: { [name: string]: Handler | Method }): Service
}
