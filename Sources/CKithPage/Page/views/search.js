// Searching the libraries, of this device and of others: as one types, with what was found in the files.

import {
	h, t, keyed, fill, icon, button, menu, say, complain, count, bytes, moment, visible, name, split, pathToLink,
	unbase64, setting, emptiness, problem, waitingFor, locale,
} from "/kit.js";
import { wire, devices } from "/wire.js";

const pictures = { image: "image", video: "video", audio: "audio", archive: "archive", document: "text", text: "text", code: "text" };

export async function open(host, parts) {
	let places = [], place, stop = new AbortController(), next, turn = 0, look = setting("search.look") ?? "list", thumbs = [];
	const input = h("input", {
		type: "search",
		placeholder: t("Words, or kind:image size:>5M modified:2024"),
		"aria-label": t("Search the libraries"),
		autocomplete: "off",
		spellcheck: "false",
	});
	const where = h("div"), chips = h("div.chips"), results = h("div.results"), state = h("div"), more = h("div"), sum = h("p.soft.small", { role: "status" });
	const looks = h("div.segments", { role: "group", "aria-label": t("Show as") });
	host.append(h("div.page.searching",
		h("div.top", h("h1", t("Search")), where),
		h("div.row", h("div.search.grow", icon("search"), input), looks),
		chips,
		sum,
		state,
		results,
		more,
	));

	const drawLooks = () => fill(looks,
		[
			["list", "log", "List"],
			["grid", "image", "Pictures"],
		].map(([key, picture, words]) => button(
			picture,
			"",
			() => { look = key; setting("search.look", key); drawLooks(); run(); },
			{ title: t(words), "aria-pressed": look === key },
		)),
	);
	drawLooks();

	async function findPlaces() {
		if (!devices.list) await devices.refresh();
		const ask = async (device) => {
			try {
				const { libraries } = await wire.ask("libraries.list", {}, { on: device?.id, timeout: 8000 });
				return libraries.map((library) => ({ device, library }));
			} catch { return []; }
		};
		const may = devices.list.filter((device) => device.isOnline && device.grantsThere?.some((grant) => grant.startsWith("library")));
		const [own, ...others] = await Promise.all([ask(), ...may.map(ask)]);
		places = [...own, ...others.flat()].filter(({ library }) => library.state === "open");
		place = places.find((each) => each.device?.name === parts.query.get("on")) ?? places.find((each) => each.library.isDefault && !each.device) ?? places[0];
		drawWhere();
	}
	const placeName = ({ device, library }) => (device ? `${visible(library.name)} · ${visible(device.name)}` : visible(library.name));
	function drawWhere() {
		if (!place) return fill(where);
		const choose = button(
			"disk",
			placeName(place),
			() => menu(choose, places.map((each) => ["", placeName(each), () => { place = each; drawWhere(); run(); }, { checked: each === place }])),
			{ "aria-haspopup": "menu", "aria-label": t("Library: {name}", { name: placeName(place) }) },
		);
		choose.append(icon("down"));
		fill(where, choose);
	}

	async function run(isMore) {
		const query = input.value.trim(), mine = ++turn;
		if (!isMore) stop.abort(), (stop = new AbortController()), (next = undefined);
		const { signal } = stop;
		if (location.hash.startsWith("#/search"))
			history.replaceState(
				null,
				"",
				query ? `#/search?q=${encodeURIComponent(query)}${place?.device ? `&on=${encodeURIComponent(place.device.name)}` : ""}` : "#/search",
			);
		if (!place) return;
		if (!query) { clear(); return locations(); }
		const input2 = { query, limit: 60, library: place.library.id, offsetFromUTC: -new Date().getTimezoneOffset() * 60, ...(isMore ? { after: next } : {}) };
		const on = place.device?.id;
		try {
			const found = await wire.ask("search.files", input2, { on, signal });
			if (mine !== turn) return;
			if (!isMore) clear();
			next = found.next;
			fill(state);
			if (!found.entries.length && !isMore)
				fill(state,
					emptiness("search", t("Nothing found"), t("All words must be in the name or the path. *.jpg, ext:pdf, size:>1G, content:word and tag:name work, too.")),
				);
			if (found.total !== undefined) sum.textContent = count(found.total, "{n} file", "{n} files");
			results.className = `results ${look}`;
			for (const entry of found.entries) results.append(look === "grid" ? tile(entry, on) : line(entry, on));
			fill(more, next ? button("down", t("More"), () => run(true)) : null);
			if (!isMore) facets(query, on, signal);
		} catch (error) {
			if (signal.aborted || mine !== turn) return;
			clear();
			fill(state, problem(error, () => run()));
		}
	}
	function clear() {
		fill(results); fill(more); fill(chips); fill(state);
		sum.textContent = "";
		for (const url of thumbs.splice(0)) URL.revokeObjectURL(url);
	}
	async function facets(query, on, signal) {
		const found = await wire.ask("search.facets", { query, library: place.library.id }, { on, signal }).catch(() => undefined);
		if (!found || signal.aborted) return;
		const groups = [
			["kind", found.kinds],
			["ext", found.extensions.slice(0, 5)],
			["modified", found.years.slice(0, 4)],
			["tag", found.tags.slice(0, 5)],
			["size", found.sizes],
		];
		fill(chips, groups.filter(([, values]) => values.length > 1).map(([key, values]) => values.map(({ value, count: n }) => {
			const term = `${key}:${/\s/.test(value) ? `"${value}"` : value}`;
			return h("button.facet", { type: "button", onclick: () => { input.value = `${input.value.trim()} ${term}`; run(); input.focus(); } },
				visible(value),
				h("span.soft", n.toLocaleString(locale)),
			);
		})));
	}

	const address = (entry) => {
		if (place.device && !place.device.grantsThere?.some((grant) => grant.startsWith("files"))) return undefined;
		return `#/files/${devices.link(place.device)}${pathToLink(entry.path)}`;
	};
	const drawn = (entry) => icon(entry.kind === "folder" ? "folder" : pictures[entry.category] ?? "file");
	function line(entry, on) {
		const [folder, last] = split(entry.path), link = address(entry);
		const thumb = h("span.thumb", drawn(entry));
		if (entry.category === "image") thumbnail(thumb, entry, on);
		return h("article.hit",
			thumb,
			h("div.grow",
				h(link ? "a" : "span", { href: link, class: "hitname" }, name(last), entry.isFavorite && [" ", icon("star")]),
				h("div.soft.small.cut", name(folder)),
				entry.snippet && h("p.snippet", entry.snippet.map(({ text, isHit }) => (isHit ? h("mark", visible(text)) : visible(text)))),
				entry.tags.length ? h("div.chips", entry.tags.map((tag) => h("span.chip", visible(tag)))) : null,
			),
			h("div.soft.small.when", h("div", entry.kind === "file" ? bytes(entry.size) : ""), h("div", moment(entry.modified))),
		);
	}
	function tile(entry, on) {
		const [, last] = split(entry.path), link = address(entry), box = h("span.thumb", drawn(entry));
		if (entry.category === "image" || entry.category === "video") thumbnail(box, entry, on);
		return h(link ? "a.tile" : "div.tile", { href: link }, box, h("span.cut.small", name(last)));
	}

	const waiting = new Map();
	const watcher = new IntersectionObserver((seen) => {
		for (const { target, isIntersecting } of seen) if (isIntersecting) watcher.unobserve(target), queue.push(waiting.get(target)), work();
	}, { root: host, rootMargin: "300px" });
	const queue = [];
	let working = 0;
	function thumbnail(box, entry, on) {
		const library = place.library.id, { signal } = stop;
		waiting.set(box, async () => {
			try {
				const made = await wire.ask("media.thumbnail", { library, path: entry.path, size: 256 }, { on, signal });
				const url = URL.createObjectURL(new Blob([unbase64(made.bytes)]));
				thumbs.push(url);
				fill(box, h("img", { src: url, alt: "", width: made.width, height: made.height }));
			} catch { /* the drawn picture stays */ }
		});
		watcher.observe(box);
	}
	async function work() {
		while (working < 4 && queue.length) working++, await queue.shift()(), working--;
	}

	/// What is in the library, while nothing is asked.
	async function locations() {
		const isOwn = !place.device, on = place.device?.id, library = place.library.id;
		try {
			const { locations } = await wire.ask("locations.list", { library }, { on });
			if (input.value.trim()) return;
			const add = h("input", { type: "text", placeholder: "/home/ana/Pictures", "aria-label": t("Folder to add to the library"), spellcheck: "false" });
			const go = async () => {
				if (!add.value.trim()) return add.focus();
				try {
					await wire.call("locations.add", { path: add.value.trim(), library });
					say(t("Added. It is being read now."));
					locationsAgain();
				} catch (error) { complain(error); }
			};
			keyed(add, { Enter: go });
			fill(state,
				h("div.stack",
					h("h2", t("In this library")),
					locations.length ? h("ul.card.locations", locations.map((each) => location(each))) : h("p.soft", t("No folder yet.")),
					isOwn && h("div.row", h("div.search.grow", icon("folder"), add), button("plus", t("Add a folder"), go)),
				),
			);
			function location(each) {
				const row = h("li.line",
					icon("folder"),
					h("div.grow",
						h("a.hitname", { href: address({ path: each.path }) }, visible(each.name)),
						h("div.soft.small.cut", name(each.path)),
						each.problem && h("div.warn.small", each.problem),
					),
					h("span.soft.small", each.isScanning ? t("being read …") : count(each.entries, "{n} entry", "{n} entries")),
					isOwn && button(
						"close",
						"",
						() => fill(row,
							h("span.grow", t("Take {name} out of the library? Its files stay.", { name: visible(each.name) })),
							button("", t("Cancel"), locationsAgain),
							button("", t("Take out"), async () => {
								try { await wire.call("locations.remove", { id: each.id, library }); } catch (error) { complain(error); }
								locationsAgain();
							}, { cls: "danger" }),
						),
						{ title: t("Take {name} out of the library", { name: visible(each.name) }) },
					),
				);
				return row;
			}
		} catch (error) { fill(state, problem(error, locationsAgain)); }
	}
	const locationsAgain = () => locations();
	async function first() {
		fill(state, waitingFor());
		await findPlaces();
		if (place) return run();
		const path = h("input", { type: "text", placeholder: "/home/ana/Pictures", "aria-label": t("Folder to add to the library"), spellcheck: "false" });
		const make = async () => {
			if (!path.value.trim()) return path.focus();
			try {
				const { id } = await wire.call("libraries.create", { name: t("Library") });
				await wire.call("locations.add", { path: path.value.trim(), library: id });
				first();
			} catch (error) { complain(error); }
		};
		keyed(path, { Enter: make });
		fill(state,
			emptiness(
				"search",
				t("No library yet"),
				t("A library remembers what is in the folders that you add, and finds it while you type, also while a disk is away."),
				h("div.row", path, button("plus", t("Add a folder"), make, { cls: "primary" })),
			),
		);
	}

	let wait;
	input.oninput = () => { clearTimeout(wait); wait = setTimeout(() => run(), 90); };
	input.onkeydown = (event) => {
		if (event.key === "ArrowDown" || event.key === "Enter") host.querySelector(".results a")?.focus(), event.preventDefault();
	};
	results.onkeydown = (event) => {
		const all = [...results.querySelectorAll("a")], at = all.indexOf(document.activeElement);
		if (event.key === "ArrowDown") all[at + 1]?.focus(), event.preventDefault();
		else if (event.key === "ArrowUp") (all[at - 1] ?? input).focus(), event.preventDefault();
	};
	input.value = parts.query.get("q") ?? "";
	await first();
	if (!matchMedia("(pointer: coarse)").matches) input.focus();
	return {
		go(to) { const text = to.query.get("q") ?? ""; if (text !== input.value.trim()) input.value = text, run(); },
		close() { place = undefined; clearTimeout(wait); stop.abort(); watcher.disconnect(); clear(); },
	};
}
