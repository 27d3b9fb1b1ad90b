// The frame: way in, navigation, what is asked of the person, command palette.

import {
	$, h, t, fill, icon, button, menu, say, complain, setLanguage, setting, language, announce, waitingFor, name, problem,
	bytes, count, visible,
} from "/kit.js";
import { wire, devices } from "/wire.js";

const views = {
	devices: ["Devices", "devices", () => import("/views/devices.js")],
	files: ["Files", "files", () => import("/views/files.js")],
	shell: ["Shell", "shell", () => import("/views/shell.js")],
	search: ["Search", "search", () => import("/views/search.js")],
	jobs: ["Jobs", "jobs", () => import("/views/watch.js")],
	log: ["Log", "log", () => import("/views/watch.js")],
	page: ["This page", "page", () => import("/views/page.js")],
};

// MARK: Appearance

export function setTheme(theme) {
	setting("theme", theme);
	if (theme) document.documentElement.dataset.theme = theme;
	else delete document.documentElement.dataset.theme;
	$("meta[name=color-scheme]").content = theme ?? "light dark";
}
export const themes = [[null, "As the system", "half"], ["light", "Light", "sun"], ["dark", "Dark", "moon"]];
const themeMenu = (at) => menu(at, themes.map(([theme, label]) =>
	["", t(label), () => setTheme(theme), { checked: (setting("theme") ?? null) === theme }]));

export async function switchLanguage(code) {
	setting("language", code);
	await setLanguage(code);
	frame = undefined;
	show();
}

// MARK: Before login

function door() {
	const detail = wire.detail;
	const code = wire.state === "connecting" && detail?.code;
	const commands = h("pre.command", "kith web");
	let content;
	if (wire.state === "unable") {
		content = [
			h("p", !isSecureContext
				? t("This browser keeps keys only at an address with https, or at localhost. Open the page on the machine itself by “kith web”.")
				: t("This browser cannot make the key (Ed25519) by which it would sign in, or may not keep it. Chrome and Edge since 137, Firefox since 129 and Safari since 17 can, outside of private windows.")),
		];
	} else if (code) {
		content = [
			h("p", t("The device asks whether to let this browser in. It shows this code, too:")),
			h("p.code", code),
			h("p.soft", t("This page goes on by itself.")),
		];
	} else if (wire.state === "out") {
		const why = detail?.code === "left" ? t("You have signed out.") : detail?.code === "unknown" ? "" : detail?.message;
		const isStranger = detail?.code === "stranger";
		content = [
			why && h("p.why", { role: "alert" }, why),
			isStranger
				? h("p.why", { role: "alert" },
					t("Something else answers at this address, not the device that this browser knows; to open its page, run this on the device:"),
				)
				: h("p", t("To sign in, run this on the machine that this page belongs to:")),
			commands,
			h("p", t("It opens the page signed in. The link works once, within five minutes.")),
		];
	} else {
		content = [waitingFor(wire.state === "lost" && !wire.isCrowded ? t("This device does not answer. Trying again …") : undefined)];
	}
	fill(document.body, h("main.door", { id: "main" }, h("img", { src: "/icon.svg", alt: "", width: 56, height: 56 }), h("h1", "Kith"), content));
	document.title = "Kith";
}

// MARK: The frame

let frame, view, viewName, links = {};

function build() {
	const nav = h("nav", { "aria-label": t("Areas") });
	for (const [key, [label, picture]] of Object.entries(views)) {
		links[key] = h(`a.area${["jobs", "log", "page"].includes(key) ? ".rest" : ""}`, { href: `#/${key}` }, icon(picture), h("span", t(label)), h("span.badge"));
		nav.append(links[key]);
	}
	const more = button("more", "", () => menu(more, ["jobs", "log", "page"].map((key) => [views[key][1], t(views[key][0]), () => (location.hash = `#/${key}`)])
		.concat([null, ["half", t("Appearance"), () => themeMenu(more)], ["search", t("Go to anything"), palette]])), { title: t("More"), cls: "area more" });
	more.append(h("span", t("More")));
	nav.append(more);
	const theme = button("half", "", () => themeMenu(theme), { title: t("Appearance") });
	const own = h("a.own", { href: "#/devices" }, h("img", { src: "/icon.svg", alt: "", width: 30, height: 30 }), h("span.ownname", wire.welcome.name));
	frame = {
		strip: h("div.strip", { role: "status", hidden: true }),
		asks: h("div.asks", { role: "region", "aria-label": t("Questions"), "aria-live": "polite" }),
		main: h("main", { id: "main", tabindex: -1 }),
	};
	fill(document.body,
		h("button.skip", { type: "button", onclick: () => frame.main.focus() }, t("To the content")),
		h("header.side", own, nav, h("div.foot",
			h("button.find", { type: "button", onclick: palette, "aria-keyshortcuts": "Control+K", "aria-label": t("Go to anything") },
				icon("search"),
				h("span", t("Go to …")),
				h("kbd", "Ctrl K"),
			),
			theme)),
		h("div.content", frame.strip, frame.asks, frame.main));
	asks();
}

let latest = 0, hasShown = false;
async function show() {
	if (!wire.welcome || ["out", "unable"].includes(wire.state)) return;
	if (!frame) { build(); view?.close?.(); view = viewName = undefined; }
	const turn = ++latest;
	const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
	const [key, ...rest] = path.split("/");
	const known = Object.hasOwn(views, key) ? key : "devices";
	// A link from elsewhere only shows: what acts was asked for here, by a person.
	const isAsked = hasShown && (navigator.userActivation?.isActive ?? true);
	hasShown = true;
	const parts = { rest: rest.join("/"), query: new URLSearchParams(query ?? ""), key: known, isAsked };
	for (const [each, link] of Object.entries(links)) {
		if (each === known) link.setAttribute("aria-current", "page");
		else link.removeAttribute("aria-current");
	}
	try {
		if (viewName === known && view?.go) return await view.go(parts);
		view?.close?.();
		view = undefined;
		viewName = known;
		document.body.dataset.view = known;
		title(t(views[known][0]));
		const module = await views[known][2]();
		if (turn !== latest) return;
		frame.main.replaceChildren();
		frame.main.scrollTop = 0;
		view = await module.open(frame.main, parts);
		if (turn !== latest) { view?.close?.(); view = undefined; return; }
	} catch (error) {
		console.warn(error);
		if (turn !== latest || !frame) return;
		view?.close?.();
		view = viewName = undefined;
		fill(frame.main, problem(error, show));
	}
}

export function title(text) {
	document.title = `${text} – ${wire.welcome.name}`;
	announce(text);
}

/// A number beside an area's name.
export function badge(key, number) {
	const mark = links[key]?.querySelector(".badge");
	if (mark) fill(mark, number ? [String(number)] : []);
}

let ticking;
function strip() {
	if (!frame) return;
	clearInterval(ticking);
	frame.strip.hidden = wire.state === "live";
	if (wire.state === "live") return;
	const said = h("span"), tick = () => {
		const wait = Math.ceil(((wire.detail?.at ?? 0) - Date.now()) / 1000);
		fill(said,
			t("The connection to {name} is gone.", { name: wire.welcome.name }),
			" ",
			wait > 0 ? t("Trying again in {n} s.", { n: wait }) : t("Trying again …"),
		);
	};
	tick();
	ticking = setInterval(tick, 1000);
	fill(frame.strip, h("span.dot.warn"), said, h("button.link", { type: "button", onclick: () => wire.connect() }, t("Try now")));
}

wire.addEventListener("state", () => {
	if (["out", "unable"].includes(wire.state)) {
		view?.close?.();
		frame = view = viewName = undefined;
		return door();
	}
	if (!wire.welcome) return door();
	if (wire.state === "live") {
		devices.refresh({ own: true });
		if (!frame) show();
	}
	strip();
});

// MARK: What is asked: pairings and offers

const stops = [];
function asks() {
	for (const stop of stops.splice(0)) stop();
	const open = new Map();
	const put = (id, ...content) => {
		open.get(id)?.remove();
		open.set(id, h("div.ask", content));
		frame.asks.append(open.get(id));
	};
	const drop = (id) => (open.get(id)?.remove(), open.delete(id));
	const pairing = ({ requested, paired, ended }) => {
		const request = (requested ?? paired ?? ended)?._0;
		if (!request?.id) return;
		if (!requested) {
			drop(request.id);
			if (paired) say(t("Paired with {name}.", { name: visible(request.name) })), devices.refresh();
			else say(ended.reason ?? t("The pairing has ended."), { kind: "bad" });
			return;
		}
		const decide = (accept) => async () => {
			try { await wire.call("pairing.decide", { id: request.id, accept }); drop(request.id); } catch (error) { complain(error); }
		};
		if (request.isAutomatic) return;
		put(request.id, icon("pair"), h("div.grow", h("strong", t("{name} wants to pair.", { name: visible(request.name) })),
			h("p", t("Accept only if it shows this code, too:"), " ", h("b.code.small", request.code)),
			request.grants.length ? h("p.soft", t("It may then do here:"), " ", request.grants.join(", ")) : null,
			request.warnings?.map((warning) => h("p.warn", warning))),
		button("", t("Refuse"), decide(false)), button("", t("It is the same: accept"), decide(true), { cls: "primary" }));
	};
	const offer = (entry) => {
		if (entry.state !== "waiting") return drop(entry.id);
		const decide = (accepts) => async () => {
			try {
				const { folder } = await wire.call("inbox.decide", { id: entry.id, accepts });
				accepts && folder && say(t("Arrives in {folder}.", { folder: visible(folder) }));
				drop(entry.id);
			} catch (error) { complain(error); }
		};
		const named = devices.named(entry.device)?.name ?? entry.device;
		put(
			entry.id,
			icon("download"),
			h("div.grow",
				h("strong", t("{name} offers {files}, {size}.", { name: visible(named), files: count(entry.files, "{n} file", "{n} files"), size: bytes(entry.bytes) })),
				h("p.soft", entry.names.slice(0, 3).map((each, index) => [index ? ", " : "", name(each)]), entry.count > 3 ? " …" : ""),
			),
		button("", t("Refuse"), decide(false)),
			button("", t("Accept"), decide(true), { cls: "primary" }),
		);
	};
	const active = new Set();
	const job = ({ job, removed }) => {
		job && ["running", "queued"].includes(job.state) ? active.add(job.id) : active.delete(job?.id ?? removed);
		badge("jobs", active.size);
	};
	stops.push(wire.follow("jobs.follow", {}, job), wire.follow("pairing.watch", {}, pairing), wire.follow("inbox.watch", {}, offer));
}

// MARK: The palette

function commands() {
	const list = Object.entries(views).map(([key, [label, picture]]) => ({ picture, text: t(label), go: () => (location.hash = `#/${key}`) }));
	const places = [[undefined, wire.welcome.name, []], ...(devices.list ?? []).map((device) => [device, device.name, device.grantsThere ?? []])];
	for (const [device, label, grants] of places) {
		const may = (kind) => !device || grants.some((grant) => grant.startsWith(kind));
		if (may("files"))
			list.push({ picture: "files", text: t("Files on {name}", { name: visible(label) }), go: () => (location.hash = `#/files/${devices.link(device)}`) });
		if (may("shell"))
			list.push({ picture: "shell", text: t("Shell on {name}", { name: visible(label) }), go: () => (location.hash = `#/shell/${devices.link(device)}?new`) });
	}
	list.push({ picture: "plus", text: t("Pair a device"), go: () => (location.hash = "#/devices?pair") });
	for (const [theme, label, picture] of themes) list.push({ picture, text: `${t("Appearance")}: ${t(label)}`, go: () => setTheme(theme) });
	list.push({ picture: "page", text: language === "de" ? "English" : "Deutsch", go: () => switchLanguage(language === "de" ? "en" : "de") });
	list.push({ picture: "out", text: t("Sign out this browser"), go: () => wire.logout() });
	return [...(view?.commands?.() ?? []), ...list];
}

function palette() {
	if ($("dialog.palette")) return;
	const all = commands();
	const list = h("div", { role: "listbox", id: "found", "aria-label": t("Results") });
	const input = h("input", { type: "text", role: "combobox", "aria-expanded": "true", "aria-controls": "found", "aria-label": t("Go to anything"),
		placeholder: t("A view, a device, a path, a command"), autocomplete: "off", spellcheck: "false" });
	let found = [], at = 0;
	const mark = () => {
		[...list.children].forEach((row, index) => row.setAttribute("aria-selected", index === at));
		list.children[at]?.scrollIntoView({ block: "nearest" });
		input.setAttribute("aria-activedescendant", list.children[at]?.id ?? "");
	};
	const draw = () => {
		const text = input.value.trim(), words = text.toLowerCase().split(/\s+/).filter(Boolean);
		found = all.filter((item) => words.every((word) => item.text.toLowerCase().includes(word))).slice(0, 40);
		const place = text.match(/^(?:([^/:]+):)?(\/.*)$/);
		if (place) {
			const device = place[1] && devices.named(place[1]);
			if (!place[1] || device)
				found.unshift({
					picture: "folder",
					text: t("Open {path}", { path: text }),
					go: () => (location.hash = `#/files/${devices.link(device)}${encodeURI(place[2])}`),
				});
		} else if (text)
			found.push({
				picture: "search",
				text: t("Search the libraries for “{text}”", { text }),
				go: () => (location.hash = `#/search?q=${encodeURIComponent(text)}`),
			});
		at = 0;
		fill(list,
			found.map((item, index) => h("div.choice", { role: "option", id: `found${index}`, onclick: () => run(item) }, icon(item.picture), h("span", item.text))),
		);
		mark();
	};
	const run = (item) => (dialog.close(), item?.go());
	const dialog = h("dialog.palette", {
		"aria-label": t("Go to anything"),
		onclose: () => dialog.remove(),
		onclick: (event) => event.target === dialog && dialog.close(),
	},
		h("div.box", h("label.field", icon("search"), input), list));
	input.oninput = draw;
	input.onkeydown = (event) => {
		if (event.isComposing) return;
		const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
		if (step && found.length) at = (at + step + found.length) % found.length, mark(), event.preventDefault();
		else if (event.key === "Enter") run(found[at]), event.preventDefault();
	};
	document.body.append(dialog);
	dialog.showModal();
	draw();
}

addEventListener("keydown", (event) => {
	if ((event.ctrlKey || event.metaKey) && !event.altKey && event.code === "KeyK") {
		if (event.shiftKey || !event.target.closest?.(".terminal")) event.preventDefault(), palette();
	}
});

// MARK: Start

/// A login link's secret stands in the fragment; it is erased before anything else.
function takeSecret() {
	const secret = location.hash.match(/^#([A-Za-z0-9_-]{22})$/)?.[1];
	if (secret) history.replaceState(null, "", location.pathname);
	return secret;
}
addEventListener("hashchange", () => {
	const secret = takeSecret();
	secret && wire.state !== "live" ? wire.start(secret) : show();
});

const secret = takeSecret();
setTheme(setting("theme"));
const chosen = setting("language") ?? navigator.languages?.find((code) => /^(de|en)/.test(code))?.slice(0, 2);
await setLanguage(chosen).catch(() => {});
door();
await wire.start(secret);
