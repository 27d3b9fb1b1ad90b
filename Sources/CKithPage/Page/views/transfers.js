// What goes on beside the views: uploads, which come back after a loss or a reload, and copies between devices.

import { h, t, fill, icon, button, say, complain, explain, announce, bytes, count, lasting, visible, name, join, split, pathKey, setting } from "/kit.js";
import { wire, devices, failure } from "/wire.js";

let dock, batches = [];
function host() {
	dock ??= h("section.dock", { "aria-label": t("Transfers") });
	if (!dock.isConnected) document.body.append(dock);
	return dock;
}

function draw(batch) {
	batch.node ??= h("div.batch");
	if (!batch.node.isConnected) host().append(batch.node);
	const part = batch.total ? batch.done / batch.total : batch.isOver ? 1 : 0;
	const left = batch.rate && batch.total > batch.done ? lasting((batch.total - batch.done) / batch.rate) : "";
	const state = batch.error
		? h("span.bad", batch.error)
		: batch.waits
			? t("Waiting for the connection …")
			: batch.isOver
				? batch.outcome
				: [
					`${bytes(batch.done)}${batch.total ? ` / ${bytes(batch.total)}` : ""}`,
					batch.rate > 0 && `${bytes(Math.round(batch.rate))}/s`,
					left,
				].filter(Boolean).join(" · ");
	fill(batch.node,
		h("div.row",
			icon(batch.picture),
			h("strong.grow.cut", batch.title),
			batch.isOver || batch.error
				? button("close", "", () => drop(batch), { title: t("Close") })
				: button("close", "", () => batch.cancel(), { title: t("Cancel: {what}", { what: batch.title }) }),
		),
		h("progress", { value: part, max: 1, "aria-label": batch.title }),
		h("div.row.small", h("span.soft.grow", state), batch.retry && batch.error && button("", t("Try again"), batch.retry)),
		batch.question,
	);
}
function later(batch) { batch.frame ??= setTimeout(() => ((batch.frame = undefined), batch.node?.isConnected !== false && draw(batch)), 120); }
function drop(batch) {
	clearTimeout(batch.frame);
	batch.node?.remove();
	batches = batches.filter((each) => each !== batch);
	remember();
}
function pace(batch, now) {
	const time = performance.now();
	batch.marks = (batch.marks ?? []).filter(([at]) => time - at < 4000);
	batch.marks.push([time, now]);
	const [at, was] = batch.marks[0];
	if (time - at > 400) batch.rate = Math.max(0, (now - was) / ((time - at) / 1000));
}

// MARK: Which files were dropped, folders walked

/// The files of a drop, one by one as they are found.
export async function* filesOf(transfer) {
	const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
	if (!entries.length) for (const file of transfer.files) yield { file, path: file.name };
	for (const entry of entries) yield* walk(entry, "");
}
async function* walk(entry, above) {
	const path = above + entry.name;
	if (entry.isFile) yield { file: await new Promise((done, fail) => entry.file(done, fail)), path };
	else {
		const reader = entry.createReader();
		for (;;) {
			const some = await new Promise((done, fail) => reader.readEntries(done, fail));
			if (!some.length) break;
			for (const each of some) yield* walk(each, path + "/");
		}
	}
}

// MARK: Uploads

const keyOf = (batch, item) => `${batch.device?.id ?? "here"}|${pathKey(batch.folder)}|${item.path}|${item.file.size}|${item.file.lastModified}`;

/// Sends files into a folder. `items` is a list, or comes one by one: {file, path}.
export async function upload(items, { device, folder, done }) {
	const batch = {
		kind: "upload",
		picture: "upload",
		device,
		folder,
		items: [],
		next: 0,
		done: 0,
		total: 0,
		failed: [],
		landed: 0,
		conflict: "refuse",
		running: 0,
		partial: new Map(),
		stop: new AbortController(),
		title: t("Upload"),
	};
	batch.cancel = () => { batch.stop.abort(); drop(batch); say(t("The upload was cancelled. What has arrived stays.")); };
	batches.push(batch);
	try {
		for await (const item of items) {
			batch.items.push(item);
			batch.total += item.file.size;
			batch.title = batch.items.length === 1
				? visible(item.path)
				: t("{n} files to {place}", { n: batch.items.length.toLocaleString(), place: visible(split(folder)[1]) || "/" });
			if (batch.running < 3) work(batch, done);
			later(batch);
			if (batch.items.length % 500 === 0) await new Promise((go) => setTimeout(go));
		}
	} catch (error) { batch.failed.push([t("A folder"), error]); }
	batch.isWhole = true;
	if (!batch.items.length) return drop(batch);
	draw(batch);
	announce(batch.title);
	remember();
	ended(batch, done);
}

async function work(batch, done) {
	batch.running++;
	while (batch.next < batch.items.length && !batch.stop.signal.aborted) {
		const item = batch.items[batch.next++];
		try { if (await send(batch, item) !== "skipped") batch.landed++; } catch (error) {
			if (batch.stop.signal.aborted) break;
			batch.failed.push([item.path, error, item]);
		}
		batch.partial.delete(item);
		batch.done = Math.min(batch.total, (batch.whole = (batch.whole ?? 0) + item.file.size));
		item.isDone = true;
		remember();
	}
	batch.running--;
	ended(batch, done);
}
function ended(batch, done) {
	if (!batch.isWhole || batch.running || batch.next < batch.items.length || batch.isOver || batch.stop.signal.aborted) return;
	batch.isOver = true;
	const bad = batch.failed;
	if (bad.length) {
		batch.error = `${visible(bad[0][0])}: ${explain(bad[0][1])}${bad.length > 1 ? ` ${t("And {n} more.", { n: bad.length - 1 })}` : ""}`;
		batch.retry = () => { drop(batch); upload(bad.map((each) => each[2]).filter(Boolean), { device: batch.device, folder: batch.folder, done }); };
	} else {
		batch.outcome = batch.landed ? count(batch.landed, "{n} file is there.", "{n} files are there.") : t("Nothing was sent.");
		announce(batch.outcome);
		setTimeout(() => batch.node?.matches(":hover,:focus-within") || drop(batch), 8000);
	}
	remember();
	draw(batch);
	done?.();
}

async function send(batch, item) {
	const { signal } = batch.stop;
	let conflict = batch.conflict, tries = 0;
	for (;;) {
		signal.throwIfAborted();
		let ticket;
		try {
			ticket = await wire.ask(
				"web.upload",
				{ on: batch.device?.id, folder: batch.folder, path: item.path, size: item.file.size, conflict, key: keyOf(batch, item) },
				{ signal },
			);
		} catch (error) {
			if (error.code !== -32002) throw error;
			const answer = batch.conflict !== "refuse" ? batch.conflict : await askConflict(batch, item);
			if (answer === "skip") return "skipped";
			conflict = answer;
			continue;
		}
		try { return await put(batch, item, ticket); } catch (error) {
			if (error.name !== "NetworkError" || tries++ > 20) throw error;
			batch.waits = true;
			later(batch);
			await new Promise((go) => setTimeout(go, Math.min(8000, 400 * 1.6 ** tries)));
			await wire.live(signal);
			batch.waits = false;
		}
	}
}
function put(batch, item, { url, offset }) {
	return new Promise((done, fail) => {
		const request = new XMLHttpRequest();
		const progress = (sent) => {
			batch.partial.set(item, offset + sent);
			let sum = batch.whole ?? 0;
			for (const part of batch.partial.values()) sum += part;
			batch.done = Math.min(sum, batch.total);
			pace(batch, sum);
			later(batch);
		};
		request.open("PUT", url);
		request.setRequestHeader("Upload-Offset", offset);
		request.upload.onprogress = (event) => progress(event.loaded);
		const cut = () => fail(Object.assign(new Error(t("The connection was lost.")), { name: "NetworkError" }));
		request.onerror = request.ontimeout = cut;
		// Who answers after a loss is not known before it has shown itself: nothing more goes there meanwhile.
		const leave = () => { if (wire.state !== "live") request.abort(), cut(); };
		if (wire.state !== "live") return cut();
		wire.addEventListener("state", leave);
		request.onloadend = () => wire.removeEventListener("state", leave);
		request.onload = () => {
			if (request.status === 200) return done();
			let said;
			try { said = JSON.parse(request.responseText).error; } catch { /* not of ours */ }
			if (!said && (request.status >= 500 || request.status === 404 || request.status === 409)) return cut();
			fail(Object.assign(new Error(said?.message ?? t("The device refused it ({n}).", { n: request.status })), { code: said?.code }));
		};
		batch.stop.signal.addEventListener("abort", () => (request.abort(), fail(batch.stop.signal.reason)));
		request.send(item.file.slice(offset));
		progress(0);
	});
}

/// Asks once at a time, in the batch itself.
function askConflict(batch, item) {
	const ask = () => new Promise((done) => {
		if (batch.conflict !== "refuse") return done(batch.conflict);
		const all = h("input", { type: "checkbox" });
		const answer = (value) => () => { batch.question = undefined; if (all.checked) batch.conflict = value; draw(batch); done(value); };
		const rest = batch.items.length - batch.next;
		batch.question = h("div.question", { role: "group", "aria-label": t("“{name}” is there already.", { name: visible(item.path) }) },
			h("p", t("“{name}” is there already.", { name: visible(item.path) })),
			h("div.row",
				button("", t("Keep both"), answer("keep both")),
				button("", t("Replace"), answer("replace"), { cls: "danger" }),
				button("", t("Skip"), answer("skip")),
			),
			rest > 0 && h("label.tick.small", all, t("Also for the others")),
		);
		draw(batch);
		announce(t("“{name}” is there already.", { name: visible(item.path) }));
	});
	return (batch.asking = (batch.asking ?? Promise.resolve()).then(ask));
}

// MARK: What a reload leaves

let remembering;
function remember() {
	remembering ??= setTimeout(() => {
		remembering = undefined;
		const open = batches.filter((batch) => batch.kind === "upload" && !batch.isOver).map((batch) => ({
			device: batch.device?.id,
			folder: batch.folder,
			items: batch.items.filter((item) => !item.isDone).slice(0, 2000).map((item) => [item.path, item.file.size, item.file.lastModified]),
		})).filter((batch) => batch.items.length);
		setting("uploads", open.concat(transfers.left));
	}, 300);
}
addEventListener("beforeunload", (event) => { if (batches.some((batch) => !batch.isOver && !batch.error)) event.preventDefault(); });

export const transfers = {
	left: setting("uploads") ?? [],
	/// Offers to go on with what a reload cut: the browser forgets the files, so they are chosen again.
	offer() {
		if (this.offered) return;
		this.offered = true;
		for (const old of this.left.slice()) {
			const close = () => { node.remove(); this.left = this.left.filter((each) => each !== old); remember(); };
			const isTree = old.items.some(([path]) => path.includes("/"));
			const again = () => {
				const input = h("input", { type: "file", multiple: true, webkitdirectory: isTree });
				input.onchange = () => {
					const wanted = new Map(old.items.map(([path, size, modified]) => [`${path}|${size}|${modified}`, path]));
					const found = [...input.files].map((file) => ({ file, path: file.webkitRelativePath || file.name })).filter(({ file, path }) =>
						wanted.has(`${path}|${file.size}|${file.lastModified}`));
					if (!found.length) return say(t("None of these is one of the files that were cut."), { kind: "bad" });
					close();
					upload(found, { device: old.device && devices.named(old.device), folder: old.folder, done: () => {} });
				};
				input.click();
			};
			const node = h("div.batch", h("div.row", icon("upload"), h("strong.grow", t("An upload was cut")), button("close", "", close, { title: t("Forget it") })),
				h("p.small.soft",
					count(old.items.length, "{n} file to {place} is missing.", "{n} files to {place} are missing.").replace("{place}", visible(old.folder)),
					" ",
					t("Choose the same again, and it goes on where it was."),
				),
				h("div.row", button(isTree ? "folder" : "file", t("Choose"), again, { cls: "primary" })));
			host().append(node);
		}
	},
};

// MARK: Copies between devices, whose bytes do not pass here

/// Copies from one device to another, or within another one.
export async function copyBetween({ device, paths, moves, to }, ask, done) {
	const isWithin = device?.id === to.device?.id, on = to.device?.id;
	const targets = paths.map((path) => join(to.path, split(path)[1]));
	const taken = (await Promise.all(targets.map((path) => wire.ask("files.exists", { path }, { on })))).filter((found) => found.kind).length;
	let overwrite = false;
	if (taken) {
		const answer = await ask(
			count(taken, "{n} name is taken there.", "{n} names are taken there."),
			[["replace", t("Replace"), "danger"], ["skip", t("Leave those there")]],
		);
		if (!answer) return;
		overwrite = answer === "replace";
	}
	if (isWithin && moves) {
		for (const [index, path] of paths.entries()) await wire.call("files.rename", { from: path, to: targets[index], overwrite }, { on });
		say(t("Moved."));
		return done();
	}
	const stop = new AbortController();
	const batch = {
		kind: "copy",
		picture: "copy",
		done: 0,
		total: 0,
		title: t("{what} to {name}", {
			what: paths.length === 1 ? visible(split(paths[0])[1]) : count(paths.length, "{n} thing", "{n} things"),
			name: visible(to.device?.name ?? wire.welcome.name),
		}),
		cancel: () => { stop.abort(); drop(batch); },
	};
	batches.push(batch);
	draw(batch);
	let summary, failed, skipped = [];
	const landing = {
		checksum: false,
		delete: false,
		dryRun: false,
		exact: false,
		exclude: [],
		intoFolder: true,
		overwrite,
		preserve: true,
		report: false,
		sync: false,
		update: false,
		wholeFile: false,
	};
	const message = (progress) => {
		batch.done = progress.bytes;
		batch.total = progress.totalBytes ?? batch.total;
		skipped.push(...progress.skipped.filter((each) => !each.isHarmless));
		failed = progress.failure ?? failed;
		summary = progress.summary ?? summary;
		pace(batch, progress.bytes);
		later(batch);
	};
	try {
		const stream = isWithin
			? await wire.stream("files.duplicate", { sources: paths, destination: to.path, recursive: true, landing }, { on, message, signal: stop.signal })
			: await wire.stream(
				"files.copy",
				{ sources: paths.map((path) => ({ device: device?.id, path })), destination: { device: on, path: to.path }, recursive: true, landing },
				{ message, signal: stop.signal },
			);
		await stream.ended;
		if (failed) throw failure(failed);
		if (skipped.length) {
			const more = skipped.length > 1 ? ` ${t("And {n} more.", { n: skipped.length - 1 })}` : "";
			throw new Error(`${visible(skipped[0].path)}: ${skipped[0].failure.message}${more}`);
		}
		if (moves && !(taken && !overwrite)) {
			for (const path of paths) await wire.call("files.delete", { path, recursive: true }, { on: device?.id });
		}
		batch.isOver = true;
		batch.total ||= batch.done;
		batch.outcome = moves ? t("Moved.") : summary ? count(summary.files, "{n} file is there.", "{n} files are there.") : t("Done.");
		announce(`${batch.title}: ${batch.outcome}`);
		setTimeout(() => batch.node.matches(":hover,:focus-within") || drop(batch), 8000);
	} catch (error) {
		if (stop.signal.aborted) return done();
		batch.error = explain(error);
		batch.retry = () => { drop(batch); copyBetween({ device, paths, moves, to }, ask, done).catch(complain); };
	}
	draw(batch);
	done();
}

/// Has the browser download files: one as it is, more as a zip.
export async function downloadTo(paths, form, on) {
	const { url, name: fileName } = await wire.call("web.download", { paths, form, on });
	const link = h("a", { href: url, download: fileName });
	document.body.append(link);
	link.click();
	link.remove();
}
