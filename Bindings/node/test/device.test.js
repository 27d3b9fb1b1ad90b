'use strict'
const assert = require('node:assert/strict')
const { spawn } = require('node:child_process')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')
const readline = require('node:readline')
const { test } = require('node:test')
const { Device, KithError, codes, version } = require('..')

const folder = t => {
  const made = fs.mkdtempSync(path.join(os.tmpdir(), 'kith-node-'))
  t.after(() => fs.rmSync(made, { recursive: true, force: true }))
  return made
}

// A device that runs until the test ends.
async function device (t, name) {
  const made = await Device.open(path.join(folder(t), name), { name })
  t.after(() => made.free().catch(() => {}))
  await made.start()
  return made
}

const code = expected => error => error instanceof KithError && error.code === codes[expected]

const adds = {
  kind: 'query',
  access: 'paired',
  input: { type: 'object', required: ['a', 'b'], properties: { a: { type: 'number' }, b: { type: 'number' } } },
  handler: ({ a, b }) => a + b
}

test('a service answers calls, and its errors arrive', async t => {
  const here = await device(t, 'one')
  assert.match(version, /^\d+\.\d+\.\d+$/)
  const service = here.serve('math', {
    add: adds,
    refuse: async () => { throw new KithError(codes.conflict, 'Not today.') },
    fail: () => { throw new Error('a secret of the program') },
    nothing: () => {}
  })
  assert.equal(await here.call('math/add', { a: 2, b: 3 }), 5)
  assert.deepEqual(await here.call('math/nothing'), {})
  await assert.rejects(here.call('math/add', { a: 2 }), code('invalid'))
  await assert.rejects(here.call('math/refuse'), error => code('conflict')(error) && error.message === 'Not today.')
  await assert.rejects(here.call('math/fail'), error => code('internal')(error) && !error.message.includes('secret'))
  await assert.rejects(here.call('math/none'), code('unsupported'))
  assert.throws(() => here.serve('math', { add: adds }), code('conflict'))
  await service.remove()
  await assert.rejects(here.call('math/add', { a: 2, b: 3 }), code('unsupported'))
})

test('a call that is aborted or takes too long is rejected', async t => {
  const here = await device(t, 'one')
  const abort = new AbortController()
  here.serve('slow', { wait: () => new Promise(() => {}), begun: () => { abort.abort(); return new Promise(() => {}) } })
  await assert.rejects(here.call('slow/wait', {}, { timeout: 50 }), code('timedOut'))
  await assert.rejects(here.call('slow/begun', {}, { signal: abort.signal }), code('cancelled'))
})

test('published events come to a subscription, until its loop is left', async t => {
  const here = await device(t, 'one')
  const events = here.subscribe('weather/*')
  await events.accepted
  for (const degrees of [20, 21, 22]) await here.publish('weather/graz', { degrees })
  const seen = []
  for await (const { event } of events) {
    seen.push(event.message.degrees)
    if (seen.length === 3) break
  }
  assert.deepEqual(seen, [20, 21, 22])
  assert.equal((await events.next()).done, true)
})

test('a freed device is an error, and so is a directory in use', async t => {
  const here = await device(t, 'one')
  const other = path.join(folder(t), 'two')
  const first = await Device.open(other)
  await assert.rejects(Device.open(other), code('conflict'))
  const stream = here.subscribe('a/b')
  await stream.accepted
  await first.free()
  await here.free()
  await assert.rejects(here.call('device.status'), code('notFound'))
  await assert.rejects(here.free(), code('notFound'))
  await assert.rejects(stream.next(), code('cancelled'))
  assert.throws(() => stream.send({}), code('notFound'))
  const again = await Device.open(other)
  await again.free()
})

test('this process and one in C call each other', { skip: !process.env.KITH_C_PEER && 'KITH_C_PEER is not set' }, async t => {
  const here = await device(t, 'javascript')
  here.serve('words', {
    join: {
      access: 'paired',
      handler: ({ words }, { caller }) => ({ joined: words.join(' '), caller })
    }
  })
  const peer = spawn(process.env.KITH_C_PEER, [path.join(folder(t), 'c')], { stdio: ['pipe', 'pipe', 'inherit'] })
  t.after(() => peer.kill())
  const lines = readline.createInterface({ input: peer.stdout })[Symbol.asyncIterator]()
  const invitation = JSON.parse((await lines.next()).value).text

  const joining = here.stream('pairing.join', { invitation })
  let paired
  for await (const event of joining) {
    if (event.compare) joining.send({ accept: true })
    if (event.failed) throw new Error(JSON.stringify(event.failed))
    if (event.paired) { paired = event.paired; break }
  }
  assert.ok(paired)
  assert.equal(await here.call('math/add', { a: 20, b: 3 }, { on: 'c', timeout: 10000 }), 23)

  peer.stdin.write(`${here.id} words/join {"words":["from","C"]}\n`)
  const answer = JSON.parse((await lines.next()).value)
  assert.equal(answer.joined, 'from C')
  assert.notEqual(answer.caller, null)
  const ended = new Promise(resolve => peer.once('exit', resolve))
  peer.stdin.end()
  assert.equal(await ended, 0)
})
