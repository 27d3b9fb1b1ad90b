'use strict'
// A device of Kith in this process: promises and async iterators around CKith.h. index.d.ts says what each is for.

const native = require(process.env.KITH_NODE_ADDON || './build/kith.node')

const codes = {
  unsupported: -32601, invalid: -32602, internal: -32603, notFound: -32001, conflict: -32002, denied: -32003,
  unpaired: -32004, unreachable: -32005, timedOut: -32006, cancelled: -32007, exhausted: -32008, corrupt: -32009,
  closed: -32010
}

class KithError extends Error {
  constructor (code, message) {
    super(message)
    this.name = 'KithError'
    this.code = code
  }
}

// Runs a native function, whose errors are plain.
function invoke (name, ...inputs) {
  try {
    return native[name](...inputs)
  } catch (error) {
    throw typeof error.code === 'number' ? new KithError(error.code, error.message) : error
  }
}

const text = value => JSON.stringify(value === undefined ? {} : value)

// A promise of the one event that a native function announces.
function once (name, ...inputs) {
  return new Promise((resolve, reject) => {
    invoke(name, ...inputs, 0, (kind, number, handle, code, data) => {
      if (code) reject(new KithError(code, data)); else resolve({ handle, data })
    })
  })
}

// More unread messages than this end a stream: whoever reads none must not fill the memory.
const unreadLimit = 4096

class Stream {
  #handle = null
  #unread = []
  #waiting = []
  #end = null // { error } when it is over
  #accept
  #refuse
  #accepted

  constructor (start) {
    this.#accepted = new Promise((resolve, reject) => { this.#accept = resolve; this.#refuse = reject })
    this.#accepted.catch(() => {}) // told again by the iteration
    this.#handle = start((kind, number, handle, code, data) => this.#take(kind, code, data))
  }

  get accepted () { return this.#accepted }

  #take (kind, code, data) {
    if (kind === 'accepted') return this.#accept(JSON.parse(data))
    if (kind === 'ended') {
      const error = code ? new KithError(code, data) : null
      if (!this.#end) this.#end = { error }
      this.#refuse(error || new KithError(codes.closed, 'The stream has ended.'))
      for (const waiting of this.#waiting.splice(0)) this.#settle(waiting)
      return
    }
    if (this.#end) return
    const item = kind === 'bytes' ? data : JSON.parse(data)
    const waiting = this.#waiting.shift()
    if (waiting) return waiting.resolve({ value: item, done: false })
    if (this.#unread.length < unreadLimit) return this.#unread.push(item)
    this.#end = { error: new KithError(codes.exhausted, `The stream was not read: ${unreadLimit} messages are waiting.`) }
    this.cancel()
  }

  #settle (waiting) {
    const error = this.#end.error
    this.#end.error = null // told once
    if (error) waiting.reject(error); else waiting.resolve({ value: undefined, done: true })
  }

  send (message) { invoke('send', this.#handle, Buffer.isBuffer(message) ? message : JSON.stringify(message)) }

  finish () { invoke('finish', this.#handle) }

  cancel () {
    try {
      native.cancel(this.#handle)
    } catch (error) {
      if (error.code !== codes.notFound) throw error // it is over already
    }
  }

  next () {
    if (this.#unread.length) return Promise.resolve({ value: this.#unread.shift(), done: false })
    return new Promise((resolve, reject) => {
      if (this.#end) this.#settle({ resolve, reject }); else this.#waiting.push({ resolve, reject })
    })
  }

  // Leaving a loop cancels the stream.
  return () {
    this.#unread = []
    this.#end = this.#end || { error: null }
    this.#end.error = null
    this.cancel()
    return Promise.resolve({ value: undefined, done: true })
  }

  [Symbol.asyncIterator] () { return this }
}

class Service {
  #handle
  #context

  constructor (handle, context) { this.#handle = handle; this.#context = context }

  async remove () {
    await once('unserve', this.#handle)
    this.release()
  }

  // No event comes any more: the device was freed, or the service removed.
  release () {
    if (this.#context) native.release(this.#context)
    this.#context = null
  }
}

class Device {
  #handle
  #id
  #stopped = null
  #services = new Set()

  constructor (handle, id) { this.#handle = handle; this.#id = id }

  static async open (directory, options) {
    const { handle, data } = await once('open', directory, text(options))
    return new Device(handle, data)
  }

  get id () { return this.#id }

  start () {
    return new Promise((resolve, reject) => {
      let stop
      const stopped = new Promise(resolve => { stop = resolve })
      invoke('start', this.#handle, 0, (kind, number, handle, code, data) => {
        if (kind === 'up') return resolve()
        stop(code ? new KithError(code, data) : null)
        reject(new KithError(code || codes.closed, data || 'The device was stopped before it was up.'))
      })
      this.#stopped = stopped
    })
  }

  async stop () {
    invoke('stop', this.#handle)
    const error = await this.#stopped
    if (error) throw error
  }

  async free () {
    await once('free', this.#handle)
    for (const service of this.#services) service.release()
    this.#services.clear()
  }

  call (method, input, { on, timeout = 0, signal } = {}) {
    return new Promise((resolve, reject) => {
      signal?.throwIfAborted()
      let handle
      const abort = () => { try { native.cancel(handle) } catch {} } // its answer is on the way
      handle = invoke('call', this.#handle, method, on, timeout, text(input), 0, (kind, number, _, code, data) => {
        signal?.removeEventListener('abort', abort)
        if (code) reject(new KithError(code, data)); else resolve(JSON.parse(data))
      })
      signal?.addEventListener('abort', abort, { once: true })
    })
  }

  stream (method, input, { on, timeout = 0 } = {}) {
    return new Stream(listen => invoke('stream', this.#handle, method, on, timeout, text(input), 0, listen))
  }

  async publish (topic, message) { await this.call('events.publish', { topic, message }) }

  subscribe (topic, options = {}) { return this.stream('events.subscribe', { topic, ...options }) }

  serve (service, methods) {
    const handlers = new Map()
    const declared = Object.entries(methods).map(([name, method]) => {
      const { handler, ...declaration } = typeof method === 'function' ? { handler: method } : method
      handlers.set(`${service}/${name}`, handler)
      return { name, kind: 'action', ...declaration }
    })
    const answer = async (kind, number, request, code, json, method, caller) => {
      try {
        const result = await handlers.get(method)(JSON.parse(json), { caller: caller ?? null })
        native.reply(request, JSON.stringify(result === undefined ? {} : result))
      } catch (error) {
        const isOurs = error instanceof KithError
        // What a handler throws by mistake may say more than a caller should know.
        try {
          native.refuse(request, isOurs ? error.code : codes.internal, isOurs ? error.message : 'The service failed.')
        } catch {} // Nobody waits any more.
      }
    }
    const [handle, context] = invoke('serve', this.#handle, JSON.stringify({ service, methods: declared }), 0, answer)
    const made = new Service(handle, context)
    this.#services.add(made)
    return made
  }
}

module.exports = { Device, KithError, codes, version: native.version() }
