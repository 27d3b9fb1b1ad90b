// Shells on any device, in tabs that stay while one looks at something else.

import { h, t, fill, icon, button, menu, say, complain, announce, ago, visible, linkToName, emptiness, count } from "/kit.js";
import { wire, devices } from "/wire.js";
import { title, badge } from "/app.js";
import { Terminal } from "/views/terminal.js";

const tabs = [];
let current;

/// A reload of the page comes back to the shells that were open.
function remember() {
	try {
		sessionStorage.setItem(
			"kith.shells",
			JSON.stringify(tabs.filter((tab) => tab.session && !["ended", "closed"].includes(tab.state)).map((tab) => ({
				device: tab.device?.id,
				session: tab.session,
				view: tab.view,
			}))),
		);
	} catch { /* then it does not */ }
}
let hasReturned = false;
function comeBack() {
	if (hasReturned) return;
	hasReturned = true;
	try {
		for (const { device, session, view } of JSON.parse(sessionStorage.getItem("kith.shells")) ?? [])
			add(new Terminal({ device: device && devices.named(device), session, view }), false);
	} catch { /* nothing was kept */ }
}

let drawTabs = () => {}, select = () => {};
function add(tab, show = true) {
	tabs.push(tab);
	tab.addEventListener("change", () => { drawTabs(); remember(); badge("shell", tabs.filter((each) => each.unseen || each.rang).length); });
	tab.addEventListener("another", () => { const next = new Terminal({ device: tab.device }); drop(tab, true); add(next); });
	tab.addEventListener("done", () => drop(tab, true));
	if (show) select(tab);
	return tab;
}
function drop(tab, ends) {
	tab.close(ends);
	const at = tabs.indexOf(tab);
	tabs.splice(at, 1);
	remember();
	select(tabs[at] ?? tabs[at - 1]);
}

export async function open(host, parts) {
	const strip = h("div.tabs", { role: "tablist", "aria-label": t("Shells") }), tools = h("div.row.termtools"), place = h("div.termplace");
	host.append(h("div.shell", h("h1.unseen", t("Shell")), h("div.termhead", strip, tools), place));
	const label = (tab) => visible(tab.device?.name ?? wire.welcome.name);

	drawTabs = () => {
		fill(strip, tabs.map((tab, index) => {
			const node = h("div.tab", { class: tab === current ? "on" : undefined },
				h("button.tabname", { type: "button", role: "tab", "aria-selected": tab === current, tabindex: tab === current ? 0 : -1, onclick: () => select(tab) },
					h(`span.dot.${{ open: "on", lost: "warn", failed: "bad", ended: "off" }[tab.state] ?? "off"}`),
					h("span.cut", label(tab), tab.title ? h("span.soft", ` · ${visible(tab.title)}`) : null),
					tab.rang ? h("span.unseen", t("rang")) : null,
					tab.unseen || tab.rang ? h("span.dot.warn") : null),
				button("close", "", (event) => closeTab(tab, event.currentTarget), { title: t("Close"), tabindex: -1, "aria-hidden": "true" }));
			node.onkeydown = (event) => {
				if (event.key === "Delete") closeTab(tab, node);
				const to = { ArrowRight: index + 1, ArrowLeft: index - 1, Home: 0, End: tabs.length - 1 }[event.key];
				if (to === undefined || !tabs[to]) return;
				select(tabs[to]);
				strip.querySelectorAll("[role=tab]")[to]?.focus();
				event.preventDefault();
			};
			return node;
		}));
		const add = button("plus", "", () => chooser(add), { title: t("Another shell"), "aria-haspopup": "menu" });
		const more = current && button("more", "", () => menu(more, [
			["search", t("Find …"), () => current.finder()],
			[
				"copy",
				t("Copy what is selected"),
				() => { const text = current.selected(); text ? navigator.clipboard.writeText(text).then(() => say(t("Copied."))) : say(t("Nothing is selected.")); },
			],
			["paste", t("Paste"), () => current.pasteHere()],
			null,
			["plus", t("Larger letters"), () => current.zoom(1)],
			["close", t("Smaller letters"), () => current.zoom(-1)],
			[
				"eye",
				current.reads ? t("Do not read output aloud") : t("Read output aloud"),
				() => { current.reads = !current.reads; announce(current.reads ? t("New output is read.") : t("Output is not read.")); current.focus(); },
			],
			null,
			["out", t("Close …"), () => closeTab(current, more)],
		]), { title: t("More"), "aria-haspopup": "menu" });
		fill(tools, current?.roundTrip && h("span.soft.small.rtt", current.roundTrip), add, more);
		if (current) title(`${current.title ? `${visible(current.title)} – ` : ""}${t("Shell on {name}", { name: label(current) })}`);
	};
	select = (tab) => {
		for (const each of tabs) if (each !== tab) each.unmount();
		current = tab;
		if (!tab) { fill(place); drawTabs(); history.replaceState(null, "", "#/shell"); return start(); }
		fill(place);
		tab.mount(place);
		drawTabs();
		const address = `#/shell/${devices.link(tab.device)}${tab.session ? `/${encodeURIComponent(tab.session)}` : ""}`;
		if (location.hash !== address) history.replaceState(null, "", address);
		if (!matchMedia("(pointer: coarse)").matches || tab.state === "open") tab.focus();
	};
	function closeTab(tab, at) {
		if (["ended", "failed", "closed"].includes(tab.state) || !tab.session) return drop(tab, true);
		menu(
			at,
			[
				["close", t("End the shell"), () => drop(tab, true), { danger: true }],
				["out", t("Leave it running"), () => { drop(tab, false); say(t("It runs on, and can be taken up again.")); }],
			],
		);
	}
	const able = () => [undefined, ...(devices.list ?? []).filter((device) => device.grantsThere?.some((grant) => grant === "shell"))];
	const chooser = (at) => menu(
		at,
		able().map((device) => ["shell", t("Shell on {name}", { name: visible(device?.name ?? wire.welcome.name) }), () => add(new Terminal({ device }))]).concat([
			null,
			["eye", t("Shells that run"), () => select(undefined)],
		]),
	);

	/// No tab is shown: where to open one, and what runs already.
	async function start(wish) {
		const wished = wish && h("section.card.pad.row",
			h("span.grow",
				wish.directory
					? t("A shell in {folder} on {name}?", { folder: visible(wish.directory), name: label(wish) })
					: t("A shell on {name}?", { name: label(wish) }),
			),
			button("shell", t("Open"), () => add(new Terminal(wish)), { cls: "primary" }),
		);
		const runs = h("div.stack");
		const openers = h("div.places",
			able().map((device) => h("button.place.card", { type: "button", onclick: () => add(new Terminal({ device })) },
				icon("shell"),
				h("span",
					h("strong", visible(device?.name ?? wire.welcome.name)),
					h("span.soft.small", device ? (device.isOnline ? t("Online") : t("Offline")) : t("This device")),
				),
			)),
		);
		fill(place, h("div.page", wished, openers, runs));
		title(t("Shell"));
		const found = await Promise.all(able().filter((device) => !device || device.isOnline).map(async (device) => {
			try { return (await wire.ask("shell.sessions", {}, { on: device?.id, timeout: 6000 })).map((session) => ({ device, session })); } catch { return []; }
		}));
		const list = found.flat().filter(({ session }) => session.status === undefined && !tabs.some((tab) => tab.session === session.id));
		if (!runs.isConnected || !list.length) return;
		fill(runs,
			h("h2", t("Running")),
			h("ul.card.locations",
				list.map(({ device, session }) => h("li.line",
					icon("shell"),
					h("div.grow",
						h("strong", visible(session.title || session.command)),
						h("div.soft.small",
							[
								visible(device?.name ?? wire.welcome.name),
								session.isOwn ? "" : visible(session.owner),
								t("opened {when}", { when: ago(session.opened) }),
								session.drivers + session.viewers ? count(session.drivers + session.viewers, "{n} window", "{n} windows") : "",
							].filter(Boolean).join(" · "),
						),
					),
					button("eye", t("Look"), () => add(new Terminal({ device, session: session.id, view: true }))),
					(session.isOwn || session.sharing === "drive") && button(
						"play",
						t("Take up"),
						() => add(new Terminal({ device, session: session.id })),
						{ cls: "primary" },
					),
					session.isOwn && button(
						"close",
						"",
						async () => {
							try { await wire.call("shell.change", { session: session.id, ends: true }, { on: device?.id }); start(); } catch (error) { complain(error); }
						},
						{ title: t("End it") },
					),
				)),
			),
		);
	}

	/// What a link from elsewhere names is offered, and not done.
	function unasked(wish) {
		for (const each of tabs) each.unmount();
		current = undefined;
		drawTabs();
		history.replaceState(null, "", "#/shell");
		return start(wish);
	}

	async function go(next) {
		if (!devices.list) await devices.refresh();
		comeBack();
		const [first, session] = next.rest.split("/").map(linkToName), device = first && first !== "here" ? devices.named(first) : undefined;
		if (first && first !== "here" && !device) {
			fill(place,
				emptiness(
					"devices",
					t("No device is called “{name}”", { name: visible(first) }),
					t("It may have been renamed or forgotten."),
					h("a.button", { href: "#/devices" }, t("Devices")),
				),
			);
			return drawTabs();
		}
		if (session) {
			const held = tabs.find((tab) => tab.session === session);
			if (held) return select(held);
			if (!next.isAsked) return unasked();
			add(new Terminal({ device, session }));
		} else if (first) {
			if (!next.query.has("new")) { const held = tabs.find((tab) => tab.device?.id === device?.id); if (held) return select(held); }
			const directory = next.query.get("in") ?? undefined;
			if (!next.isAsked) return unasked({ device, directory });
			add(new Terminal({ device, directory }));
		} else if (tabs.length) select(current && tabs.includes(current) ? current : tabs[0]);
		else { drawTabs(); await start(); }
	}
	await go(parts);
	return {
		go,
		commands: () => tabs.map((tab) => ({ picture: "shell", text: `${t("Shell")}: ${label(tab)} ${visible(tab.title)}`, go: () => select(tab) })),
		close() { for (const tab of tabs) tab.unmount(); drawTabs = select = () => {}; },
	};
}
