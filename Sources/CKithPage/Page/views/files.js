// Files on any device: a folder as a long list, a preview beside it, and what can be done with both.

import {
	h, t, keyed, $, append, fill, icon, button, menu, say, complain, announce, copy, count, bytes, moment, visible, name,
	join, split, samePath, pathKey, pathToLink, linkToPath, linkToName, setting, locale, emptiness, problem, waitingFor,
	LongList,
} from "/kit.js";
import { wire, devices } from "/wire.js";
import { title } from "/app.js";
import { kindOf, preview } from "/views/preview.js";
import { transfers, upload, filesOf, copyBetween, downloadTo } from "/views/transfers.js";

/// What was picked up to be copied or moved: it stays while one walks on.
let picked;

/// Plans an operation on this device, asks where names are taken, does it, and offers to take it back.
export async function operate(input, ask, done) {
	const plan = await wire.ask("operations.plan", { conflicts: "ask", ...input });
	await confirmed(plan, ask, done);
}
async function confirmed(plan, ask, done, isUndo) {
	if (plan.totals.problems && plan.totals.problems >= plan.totals.steps) throw new Error(reason(plan.steps));
	let otherwise;
	if (plan.totals.unresolved) {
		otherwise = await ask(
			count(plan.totals.unresolved, "{n} name is taken there.", "{n} names are taken there."),
			[["keepBoth", t("Keep both")], ["overwrite", t("Replace")], ["skip", t("Skip")]],
		);
		if (!otherwise) return;
	}
	const { operation } = await wire.call("operations.confirm", { plan: plan.id, otherwise });
	const stream = await wire.stream("operations.follow", { operation });
	await stream.ended;
	const { steps } = await wire.ask("operations.results", { operation, state: "failed", limit: 20 });
	done(plan);
	if (steps.length) return say(reason(steps), { kind: "bad" });
	const n = Math.max(1, plan.totals.files + plan.totals.folders);
	const said = {
		trash: ["{n} thing is in the trash.", "{n} things are in the trash."],
		rename: ["Renamed.", "Renamed {n}."],
		move: ["Moved.", "Moved {n}."],
		copy: ["Copied.", "Copied {n}."],
		makeFolder: ["The folder is made.", "The folder is made."],
	}[plan.kind] ?? ["Done.", "Done."];
	say(isUndo ? t("Taken back.") : count(n, ...said), plan.isUndoable && !isUndo ? { action: [t("Undo"), () => undo(operation, ask, done)] } : {});
	if (!isUndo && plan.isUndoable) undo.last = operation;
}
async function undo(operation, ask, done) {
	undo.last = undefined;
	try { await confirmed(await wire.ask("operations.undo", { operation }), ask, done, true); } catch (error) { complain(error); }
}
const reason = (steps) => steps.filter((step) => step.message).slice(0, 3)
	.map((step) => `${visible(split(step.source ?? step.destination ?? "")[1])}: ${step.message}.`).join(" ") || t("It could not be done.");

const rowHeight = matchMedia("(pointer: coarse)").matches ? 52 : 40;

export async function open(host, parts) {
	let device, path, all = [], shown = [], selected = new Set(), cursor = 0, anchor = 0, editing, looking, closeLook, loading;
	let sort = setting("files.sort") ?? { by: "name", up: true };
	const on = () => (device ? device.id : undefined);
	const address = (of = path) => `#/files/${devices.link(device)}${of === undefined ? "" : pathToLink(of)}`;
	const label = () => visible(device?.name ?? wire.welcome.name);

	const crumbs = h("nav.crumbs", { "aria-label": t("Folder") });
	const filter = h("input", { type: "search", placeholder: t("Filter"), "aria-label": t("Filter this folder"), autocomplete: "off", spellcheck: "false" });
	const tools = h("div.tools");
	const bar = h("div.bars");
	const grid = h("div.list", { role: "grid", tabindex: 0, "aria-multiselectable": "true", "aria-label": t("Files") });
	const body = h("div.filebody"), pane = h("aside.pane", { hidden: true, "aria-label": t("Preview") }), note = h("div.over");
	const root = h("div.files", h("div.filehead", h("h1.unseen", t("Files")), crumbs, tools), bar, body, pane);
	host.append(root);
	const head = h("div.columns", { role: "row" }), total = h("span.soft.total");
	const list = new LongList(grid, { height: rowHeight, draw });
	grid.before?.call(list.space, head);
	body.append(grid, note);

	// MARK: Questions and answers, inline

	function ask(text, choices) {
		return new Promise((done) => {
			const answer = (value) => () => (fill(bar), grid.focus(), done(value));
			const box = h("div.bar", { role: "group", "aria-label": text },
				h("span.grow", text),
				choices.map(([value, words, cls]) => button("", words, answer(value), { cls })),
				button("", t("Cancel"), answer()),
			);
			keyed(box, { Escape: answer() });
			fill(bar, box);
			announce(text);
			box.querySelector("button").focus();
		});
	}
	function askText(words, value, go, make) {
		const input = h("input", { type: "text", value, "aria-label": words, spellcheck: "false" });
		const close = () => (fill(bar), grid.focus());
		const act = async () => {
			if (!input.value) return;
			try { await go(input.value); close(); } catch (error) { complain(error); input.focus(); }
		};
		const box = h("div.bar", h("label.grow.field", h("span", words), input), button("", t("Cancel"), close), button("", make, act, { cls: "primary" }));
		keyed(box, { Escape: close });
		keyed(input, { Enter: act });
		fill(bar, box);
		input.focus();
		return input;
	}

	// MARK: Loading

	async function load(keep) {
		loading?.abort();
		const mine = (loading = new AbortController()), { signal } = mine;
		const before = keep && shown[cursor] && pathKey(shown[cursor].name);
		if (!keep) all = [], shown = [], selected.clear(), cursor = anchor = 0, filter.value = "", list.set(0), fill(note, waitingFor());
		drawHead();
		if (path === undefined) return places(signal);
		head.hidden = grid.hidden = false;
		try {
			const part = await wire.ask("files.list", { path, limit: 2000 }, { on: on(), signal });
			if (part.entries.length === 1 && samePath(part.entries[0].name, path)) return await besides();
			let got = part.entries;
			if (part.hasMore) {
				// The first rows can be used at once; the rest is read in one pass, in no order.
				if (!keep) all = got, arrange(before);
				got = [];
				const stream = await wire.stream(
					"files.find",
					{ path, minimumDepth: 1, maximumDepth: 1, details: true },
					{ on: on(), signal, message: (found) => { got.push(...found.entries); if (!keep) total.textContent = `${got.length.toLocaleString(locale)} …`; } },
				);
				await stream.ended;
				signal.throwIfAborted();
			}
			all = got;
			const names = new Set(all.map((entry) => pathKey(entry.name)));
			for (const key of selected) if (!names.has(key)) selected.delete(key);
			arrange(before);
			announce(count(all.length, "{n} entry", "{n} entries"));
		} catch (error) {
			if (signal.aborted) return;
			const [folder] = split(path);
			all = shown = [];
			list.set(0);
			fill(note, problem(error, () => load()), path !== "/" && h("div.state", h("a.button", { href: address(folder) }, icon("up"), t("To the folder above"))));
		}
	}

	/// The path is a file's: its folder is shown, and the file beside it.
	async function besides() {
		const [folder, last] = split(path);
		path = folder;
		await load();
		const index = shown.findIndex((each) => samePath(each.name, last));
		if (index >= 0) moveTo(index), look(index, true);
	}

	/// Where one may begin on a device.
	async function places(signal) {
		head.hidden = grid.hidden = true;
		const links = [];
		const add = (picture, of, words, hint) => links.push(h("a.place.card", { href: address(of) },
			icon(picture),
			h("span.grow", h("strong", words), h("span.soft.small.cut", hint ?? visible(of))),
		));
		try {
			if (device) {
				for (const grant of device.grantsThere ?? []) {
					const [kind, ...rest] = grant.split("=");
					if (kind === "files:read" || kind === "files:write")
						add(
							"folder",
							rest.join("="),
							visible(split(rest.join("="))[1]) || "/",
							`${visible(rest.join("="))} · ${kind === "files:write" ? t("may be changed") : t("read only")}`,
						);
				}
			} else {
				const [home, { volumes }] = await Promise.all([
					wire.ask("files.stat", { path: "~" }, { signal }).catch(() => undefined),
					wire.ask("volumes.list", {}, { signal }).catch(() => ({ volumes: [] })),
				]);
				if (home?.absolute) add("home", home.absolute, t("Home"));
				add("disk", "/", t("Whole device"), "/");
				for (const volume of volumes) {
					if (volume.path === "/" || volume.kind === "virtual") continue;
					add(
						"disk",
						volume.path,
						visible(volume.label ?? split(volume.path)[1]),
						volume.free === undefined ? undefined : t("{free} of {all} free", { free: bytes(volume.free), all: bytes(volume.capacity) }),
					);
				}
			}
			if (signal.aborted) return;
			fill(note,
				links.length
					? h("div.places", links)
					: emptiness(
						"files",
						device?.isOnline === false ? t("{name} is offline", { name: label() }) : t("No folder there"),
						t("{name} lets this device see no folder. On it, run: {command}", { name: label(), command: `kith grant ${wire.welcome.name} --add files:read=/PATH` }),
					),
			);
		} catch (error) { if (!signal.aborted) fill(note, problem(error, () => load())); }
	}

	const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
	function arrange(keepKey) {
		const words = filter.value.trim().toLowerCase();
		shown = words ? all.filter((entry) => visible(entry.name).toLowerCase().includes(words)) : all.slice();
		const text = new Map();
		const plain = shown.length > 20000;
		if (sort.by === "name") for (const entry of shown) text.set(entry, plain ? visible(entry.name).toLowerCase() : visible(entry.name));
		const order = {
			name: plain ? (a, b) => (text.get(a) < text.get(b) ? -1 : 1) : (a, b) => collator.compare(text.get(a), text.get(b)),
			size: (a, b) => a.size - b.size,
			modified: (a, b) => a.modified - b.modified,
		}[sort.by];
		const way = sort.up ? 1 : -1, folder = (entry) => (entry.kind === "folder" ? 0 : 1);
		shown.sort((a, b) => folder(a) - folder(b) || way * order(a, b));
		if (keepKey !== undefined) cursor = Math.max(0, shown.findIndex((entry) => pathKey(entry.name) === keepKey));
		cursor = Math.min(cursor, Math.max(0, shown.length - 1));
		grid.setAttribute("aria-rowcount", shown.length + 1);
		total.textContent = words
			? t("{n} of {all}", { n: shown.length.toLocaleString(locale), all: all.length.toLocaleString(locale) })
			: shown.length ? shown.length.toLocaleString(locale) : "";
		list.set(shown.length);
		drawTools();
		if (shown.length) fill(note);
		else if (words) {
			const all = button("", t("Show all"), () => ((filter.value = ""), arrange()));
			fill(note, emptiness("search", t("No name here holds “{text}”", { text: filter.value }), "", all));
		} else {
			const add = button("upload", t("Upload"), (event) => uploadMenu(event.currentTarget), { cls: "primary" });
			fill(note, emptiness("folder", t("This folder is empty"), t("Drop files or folders here, or choose them."), add));
		}
		mark();
	}

	// MARK: Drawing

	function drawHead() {
		const choose = button(
			"devices",
			label(),
			() => menu(
				choose,
				[undefined, ...(devices.list ?? [])].map((each) => [
					"",
					visible(each?.name ?? wire.welcome.name),
					() => (location.hash = `#/files/${devices.link(each)}`),
					{ checked: each?.id === device?.id },
				]),
			),
			{ "aria-haspopup": "menu", cls: "chooser", "aria-label": t("Device: {name}", { name: label() }) },
		);
		choose.append(icon("down"));
		const steps = [];
		for (let at = path; at !== undefined; ) {
			const [up, last] = split(at);
			if (at === "/" || pathKey(last) === "") { steps.unshift(h("a", { href: address("/") }, "/")); break; }
			steps.unshift(h("a", { href: address(at), "aria-current": at === path ? "page" : undefined }, name(last)));
			at = up;
		}
		fill(crumbs, choose, h("ol", steps.map((step) => h("li", step))));
		title(path === undefined ? t("Files on {name}", { name: label() }) : `${visible(split(path)[1]) || "/"} – ${label()}`);
		const last = crumbs.querySelector("ol");
		last.scrollLeft = last.scrollWidth;
		const column = (by, words, cls) => h(`div.${cls}`, { role: "columnheader", "aria-sort": sort.by === by ? (sort.up ? "ascending" : "descending") : "none" },
			h("button.link", { type: "button", onclick: () => order(by) }, t(words), sort.by === by ? icon(sort.up ? "up" : "down") : null),
			by === "name" && total,
		);
		fill(head,
			h("div.c0", { role: "columnheader" }, h("span.unseen", t("Selected"))),
			column("name", "Name", "c1"),
			column("size", "Size", "c2"),
			column("modified", "Changed", "c3"),
			h("div.c4", { role: "columnheader" }, h("span.unseen", t("Actions"))),
		);
		drawTools();
	}
	function order(by) {
		sort = { by, up: sort.by === by ? !sort.up : by === "name" };
		setting("files.sort", sort);
		const key = shown[cursor] && pathKey(shown[cursor].name);
		drawHead();
		arrange(key);
	}
	const chosen = () => shown.filter((entry) => selected.has(pathKey(entry.name)));
	function drawTools() {
		const some = chosen(), size = some.reduce((sum, entry) => sum + (entry.kind === "file" ? entry.size : 0), 0);
		root.classList.toggle("choosing", some.length > 0);
		if (path === undefined) return fill(tools);
		const pasting = picked && h("span.chip.tint",
			count(picked.paths.length, "{n} picked up", "{n} picked up"),
			button("paste", t(picked.moves ? "Move here" : "Copy here"), paste, { cls: "link" }),
			button("close", "", () => ((picked = undefined), drawTools()), { title: t("Put down") }),
		);
		if (some.length) {
			fill(tools,
				h("strong.grow", count(some.length, "{n} selected", "{n} selected"), size ? h("span.soft", ` · ${bytes(size)}`) : null),
				button("download", t("Download"), () => download(some)),
				button("copy", t("Copy"), () => pick(some)),
				button("paste", t("Move"), () => pick(some, true)),
				button("trash", device ? t("Delete") : t("To the trash"), () => remove(some), { cls: "danger" }),
				button("close", "", () => (selected.clear(), changed()), { title: t("Select nothing") }),
			);
		} else {
			const add = button("upload", t("Upload"), () => uploadMenu(add), { cls: "primary", "aria-haspopup": "menu" });
			const sorting = button(
				"sort",
				"",
				() => menu(
					sorting,
					[["name", "Name"], ["size", "Size"], ["modified", "Changed"]].map(([by, words]) => ["", t(words), () => order(by), { checked: sort.by === by }]),
				),
				{ title: t("Sort"), cls: "narrow" },
			);
			if (!tools.contains(filter) || tools.firstChild?.tagName === "STRONG" || drawTools.paste !== !!picked)
				fill(tools,
					h("div.search.grow", icon("search"), filter),
					pasting,
					sorting,
					button("plus", t("Folder"), makeFolder, { "aria-label": t("New folder") }),
					add,
				);
			drawTools.paste = !!picked;
		}
	}
	function changed() { list.redrawAll(); drawTools(); mark(); }

	function draw(index) {
		const entry = shown[index], key = pathKey(entry.name), isChosen = selected.has(key);
		const row = h("div.entry", {
			role: "row",
			id: `entry${index}`,
			"aria-rowindex": index + 2,
			"aria-selected": isChosen,
			class: [entry.kind === "folder" ? "folder" : "", index === cursor ? "cursor" : "", entry === looking ? "looked" : ""].join(" ").trim() || undefined,
		});
		const tick = h("input", { type: "checkbox", tabindex: -1, checked: isChosen, "aria-label": t("Select {name}", { name: visible(entry.name) }) });
		tick.onclick = (event) => { event.stopPropagation(); choose(index, event.shiftKey ? "range" : "toggle"); };
		const cell = h("div.c1", { role: "gridcell" }, icon(kindOf(entry)));
		if (editing?.entry === entry) cell.append(editing.input);
		else append(cell, [name(entry.name, "cut"), entry.target !== undefined && h("span.soft.cut", " → ", name(entry.target))]);
		row.append(
			h("div.c0", { role: "gridcell" }, tick),
			cell,
			h("div.c2", { role: "gridcell" }, entry.kind === "file" ? bytes(entry.size) : ""),
			h("div.c3", { role: "gridcell", title: moment(entry.modified, true) }, moment(entry.modified)),
			h("div.c4", { role: "gridcell" },
				button(
					"more",
					"",
					(event) => (event.stopPropagation(), itemMenu(index, event.currentTarget)),
					{ title: t("Actions for {name}", { name: visible(entry.name) }), tabindex: -1 },
				),
			),
		);
		row.onclick = (event) => {
			if (editing) return;
			if (event.ctrlKey || event.metaKey) choose(index, "toggle");
			else if (event.shiftKey) choose(index, "range");
			else enter(index);
		};
		row.oncontextmenu = (event) => { event.preventDefault(); moveTo(index); itemMenu(index, { x: event.clientX, y: event.clientY }); };
		return row;
	}
	function mark() {
		for (const [index, row] of list.rows) row.classList.toggle("cursor", index === cursor);
		if (shown.length) grid.setAttribute("aria-activedescendant", `entry${cursor}`);
		else grid.removeAttribute("aria-activedescendant");
	}
	function moveTo(index, extend) {
		cursor = Math.max(0, Math.min(shown.length - 1, index));
		if (extend) choose(cursor, "range");
		else anchor = cursor;
		list.reveal(cursor);
		mark();
	}
	function choose(index, how) {
		const key = pathKey(shown[index].name);
		if (how === "range") {
			const [from, to] = [Math.min(anchor, index), Math.max(anchor, index)];
			selected.clear();
			for (let each = from; each <= to; each++) selected.add(pathKey(shown[each].name));
		} else {
			selected.has(key) ? selected.delete(key) : selected.add(key);
			anchor = index;
		}
		cursor = index;
		changed();
	}

	// MARK: What can be done

	const full = (entry) => join(path, entry.name);
	const some = () => (selected.size ? chosen() : shown[cursor] ? [shown[cursor]] : []);
	function enter(index) {
		const entry = shown[index];
		if (!entry) return;
		moveTo(index);
		if (entry.kind === "folder") location.hash = address(full(entry));
		else if (entry.kind === "link") wire.ask("files.stat", { path: full(entry), followsLinks: true }, { on: on() }).then(
			(found) => found.kind === "folder" ? (location.hash = address(full(entry))) : look(index),
			complain,
		);
		else look(index);
	}
	function look(index, isThere) {
		const entry = shown[index] ?? all[index];
		if (!entry) return;
		closeLook?.();
		looking = entry;
		if (!isThere) history.pushState(null, "", address(full(entry)));
		root.classList.add("looking");
		pane.hidden = false;
		list.redrawAll();
		const step = (by) => () => {
			const to = shown.indexOf(entry) + by;
			if (shown[to] && shown[to].kind !== "folder") history.replaceState(null, "", address(full(shown[to]))), moveTo(to), look(to, true);
		};
		closeLook = preview(
			pane,
			{
				entry,
				path: full(entry),
				on: on(),
				close: () => { unlook(); history.replaceState(null, "", address()); grid.focus(); },
				download: () => download([entry]),
				actions: (at) => itemMenu(shown.indexOf(entry), at),
				next: step(1),
				previous: step(-1),
				saved: () => load(true),
			},
		);
	}
	function unlook() {
		closeLook?.();
		closeLook = looking = undefined;
		pane.hidden = true;
		root.classList.remove("looking");
		list.redrawAll();
	}
	function itemMenu(index, at) {
		const entry = shown[index];
		if (!entry) return;
		const place = at.getBoundingClientRect?.(), where = place ? { x: place.left, y: place.bottom } : at;
		if (!selected.has(pathKey(entry.name))) selected.clear(), (cursor = index), changed();
		grid.focus({ preventScroll: true });
		const these = some();
		const one = these.length === 1;
		menu(where, [
			one && ["eye", t("Open"), () => enter(index)],
			["download", t("Download"), () => download(these)],
			one && ["edit", t("Rename"), () => rename(index)],
			null,
			["copy", t("Copy"), () => pick(these)],
			["paste", t("Move"), () => pick(these, true)],
			one && ["link", t("Copy the path"), () => copy(visible(full(entry)))],
			one && entry.kind === "folder" && [
				"shell",
				t("Shell here"),
				() => (location.hash = `#/shell/${devices.link(device)}?new&in=${encodeURIComponent(visible(full(entry)))}`),
			],
			null,
			["trash", device ? t("Delete …") : t("To the trash"), () => remove(these), { danger: true }],
		].filter((each) => each !== false));
	}
	async function download(these) {
		try { await downloadTo(these.map(full), these.length === 1 && these[0].kind === "file" ? "file" : "zip", on()); } catch (error) { complain(error); }
	}
	function rename(index) {
		const entry = shown[index];
		if (typeof entry.name !== "string") return say(t("This name is not UTF-8: rename it in a terminal."), { kind: "bad" });
		const input = h("input", { type: "text", value: entry.name, "aria-label": t("New name"), spellcheck: "false" });
		const stop = () => { if (!editing) return; editing = undefined; list.redraw(shown.indexOf(entry)); };
		const go = async () => {
			const to = input.value, was = entry.name;
			if (!to || to === was || !editing) return stop(), grid.focus();
			stop();
			grid.focus();
			const landed = () => { entry.name = to; load(true); };
			try {
				if (device) await wire.call("files.rename", { from: full(entry), to: join(path, to) }, { on: on() }), landed(), say(
					t("Renamed."),
					{ action: [t("Undo"), () => wire.call("files.rename", { from: join(path, to), to: join(path, was) }, { on: on() }).then(() => load(true), complain)] },
				);
				else await operate({ kind: "rename", paths: [full(entry)], names: [to] }, ask, landed);
			} catch (error) { complain(error); load(true); }
		};
		input.onkeydown = (event) => {
			event.stopPropagation();
			if (event.isComposing) return;
			if (event.key === "Enter") go();
			else if (event.key === "Escape") stop(), grid.focus();
		};
		input.onclick = (event) => event.stopPropagation();
		input.onblur = () => setTimeout(stop);
		editing = { entry, input };
		list.redraw(index);
		input.focus();
		const dot = entry.kind === "folder" ? -1 : entry.name.lastIndexOf(".");
		input.setSelectionRange(0, dot > 0 ? dot : entry.name.length);
	}
	async function remove(these) {
		if (!these.length) return;
		const paths = these.map(full), names = these.length === 1 ? `“${visible(these[0].name)}”` : count(these.length, "{n} thing", "{n} things");
		try {
			if (device) {
				if (!await ask(t("Delete {what} on {name} for good? There is no trash there.", { what: names, name: label() }), [[true, t("Delete"), "danger full"]]))
					return;
				for (const [index, each] of paths.entries()) await wire.call("files.delete", { path: each, recursive: these[index].kind === "folder" }, { on: on() });
				say(t("Deleted."));
			} else await operate({ kind: "trash", paths }, ask, () => load(true));
		} catch (error) { complain(error); }
		if (these.includes(looking)) unlook();
		selected.clear();
		load(true);
	}
	function makeFolder() {
		askText(t("Name of the new folder"), "", async (text) => {
			if (device) await wire.call("files.mkdir", { path: join(path, text) }, { on: on() });
			else await operate({ kind: "makeFolder", paths: [join(path, text)] }, ask, () => {});
			await load(true);
			moveTo(Math.max(0, shown.findIndex((entry) => entry.name === text)));
		}, t("Make"));
	}
	function pick(these, moves = false) {
		picked = { device, paths: these.map(full), folders: these.some((entry) => entry.kind !== "file"), moves };
		selected.clear();
		changed();
		say(t("Picked up. Go to where it should be, on any device, and choose “{words}” there.", { words: t(moves ? "Move here" : "Copy here") }));
	}
	async function paste() {
		if (!picked || path === undefined) return;
		const taken = picked;
		picked = undefined;
		drawTools();
		try {
			if (!taken.device && !device) {
				const conflicts = !taken.moves && taken.paths.every((each) => samePath(split(each)[0], path)) ? "keepBoth" : "ask";
				await operate({ kind: taken.moves ? "move" : "copy", paths: taken.paths, destination: path, conflicts }, ask, () => load(true));
			} else await copyBetween({ ...taken, to: { device, path } }, ask, () => load(true));
		} catch (error) { complain(error); picked = taken; drawTools(); }
	}
	function uploadMenu(at) {
		const choose = (folder) => () => {
			const input = h("input", { type: "file", multiple: true, webkitdirectory: folder });
			input.onchange = () => send([...input.files].map((file) => ({ file, path: file.webkitRelativePath || file.name })));
			input.click();
		};
		menu(at, [["file", t("Files …"), choose(false)], ["folder", t("A folder …"), choose(true)]]);
	}
	const send = (items) => upload(items, { device, folder: path, done: () => load(true) });

	// MARK: Keys, drops, pastes

	let typed = "", typedAt = 0;
	grid.onkeydown = (event) => {
		if (editing || event.target !== grid) return;
		const many = Math.max(1, Math.floor(grid.clientHeight / rowHeight) - 2), control = event.ctrlKey || event.metaKey;
		const to = { ArrowDown: cursor + 1, ArrowUp: cursor - 1, PageDown: cursor + many, PageUp: cursor - many, Home: 0, End: shown.length - 1 }[event.key];
		if (to !== undefined) moveTo(to, event.shiftKey);
		else if (event.key === "Enter") enter(cursor);
		else if (event.key === " " && shown.length) choose(cursor, "toggle");
		else if (event.key === "Backspace" && path !== undefined) location.hash = path === "/" ? address(undefined) : address(split(path)[0]);
		else if (event.key === "F2" && shown.length) rename(cursor);
		else if (event.key === "Delete") remove(some());
		else if (event.key === "Escape") looking ? (unlook(), history.replaceState(null, "", address())) : (selected.clear(), changed());
		else if (event.key === "ContextMenu" || (event.key === "F10" && event.shiftKey)) itemMenu(cursor, $(`#entry${cursor}`) ?? grid);
		else if (control && event.key === "a") shown.forEach((entry) => selected.add(pathKey(entry.name))), changed();
		else if (control && event.key === "c") pick(some());
		else if (control && event.key === "x") pick(some(), true);
		else if (control && event.key === "v" && picked) paste();
		else if (control && event.key === "z" && undo.last) undo(undo.last, ask, () => load(true));
		else if (event.key === "/") filter.focus();
		else if (event.key.length === 1 && !control && !event.altKey) {
			typed = Date.now() - typedAt > 900 ? event.key : typed + event.key;
			typedAt = Date.now();
			const start = typed.length > 1 ? cursor : cursor + 1, low = typed.toLowerCase();
			for (let step = 0; step < shown.length; step++) {
				const index = (start + step) % shown.length;
				if (visible(shown[index].name).toLowerCase().startsWith(low)) { moveTo(index); break; }
			}
		} else return;
		event.preventDefault();
	};
	filter.oninput = () => arrange();
	filter.onkeydown = (event) => {
		if (event.key === "ArrowDown" || event.key === "Enter") grid.focus(), event.preventDefault();
		else if (event.key === "Escape" && filter.value) filter.value = "", arrange(), event.preventDefault();
	};
	root.ondragover = (event) => {
		if (path === undefined || !event.dataTransfer.types.includes("Files")) return;
		event.preventDefault();
		event.dataTransfer.dropEffect = "copy";
		root.classList.add("dropping");
	};
	root.ondragleave = (event) => root.contains(event.relatedTarget) || root.classList.remove("dropping");
	root.ondrop = async (event) => {
		root.classList.remove("dropping");
		if (path === undefined) return;
		event.preventDefault();
		send(filesOf(event.dataTransfer));
	};
	const pasted = (event) => {
		if (path === undefined || /INPUT|TEXTAREA/.test(event.target.tagName) || !event.clipboardData?.files.length) return;
		send([...event.clipboardData.files].map((file) => ({ file, path: file.name })));
	};
	document.addEventListener("paste", pasted);

	async function go(next) {
		const cut = next.rest.indexOf("/"), first = cut < 0 ? next.rest : next.rest.slice(0, cut);
		if (!first) return history.replaceState(null, "", "#/files/here"), go({ ...next, rest: "here" });
		if (first !== "here" && !devices.list) await devices.refresh();
		const wanted = first === "here" ? undefined : devices.named(linkToName(first));
		if (first !== "here" && !wanted) {
			loading?.abort();
			device = path = undefined;
			go.ran = false;
			drawHead();
			head.hidden = grid.hidden = true;
			return fill(note,
				emptiness(
					"devices",
					t("No device is called “{name}”", { name: visible(linkToName(first)) }),
					t("It may have been renamed or forgotten."),
					h("a.button", { href: "#/devices" }, t("Devices")),
				),
			);
		}
		const there = cut < 0 ? undefined : linkToPath(next.rest.slice(cut)), isSame = wanted?.id === device?.id && go.ran;
		go.ran = true;
		if (isSame && path !== undefined && there !== undefined) {
			if (samePath(there, path)) return looking ? unlook() : undefined;
			const [folder, last] = split(there), index = samePath(folder, path) ? shown.findIndex((entry) => samePath(entry.name, last) && entry.kind === "file") : -1;
			if (index >= 0) return look(index, true);
		}
		if (looking) unlook();
		const came = isSame && path !== undefined && there !== undefined && samePath(split(path)[0], there) ? pathKey(split(path)[1]) : undefined;
		device = wanted;
		path = there;
		fill(bar);
		await load();
		if (came !== undefined) { const index = shown.findIndex((entry) => pathKey(entry.name) === came); if (index >= 0) moveTo(index); }
		if (document.activeElement === document.body || document.activeElement?.closest?.("nav.crumbs, .places")) grid.focus({ preventScroll: true });
	}
	const live = () => wire.state === "live" && path !== undefined && load(true);
	wire.addEventListener("state", live);
	transfers.offer();
	await go(parts);
	return {
		go,
		commands: () => path === undefined
			? []
			: [{ picture: "upload", text: t("Upload files here"), go: () => uploadMenu(tools.lastChild) }, { picture: "plus", text: t("New folder"), go: makeFolder }],
		close() {
			loading?.abort();
			closeLook?.();
			list.end();
			wire.removeEventListener("state", live);
			document.removeEventListener("paste", pasted);
		},
	};
}
