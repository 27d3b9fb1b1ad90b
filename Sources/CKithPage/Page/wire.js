// The one connection to the device: signing in, calls, streams, and coming back after a loss.

import { t, unbase64 } from "/kit.js";

const encode = (text) => new TextEncoder().encode(text);
const b64url = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
const unb64url = (text) => unbase64(text.replace(/-/g, "+").replace(/_/g, "/"));

export class CallError extends Error {
	constructor({ code, message, data }) {
		super(message);
		Object.assign(this, { code, data });
	}
}
/// The error of a message that says why something failed, in the codes of answers.
export const failure = ({ code, message }) => new CallError({
	code: { notFound: -32001, conflict: -32002, denied: -32003, unpaired: -32004, unreachable: -32005, timedOut: -32006 }[code],
	message,
});
const lost = () => new CallError({ code: -32010, message: t("The connection to this device was lost.") });

// MARK: The key, which cannot leave this browser

const store = (mode, work) => new Promise((done, fail) => {
	const opening = indexedDB.open("kith", 1);
	opening.onupgradeneeded = () => opening.result.createObjectStore("keys");
	opening.onerror = () => fail(opening.error);
	opening.onsuccess = () => {
		const transaction = opening.result.transaction("keys", mode);
		const request = work(transaction.objectStore("keys"));
		transaction.oncomplete = () => (opening.result.close(), done(request.result));
		transaction.onerror = () => fail(transaction.error);
	};
});
const heldKey = () => store("readonly", (keys) => keys.get("own"));
async function makeKey() {
	const pair = await crypto.subtle.generateKey("Ed25519", false, ["sign", "verify"]);
	const key = { own: pair.privateKey, text: b64url(await crypto.subtle.exportKey("raw", pair.publicKey)) };
	await keepKey(key);
	return key;
}
const keepKey = (key) => store("readwrite", (keys) => keys.put(key, "own"));
const dropKey = () => store("readwrite", (keys) => keys.delete("own"));

function browserName() {
	const agent = navigator.userAgent;
	const browser = [["Edg/", "Edge"], ["OPR/", "Opera"], ["Firefox/", "Firefox"], ["Chrome/", "Chromium"], ["Safari/", "Safari"]]
		.find(([mark]) => agent.includes(mark))?.[1] ?? "Browser";
	const system = [
		["iPhone", "iPhone"],
		["iPad", "iPad"],
		["Android", "Android"],
		["Mac OS", "macOS"],
		["Windows", "Windows"],
		["CrOS", "ChromeOS"],
		["Linux", "Linux"],
	]
		.find(([mark]) => agent.includes(mark))?.[1];
	return system ? `${browser} on ${system}` : browser;
}

/// States: "start", "connecting", "live", "lost" (comes back by itself), "out" (nobody is signed in), "unable".
/// Whoever answers at this address is asked to show that it holds the device's key: before, nothing is sent but the login.
class Wire extends EventTarget {
	state = "start";
	welcome = undefined;
	#socket; #next = 1; #calls = new Map(); #streams = new Map(); #tries = 0; #timer; #waiting = []; #follows = new Set();

	#become(state, detail) {
		this.state = state;
		this.detail = detail;
		this.dispatchEvent(new Event("state"));
	}

	async start(secret) {
		if (!globalThis.crypto?.subtle || !globalThis.indexedDB) return this.#become("unable");
		try {
			this.secret = secret;
			this.key = await heldKey();
			if (secret && !this.key) this.key = await makeKey();
		} catch (error) { return this.#become("unable", error); }
		if (!this.key || !(secret || this.key.device)) return this.#become("out");
		this.connect();
	}

	connect() {
		clearTimeout(this.#timer);
		this.#cut();
		this.#socket?.close();
		const socket = (this.#socket = new WebSocket(location.origin.replace(/^http/, "ws") + "/ws"));
		this.#become(this.#tries ? "lost" : "connecting", { at: Date.now() });
		let refused = false, asked;
		const isOver = () => socket !== this.#socket || this.state === "out";
		socket.onmessage = async ({ data }) => {
			if (isOver()) return;
			let packet;
			try { packet = JSON.parse(data); } catch { return; }
			if (this.state === "live") return this.#take(packet);
			if (packet.hello && !asked) {
				asked = this.#transcript(packet.hello);
				const login = await this.#login(asked);
				if (!isOver()) socket.send(JSON.stringify({ login }));
				return;
			}
			if (packet.waiting) return this.#become("connecting", { code: packet.waiting.code });
			if (packet.refused) {
				refused = true;
				socket.close();
				this.isCrowded = packet.refused.code === "crowded";
				if (this.isCrowded) return this.#again();
				this.secret = undefined;
				return this.#become("out", packet.refused);
			}
			if (packet.welcome && asked) {
				const { welcome } = packet, of = asked;
				asked = undefined;
				const isOurs = await this.#isOurs(welcome, of);
				if (isOver()) return;
				if (!isOurs) {
					refused = true;
					socket.close();
					return this.#become("out", { code: "stranger" });
				}
				if (welcome.key !== this.key.device) {
					const isAnother = this.welcome && this.key.device;
					this.key.device = welcome.key;
					await keepKey(this.key).catch(() => {});
					if (isAnother) return location.reload();  // what waits here was meant for the one before
					if (isOver()) return;
				}
				this.welcome = welcome;
				this.secret = undefined;
				this.#tries = 0;
				this.isCrowded = false;
				this.state = "live";
				this.#send({ id: this.#next++, method: "rpc.hello", params: { protocol: 2 } });
				const follows = [...this.#follows];  // those that begin now open themselves
				this.#become("live");
				for (const go of this.#waiting.splice(0)) go();
				for (const follow of follows) follow.open();
			}
		};
		socket.onclose = () => {
			if (socket !== this.#socket) return;
			this.#cut();
			if (refused || this.state === "out") return;
			this.isCrowded = false;
			this.#again();
		};
	}

	/// Nothing more comes for what was asked on the connection before.
	#cut() {
		const calls = [...this.#calls.values()], streams = [...this.#streams.values()];
		this.#calls.clear();
		this.#streams.clear();
		for (const call of calls) call.fail(lost());
		for (const stream of streams) stream.over(lost());
	}

	#again() {
		const wait = Math.min(30e3, 300 * 1.8 ** this.#tries++) * (0.8 + Math.random() * 0.4);
		this.#become("lost", { at: Date.now() + wait });
		this.#timer = setTimeout(() => this.connect(), wait);
	}

	#transcript({ nonce, device }) {
		return {
			text: `kith web 1\n${nonce}\n${device}\n${location.origin}\n${this.key.text}`,
			challenge: b64url(crypto.getRandomValues(new Uint8Array(32))),
		};
	}
	async #login({ text, challenge }) {
		const transcript = encode(text), login = { key: this.key.text, name: browserName(), challenge };
		login.signature = b64url(await crypto.subtle.sign("Ed25519", this.key.own, transcript));
		if (this.secret) {
			const secret = await crypto.subtle.importKey("raw", unb64url(this.secret), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
			login.proof = b64url(await crypto.subtle.sign("HMAC", secret, transcript));
		}
		return login;
	}
	/// Whether a welcome is signed by the device that this browser knows; a link makes a device known.
	async #isOurs({ key, signature }, { text, challenge }) {
		if (!key || !(this.secret || key === this.key.device)) return false;
		try {
			const theirs = await crypto.subtle.importKey("raw", unb64url(key), "Ed25519", false, ["verify"]);
			return await crypto.subtle.verify("Ed25519", theirs, unb64url(signature), encode(`kith web welcome 1\n${text}\n${challenge}`));
		} catch { return false; }
	}

	#send(packet) {
		if (this.state === "live") this.#socket.send(JSON.stringify({ jsonrpc: "2.0", ...packet }));
	}

	#take(packet) {
		if (packet.method) {
			const stream = this.#streams.get(packet.params?.id);
			if (packet.method === "$/message") stream?.message(packet.params);
			else if (packet.method === "$/end") stream?.over(packet.params.error && new CallError(packet.params.error));
			return;
		}
		const call = this.#calls.get(packet.id);
		this.#calls.delete(packet.id);
		packet.error ? call?.fail(new CallError(packet.error)) : call?.done(packet.result);
	}

	/// Resolves when there is a connection.
	live(signal) {
		if (this.state === "live") return Promise.resolve();
		return new Promise((done, fail) => {
			this.#waiting.push(done);
			signal?.addEventListener("abort", () => fail(signal.reason));
		});
	}

	/// Calls a method once. If the connection goes meanwhile, that is an error: it may have been done.
	async call(method, params = {}, { on, timeout, signal } = {}) {
		await this.live(signal);
		return this.#request({ method, params, on, timeout }, signal);
	}
	/// Asks: as `call`, and again after a loss.
	async ask(method, params, options = {}) {
		for (;;) {
			try { return await this.call(method, params, options); } catch (error) {
				if (error.code !== -32010 || this.state === "live") throw error;
			}
		}
	}
	#request(envelope, signal) {
		const id = this.#next++;
		return new Promise((done, fail) => {
			signal?.throwIfAborted();
			if (this.state !== "live") throw lost();
			this.#calls.set(id, { done, fail });
			this.#send({ id, ...envelope });
			signal?.addEventListener("abort", () => {
				if (!this.#calls.delete(id)) return;
				if (this.state === "live") this.#send({ method: "$/cancel", params: { id } });
				fail(signal.reason);
			});
		});
	}

	/// Opens a stream. `message` gets each message (bytes as a Uint8Array); `ended` resolves, or says why not.
	async stream(method, params = {}, { on, message = () => {}, signal, credit = 64 } = {}) {
		await this.live(signal);
		const id = this.#next++;
		let taken = 0, over;
		const ended = new Promise((done, fail) => (over = (error) => (this.#streams.delete(id), error ? fail(error) : done())));
		ended.catch(() => {});
		const stream = {
			ended,
			over,
			message: async (params) => {
				try { await message(params.bytes === undefined ? params.message : unbase64(params.bytes)); } finally {
					if (++taken >= credit / 2 && this.#streams.has(id)) this.#send({ method: "$/credit", params: { id, messages: taken } }), (taken = 0);
				}
			},
			send: (value) => this.#streams.has(id) && this.#send({ method: "$/message", params: { id, message: value } }),
			sendBytes: (text) => this.#streams.has(id) && this.#send({ method: "$/message", params: { id, bytes: text } }),
			finish: () => this.#streams.has(id) && this.#send({ method: "$/finish", params: { id } }),
			cancel: () => this.#streams.has(id) && this.#send({ method: "$/cancel", params: { id } }),
		};
		this.#streams.set(id, stream);
		signal?.addEventListener("abort", () => this.state === "live" && stream.cancel());
		try {
			stream.answer = await new Promise((done, fail) => {
				if (this.state !== "live") throw lost();
				this.#calls.set(id, { done, fail });
				this.#send({ id, method, params, on, credit });
			});
		} catch (error) {
			this.#streams.delete(id);
			throw error;
		}
		return stream;
	}

	/// Keeps a stream of news open, over losses, until the answer is called.
	follow(method, params, message, { failed } = {}) {
		let current, stopped = false;
		const follow = {
			open: async () => {
				try {
					const stream = await this.stream(method, params, { message });
					if (stopped) return stream.cancel();
					current = stream;
					await stream.ended;
				} catch (error) { if (error.code !== -32010) failed?.(error); }
			},
		};
		this.#follows.add(follow);
		if (this.state === "live") follow.open();
		return () => {
			stopped = true;
			this.#follows.delete(follow);
			current?.cancel();
		};
	}

	/// Looks whether the connection still carries anything: after a sleep, the browser does not know.
	async probe() {
		if (this.state !== "live") return this.state === "lost" && this.connect();
		const socket = this.#socket;
		const timer = setTimeout(() => socket === this.#socket && (this.#tries++, this.connect()), 4000);
		try { await this.#request({ method: "web.session", params: {} }); } catch { /* closed: handled there */ }
		clearTimeout(timer);
	}

	async logout() {
		clearTimeout(this.#timer);
		const told = this.#request({ method: "web.logout", params: {} });
		this.#become("out", { code: "left" });
		try { await Promise.race([told, new Promise((done) => setTimeout(done, 2000))]); } catch { /* it closes */ }
		await dropKey().catch(() => {});
		this.#socket.close();
	}
}

export const wire = new Wire();
addEventListener("online", () => wire.probe());
addEventListener("visibilitychange", () => document.hidden || wire.probe());
setInterval(() => document.hidden || wire.probe(), 45e3);

// MARK: The devices, for every view that names one

class Devices extends EventTarget {
	own = undefined;
	list = undefined;
	error = undefined;
	history = new Map();
	#timer; #calm = 0; #text = "";

	/// Asks now; then gently again as long as somebody looks.
	async refresh(more = {}) {
		clearTimeout(this.#timer);
		try {
			const [own, list] = await Promise.all([
				this.own && !more.own ? this.own : wire.ask("device.status"),
				wire.ask("devices.list", more.probe ? { probe: true } : {}),
			]);
			this.own = own;
			list.sort((a, b) => (b.isFavorite ?? false) - (a.isFavorite ?? false) || a.name.localeCompare(b.name));
			for (const device of list) {
				const past = this.history.get(device.id) ?? [];
				if (device.isOnline && device.roundTripMilliseconds !== undefined) past.push(device.roundTripMilliseconds);
				this.history.set(device.id, past.slice(-30));
			}
			const text = JSON.stringify(list.map((device) => [device.id, device.isOnline, device.path, device.grants]));
			this.#calm = text === this.#text ? this.#calm + 1 : 0;
			this.#text = text;
			this.list = list;
			this.error = undefined;
		} catch (error) { this.error = error; }
		this.dispatchEvent(new Event("change"));
		clearTimeout(this.#timer);
		this.#timer = setTimeout(
			() => document.hidden || wire.state !== "live" ? this.#timer = undefined : this.refresh(),
			this.isWatched ? Math.min(20e3, 3000 + this.#calm * 1000) : 60e3,
		);
	}
	wake() { this.#calm = 0; if (wire.state === "live") this.refresh(); }
	named(text) { return this.list?.find((device) => device.name === text || device.id === text); }
	/// How a device is called in an address: "here" is this one.
	link(device) { return !device ? "here" : device.name === "here" ? device.id : encodeURIComponent(device.name); }
}
export const devices = new Devices();
addEventListener("visibilitychange", () => document.hidden || devices.wake());
