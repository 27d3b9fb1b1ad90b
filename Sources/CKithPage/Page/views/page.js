// This page itself: who is signed in, how it looks, what can be set, what it is.

import { h, t, fill, icon, button, say, complain, explain, ago, moment, visible, setting, language } from "/kit.js";
import { wire, devices } from "/wire.js";
import { themes, setTheme, switchLanguage } from "/app.js";

export async function open(host) {
	const browsers = h("div.stack.room"), network = h("div.stack"), about = h("dl.facts");
	const look = h("div.segments", { role: "group", "aria-label": t("Appearance") }), tongue = h("div.segments", { role: "group", "aria-label": t("Language") });
	const section = (title, text, ...content) => h("section.card.pad.setting", h("div", h("h2", title), text && h("p.soft.small", text)), h("div.stack", content));
	const set = h("section.card.pad.setting", { hidden: true },
		h("div", h("h2", t("This device")), h("p.soft.small", t("These hold for all of it, not for the page alone."))),
		network,
	);
	host.append(h("div.page", h("div.top", h("h1", t("This page"))),
		section(t("Appearance"), t("Kept in this browser."), h("div.row", look), h("div.row", tongue)),
		section(t("Browsers"), t("Each has a key of its own, which cannot be taken out of it. Ending one cuts it off at once."), browsers,
			h("p.soft.small", t("Another browser is let in by {command}, run on this device.", { command: "kith web" }))),
		section(t("Keys"), t("Everything can be done without a mouse."), keys()), section(t("About"), undefined, about), set));

	const drawLook = () => fill(look,
		themes.map(([theme, words, picture]) => button(
			picture,
			t(words),
			() => { setTheme(theme); drawLook(); },
			{ "aria-pressed": (setting("theme") ?? null) === theme },
		)),
	);
	drawLook();
	fill(tongue,
		[["en", "English"], ["de", "Deutsch"]].map(([code, words]) => button(
			"",
			words,
			() => switchLanguage(code),
			{ "aria-pressed": language === code, lang: code },
		)),
	);

	async function load() {
		try {
			const own = wire.welcome.browser, all = (await wire.ask("web.browsers")).browsers;
			all.sort((a, b) => (b.id === own) - (a.id === own) || b.lastUse - a.lastUse);
			const others = all.filter((each) => each.id !== own);
			fill(browsers, h("ul.locations.card", all.map((each) => {
				const isOwn = each.id === own;
				return h("li.line",
					icon("page"),
					h("div.grow",
						h("strong", visible(each.name)),
						isOwn && [" ", h("span.chip.tint", t("this one"))],
						h("div.soft.small",
							[
								t("since {when}", { when: when(each.addedAt) }),
								!isOwn && (each.isConnected ? t("open now") : t("last used {when}", { when: ago(seconds(each.lastUse)) })),
								t("until {when}", { when: when(each.ends) }),
							].filter(Boolean).join(" · "),
						),
					),
					isOwn
						? button("out", t("Sign out"), () => wire.logout())
						: button("", t("End"), () => end([each]), { cls: "danger", "aria-label": t("End {name}", { name: visible(each.name) }) }),
				);
			})), others.length > 1 && h("div.row", button("", t("End all others"), () => end(others), { cls: "danger" })));
		} catch (error) { fill(browsers, h("p.bad", explain(error)), h("div.row", button("out", t("Sign out"), () => wire.logout()))); }
	}
	const seconds = (time) => (typeof time === "number" ? time : Date.parse(time) / 1000), when = (time) => moment(seconds(time), true);
	async function end(these) {
		try { for (const each of these) await wire.call("web.forget", { browser: each.id }); } catch (error) { complain(error); }
		load();
	}
	load();

	const chooser = (words, values, current, act) => {
		const select = h("select", { "aria-label": words }, values.map(([value, label]) => h("option", { value, selected: value === current }, t(label))));
		select.onchange = async () => {
			const before = current;
			try {
				await act(select.value);
				current = select.value;
				say(t("Set."), { action: [t("Undo"), async () => { select.value = before; select.onchange(); }] });
			} catch (error) { select.value = before; complain(error); }
		};
		return h("label.row", h("span.grow", words), select);
	};
	wire.ask("reach.prefer").then(({ general }) => {
		set.hidden = false;
		network.append(chooser(
			t("Way to other devices"),
			[["auto", "The best there is"], ["direct", "Direct only"], ["relay", "By relays only"], ["local", "Local network only"]],
			general,
			(path) => wire.call("reach.prefer", { path }),
		));
	}, () => {});
	wire.ask("screen.rules").then((rules) => {
		set.hidden = false;
		network.append(chooser(
			t("When a device wants to see the screen"),
			[["ask", "Ask each time"], ["trusted", "Ask, but not those allowed it unasked"], ["unattended", "Never ask"]],
			rules.consent,
			(consent) => wire.call("screen.setRules", { ...rules, consent }),
		));
	}, () => {});

	function drawAbout() {
		const own = devices.own;
		fill(about,
			[
				["Device", visible(wire.welcome.name)],
				["DeviceID", h("span.mono", wire.welcome.device)],
				["Version", own?.version],
				["Signed in until", when(wire.welcome.ends)],
				["Tried in", "Chromium"],
			].map(([label, value]) => value && [h("dt", t(label)), h("dd", value)]),
		);
	}
	drawAbout();
	devices.addEventListener("change", drawAbout);
	return { close() { devices.removeEventListener("change", drawAbout); } };
}

const keys = () => h("dl.facts.keys", [
	["Ctrl K", "Go to anything (in the shell: Ctrl Shift K)"],
	["↑ ↓ Home End", "Move in lists and menus"],
	["Enter", "Open"],
	["Space", "Select"],
	["Shift ↑ ↓", "Select a range"],
	["Ctrl A", "Select all"],
	["Backspace", "To the folder above"],
	["F2", "Rename"],
	["Del", "To the trash"],
	["Ctrl C, Ctrl X, Ctrl V", "Copy, move, put here"],
	["Ctrl Z", "Take back the last change"],
	["/", "Filter this folder"],
	["Shift F10", "Actions"],
	["Alt ↑ ↓", "Previous and next preview"],
	["Esc", "Close, or select nothing"],
].map(([key, words]) => [h("dt", h("kbd", key)), h("dd", t(words))]));
