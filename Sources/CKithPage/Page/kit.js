// What every view uses: elements, words, numbers, names, menus, notices, long lists.

export const $ = (selector, root = document) => root.querySelector(selector);

/// Makes an element: h("button.primary", { onclick }, "Text"). Text becomes text nodes, never markup.
export function h(tag, props, ...children) {
	const [name, ...classes] = tag.split(".");
	const node = document.createElement(name || "div");
	if (classes.length) node.className = classes.join(" ");
	if (props instanceof Node || typeof props !== "object" || props === null || Array.isArray(props)) {
		children.unshift(props);
	} else {
		for (const [key, value] of Object.entries(props)) {
			if (value === undefined || value === null || (value === false && !key.startsWith("aria-"))) continue;
			if (key.startsWith("on")) node[key] = (event) => void value(event);  // an answer of false would cancel the event
			else if (["value", "checked"].includes(key)) node[key] = value;
			else if (key === "class") node.className += (node.className ? " " : "") + value;
			else node.setAttribute(key, value === true && !key.startsWith("aria-") ? "" : value);
		}
	}
	append(node, children);
	return node;
}

/// Acts on keys by their names: keyed(input, { Enter: save, Escape: close }).
export function keyed(node, acts) {
	node.addEventListener("keydown", (event) => {
		if (event.isComposing || !acts[event.key]) return;
		event.preventDefault();
		acts[event.key](event);
	});
	return node;
}

export function append(node, children) {
	for (const child of children.flat(4)) {
		if (child === undefined || child === null || child === false) continue;
		node.append(child instanceof Node ? child : String(child));
	}
}

/// Replaces what is in a node; leaves the focus where it was if what had it is still there.
export function fill(node, ...children) {
	const fragment = document.createDocumentFragment();
	append(fragment, children);
	node.replaceChildren(fragment);
	return node;
}

// MARK: Pictures: strokes in a square of 24

const shapes = {
	devices: "M4 5h11v9H4zM2 18h13M18 9h4v10h-4zM20 16h0",
	files: "M3 7V6a2 2 0 0 1 2-2h4l2 2.5h8a2 2 0 0 1 2 2V18a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2z",
	shell: "M3 5h18v14H3zM7 9.5l3 2.5-3 2.5M12.5 15H17",
	search: "M10.5 4a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13zM15.4 15.4 20.5 20.5",
	jobs: "M4 6h10M4 12h16M4 18h7M17.5 4.5 20 6l-2.5 1.5z",
	log: "M6 3h9l4 4v14H6zM15 3v4h4M9 12h7M9 16h5",
	page: "M4 5h16v14H4zM4 9h16M7 7h0M10 7h0",
	more: "M4.4 12a.6.6 0 1 0 1.2 0 .6.6 0 1 0-1.2 0M11.4 12a.6.6 0 1 0 1.2 0 .6.6 0 1 0-1.2 0M18.4 12a.6.6 0 1 0 1.2 0 .6.6 0 1 0-1.2 0",
	down: "m6 9.5 6 6 6-6",
	right: "m9.5 6 6 6-6 6",
	up: "m6 14.5 6-6 6 6",
	plus: "M12 5v14M5 12h14",
	close: "M6 6l12 12M18 6 6 18",
	check: "m5 12.5 4.5 4.5L19 7.5",
	upload: "M12 16V4.5M7.5 9 12 4.5 16.5 9M4 15v4h16v-4",
	download: "M12 4v11.5M7.5 11l4.5 4.5 4.5-4.5M4 15v4h16v-4",
	folder: "M3 7V6a2 2 0 0 1 2-2h4l2 2.5h8a2 2 0 0 1 2 2V18a2 2 0 0 1-2 2H5a2 2 0 0 1-2-2z",
	file: "M6 3h8l5 5v13H6zM14 3v5h5",
	text: "M6 3h8l5 5v13H6zM14 3v5h5M9 12.5h7M9 16.5h7",
	image: "M4 5h16v14H4zM4 16l4.5-5 4 4.5 2.5-2.5 5 5M15.5 9h0",
	video: "M3 6h13v12H3zM16 10.5l5-3v9l-5-3z",
	audio: "M9 18V6l10-2v12M9 18a2.5 2.5 0 1 1-2.5-2.5A2.5 2.5 0 0 1 9 18zM19 16a2.5 2.5 0 1 1-2.5-2.5A2.5 2.5 0 0 1 19 16z",
	archive: "M4 4h16v5H4zM5.5 9v11h13V9M10 12.5h4",
	link: "M10 14a4 4 0 0 0 6 .5l3-3a4 4 0 0 0-5.7-5.7l-1 1M14 10a4 4 0 0 0-6-.5l-3 3a4 4 0 0 0 5.7 5.7l1-1",
	special: "M12 4l8 4.5v7L12 20l-8-4.5v-7z",
	trash: "M5 7h14M9.5 7V4h5v3M7 7l1 13h8l1-13M10.5 11v5.5M13.5 11v5.5",
	edit: "M5 19l.8-3.7L16 5l3 3L8.7 18.2zM14 7l3 3",
	copy: "M8 8h11v12H8zM5 16V4h11",
	eye: "M2.5 12S6 5.5 12 5.5 21.5 12 21.5 12 18 18.5 12 18.5 2.5 12 2.5 12zM12 9.3a2.7 2.7 0 1 1 0 5.4 2.7 2.7 0 0 1 0-5.4z",
	pause: "M8 5v14M16 5v14",
	play: "M7 4.5v15l12-7.5z",
	sun: "M12 8a4 4 0 1 1 0 8 4 4 0 0 1 0-8zM12 2.5v2M12 19.5v2M2.5 12h2M19.5 12h2M5.3 5.3l1.4 1.4M17.3 17.3l1.4 1.4M5.3 18.7l1.4-1.4M17.3 6.7l1.4-1.4",
	moon: "M19.5 14.5A8 8 0 0 1 9.5 4.5a8 8 0 1 0 10 10z",
	half: "M12 3.5a8.5 8.5 0 1 1 0 17 8.5 8.5 0 0 1 0-17zM12 3.5v17M12 7h4.5M12 10.5h7.8M12 14h7.8M12 17.5h4.5",
	warn: "M12 4 2.8 20h18.4zM12 10v4.5M12 17.3h0",
	info: "M12 3.5a8.5 8.5 0 1 1 0 17 8.5 8.5 0 0 1 0-17zM12 11v5M12 8h0",
	star: "m12 3.8 2.5 5.3 5.7.7-4.2 4 1.1 5.8L12 16.8l-5.1 2.8L8 13.8l-4.2-4 5.7-.7z",
	out: "M14 4H5v16h9M10 12h11M17 8l4 4-4 4",
	sort: "M7 4v16M3.5 16.5 7 20l3.5-3.5M13 6h8M13 11h6M13 16h4",
	refresh: "M20 11a8 8 0 0 0-14.5-3.5L4 9.5M4 4.5v5h5M4 13a8 8 0 0 0 14.5 3.5l1.5-2M20 19.5v-5h-5",
	home: "M4 11.5 12 4.5l8 7M6 10v9.5h12V10",
	disk: "M4 13h16v6H4zM4 13l2.5-8h11L20 13M16.5 16h0",
	paste: "M8 5H5.5v15.5h13V5H16M8 3.5h8v4H8z",
	pair: "M7.5 8a4 4 0 1 1 0 8 4 4 0 0 1 0-8zM16.5 8a4 4 0 1 1 0 8 4 4 0 0 1 0-8z",
};

export function icon(name) {
	const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
	svg.setAttribute("viewBox", "0 0 24 24");
	svg.setAttribute("aria-hidden", "true");
	svg.setAttribute("class", "icon");
	const path = document.createElementNS(svg.namespaceURI, "path");
	path.setAttribute("d", shapes[name] ?? shapes.file);
	svg.append(path);
	return svg;
}

/// A button: with a label it shows it; with `title` alone it is a picture with that name.
export function button(name, label, onclick, more = {}) {
	const { cls, title, ...rest } = more;
	const quiet = !label;
	return h("button", {
		type: "button", class: [quiet ? "quiet" : "", cls ?? ""].join(" ").trim() || undefined, onclick,
		title: title, "aria-label": quiet ? title : undefined, ...rest,
	}, name && icon(name), label && h("span", label));
}

// MARK: Words and numbers

let table = {};
export let language = "en", locale = "en";

export async function setLanguage(code) {
	language = code === "de" ? "de" : "en";
	table = language === "de" ? (await import("/german.js")).default : {};
	document.documentElement.lang = language;
	locale = navigator.languages?.find((each) => each.startsWith(language)) ?? language;
}

/// The words for a sentence in the reader's language: {name} stands for what is given.
export function t(text, values) {
	const words = table[text] ?? text;
	return values ? words.replace(/\{(\w+)\}/g, (all, name) => values[name] ?? all) : words;
}

export const count = (number, one, many) => t(number === 1 ? one : many, { n: number.toLocaleString(locale) });

export function bytes(number) {
	if (number === undefined || number === null) return "";
	if (number < 1000) return `${number} B`;
	let unit = -1, value = number;
	do { value /= 1000; unit++; } while (value >= 999.5 && unit < 5);
	return `${value.toLocaleString(locale, { maximumSignificantDigits: value < 100 ? 2 : 3 })} ${["kB", "MB", "GB", "TB", "PB", "EB"][unit]}`;
}

export function moment(seconds, full = false) {
	const date = new Date(seconds * 1000), now = new Date();
	if (full) return date.toLocaleString(locale, { dateStyle: "medium", timeStyle: "medium" });
	if (date.toDateString() === now.toDateString()) return date.toLocaleTimeString(locale, { hour: "2-digit", minute: "2-digit" });
	const near = Math.abs(now - date) < 300 * 86400e3;
	return date.toLocaleDateString(locale, near ? { day: "numeric", month: "short" } : { day: "numeric", month: "short", year: "numeric" });
}

export function ago(seconds) {
	const past = Math.max(0, Date.now() / 1000 - seconds);
	const format = new Intl.RelativeTimeFormat(locale, { numeric: "auto", style: "long" });
	for (const [unit, size, until] of [["second", 1, 60], ["minute", 60, 3600], ["hour", 3600, 86400], ["day", 86400, 86400 * 60]]) {
		if (past < until) return unit === "second" && past < 10 ? t("just now") : format.format(-Math.floor(past / size), unit);
	}
	return moment(seconds);
}

export function lasting(seconds) {
	if (seconds < 60) return t("{n} s", { n: Math.ceil(seconds) });
	if (seconds < 3600) return t("{n} min", { n: Math.round(seconds / 60) });
	return t("{n} h", { n: (seconds / 3600).toLocaleString(locale, { maximumFractionDigits: 1 }) });
}

export const milliseconds = (number) => `${number.toLocaleString(locale, { maximumSignificantDigits: number < 10 ? 2 : 3 })} ms`;

export function setting(name, value) {
	try {
		if (value === undefined) return JSON.parse(localStorage.getItem(`kith.${name}`));
		localStorage.setItem(`kith.${name}`, JSON.stringify(value));
	} catch { /* storage is off: the setting lasts as long as the page */ }
	return value;
}

// MARK: Paths: text, or {bytes} where they are not UTF-8

const encoder = new TextEncoder(), strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const lossy = new TextDecoder("utf-8", { ignoreBOM: true });

export const base64 = (array) => {
	let text = "";
	for (let i = 0; i < array.length; i += 8192) text += String.fromCharCode(...array.subarray(i, i + 8192));
	return btoa(text);
};
export const unbase64 = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

export const rawPath = (path) => (typeof path === "string" ? encoder.encode(path) : unbase64(path.bytes));
export function pathOf(raw) {
	try { return strict.decode(raw); } catch { return { bytes: base64(raw) }; }
}
export function join(folder, name) {
	if (typeof folder === "string" && typeof name === "string") return folder.replace(/\/+$/, "") + "/" + name;
	const a = rawPath(folder), b = rawPath(name);
	let end = a.length;
	while (end && a[end - 1] === 47) end--;
	const whole = new Uint8Array(end + 1 + b.length);
	whole.set(a.subarray(0, end));
	whole[end] = 47;
	whole.set(b, end + 1);
	return pathOf(whole);
}
/// The folder of a path, and its last name.
export function split(path) {
	const raw = rawPath(path);
	let end = raw.length;
	while (end > 1 && raw[end - 1] === 47) end--;
	const cut = raw.lastIndexOf(47, end - 1);
	return [pathOf(raw.subarray(0, Math.max(cut, cut === 0 ? 1 : 0))), pathOf(raw.subarray(cut + 1, end))];
}
export const samePath = (a, b) => a === b || (typeof a !== typeof b ? false : a?.bytes !== undefined && a.bytes === b?.bytes);
export const pathKey = (path) => (typeof path === "string" ? path : "\0" + path.bytes);

/// A path as a part of an address, each byte that means something there as %XX.
export function pathToLink(path) {
	let text = "";
	for (const byte of rawPath(path)) {
		const c = String.fromCharCode(byte);
		text += /[A-Za-z0-9_.,~@+\-/]/.test(c) ? c : "%" + byte.toString(16).toUpperCase().padStart(2, "0");
	}
	return text;
}
/// A name in an address.
export function linkToName(text) {
	try { return decodeURIComponent(text); } catch { throw new Error(t("This address is damaged: a % in it stands for nothing.")); }
}
export function linkToPath(text) {
	const raw = [];
	for (let i = 0; i < text.length; i++) {
		const code = /^%[0-9A-Fa-f]{2}/.test(text.slice(i, i + 3)) ? parseInt(text.slice(i + 1, i + 3), 16) : NaN;
		if (Number.isNaN(code)) raw.push(...encoder.encode(String.fromCodePoint(text.codePointAt(i)))), text.codePointAt(i) > 0xffff && i++;
		else raw.push(code), (i += 2);
	}
	return pathOf(Uint8Array.from(raw));
}

/// A name for the eye: control characters and marks that turn the direction are shown, not obeyed.
export function visible(path) {
	const text = typeof path === "string" ? path : lossy.decode(unbase64(path.bytes));
	return text.replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g, (c, at) => {
		if (c === "\u200d"
			&& /\p{Extended_Pictographic}[\ufe0f\u{1f3fb}-\u{1f3ff}]*$/u.test(text.slice(0, at))
			&& /^\p{Extended_Pictographic}/u.test(text.slice(at + 1)))
			return c;
		return `\u27e8${c.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}\u27e9`;
	});
}
export const name = (path, cls) => h(`bdi${cls ? "." + cls : ""}`, visible(path));

// MARK: Notices

let notices;
/// Says something at the bottom for a while; `action` is [label, function]. Errors stay until they are closed.
export function say(text, { kind = "", action, seconds } = {}) {
	notices ??= h("div.notices", { role: "status", "aria-live": "polite" });
	if (!notices.isConnected) document.body.append(notices);
	let timer;
	const close = () => (clearTimeout(timer), note.remove());
	const wait = () => {
		clearTimeout(timer);
		timer = setTimeout(close, (seconds ?? (kind === "bad" ? 20 : action ? 12 : 5)) * 1000);
	};
	const note = h(`div.notice.${kind || "plain"}`, kind === "bad" && icon("warn"), h("span", text),
		action && h("button.link", { type: "button", onclick: () => (close(), action[1]()) }, action[0]),
		button("close", "", close, { title: t("Close") }));
	note.onpointerenter = note.onfocusin = () => clearTimeout(timer);
	note.onpointerleave = wait;
	while (notices.childElementCount > 3) notices.firstChild.remove();
	notices.append(note);
	wait();
	return close;
}

/// What went wrong, in the device's words: they say what to do. Of a lost connection this page knows alone.
export const explain = (error) => (error?.message ?? String(error)) + (error?.code === -32010 ? ` ${t("Look whether it was done, then try again.")}` : "");
export const complain = (error) => error?.name !== "AbortError" && say(explain(error), { kind: "bad" });

let politely;
/// For screen readers alone.
export function announce(text) {
	politely ??= h("div.unseen", { role: "status", "aria-live": "polite" });
	if (!politely.isConnected) document.body.append(politely);
	politely.textContent = "";
	requestAnimationFrame(() => (politely.textContent = text));
}

export function problem(error, again) {
	return h("div.state", icon("warn"), h("p", explain(error)), again && h("button", { type: "button", onclick: again }, t("Try again")));
}
export const emptiness = (picture, title, text, ...more) =>
	h("div.state", icon(picture), h("h2", title), text && h("p", text), ...more);
export const waitingFor = (text) => h("div.state.slow", h("div.spinner"), h("p", text ?? t("One moment …")));

// MARK: Menus

/// Opens a menu at an element or a point: items are [icon, label, function, {danger, checked}] or null for a line.
export function menu(at, items) {
	const box = h("div.menu", { role: "menu", popover: "auto" });
	for (const item of items) {
		if (!item) { box.append(h("hr")); continue; }
		const [picture, label, act, { danger, checked } = {}] = item;
		box.append(h("button", {
			type: "button", role: checked === undefined ? "menuitem" : "menuitemradio", "aria-checked": checked, tabindex: -1,
			class: danger ? "danger" : undefined, onclick: () => (box.hidePopover(), act()),
		}, checked === undefined ? icon(picture) : checked ? icon("check") : h("span.icon"), h("span", label)));
	}
	const back = document.activeElement;
	box.ontoggle = (event) => event.newState === "closed" && (box.remove(), at.isConnected && at.setAttribute?.("aria-expanded", "false"));
	const all = [...box.querySelectorAll("button")];
	box.onkeydown = (event) => {
		const at = all.indexOf(document.activeElement);
		const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 }[event.key];
		if (to !== undefined) all[(to + all.length) % all.length].focus(), event.preventDefault();
		else if (event.key === "Tab" || event.key === "Escape") box.hidePopover(), back?.focus(), event.preventDefault();
		else if (event.key.length === 1) all.find((b) => b.textContent.toLowerCase().startsWith(event.key.toLowerCase()))?.focus();
	};
	document.body.append(box);
	box.showPopover();
	const place = at.getBoundingClientRect?.() ?? { left: at.x, right: at.x, top: at.y, bottom: at.y };
	const size = box.getBoundingClientRect();
	box.style.left = `${Math.max(8, Math.min(place.left, innerWidth - size.width - 8))}px`;
	const below = place.bottom + 4 + size.height < innerHeight;
	box.style.top = `${below ? place.bottom + 4 : Math.max(8, place.top - size.height - 4)}px`;
	at.setAttribute?.("aria-expanded", "true");
	(box.querySelector("[aria-checked=true]") ?? all[0])?.focus();
}

export async function copy(text) {
	try {
		await navigator.clipboard.writeText(text);
		say(t("Copied."));
	} catch { say(t("The browser does not let this page copy. Select the text and copy it by hand."), { kind: "bad" }); }
}

/// Saves text as a file, by the browser.
export function save(fileName, text, type = "text/plain") {
	const url = URL.createObjectURL(new Blob([text], { type }));
	h("a", { href: url, download: fileName }).click();
	setTimeout(() => URL.revokeObjectURL(url), 60e3);
}

// MARK: Long lists

/// Shows of many rows those that can be seen. `draw(index)` makes one; `height` is that of each, in pixels.
export class LongList {
	constructor(host, { height, draw }) {
		Object.assign(this, { host, height, draw, count: 0, rows: new Map() });
		this.space = host.appendChild(h("div.space", { role: "presentation" }));
		host.addEventListener("scroll", () => this.later(), { passive: true });
		this.watcher = new ResizeObserver(() => this.later());
		this.watcher.observe(host);
	}
	later() { this.frame ??= requestAnimationFrame(() => ((this.frame = undefined), this.show())); }
	/// Takes a new number of rows; those shown are drawn again.
	set(count) {
		this.count = count;
		this.space.style.height = `${count * this.height}px`;
		for (const row of this.rows.values()) row.remove();
		this.rows.clear();
		this.show();
	}
	redraw(index) {
		const row = this.rows.get(index);
		if (!row) return;
		const next = this.place(index);
		row.replaceWith(next);
		this.rows.set(index, next);
	}
	redrawAll() { for (const index of [...this.rows.keys()]) this.redraw(index); }
	place(index) {
		const row = this.draw(index);
		row.style.transform = `translateY(${index * this.height}px)`;
		return row;
	}
	show() {
		const top = this.host.scrollTop - this.space.offsetTop, seen = this.host.clientHeight;
		const from = Math.max(0, Math.floor(top / this.height) - 8);
		const to = Math.min(this.count, Math.ceil((top + seen) / this.height) + 8);
		for (const [index, row] of this.rows) if (index < from || index >= to) row.remove(), this.rows.delete(index);
		for (let index = from; index < to; index++) {
			if (this.rows.has(index)) continue;
			const row = this.place(index);
			this.rows.set(index, row);
			const next = this.rows.get(index + 1);
			next ? next.before(row) : this.space.append(row);
		}
		this.shown?.(from, to);
	}
	reveal(index) {
		const top = this.space.offsetTop + index * this.height, head = this.space.offsetTop;
		if (top - head < this.host.scrollTop) this.host.scrollTop = top - head;
		else if (top + this.height > this.host.scrollTop + this.host.clientHeight) this.host.scrollTop = top + this.height - this.host.clientHeight;
		this.show();
	}
	end() { this.watcher.disconnect(); cancelAnimationFrame(this.frame); }
}
