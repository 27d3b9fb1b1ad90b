// What goes on and what went on: the jobs, live, and the audit log.

import {
	h, t, fill, icon, button, complain, explain, bytes, moment, ago, lasting, visible, save, emptiness, problem,
	waitingFor, LongList, locale,
} from "/kit.js";
import { wire, devices } from "/wire.js";

export const open = (host, parts) => (parts.key === "log" ? log(host) : jobs(host));

// MARK: Jobs

const order = { running: 0, queued: 1, paused: 2, failed: 3, done: 4, cancelled: 5 };
const stateWords = { running: "Running", queued: "Waiting", paused: "Paused", failed: "Failed", done: "Done", cancelled: "Cancelled" };

function jobs(host) {
	const list = h("div.card", { role: "list" }), state = h("div"), held = new Map(), rows = new Map();
	host.append(h("div.page", h("div.top", h("h1", t("Jobs"))), state, list));
	list.hidden = true;
	fill(state, waitingFor());

	const act = (method, job) => async () => { try { update(await wire.call(method, { id: job.id })); } catch (error) { complain(error); } };
	function row(first) {
		let job = first, shown, isOpen = false;
		const line = h("div.line"), detail = h("div.detail", { hidden: true }), node = h("div.device.job", { role: "listitem" }, line, detail);
		const text = h("div.who");
		const chip = h("span.chip");
		const bar = h("progress", { max: 1, "aria-label": t("Progress") });
		const figures = h("span.soft.small");
		const acts = h("div.acts");
		line.append(h("div.grow.stack.tight", h("div.row", text, chip), bar, figures), acts);
		async function open() {
			isOpen = !isOpen;
			detail.hidden = !isOpen;
			node.querySelector("[aria-expanded]").setAttribute("aria-expanded", isOpen);
			if (!isOpen) return;
			try {
				const { log } = await wire.ask("jobs.get", { id: job.id });
				fill(detail,
					h("section.wide",
						h("h3", t("Log")),
						log.length
							? h("ol.lines.mono", log.map((each) => h("li", h("span.soft", moment(each.time, true)), " ", visible(each.text))))
							: h("p.soft.small", t("It has written nothing.")),
					),
				);
			} catch (error) { fill(detail, h("p.bad", explain(error))); }
		}
		return { node, update(next) {
			job = next;
			const { progress } = job;
			const part = progress.totalBytes ? progress.bytes / progress.totalBytes : progress.total ? progress.completed / progress.total : undefined;
			bar.hidden = !["running", "paused", "queued"].includes(job.state);
			part === undefined ? bar.removeAttribute("value") : (bar.value = Math.min(1, part));
			const active = job.state === "running";
			fill(figures,
				[
					active && progress.phase && visible(progress.phase),
					progress.total !== undefined && progress.total > 1 ? `${progress.completed.toLocaleString(locale)} / ${progress.total.toLocaleString(locale)}` : "",
					progress.bytes ? bytes(progress.bytes) + (progress.totalBytes ? ` / ${bytes(progress.totalBytes)}` : "") : "",
					active && progress.byteRate ? `${bytes(Math.round(progress.byteRate))}/s` : "",
					active && progress.remaining ? t("{time} left", { time: lasting(progress.remaining) }) : "",
					job.ended ? ago(job.ended) : "",
					active && progress.current ? visible(progress.current) : "",
				].filter(Boolean).join(" · "),
			);
			const key = JSON.stringify([job.state, job.title, job.error]);
			if (key === shown) return;
			shown = key;
			fill(text, h("strong", visible(job.title)), job.error && h("span.bad.small", visible(job.error)));
			chip.className = `chip ${job.state === "running" ? "tint" : ""}`;
			fill(chip, h(`span.dot.${{ running: "on", failed: "bad", paused: "warn" }[job.state] ?? "off"}`), t(stateWords[job.state] ?? job.state));
			const toggle = button("down", "", open, { title: t("Log of this job"), "aria-expanded": isOpen });
			fill(acts, ["running", "queued"].includes(job.state) && button("pause", "", act("jobs.pause", job), { title: t("Pause") }),
				job.state === "paused" && button("play", "", act("jobs.resume", job), { title: t("Resume") }),
				job.state === "failed" && job.isKnown && button("refresh", t("Try again"), act("jobs.resume", job)),
				["running", "queued", "paused"].includes(job.state) && button("close", "", act("jobs.cancel", job), { title: t("Cancel") }), toggle);
		} };
	}
	function update(job) { held.set(job.id, job); later(); }
	let frame, isListed = false;
	const later = () => isListed && (frame ??= requestAnimationFrame(draw));
	function draw() {
		frame = undefined;
		const all = [...held.values()].sort((a, b) =>
			(order[a.state] > 2 && order[b.state] > 2 ? 0 : order[a.state] - order[b.state]) || b.created - a.created || b.number - a.number);
		for (const [id, each] of rows) if (!held.has(id)) each.node.remove(), rows.delete(id);
		all.slice(0, 300).forEach((job, index) => {
			let each = rows.get(job.id);
			if (!each) rows.set(job.id, (each = row(job)));
			each.update(job);
			if (list.children[index] !== each.node) list.insertBefore(each.node, list.children[index] ?? null);
		});
		list.hidden = !all.length;
		fill(state,
			all.length
				? []
				: emptiness("jobs", t("No jobs"), t("Copies on this device, scans of the library and other long work stand here while they run, and after.")),
		);
	}
	const stop = wire.follow("jobs.follow", {}, (change) => {
		if (change.job) update(change.job);
		if (change.removed) held.delete(change.removed), later();
		if (change.isCurrent) later();
	}, { failed: (error) => fill(state, problem(error)) });
	wire.ask("jobs.list", { limit: 200 }).then(
		({ jobs }) => { for (const job of jobs) if (!held.has(job.id)) held.set(job.id, job); isListed = true; draw(); },
		(error) => fill(state, problem(error)),
	);
	return { close() { stop(); cancelAnimationFrame(frame); } };
}

// MARK: Log

function log(host) {
	let all = [], shown = [], limit = 500, follows = true, only = "", timer, known = "";
	const filter = h("input", { type: "search", placeholder: t("Filter"), "aria-label": t("Filter the log"), autocomplete: "off", spellcheck: "false" });
	const kinds = h("div.segments", { role: "group", "aria-label": t("Which entries") });
	const grid = h("div.list.loglist", { tabindex: 0, role: "list", "aria-label": t("Log") });
	const over = h("div.over");
	const follow = button(
		"refresh",
		t("Follow"),
		() => { follows = !follows; follow.setAttribute("aria-pressed", follows); if (follows) load(); },
		{ "aria-pressed": "true", cls: "toggle" },
	);
	const exporting = button("download", t("Export"), () => save(`kith-log-${new Date().toISOString().slice(0, 10)}.csv`, csv(shown), "text/csv"));
	host.append(h("div.files",
		h("div.filehead", h("div.top", h("h1", t("Log"))), h("div.tools", h("div.search.grow", icon("search"), filter), kinds, follow, exporting)),
		h("div"),
		h("div.filebody", grid, over),
	));
	const height = matchMedia("(max-width: 840px)").matches ? 66 : 40;
	const list = new LongList(grid, { height, draw: (index) => {
		const entry = shown[index], isDenied = !/allowed|done/.test(entry.decision);
		return h("div.entry.logline", { role: "listitem", class: isDenied ? "denied" : undefined },
			h("time.soft", { title: moment(entry.time, true) }, moment(entry.time, true)),
			h(`span.dot.${isDenied ? "bad" : "on"}`, { role: "img", "aria-label": entry.decision, title: entry.decision }),
			h("strong.cut", visible(entry.device.length > 30 ? entry.device.slice(0, 11) : entry.device)),
			h("span.mono.cut", entry.method),
			h("span.cut", { title: visible(entry.detail) }, visible(entry.detail)),
		);
	} });
	const drawKinds = () => fill(kinds,
		[
			["", "All"],
			["allowed", "Allowed"],
			["denied", "Refused"],
		].map(([key, words]) => button("", t(words), () => { only = key; drawKinds(); arrange(); }, { "aria-pressed": only === key })),
	);
	drawKinds();
	function arrange() {
		const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
		shown = all.filter((entry) =>
			(!only || (only === "allowed") === /allowed|done/.test(entry.decision))
				&& words.every((word) => `${entry.device} ${entry.method} ${entry.detail} ${entry.decision}`.toLowerCase().includes(word)));
		list.set(shown.length);
		fill(over,
			shown.length
				? []
				: all.length
					? emptiness("search", t("No entry holds that"))
					: emptiness("log", t("Nothing yet"), t("Whatever other devices do here, or are refused, and what is changed here, stands here.")),
		);
	}
	async function load() {
		clearTimeout(timer);
		try {
			const entries = await wire.ask("audit.list", { limit });
			const key = `${entries.length} ${JSON.stringify(entries[0] ?? "")}`;
			if (key !== known) known = key, (all = entries), arrange();
		} catch (error) { fill(over, problem(error, load)); }
		if (follows) timer = setTimeout(() => (document.hidden ? (timer = setTimeout(load, 5000)) : load()), 4000);
	}
	list.shown = (from, to) => { if (to >= all.length && all.length >= limit && limit < 20000) limit *= 4, load(); };
	const csv = (entries) =>
		"time,device,method,decision,detail\r\n" + entries.map((entry) =>
			[
				new Date(entry.time * 1000).toISOString(),
				entry.device,
				entry.method,
				entry.decision,
				entry.detail,
			].map((text) => `"${String(text).replace(/^([=+\-@\t])/, "'$1").replaceAll('"', '""')}"`).join(",")).join("\r\n") + "\r\n";
	filter.oninput = arrange;
	fill(over, waitingFor());
	load();
	return { close() { clearTimeout(timer); list.end(); } };
}
