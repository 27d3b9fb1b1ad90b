// The devices: this one, the paired ones, and how more come to be.

import {
	h, t, keyed, fill, icon, button, say, complain, copy, ago, moment, lasting, milliseconds, visible, name, emptiness,
	problem, waitingFor, explain,
} from "/kit.js";
import { wire, devices } from "/wire.js";

/// Grants in words; what is not known here stays as it is.
export function grantWords(grant) {
	const [kind, value] = [grant.split("=")[0], grant.slice(grant.indexOf("=") + 1)];
	const said = {
		shell: "Shell",
		"shell:view": "Look at shared shells",
		"shell:agent": "Use an ssh agent",
		"screen:view": "See the screen",
		"screen:control": "Control the screen",
		"screen:clipboard": "Exchange clipboards",
		"screen:record": "Record the screen",
		"screen:privacy": "Darken the screen",
		"screen:unattended": "Screen, unasked",
		forward: "All connections", library: "Search libraries", "library:read": "Libraries, with files",
	}[grant];
	if (said) return t(said);
	const path = {
		"files:read": "Read {path}",
		"files:write": "Change {path}",
		"shell:command": "Run {path}",
		"forward:to": "Connect to {path}",
		"forward:listen": "Listen at {path}",
	}[kind];
	if (path && grant.includes("=")) return t(path, { path: visible(value) });
	if (grant.startsWith("node:")) return t("Service {path}", { path: visible(grant.slice(5)) });
	return visible(grant);
}

const kinds = [
	["files:read=", "Read a folder", "/srv"], ["files:write=", "Change a folder", "/srv"], ["shell", "Shell"], ["library", "Search libraries"],
	["library:read", "Libraries, with files"],
	["screen:view", "See the screen"],
	["screen:control", "Control the screen"],
	["screen:clipboard", "Exchange clipboards"],
	["forward", "All connections"],
	["forward:to=", "Connect to one place", "localhost:8080"],
	["node:", "Service", "math/add"],
	["", "Another grant, as written", "shell:view"],
];

/// A line in which a grant is chosen; `take` gets it.
function grantChooser(take) {
	const choose = h("select", { "aria-label": t("Kind of grant") }, kinds.map(([, label], index) => h("option", { value: index }, t(label))));
	const value = h("input", { type: "text", "aria-label": t("Folder, place or name"), spellcheck: "false" });
	const shown = () => {
		const hint = kinds[choose.value][2];
		value.hidden = !hint;
		value.placeholder = hint ?? "";
	};
	choose.onchange = shown;
	shown();
	const add = () => {
		const [kind, , hint] = kinds[choose.value];
		if (hint && !value.value.trim()) return value.focus();
		take(kind + (hint ? value.value.trim() : ""));
		value.value = "";
	};
	keyed(value, { Enter: add });
	return h("div.row.chooser", choose, h("div.grow", value), button("plus", t("Add"), add));
}

const hue = (id) => [...id].reduce((sum, c) => (sum * 31 + c.charCodeAt(0)) % 360, 7);
export function face(label, id, dot) {
	const node = h("span.face", { "aria-hidden": "true" }, [...visible(label)][0]?.toUpperCase() ?? "?", dot && h(`span.dot.${dot}`));
	node.style.setProperty("--hue", hue(id ?? label));
	return node;
}

function spark(values) {
	const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
	svg.setAttribute("class", "spark");
	svg.setAttribute("viewBox", "0 0 88 22");
	svg.setAttribute("aria-hidden", "true");
	if (values.length > 5) {
		const top = Math.max(...values, 1), low = Math.min(...values), path = document.createElementNS(svg.namespaceURI, "path");
		const step = 88 / 29;
		path.setAttribute(
			"d",
			values.map((value, index) =>
				`${index ? "L" : "M"}${(88 - (values.length - 1 - index) * step).toFixed(1)} ${(19 - 16 * (value - low) / (top - low || 1)).toFixed(1)}`).join(""),
		);
		svg.append(path);
	}
	return svg;
}

function way(device) {
	const active = device.paths?.find((path) => path.isActive);
	const kind = active?.kind ?? (device.path ? "direct" : undefined);
	return { lan: t("Local network"), direct: t("Direct"), relay: t("By a relay") }[kind] ?? t("Connected");
}

export async function open(host, parts) {
	const own = h("div.card"), list = h("div.card", { role: "list" }), pairing = h("div", { hidden: true });
	const add = button("plus", t("Pair a device"), () => togglePairing(), { cls: "primary", "aria-expanded": "false" });
	const page = h("div.page", h("div.top", h("h1", t("Devices")), add), pairing, own, list);
	const rows = new Map();
	let open = new Set(), closePairing;

	function togglePairing(wanted = pairing.hidden) {
		closePairing?.();
		closePairing = undefined;
		pairing.hidden = !wanted;
		add.setAttribute("aria-expanded", wanted);
		if (wanted) closePairing = pairPanel(pairing, () => togglePairing(false));
		else fill(pairing);
	}

	let ownOpen = false;
	function drawOwn() {
		const status = devices.own ?? { id: wire.welcome.device, name: wire.welcome.name, version: "" };
		const text = JSON.stringify([status, ownOpen]);
		if (own.dataset.text === text) return;
		own.dataset.text = text;
		const toggle = button(
			ownOpen ? "up" : "down",
			"",
			() => ((ownOpen = !ownOpen), drawOwn(), own.querySelector("[aria-expanded]").focus()),
			{ title: t("Details of this device"), "aria-expanded": ownOpen },
		);
		fill(own, h("div.device", h("div.line", face(status.name, status.id, "on"),
			h("div.who", h("strong", visible(status.name)), h("span.soft.small", t("This device"), status.version && ` · Kith ${status.version}`)),
			h("div.acts", openers(undefined), toggle)),
		status.problems?.length ? h("div.detail", h("section.wide", status.problems.map((each) => h("p.warn", icon("warn"), " ", each)))) : null,
		ownOpen && h("div.detail",
			h("section",
				h("h3", t("Identity")),
				h("p.secret", status.id),
				h("div.row", button("copy", t("Copy the DeviceID"), () => copy(status.id)), button("copy", t("Copy the ticket"), () => copy(status.ticket))),
			),
			h("section",
				h("h3", t("Reached at")),
				h("ul.mono", status.addresses?.map((each) => h("li", each))),
				status.relays?.length ? h("ul.mono", status.relays.map((each) => h("li", each))) : null,
				button("eye", t("Examine the network"), (event) => examine(event.currentTarget, undefined)),
			))));
	}

	const openers = (device) => {
		const may = (kind) => !device || device.grantsThere?.some((grant) => grant === kind || grant.startsWith(kind + ":") && kind === "files");
		const label = device ? visible(device.name) : visible(wire.welcome.name);
		return [
			may("files") && h("a.button", { href: `#/files/${devices.link(device)}`, "aria-label": t("Files on {name}", { name: label }) },
				icon("files"),
				h("span.wideonly", t("Files")),
			),
			may("shell") && h("a.button", { href: `#/shell/${devices.link(device)}?new`, "aria-label": t("Shell on {name}", { name: label }) },
				icon("shell"),
				h("span.wideonly", t("Shell")),
			),
		];
	};

	function drawList() {
		if (!devices.list) return;
		if (!devices.list.length) {
			rows.clear();
			return fill(list,
				emptiness(
					"pair",
					t("No other devices yet"),
					t("Pair another of your machines: make an invitation here and use it there. Then its files and its shell are here, too."),
					button("plus", t("Pair a device"), () => togglePairing(true), { cls: "primary" }),
				),
			);
		}
		if (!rows.size) fill(list);
		const seen = new Set(devices.list.map((device) => device.id));
		for (const [id, row] of rows) if (!seen.has(id)) row.node.remove(), rows.delete(id);
		devices.list.forEach((device, index) => {
			let row = rows.get(device.id);
			if (!row) rows.set(device.id, (row = deviceRow(device)));
			row.update(device);
			if (list.children[index] !== row.node) list.insertBefore(row.node, list.children[index] ?? null);
		});
	}

	function deviceRow(first) {
		let device = first, shown = "", detail;
		const line = h("div.line"), node = h("div.device", { role: "listitem" }, line);
		const toggle = button("down", "", () => {
			open.has(device.id) ? open.delete(device.id) : open.add(device.id);
			sync();
		}, { title: t("Details of {name}", { name: visible(device.name) }), "aria-expanded": "false" });
		const who = h("div.who"), wayBox = h("div.way"), acts = h("div.acts");
		let faceNode = face(device.name, device.id);
		line.append(faceNode, who, wayBox, acts);
		function sync() {
			const wanted = open.has(device.id);
			toggle.setAttribute("aria-expanded", wanted);
			toggle.replaceChildren(icon(wanted ? "up" : "down"));
			if (wanted && !detail) node.append((detail = deviceDetail(device)).node);
			else if (!wanted && detail) detail.node.remove(), (detail = undefined);
		}
		return {
			node,
			update(next) {
				device = next;
				fill(wayBox, device.isOnline
					? [
						h("span", way(device), device.roundTripMilliseconds !== undefined && ` · ${milliseconds(device.roundTripMilliseconds)}`),
						spark(devices.history.get(device.id) ?? []),
					]
					: h("span", device.lastSeen ? t("Seen {when}", { when: ago(device.lastSeen) }) : t("Never seen")));
				const text = JSON.stringify([
					device.name,
					device.isOnline,
					device.grants,
					device.grantsThere,
					device.labels,
					device.isFavorite,
					device.failure,
					device.warnings,
					device.hasForgotten,
					device.paths?.length,
				]);
				if (text === shown) return;
				shown = text;
				const next2 = face(device.name, device.id, device.isOnline ? "on" : "off");
				faceNode.replaceWith(next2);
				faceNode = next2;
				fill(who, h("strong", name(device.name), device.isFavorite && [" ", icon("star")]),
					h("span.soft.small", device.isOnline ? t("Online") : t("Offline"),
						device.hasForgotten && ` · ${t("has forgotten this device")}`,
						device.labels?.length ? ` · ${device.labels.map(visible).join(", ")}` : "",
						device.failure && !device.isOnline ? ` · ${visible(device.failure)}` : ""),
					device.warnings?.map((warning) => h("span.warn.small", warning)));
				const hadFocus = acts.contains(document.activeElement);
				fill(acts, openers(device), toggle);
				if (hadFocus) toggle.focus();
				detail?.update(device);
				sync();
			},
		};
	}

	function deviceDetail(first) {
		let device = first;
		const grants = h("div.chips"), there = h("div.chips"), facts = h("dl.facts"), manage = h("div.row"), inline = h("div.wide", { hidden: true });
		const node = h("div.detail",
			h("section",
				h("h3", t("May do here")),
				grants,
				grantChooser((grant) => change(
					{ add: [grant] },
					{ remove: [grant] },
					t("{name} may now: {grant}.", { name: visible(device.name), grant: grantWords(grant) }),
				)),
			),
			h("section", h("h3", t("This device may do there")), there),
			h("section", h("h3", t("Connection")), facts),
			h("section", h("h3", t("Manage")), manage), inline);
		async function change(input, back, text) {
			try {
				await wire.call("devices.grant", { device: device.id, ...input });
				say(
					text,
					{
						action: [
							t("Undo"),
							async () => { try { await wire.call("devices.grant", { device: device.id, ...back }); devices.refresh(); } catch (error) { complain(error); } },
						],
					},
				);
			} catch (error) { complain(error); }
			devices.refresh();
		}
		const show = (...content) => ((inline.hidden = false), fill(inline, content), inline.querySelector("input,button")?.focus());
		const hide = () => ((inline.hidden = true), fill(inline));
		function rename() {
			const input = h("input", { type: "text", value: device.name, "aria-label": t("Name of the device"), maxlength: 64 });
			const go = async () => {
				try { await wire.call("devices.rename", { device: device.id, name: input.value.trim() }); hide(); devices.refresh(); } catch (error) { complain(error); }
			};
			keyed(input, { Enter: go, Escape: hide });
			show(h("div.row", h("div.grow", input), button("", t("Cancel"), hide), button("", t("Rename"), go, { cls: "primary" })));
			input.select();
		}
		function label() {
			const before = device.labels ?? [], input = h("input", { type: "text", value: before.join(", "), "aria-label": t("Labels, with commas between them") });
			const go = async () => {
				const after = input.value.split(",").map((each) => each.trim()).filter(Boolean);
				try {
					await wire.call("devices.label", {
						device: device.id,
						add: after.filter((each) => !before.includes(each)),
						remove: before.filter((each) => !after.includes(each)),
					});
					hide();
					devices.refresh();
				} catch (error) { complain(error); }
			};
			keyed(input, { Enter: go, Escape: hide });
			show(h("div.row", h("div.grow", input), button("", t("Cancel"), hide), button("", t("Save"), go, { cls: "primary" })));
		}
		function forget() {
			const go = async () => {
				try {
					await wire.call("devices.forget", { device: device.id });
					say(t("{name} is forgotten.", { name: visible(device.name) }));
					open.delete(device.id);
				} catch (error) { complain(error); }
				devices.refresh();
			};
			show(h("div.row",
				h("span.grow", t("Forget {name}? What it does here is cut off at once, and the two must be paired anew.", { name: visible(device.name) })),
				button("", t("Cancel"), hide),
				button("trash", t("Forget"), go, { cls: "danger full" }),
			));
		}
		const favorite = async () => {
			try { await wire.call("devices.label", { device: device.id, isFavorite: !device.isFavorite }); devices.refresh(); } catch (error) { complain(error); }
		};
		function update(next) {
			device = next;
			fill(grants, device.grants.length ? device.grants.map((grant) => {
				const end = device.grantEnds?.find((each) => each.grant === grant);
				return h("span.chip", { title: grant }, grantWords(grant), end && h("span.soft", t("until {when}", { when: moment(end.time) })),
					button(
						"close",
						"",
						() => change({ remove: [grant] }, { add: [grant], until: end?.time }, t("Taken away: {grant}.", { grant: grantWords(grant) })),
						{ title: t("Take away: {grant}", { grant: grantWords(grant) }) },
					));
			}) : h("span.soft.small", t("Nothing.")));
			fill(there,
				device.grantsThere?.length
					? device.grantsThere.map((grant) => h("span.chip", { title: grant }, grantWords(grant)))
					: h("span.soft.small",
						device.grantsThere
							? t("Nothing. {name} decides that, by its own list of devices.", { name: visible(device.name) })
							: t("Not known yet: it has not been online since."),
					),
			);
			const fact = (label, ...value) => [h("dt", t(label)), h("dd", value)];
			fill(facts,
				fact(
					"DeviceID",
					h("span.mono", { title: device.id }, device.id.split("-").slice(0, 3).join("-"), "… "),
					h("button.link", { type: "button", onclick: () => copy(device.id) }, t("Copy")),
				),
				device.version && fact("Version", device.version),
				fact("Paired", moment(device.pairedAt, true)),
				device.certifiedUntil && fact("Certified until", moment(device.certifiedUntil)),
				(device.paths ?? []).map((path) => fact(
					{ lan: "Local network", direct: "Direct", relay: "By a relay" }[path.kind] ?? "Path",
					h("span.mono", path.place),
					path.roundTripMilliseconds !== undefined && ` · ${milliseconds(path.roundTripMilliseconds)}`,
					path.isActive ? "" : ` · ${t("in reserve")}`,
				)),
				!device.isOnline && device.addresses.length ? fact("Last addresses", h("span.mono", device.addresses.slice(0, 4).join(", "))) : null,
			);
		}
		fill(manage,
			button("edit", t("Rename"), rename),
			button("", t("Labels"), label),
			button("star", t(device.isFavorite ? "No longer first" : "Put first"), favorite),
			button("eye", t(device.isOnline ? "Examine" : "Why unreachable?"), () => (inline.hidden = false, examine(inline, device))),
			button("trash", t("Forget …"), forget, { cls: "danger" }),
		);
		update(device);
		return { node, update };
	}

	const change = () => {
		if (devices.error && !devices.list) return fill(list, problem(devices.error, () => devices.refresh()));
		drawOwn();
		drawList();
		if (devices.list && !change.marked) change.marked = true, performance.mark("devices-shown");
	};
	host.append(page);
	if (!devices.list) fill(list, waitingFor());
	change();
	devices.addEventListener("change", change);
	devices.isWatched = true;
	// Those that are quiet are asked once, in the background: they may be there all the same.
	devices.refresh().then(() => devices.list?.some((device) => !device.isOnline || !device.grantsThere) && devices.refresh({ probe: true }));
	if (parts.query.has("pair")) togglePairing(true);
	return {
		go(next) { if (next.query.has("pair")) togglePairing(true); },
		close() { closePairing?.(); devices.isWatched = false; devices.removeEventListener("change", change); },
	};
}

/// Shows step by step whether a device can be reached.
async function examine(place, device) {
	const list = h("ol.steps");
	const head = h("h3", device ? t("From here to {name}", { name: visible(device.name) }) : t("This device's network"));
	const wait = h("div.row", h("div.spinner"), h("span.soft", t("Examining …")));
	const box = h("div.stack", head, list, wait);
	place.tagName === "BUTTON" ? place.replaceWith(box) : fill(place, box);
	try {
		const stream = await wire.stream("reach.examine", device ? { device: device.id } : {}, {
			message: (step) => list.append(h(`li.${step.outcome}`, icon({ ok: "check", warning: "warn", failure: "close" }[step.outcome] ?? "info"),
				h("span.soft", h("span.unseen", { ok: t("Good:"), warning: t("Doubtful:"), failure: t("Failed:") }[step.outcome] ?? ""), step.subject),
				h("span.what", step.finding),
				step.remedy && h("span.remedy", step.remedy))),
		});
		await stream.ended;
	} catch (error) { list.append(h("li.failure", icon("close"), h("span"), h("span.what", explain(error)))); }
	wait.remove();
}

/// Both ways to pair: an invitation made here, or one from there.
function pairPanel(host, done) {
	const made = h("div.stack"), using = h("div.stack");
	let ticking, joining;

	const wishes = new Set();
	const chips = h("div.chips");
	const drawWishes = () => fill(chips,
		wishes.size
			? [...wishes].map((grant) => h("span.chip",
				grantWords(grant),
				button("close", "", () => (wishes.delete(grant), drawWishes()), { title: t("Take away: {grant}", { grant: grantWords(grant) }) }),
			))
			: h("span.soft.small", t("Nothing at first: you can grant rights later.")),
	);
	drawWishes();
	const life = h("select", { "aria-label": t("Valid for") },
		[[600, t("10 minutes")], [3600, t("1 hour")], [86400, t("1 day")], [604800, t("1 week")]].map(([value, label]) => h("option", { value }, label)),
	);
	const start = () => fill(made,
		h("h3", t("What the device may do here")), chips, grantChooser((grant) => (wishes.add(grant), drawWishes())),
		h("div.row", h("label.row", h("span.soft", t("Valid for")), life), button("plus", t("Make an invitation"), invite, { cls: "primary" })));
	async function invite() {
		try {
			const { info, text } = await wire.call("invitations.create", { grants: [...wishes], lifetimeSeconds: Number(life.value) });
			const { qr } = await import("/qr.js");
			const left = h("span");
			const tick = () => {
				const seconds = info.expiresAt - Date.now() / 1000;
				if (seconds <= 0) return clearInterval(ticking), start();
				left.textContent = t("Can be used once, for {time}.", { time: lasting(seconds) });
			};
			tick();
			ticking = setInterval(tick, 1000);
			const revoke = async () => {
				clearInterval(ticking);
				try { await wire.call("invitations.revoke", { id: info.id }); } catch (error) { if (error.code !== -32001) complain(error); }
				start();
			};
			fill(made,
				qr(text.toUpperCase(), t("Invitation as a QR code")),
				h("p", t("On the other device run {command} and paste this. This page then asks you to compare a code.", { command: "kith pair" })),
				h("p.secret", { "aria-label": t("Invitation as text") }, text),
				info.warnings?.map((each) => h("p.warn.small", each)),
				h("div.row", button("copy", t("Copy"), () => copy(text), { cls: "primary" }), button("", t("Revoke"), revoke), h("span.soft.small", left)),
			);
		} catch (error) { complain(error); }
	}
	start();

	const field = h("textarea", {
		rows: 4,
		"aria-label": t("Invitation from the other device"),
		placeholder: "kith-invite1…",
		spellcheck: "false",
		class: "mono",
	});
	async function join() {
		const text = field.value.trim();
		if (!text) return field.focus();
		const outcome = h("div.stack", { role: "status" }, h("div.row", h("div.spinner"), t("Connecting …")));
		fill(using, outcome);
		const failed = (words) => fill(outcome, h("p.bad", words), button("", t("Try another invitation"), begin));
		let settled = false;
		try {
			joining = await wire.stream("pairing.join", { invitation: text }, {
				message: ({ compare, paired, failed: failure }) => {
					if (compare) {
						const decide = (accept) =>
							() => (joining.send({ accept }), fill(outcome, h("p", accept ? t("Waiting for the other end to agree …") : t("Refused."))), !accept && begin());
						fill(outcome, h("p", t("Connected to {name}. Does it show this code, too?", { name: visible(compare.name) })), h("p.code", compare.code),
							h("div.row", button("check", t("Yes, the same"), decide(true), { cls: "primary" }), button("", t("No"), decide(false), { cls: "danger" })));
						outcome.querySelector("button").focus();
					} else if (paired) {
						settled = true;
						say(t("Paired with {name}.", { name: visible(paired._0.name) }));
						devices.refresh();
						done();
					} else if (failure) settled = true, failed(failure.message);
				},
			});
			await joining.ended;
			if (!settled && using.contains(outcome)) failed(t("The pairing has ended."));
		} catch (error) { if (!settled && using.contains(outcome)) failed(explain(error)); }
	}
	const begin = () => {
		joining?.cancel();
		field.value = "";
		fill(using,
			h("p.soft", t("Made there by {command}, or on its page.", { command: "kith invite" })),
			field,
			h("div.row", button("", t("Connect"), join, { cls: "primary" })),
		);
	};
	begin();
	fill(host,
		h("div.card.pair",
			h("section", h("h2", t("Invite a device")), made),
			h("section", h("div.row", h("h2.grow", t("Use an invitation")), button("close", "", done, { title: t("Close") })), using),
		),
	);
	return () => (clearInterval(ticking), joining?.cancel());
}
