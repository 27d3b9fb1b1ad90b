// What a file holds, as far as a browser can show it safely: pictures, sound, films, text, bytes.

import { h, t, fill, icon, button, say, complain, bytes, moment, visible, name, base64, problem, waitingFor } from "/kit.js";
import { wire, failure } from "/wire.js";

const endings = {
	image: "png jpg jpeg gif webp avif bmp ico apng", video: "mp4 m4v webm mov mkv ogv", audio: "mp3 m4a aac flac wav ogg oga opus",
	text: "txt md log csv tsv json xml yml yaml toml ini conf cfg sh bash zsh fish py js mjs ts jsx tsx css html htm svg c h cc cpp hpp m mm swift "
		+ "rs go java kt rb php pl lua sql tex bib diff patch env service desktop gitignore",
	archive: "zip tar gz tgz bz2 xz zst 7z rar iso dmg deb rpm",
};
const byEnding = new Map(Object.entries(endings).flatMap(([kind, list]) => list.split(" ").map((ending) => [ending, kind])));
export function kindOf(entry) {
	if (entry.kind !== "file") return entry.kind;
	const text = typeof entry.name === "string" ? entry.name : "";
	return byEnding.get(text.slice(text.lastIndexOf(".") + 1).toLowerCase()) ?? "file";
}

export async function readBytes(path, { on, offset = 0, length, signal }) {
	const parts = [];
	const stream = await wire.stream("files.read", { path, offset, length }, { on, signal, message: (part) => void parts.push(part) });
	await stream.ended;
	const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
	let at = 0;
	for (const part of parts) whole.set(part, at), (at += part.length);
	return whole;
}

function hex(data, start = 0) {
	const lines = [];
	for (let at = 0; at < data.length; at += 16) {
		const row = [...data.subarray(at, at + 16)];
		const digits = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
		const letters = row.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
		lines.push(`${(start + at).toString(16).padStart(8, "0")}  ${digits.padEnd(49)}${letters}`);
	}
	return lines.join("\n");
}

const most = 1 << 20;

/// Shows a file in a pane; the answer closes it.
export function preview(pane, { entry, path, on, close, download, actions, next, previous, saved }) {
	const stop = new AbortController(), { signal } = stop, body = h("div.panebody");
	const more = button("more", "", () => actions(more), { title: t("Actions for {name}", { name: visible(entry.name) }) });
	const tools = h("div.row.panetools");
	fill(pane,
		h("div.panehead",
			button("close", "", close, { title: t("Close the preview") }),
			h("h2.grow.cut", name(entry.name)),
			tools,
			button("up", "", previous, { title: t("Previous file") }),
			button("down", "", next, { title: t("Next file") }),
			button("download", "", download, { title: t("Download") }),
			more,
		),
		body,
		h("div.panefoot.soft.small",
			[
				entry.kind === "file" && bytes(entry.size),
				moment(entry.modified, true),
				entry.userName,
				(entry.mode & 0o7777).toString(8).padStart(4, "0"),
			].filter(Boolean).join(" · "),
		),
	);
	pane.onkeydown = (event) => {
		if (event.key === "Escape" && !event.target.matches("textarea")) close();
		else if (!event.target.matches("textarea,input,video,audio") && event.altKey && (event.key === "ArrowDown" || event.key === "ArrowUp"))
			(event.key === "ArrowDown" ? next : previous)(), event.preventDefault();
	};
	fill(body, waitingFor());
	show().catch((error) => signal.aborted || fill(body, problem(error, () => show().catch(complain))));
	return () => { stop.abort(); fill(pane); };

	async function show() {
		const kind = kindOf(entry);
		if (entry.kind === "special")
			return fill(body, h("div.state", icon("special"), h("p", t("This is not a file with contents: {kind}.", { kind: entry.special ?? "" }))));
		if (["image", "video", "audio"].includes(kind)) {
			const { url } = await wire.ask("web.download", { paths: [path], form: "file", inline: true, on }, { signal });
			const failed = () => signal.aborted || fill(body,
				h("div.state", icon(kind), h("p", t("The browser cannot show this. It can be downloaded.")), button("download", t("Download"), download)),
			);
			if (kind === "image") {
				const size = h("span.soft.small");
				const picture = h("img", {
					alt: visible(entry.name),
					onerror: failed,
					onload: () => (size.textContent = `${picture.naturalWidth} × ${picture.naturalHeight}`),
				});
				picture.onclick = () => void body.classList.toggle("whole");
				fill(body, h("figure.picture", picture, h("figcaption", size)));
				picture.src = url;
			} else {
				const player = h(kind, { controls: true, onerror: failed, preload: "metadata", "aria-label": visible(entry.name) });
				player.src = url;
				fill(body, h("figure.picture", player));
			}
			return;
		}
		const data = await readBytes(path, { on, length: Math.min(most, Math.max(entry.size, 65536)), signal });
		const start = data.subarray(0, 8192);
		const isBinary = start.includes(0) || (kind !== "text" && !isText(start));
		isBinary ? showHex(data) : showText(data);
	}
	function isText(data) {
		try { new TextDecoder("utf-8", { fatal: true }).decode(data.subarray(0, Math.max(0, data.length - 3))); return true; } catch { return false; }
	}
	function showHex(data) {
		const shown = data.subarray(0, 16384);
		fill(body,
			!data.length
				? h("div.state", icon("file"), h("p", t("This file is empty.")))
				: h("pre.bytes", { tabindex: 0, "aria-label": t("The first bytes") }, hex(shown)),
			data.length > shown.length || entry.size > shown.length ? h("p.soft.small.pad", t("The first {n}.", { n: bytes(shown.length) })) : null,
		);
	}
	function showText(data) {
		const text = new TextDecoder().decode(data), isWhole = data.length >= entry.size && data.length < most;
		let isWhole8 = isWhole;
		if (isWhole) try { new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data); } catch { isWhole8 = false; }
		const shown = h("pre.text", { tabindex: 0, "aria-label": t("Text of {name}", { name: visible(entry.name) }) }, data.length ? text : "");
		fill(body,
			data.length ? shown : h("p.soft.pad", t("This file is empty.")),
			isWhole ? null : h("p.soft.small.pad", t("The first {n}.", { n: bytes(data.length) })),
		);
		fill(tools,
			button("", t("As bytes"), () => (showHex(data), fill(tools, button("", t("As text"), () => showText(data))))),
			isWhole8 && button("edit", t("Edit"), () => edit(data)),
		);
	}
	function edit(data) {
		let held = data, busy = false;
		const ending = new TextDecoder("utf-8", { ignoreBOM: true }).decode(data).includes("\r\n") ? "\r\n" : "\n";
		const first = new TextDecoder("utf-8", { ignoreBOM: true }).decode(data).replaceAll("\r\n", "\n");
		const field = h("textarea.editor", { spellcheck: "false", "aria-label": t("Text of {name}", { name: visible(entry.name) }) });
		const state = h("div.bar", { hidden: true });
		field.value = first;
		const leave = () => { held.length !== entry.size && (entry.size = held.length); showText(held); };
		async function write(replacing) {
			if (busy) return;
			busy = true;
			const content = new TextEncoder().encode(field.value.replaceAll("\n", ending));
			try {
				let written;
				const stream = await wire.stream("files.write", { path, ...(replacing ? { replacing } : {}) }, { on, message: (answer) => (written = answer) });
				for (let at = 0; at < content.length; at += 131072) stream.sendBytes(base64(content.subarray(at, at + 131072)));
				stream.finish();
				await stream.ended;
				if (written?.failure) throw failure(written.failure);
				held = content;
				entry.size = content.length;
				say(t("Saved."));
				saved();
				leave();
			} catch (error) {
				if (error.code === -32002) {
					state.hidden = false;
					fill(state,
						h("span.grow", t("The file was changed meanwhile, by somebody else.")),
						button("", t("Load theirs"), async () => { held = await readBytes(path, { on, signal }); entry.size = held.length; edit(held); }),
						button("", t("Write mine over it"), () => write(), { cls: "danger" }),
					);
					state.querySelector("button").focus();
				} else complain(error);
			}
			busy = false;
		}
		const saveIt = async () => write(base64(new Uint8Array(await crypto.subtle.digest("SHA-256", held))));
		field.onkeydown = (event) => {
			if ((event.ctrlKey || event.metaKey) && event.key === "s") event.preventDefault(), saveIt();
			event.stopPropagation();
		};
		fill(tools, button("", t("Discard"), leave), button("check", t("Save"), saveIt, { cls: "primary" }));
		fill(body, state, field);
		field.focus();
		field.setSelectionRange(0, 0);
	}
}
