// One terminal: draws the rows that the device sends, and sends back keys, text and the mouse. It emulates nothing.

import { h, t, fill, icon, button, say, explain, announce, copy, visible, setting, milliseconds } from "/kit.js";
import { wire } from "/wire.js";

const isTouch = matchMedia("(pointer: coarse)").matches;
const levels = [0, 95, 135, 175, 215, 255];
function color(value) {
	if (typeof value === "string") return /^#[0-9a-f]{6}$/i.test(value) ? value : "inherit";
	if (value < 16) return `var(--t${value})`;
	if (value > 231) { const grey = 8 + (value - 232) * 10; return `rgb(${grey} ${grey} ${grey})`; }
	const cube = value - 16;
	return `rgb(${levels[Math.floor(cube / 36)]} ${levels[Math.floor(cube / 6) % 6]} ${levels[cube % 6]})`;
}

/// A style as CSS, once.
function prepared(style) {
	let front = style.foreground === undefined ? undefined : color(style.foreground), back = style.background === undefined ? undefined : color(style.background);
	if (style.inverse) [front, back] = [back ?? "var(--tb)", front ?? "var(--tf)"];
	const css = [], lines = [style.underline && "underline", style.strikethrough && "line-through", style.overline && "overline"].filter(Boolean);
	if (front) css.push(`color:${front}`);
	if (back) css.push(`background:${back}`);
	if (style.bold) css.push("font-weight:700");
	if (style.italic) css.push("font-style:italic");
	if (style.faint) css.push("opacity:.62");
	if (style.invisible) css.push("color:transparent");
	if (lines.length) {
		const stroke = { double: "double", curly: "wavy", dotted: "dotted", dashed: "dashed" }[style.underline] ?? "";
		css.push(`text-decoration:${lines.join(" ")} ${stroke} ${style.underlineColor === undefined ? "" : color(style.underlineColor)}`);
	}
	const link = /^(https?|mailto):/.test(style.link ?? "") ? style.link : undefined;
	return { css: css.join(";"), cls: [style.blink && "blink", style.predicted && "predicted", link && "tlink"].filter(Boolean).join(" "), boxed: !!back, link };
}

const named = { ArrowUp: "Up", ArrowDown: "Down", ArrowLeft: "Left", ArrowRight: "Right" };
const special = /^(Enter|Tab|Backspace|Escape|Arrow(Up|Down|Left|Right)|Home|End|PageUp|PageDown|Insert|Delete|F\d{1,2})$/;
const padNames = {
	Decimal: "KeypadDecimal",
	Divide: "KeypadDivide",
	Multiply: "KeypadMultiply",
	Subtract: "KeypadSubtract",
	Add: "KeypadAdd",
	Enter: "KeypadEnter",
};
/// What a text field holds before anything is typed, so that a deletion shows as a difference.
const stub = "\u00a0\u00a0\u00a0\u00a0";

export class Terminal extends EventTarget {
	title = ""; state = "opening"; unseen = false; rtt = undefined;
	#styles = new Map([[0, prepared({})]]); #rows = []; #nodes = []; #cursor; #modes = { mouse: "none" }; #back = { first: 0, lines: 0 };
	#lines = new Map(); #asked = new Set(); #stream; #kept = []; #taken = 0; #pictures = []; #held = ""; #sticky = {}; #viewer = crypto.randomUUID();
	#isMounted = false; #size; #tries = 0;

	constructor({ device, session, directory, view }) {
		super();
		Object.assign(this, { device, session, directory, view });
		this.#build();
	}

	#build() {
		this.bar = h("div.termbars");
		this.back = h("div.back");
		this.screen = h("div.screen");
		this.cursorNode = h("div.tcursor", { hidden: true });
		this.field = h("textarea.typing", {
			"aria-label": t("Terminal: what you type goes to the shell. Ctrl Shift K leaves it."),
			autocomplete: "off",
			autocorrect: "off",
			autocapitalize: "off",
			spellcheck: "false",
			inputmode: "text",
			rows: 1,
			wrap: "off",
		});
		this.scroll = h("div.scrolls", { role: "document", tabindex: -1, "aria-label": t("Screen of the terminal") },
			this.back,
			h("div.screenbox", this.screen, this.cursorNode, this.field),
		);
		this.probe = h("span.probe", { "aria-hidden": "true" }, "0".repeat(50));
		this.box = h("div.termbox", this.scroll, this.probe);
		this.keys = h("div.keybar", { role: "toolbar", "aria-label": t("Keys") });
		this.node = h("div.terminal", this.bar, this.box, isTouch && this.keys);
		this.#fontSize();
		this.#keyBar();
		this.#listen();
	}
	#fontSize() { this.node.style.setProperty("--size", `${setting("shell.size") ?? (isTouch ? 13 : 14)}px`); }
	zoom(by) {
		setting("shell.size", Math.max(8, Math.min(32, (setting("shell.size") ?? (isTouch ? 13 : 14)) + by)));
		this.#fontSize();
		this.#fit();
	}

	#fit() {
		if (!this.#isMounted || !this.box.clientHeight) return;
		const box = this.probe.getBoundingClientRect();
		this.cell = box.width / 50;
		this.line = Math.round(parseFloat(getComputedStyle(this.node).getPropertyValue("--size")) * 1.3);
		this.node.style.setProperty("--line", `${this.line}px`);
		const columns = Math.max(2, Math.min(1000, Math.floor((this.box.clientWidth - 26) / this.cell)));
		const rows = Math.max(1, Math.min(1000, Math.floor((this.box.clientHeight - 12) / this.line)));
		if (this.#size?.columns === columns && this.#size?.rows === rows) return;
		const isFirst = !this.#size;
		this.#size = { columns, rows };
		if (isFirst && this.state === "opening" && !this.#stream) this.open();
		else if (!this.view) this.#send({ size: this.#size });
	}

	// MARK: The stream

	async open() {
		this.#stream = undefined;
		const { columns, rows } = this.#size;
		try {
			const stream = await wire.stream("shell.screen", {
				columns,
				rows,
				viewer: this.#viewer,
				...(this.device ? { device: this.device.id } : {}),
				...(this.session ? { session: this.session } : this.directory ? { directory: this.directory } : {}),
				...(this.view ? { view: true } : {}),
			}, { message: (message) => this.#take(message), credit: 64 });
			this.#stream = stream;
			this.#tries = 0;
			this.session = stream.answer.session;
			this.#arrived(stream.answer.taken ?? 0);
			for (const message of this.#kept) stream.send(message);
			this.#become("open");
			if (document.activeElement === this.field) this.#note({ focus: true });
			await stream.ended;
			if (this.state === "open") this.#become("ended");
		} catch (error) {
			this.#stream = undefined;
			if (this.state === "closed" || this.state === "ended") return;
			if (error.code === -32010 && this.#tries++ < 50) {
				this.#become("lost");
				await wire.live();
				await new Promise((go) => setTimeout(go, Math.min(5000, 100 * this.#tries ** 2)));
				if (this.state === "lost") this.open();
			} else this.#become("failed", error);
		}
	}
	#become(state, error) {
		this.state = state;
		if (state === "failed") this.#say(explain(error), [t("Try again"), () => { this.#become("opening"); this.open(); }]);
		else if (state === "ended") this.#say(
			this.exit?.signal ? t("The shell was ended by {signal}.", { signal: visible(this.exit.signal) }) : this.exit?.code
				? t("The shell has ended with code {n}.", { n: this.exit.code })
				: t("The shell has ended."),
			[t("Open another"), () => this.dispatchEvent(new Event("another"))],
			[t("Close"), () => this.dispatchEvent(new Event("done"))],
		);
		else if (state === "open") fill(this.bar);
		this.dispatchEvent(new Event("change"));
	}
	#say(text, ...actions) {
		fill(this.bar, h("div.bar", { role: "status" }, h("span.grow", text), actions.map(([words, act]) => button("", words, act))));
		return () => void fill(this.bar);
	}
	/// Leaves the shell running, or ends it.
	close(ends) {
		this.state = "closed";
		ends ? this.#stream?.finish() : this.#stream?.cancel();
		this.unmount();
	}
	#send(message) { this.#stream?.send(message); }
	/// Sends what must arrive once, also over a loss.
	#note(message) {
		if (this.view) return;
		this.#kept.push(message);
		this.#stream?.send(message);
	}
	#arrived(count) {
		if (count > this.#taken) this.#kept.splice(0, count - this.#taken), (this.#taken = count);
	}

	#take(message) {
		if (message.styles) for (const style of message.styles) this.#styles.set(style.id, prepared(style));
		if (message.taken !== undefined) this.#arrived(message.taken);
		if (message.lines) return this.#tookLines(message.lines);
		if (message.state) {
			if (message.state.roundTrip !== undefined) this.rtt = message.state.roundTrip;
			if (message.state.connected === false) this.away = this.#say(t("The way to {name} is lost. What you type is kept, and sent when it is back.", {
				name: visible(this.device?.name ?? wire.welcome.name),
			}));
			else this.away = this.away?.();
			return this.dispatchEvent(new Event("change"));
		}
		if (message.exit) { this.exit = message.exit; return this.#become("ended"); }
		this.#resolve(message);
		if (message.number === undefined) return this.#apply(message);
		this.#pictures.push(message);
		if (this.#isMounted) this.#frame ??= requestAnimationFrame(() => this.#paint());
		else if (!this.unseen && message.rows) this.unseen = true, this.dispatchEvent(new Event("change"));
	}
	#frame;
	/// Styles may be defined anew later: the runs keep what they meant when they came.
	#resolve(message) {
		for (const row of message.rows ?? []) for (const run of row.runs ?? []) run.look = this.#styles.get(run.style ?? 0);
	}
	#paint() {
		this.#frame = undefined;
		const pictures = this.#pictures.splice(0);
		for (const picture of pictures) this.#apply(picture);
		if (pictures.length) this.#send({ shown: pictures.at(-1).number });
	}

	#apply(message) {
		const atEnd = this.scroll.scrollTop + this.scroll.clientHeight >= this.scroll.scrollHeight - this.line;
		if (message.size) {
			const { columns, rows } = message.size;
			this.#lines.clear();
			this.columns = columns;
			this.#rows = Array.from({ length: rows }, () => ({}));
			this.#nodes = this.#rows.map(() => h("div.trow"));
			fill(this.screen, this.#nodes);
			this.screen.style.width = `${columns}ch`;
			this.node.style.setProperty("--rows", rows);
		}
		if (message.scroll) {
			const { top, bottom, by } = message.scroll, many = Math.min(Math.abs(by), bottom - top + 1);
			const fresh = Array.from({ length: many }, () => ({})), nodes = fresh.map(() => h("div.trow"));
			const [from, to] = by > 0 ? [top, bottom - many + 1] : [bottom - many + 1, top];
			for (const node of this.#nodes.splice(from, many)) node.remove();
			this.#rows.splice(from, many);
			this.#rows.splice(to, 0, ...fresh);
			const before = this.#nodes[to];
			this.#nodes.splice(to, 0, ...nodes);
			before ? before.before(...nodes) : this.screen.append(...nodes);
		}
		for (const row of message.rows ?? []) {
			if (row.y >= this.#rows.length) continue;
			this.#rows[row.y] = row;
			const next = this.#draw(row);
			this.#nodes[row.y].replaceWith(next);
			this.#nodes[row.y] = next;
		}
		if (message.cursor) this.#cursor = message.cursor;
		if (message.modes) {
			this.#modes = message.modes;
			this.node.classList.toggle("reverse", !!message.modes.reverse);
			this.node.classList.toggle("pointing", message.modes.mouse !== "none");
		}
		if (message.scrollback) this.#grow(message.scrollback, atEnd);
		if (message.size || message.cursor) this.#placeCursor();
		if (message.title !== undefined) this.title = message.title, this.dispatchEvent(new Event("change"));
		if (message.bell) this.#bell();
		if (message.clipboard !== undefined) {
			const gone = this.#say(
				t("The program there wants to put text on the clipboard: {text}", { text: visible(message.clipboard.slice(0, 80)) }),
				[t("Copy"), () => { copy(message.clipboard); gone(); this.focus(); }],
				[t("Ignore"), () => { gone(); this.focus(); }],
			);
		}
		if (this.reads && message.rows) announce(message.rows.map((row) => (row.runs ?? []).map((run) => run.text).join("")).join("\n").slice(0, 600));
		if (atEnd && (message.scrollback || message.size)) this.toEnd();
	}
	#draw(row) {
		const node = h(row.wraps ? "div.trow.wraps" : "div.trow");
		for (const run of row.runs ?? []) {
			const look = run.look, isWide = run.width !== undefined || /[^\x20-\x7e]/.test(run.text);
			if (!look.css && !look.cls && !isWide) { node.append(run.text); continue; }
			const span = document.createElement("span");
			span.textContent = run.text;
			let css = look.css;
			if (isWide || look.boxed) {
				css += `;display:inline-block;vertical-align:top;height:var(--line)`;
				if (isWide) css += `;overflow:hidden;width:${run.width ?? run.text.length}ch`;
			}
			if (css) span.style.cssText = css;
			if (look.cls) span.className = look.cls;
			if (look.link) span.tabIndex = -1, span.setAttribute("role", "link"), (span.link = look.link), (span.title = visible(look.link));
			node.append(span);
		}
		return node;
	}
	#placeCursor() {
		const cursor = this.#cursor;
		if (!cursor) return;
		this.cursorNode.hidden = !cursor.visible;
		this.cursorNode.className = `tcursor ${cursor.shape ?? "block"}${cursor.blinks ? " blinks" : ""}`;
		this.cursorNode.style.left = `${cursor.x}ch`;
		this.cursorNode.style.top = this.field.style.top = `calc(var(--line) * ${cursor.y})`;
		this.field.style.left = `${cursor.x}ch`;
	}
	#bell() {
		this.node.classList.add("rings");
		setTimeout(() => this.node.classList.remove("rings"), 180);
		if (!this.#isMounted || document.hidden) this.rang = true, this.dispatchEvent(new Event("change"));
	}

	// MARK: What went before

	#grow(next, atEnd) {
		const before = this.#back;
		this.#back = next;
		if (next.first > before.first) for (const number of this.#lines.keys()) if (number < next.first) this.#lines.delete(number);
		if (before.lines && next.first > before.first && !atEnd) this.scroll.scrollTop -= (next.first - before.first) * this.line;
		this.back.style.height = `calc(var(--line) * ${next.lines})`;
		this.#showBack();
	}
	#showBack() {
		const { first, lines } = this.#back, from = Math.max(0, Math.floor(this.scroll.scrollTop / this.line) - 10);
		const to = Math.min(lines, from + Math.ceil(this.scroll.clientHeight / this.line) + 20), shown = [];
		let missing;
		if (this.scroll.scrollTop >= lines * this.line - 2) return void fill(this.back);
		for (let index = from; index < to; index++) {
			const row = this.#lines.get(first + index);
			if (!row) { missing ??= first + index; continue; }
			const node = this.#draw(row);
			node.style.top = `calc(var(--line) * ${index})`;
			if (first + index === this.found) node.classList.add("found");
			shown.push(node);
		}
		fill(this.back, shown);
		if (missing !== undefined) this.#askLines(missing - (missing % 100), 300);
	}
	#askLines(from, many) {
		from = Math.max(from, this.#back.first);
		if (this.#asked.has(from)) return;
		this.#asked.add(from);
		setTimeout(() => this.#asked.delete(from), 4000);
		this.#send({ lines: { from, count: Math.min(500, many) } });
	}
	#tookLines({ from, rows }) {
		this.#asked.delete(from);
		this.#resolve({ rows });
		for (const row of rows) this.#lines.set(row.y, row);
		this.#showBack();
		this.onlines?.();
	}
	toEnd() { this.scroll.scrollTop = this.scroll.scrollHeight; }

	/// Finds text in what went before and on the screen.
	async find(text, back, was) {
		const { first, lines } = this.#back, low = text.toLowerCase();
		if (!low) return;
		for (let at = first; at < first + lines; at += 500) {
			for (let number = at; number < Math.min(at + 500, first + lines); number++) {
				if (this.#lines.has(number)) continue;
				const came = new Promise((done) => { this.onlines = done; setTimeout(done, 3000); });
				this.#asked.clear();
				this.#askLines(number, 500);
				await came;
				if (!this.#lines.has(number)) break;
			}
		}
		const rowText = (row) => (row?.runs ?? []).map((run) => run.text).join("").toLowerCase(), hits = [];
		for (let number = first; number < first + lines; number++) if (rowText(this.#lines.get(number)).includes(low)) hits.push(number);
		this.#rows.forEach((row, y) => rowText(row).includes(low) && hits.push(first + lines + y));
		if (!hits.length) return { count: 0 };
		let at = hits.indexOf(was);
		at = at < 0 ? hits.length - 1 : (at + (back ? -1 : 1) + hits.length) % hits.length;
		this.found = hits[at];
		this.scroll.scrollTop = (this.found - first - 3) * this.line;
		this.#showBack();
		for (const node of this.#nodes) node.classList.remove("found");
		this.#nodes[this.found - first - lines]?.classList.add("found");
		return { count: hits.length, at: at + 1, hit: this.found };
	}
	finder() {
		let was;
		const input = h("input", { type: "search", "aria-label": t("Find in this terminal"), placeholder: t("Find") });
		const sum = h("span.soft.small", { role: "status" });
		const go = async (back) => {
			const found = await this.find(input.value, back, was);
			was = found?.hit;
			sum.textContent = !found ? "" : found.count ? t("{n} of {all}", { n: found.at, all: found.count }) : t("Not found");
		};
		const close = () => {
			fill(this.bar);
			this.found = undefined;
			for (const node of this.#nodes) node.classList.remove("found");
			this.#showBack();
			this.focus();
		};
		input.onkeydown = (event) => {
			if (event.key === "Enter" && !event.isComposing) go(!event.shiftKey); else if (event.key === "Escape") close();
			event.stopPropagation();
		};
		fill(this.bar,
			h("div.bar",
				h("div.search.grow", icon("search"), input),
				sum,
				button("up", "", () => go(true), { title: t("Further up") }),
				button("down", "", () => go(false), { title: t("Further down") }),
				button("close", "", close, { title: t("Close") }),
			),
		);
		input.focus();
	}

	// MARK: Keys and text

	focus() { this.field.focus({ preventScroll: true }); }
	#reset() { this.field.value = this.#held = stub; this.field.setSelectionRange(stub.length, stub.length); }
	#listen() {
		const { field, scroll } = this;
		this.#reset();
		field.onkeydown = (event) => this.#key(event);
		// While text is selected the field has no focus; the next key brings it back.
		scroll.onkeydown = (event) => {
			if (event.target === field || ["Control", "Shift", "Alt", "Meta"].includes(event.key)) return;
			if ((event.ctrlKey || event.metaKey) && event.code === "KeyC" && this.selected()) { copy(this.selected()); return event.preventDefault(); }
			this.focus();
			this.#key(event);
		};
		field.oninput = (event) => { if (!event.isComposing || this.#isPlain()) this.#typed(); };
		field.addEventListener("compositionstart", () => field.classList.toggle("composing", !isTouch));
		field.addEventListener("compositionend", () => { field.classList.remove("composing"); this.#typed(); });
		field.onpaste = (event) => {
			event.preventDefault();
			const text = event.clipboardData.getData("text/plain");
			if (text) this.paste(text);
		};
		field.onfocus = () => { this.node.classList.add("focused"); this.#note({ focus: true }); };
		field.onblur = () => { this.node.classList.remove("focused"); this.#note({ focus: false }); };
		scroll.onscroll = () => this.#showBack();
		this.node.oncopy = (event) => { const text = this.selected(); if (text) event.clipboardData.setData("text/plain", text), event.preventDefault(); };
		const place = (event) => {
			const box = this.screen.getBoundingClientRect();
			return {
				x: Math.max(0, Math.min(this.columns - 1, Math.floor((event.clientX - box.left) / this.cell))),
				y: Math.max(0, Math.min(this.#rows.length - 1, Math.floor((event.clientY - box.top) / this.line))),
				shift: event.shiftKey,
				alt: event.altKey,
				control: event.ctrlKey,
			};
		};
		const grabs = (event) => this.#modes.mouse !== "none" && !event.shiftKey && event.pointerType !== "touch";
		const buttons = ["left", "middle", "right"];
		let down, last = "";
		scroll.onpointerdown = (event) => {
			if (!grabs(event)) return;
			event.preventDefault();
			this.focus();
			down = buttons[event.button];
			scroll.setPointerCapture(event.pointerId);
			this.#note({ mouse: { kind: "down", button: down, ...place(event) } });
		};
		scroll.onpointermove = (event) => {
			if (!grabs(event) || (this.#modes.mouse === "click") || (this.#modes.mouse === "drag" && !down)) return;
			const at = place(event), key = `${at.x} ${at.y}`;
			if (key === last) return;
			last = key;
			this.#note({ mouse: { kind: "move", button: down ?? "none", ...at } });
		};
		scroll.onpointerup = (event) => {
			if (down) { this.#note({ mouse: { kind: "up", button: down, ...place(event) } }); down = undefined; return; }
			if (event.pointerType === "mouse" && getSelection().isCollapsed) this.focus();
		};
		scroll.oncontextmenu = (event) => { if (this.#modes.mouse !== "none" && !event.shiftKey) event.preventDefault(); };
		scroll.onclick = (event) => {
			const link = event.target.link;
			if (link && getSelection().isCollapsed) return this.#askLink(link);
			if (event.pointerType === "touch" && getSelection().isCollapsed) {
				if (this.#modes.mouse !== "none") for (const kind of ["down", "up"]) this.#note({ mouse: { kind, button: "left", ...place(event) } });
				this.focus();
			}
		};
		let turned = 0;
		scroll.addEventListener("wheel", (event) => {
			if (event.shiftKey || event.ctrlKey || (this.#modes.mouse === "none" && !this.#modes.wheelKeys)) return;
			event.preventDefault();
			turned += event.deltaMode === 1 ? event.deltaY : event.deltaY / this.line / (event.deltaMode === 2 ? 0.05 : 1.5);
			const notches = Math.trunc(turned);
			if (!notches) return;
			turned -= notches;
			this.#note({ mouse: { kind: "wheel", delta: Math.max(-100, Math.min(100, notches)), ...place(event) } });
		}, { passive: false });
		let touchY, pinch;
		const distance = ({ touches: [a, b] }) => Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
		scroll.addEventListener("touchstart", (event) => {
			touchY = event.touches[0].clientY;
			pinch = event.touches.length === 2 ? distance(event) : undefined;
		}, { passive: true });
		scroll.addEventListener("touchmove", (event) => {
			if (event.touches.length === 2 && pinch) {
				event.preventDefault();
				const now = distance(event), by = Math.trunc((now - pinch) / 24);
				if (by) this.zoom(by), (pinch = now);
			} else if (this.#modes.wheelKeys || this.#modes.mouse !== "none") {
				event.preventDefault();
				const by = Math.trunc((touchY - event.touches[0].clientY) / this.line);
				if (by) touchY = event.touches[0].clientY, this.#note({ mouse: { kind: "wheel", delta: by, ...place(event.touches[0]) } });
			}
		}, { passive: false });
		new ResizeObserver(() => { clearTimeout(this.fitting); this.fitting = setTimeout(() => this.#fit(), this.#size ? 80 : 0); }).observe(this.box);
	}
	#askLink(link) {
		const gone = this.#say(
			t("Open {link}?", { link: visible(link) }),
			[t("Open"), () => { open(link, "_blank", "noopener,noreferrer"); gone(); }],
			[t("Copy"), () => { copy(link); gone(); }],
			[t("Cancel"), () => { gone(); this.focus(); }],
		);
		this.bar.querySelector("button")?.focus();
	}

	#key(event) {
		if (event.isComposing || event.keyCode === 229) return;
		const { key } = event, isMac = /Mac|iPhone|iPad/.test(navigator.platform);
		const isText = key.length === 1 || [...key].length === 1, control = event.ctrlKey, alt = event.altKey && !event.getModifierState("AltGraph");
		if (event.metaKey || key === "Dead" || key === "Unidentified") return;
		if (control && event.shiftKey) {
			if (event.code === "KeyC") { copy(this.selected() ?? ""); return event.preventDefault(); }
			if (event.code === "KeyV" || event.code === "KeyK") return;
			if (event.code === "KeyF") { this.finder(); return event.preventDefault(); }
		}
		if (event.shiftKey && !control && (key === "PageUp" || key === "PageDown") && !this.#modes.alternateScreen) {
			this.scroll.scrollTop += (key === "PageUp" ? -1 : 1) * this.scroll.clientHeight * 0.9;
			return event.preventDefault();
		}
		if (event.shiftKey && key === "Insert") return;
		if (control && !alt && !event.shiftKey && event.code === "KeyC" && this.selected()) {
			copy(this.selected());
			getSelection().removeAllRanges();
			return event.preventDefault();
		}
		if (special.test(key) || (isText && (control || (alt && !isMac)) && !event.getModifierState("AltGraph"))) {
			event.preventDefault();
			const pad = event.location === 3 && padNames[event.code.replace("Numpad", "")];
			this.key({ name: pad && key === "Enter" ? pad : named[key] ?? key, shift: event.shiftKey, alt, control });
		}
	}
	/// Sends a key by its name, with the modifiers that stick.
	key({ name, shift, alt, control }) {
		const out = { name };
		if (shift || this.#sticky.shift) out.shift = true;
		if (alt || this.#sticky.alt) out.alt = true;
		if (control || this.#sticky.control) out.control = true;
		this.#unstick();
		this.#note({ key: out });
		this.#reset();
		this.toEnd();
	}
	/// Whether what is being composed may be sent letter by letter, as on a phone.
	#isPlain() { return isTouch && !/[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Script=Bopomofo}]/u.test(this.field.value); }
	/// Sends how the text field differs from what it held.
	#typed() {
		const { field } = this, now = field.value, before = this.#held;
		if (now === before) return;
		let same = 0;
		while (same < now.length && same < before.length && now[same] === before[same]) same++;
		if (same && /[\ud800-\udbff]/.test(now[same - 1])) same--;
		const gone = [...before.slice(same)].length, text = now.slice(same).replaceAll("\u00a0", " ");
		this.#held = now;
		if (gone <= 64) for (let n = 0; n < gone; n++) this.#note({ key: { name: "Backspace" } });
		if (text) {
			if ((this.#sticky.control || this.#sticky.alt) && [...text].length === 1) return this.key({ name: text });
			this.#note({ text });
		}
		this.toEnd();
		if (text.includes("\n") || now.length > 400 || now.length < 2) this.#reset();
	}
	paste(text) { this.#note({ paste: text.slice(0, 1 << 20) }); this.#reset(); this.toEnd(); this.focus(); }
	async pasteHere() {
		try {
			this.paste(await navigator.clipboard.readText());
		} catch { say(t("The browser does not let this page read the clipboard. Paste with Ctrl Shift V."), { kind: "bad" }); }
	}

	/// The text that is selected, lines that only wrap as one.
	selected() {
		const selection = getSelection();
		if (selection.isCollapsed || !selection.rangeCount || !this.scroll.contains(selection.anchorNode)) return undefined;
		const range = selection.getRangeAt(0), all = [...this.scroll.querySelectorAll(".trow")].filter((row) => range.intersectsNode(row));
		let text = "";
		all.forEach((row, index) => {
			const part = document.createRange();
			part.selectNodeContents(row);
			if (index === 0 && row.contains(range.startContainer)) part.setStart(range.startContainer, range.startOffset);
			if (index === all.length - 1 && row.contains(range.endContainer)) part.setEnd(range.endContainer, range.endOffset);
			text += part.toString() + (index < all.length - 1 && !row.classList.contains("wraps") ? "\n" : "");
		});
		return text;
	}

	#keyBar() {
		const press = (label, act, more) => h("button", { type: "button", tabindex: -1, onpointerdown: (event) => event.preventDefault(), onclick: act, ...more },
			label,
		);
		const stick = (label, which) => {
			const node = press(
				label,
				() => { this.#sticky[which] = !this.#sticky[which]; node.setAttribute("aria-pressed", !!this.#sticky[which]); this.focus(); },
				{ "aria-pressed": "false" },
			);
			(this.sticks ??= []).push(node);
			return node;
		};
		const key = (label, name, words) => press(label, () => this.key({ name }), { "aria-label": words });
		const text = (label) => press(label, () => (this.#sticky.control || this.#sticky.alt ? this.key({ name: label }) : this.#note({ text: label })));
		fill(this.keys,
			key("Esc", "Escape"),
			key("Tab", "Tab"),
			stick("Ctrl", "control"),
			stick("Alt", "alt"),
			key("↑", "Up", t("Up")),
			key("↓", "Down", t("Down")),
			key("←", "Left", t("Left")),
			key("→", "Right", t("Right")),
			text("/"),
			text("-"),
			text("|"),
			text("~"),
			key("Home", "Home"),
			key("End", "End"),
			key("PgUp", "PageUp"),
			key("PgDn", "PageDown"),
			press(icon("paste"), () => this.pasteHere(), { "aria-label": t("Paste") }),
			text("*"),
			text("$"),
			text("&"),
			text(";"),
			text("'"),
			text("\""),
			key("F1", "F1"),
			key("F2", "F2"),
			key("F10", "F10"),
		);
	}
	#unstick() { this.#sticky = {}; for (const node of this.sticks ?? []) node.setAttribute("aria-pressed", "false"); }

	// MARK: On the page and off

	mount(host) {
		host.append(this.node);
		this.#isMounted = true;
		this.unseen = this.rang = false;
		this.#fit();
		this.toEnd();
		if (this.#pictures.length) this.#frame ??= requestAnimationFrame(() => this.#paint());
	}
	unmount() { this.#isMounted = false; this.node.remove(); }
	get roundTrip() { return this.rtt === undefined ? "" : milliseconds(this.rtt); }
}
