#!/usr/bin/env python3
"""Walks through the page of a running device in Chromium, by Playwright, and checks what a person would.

    tour.py LINK --folder DIR [--device NAME --device-folder DIR] [--query WORD=FILE] [--pictures DIR]

LINK is a login link, as `kith web` makes it, not used yet. DIR is an empty folder that this device may change; the tour
fills it. NAME is a paired device that is online and lets this one change DIR there and open a shell. WORD finds FILE in a
library of this device. Prints one line of JSON a check; exits 1 when one has failed.
"""
import argparse, contextlib, hashlib, json, os, sys, time, traceback, zipfile
from playwright.sync_api import Error, sync_playwright

PAGE = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../Sources/CKithPage/Page"))
HOSTILE = [b"<img src=x onerror=canary()>.txt", b"quote\"s & 'apostrophes'.txt", "right\u202eto left.txt".encode(), b"x" * 251 + b".txt",
           b"not utf8 \xff\xfe.txt", b"line\nbreak.txt", b"-rf", "<script>canary()</script>".replace("/", "\u2215").encode()]
# Run in each page before anything of it.
WATCH = """
window.seen = { violations: [], shift: 0, moved: [], canary: 0, long: 0 };
window.canary = () => window.seen.canary++;
document.addEventListener('securitypolicyviolation', (e) => seen.violations.push(e.violatedDirective + ' ' + e.blockedURI + ' ' + e.sample));
new PerformanceObserver((list) => { for (const e of list.getEntries()) if (!e.hadRecentInput) {
    seen.shift += e.value;
    if (e.value > 0.01) seen.moved.push(`${location.hash} ${e.value.toFixed(3)} ${e.sources.map((s) => s.node?.className ?? s.node?.nodeName).slice(0, 3)}`);
} }).observe({ type: 'layout-shift', buffered: true });
new PerformanceObserver((list) => { for (const e of list.getEntries()) if (e.duration > 200) seen.long++; }).observe({ type: 'longtask', buffered: true });
"""
# Stands in for the device once `answer` says as whom: a page must take nothing for it but its word.
IMPOSTOR = """
window.answer = sessionStorage.getItem('answer');
window.sent = [];
window.sockets = [];
const Real = WebSocket;
const text = (bytes) => btoa(String.fromCharCode(...new Uint8Array(bytes))).replace(/\\+/g, '-').replace(/\\//g, '_').replace(/=+$/, '');
const held = () => new Promise((done) => {
    const opening = indexedDB.open('kith', 1);
    opening.onsuccess = () => opening.result.transaction('keys').objectStore('keys').get('own').onsuccess = (event) => done(event.target.result);
});
window.WebSocket = class {
    constructor(url) {
        if (!window.answer) { const socket = new Real(url); sockets.push(socket); return socket; }
        this.hello = { nonce: text(crypto.getRandomValues(new Uint8Array(32))), device: 'device', version: 1 };
        setTimeout(() => this.say({ hello: this.hello }));
    }
    say(packet) { this.onmessage?.({ data: JSON.stringify(packet) }); }
    close() { this.onclose?.(); }
    async send(packet) {
        sent.push(JSON.parse(packet));
        const { login } = JSON.parse(packet);
        if (!login) return;
        if (answer === 'crowded') return this.say({ refused: { code: 'crowded', message: 'Too many at once.' } });
        const pair = await crypto.subtle.generateKey('Ed25519', true, ['sign']), { nonce, device } = this.hello;
        const signed = `kith web welcome 1\\nkith web 1\\n${nonce}\\n${device}\\n${location.origin}\\n${login.key}\\n${login.challenge}`;
        const signature = text(await crypto.subtle.sign('Ed25519', pair.privateKey, new TextEncoder().encode(signed)));
        const key = answer === 'stranger' ? text(await crypto.subtle.exportKey('raw', pair.publicKey)) : (await held()).device;
        const welcome = { device, name: 'impostor', browser: 'b', ends: '2030-01-01T00:00:00Z' };
        this.say({ welcome: answer === 'mute' ? welcome : { ...welcome, key, signature } });
    }
};
"""
SCREEN = "[...document.querySelectorAll('.screen .trow')].map((row) => row.textContent).join('\\n')"
NAMED = {"button", "link", "textbox", "searchbox", "combobox", "checkbox", "tab", "menuitem", "menuitemradio", "img", "image", "grid", "listbox",
         "dialog", "navigation", "progressbar", "option", "radio", "toolbar", "tablist", "menu"}


class Tour:
    def __init__(self, arguments):
        self.a, self.failed, self.noise = arguments, 0, []
        self.base = arguments.link.split("#")[0]

    def check(self, name, act, *values):
        begun = time.monotonic()
        try:
            detail, ok = act(*values), True
        except (Error, AssertionError, Exception) as error:
            ok, detail = False, f"{type(error).__name__}: {str(error)[:600]} at {traceback.extract_tb(error.__traceback__)[-1].lineno}"
            self.failed += 1
            if self.a.pictures and hasattr(self, "page"):
                self.page.screenshot(path=os.path.join(self.a.pictures, f"failed-{self.failed}.png"))
        print(json.dumps({"check": name, "ok": ok, "seconds": round(time.monotonic() - begun, 2), **({"detail": detail} if detail is not None else {})}), flush=True)
        return ok

    def until(self, script, seconds=15, argument=None):
        """Waits until a script is true: wait_for_function would need eval, which the page's policy forbids."""
        limit = time.monotonic() + seconds
        while True:
            value = self.page.evaluate(script, argument)
            if value:
                return value
            assert time.monotonic() < limit, f"not in {seconds} s: {script}"
            self.page.wait_for_timeout(30)

    def context(self, **options):
        context = self.browser.new_context(accept_downloads=True, **{"locale": "en-GB", "viewport": {"width": 1280, "height": 800}} | options)
        context.add_init_script(WATCH)
        page = context.new_page()
        context.set_default_timeout(15000)
        page.on("console", lambda message: self.noise.append(f"{message.type}: {message.text}") if message.type == "error" else None)
        page.on("pageerror", lambda error: self.noise.append(f"error: {error}"))
        return page

    @contextlib.contextmanager
    def another(self, script=""):
        """Another tab of the browser that is signed in."""
        page = self.page.context.new_page()
        try:
            page.add_init_script(script)
            yield page
        finally:
            page.close()

    def go(self, address):
        self.page.evaluate("(address) => { location.hash = address }", address)

    def folder(self, path, where="here"):
        self.go(f"#/files/{where}{path}")
        self.until("(path) => document.title.startsWith(path) && !document.querySelector('.filebody .spinner')", 8, os.path.basename(path))

    def names(self):
        return self.page.locator(".entry bdi").all_text_contents()

    def row(self, name):
        return self.page.locator(".entry", has=self.page.locator("bdi", has_text=name)).first

    def notice(self, text):
        self.page.locator(".notice", has_text=text).last.wait_for(timeout=8000)

    def on_disk(self, path, there=True, seconds=15):
        limit = time.monotonic() + seconds
        while os.path.lexists(path) != there:
            assert time.monotonic() < limit, f"{path} is {'not ' if there else ''}there"
            time.sleep(0.03)

    # The way in

    def without_script(self):
        context = self.browser.new_context(java_script_enabled=False)
        page = context.new_page()
        page.goto(self.base)
        assert "JavaScript" in page.inner_text("body")
        context.close()

    def without_key(self):
        page = self.context()
        page.add_init_script("crypto.subtle.generateKey = () => Promise.reject(new DOMException('no', 'NotSupportedError'));")
        page.goto(self.base + "#" + "A" * 22)
        page.locator("text=Ed25519").wait_for(timeout=5000)
        page.context.close()

    def before_login(self):
        page = self.context()
        page.goto(self.base)
        page.locator("text=kith web").first.wait_for(timeout=5000)
        page.context.close()

    def login(self):
        self.page = self.context()
        requests, size = [], [0]
        self.page.on("response", lambda response: requests.append(response.url))
        self.page.goto(self.a.link)
        shown = self.until("performance.getEntriesByName('devices-shown')[0]?.startTime", 10)
        assert "#" not in self.page.url, "the secret stays in the address"
        assert len(requests) <= 12, requests
        return {"milliseconds until devices": round(shown), "requests": len(requests)}

    def link_once(self):
        page = self.context()
        page.goto(self.a.link)
        page.locator(".door [role=alert]").wait_for(timeout=8000)
        page.context.close()

    def link_again(self):
        with self.another() as page:
            for link in (self.a.link, self.base + "#" + "A" * 22):
                page.goto("about:blank")
                page.goto(link)
                page.locator("h1", has_text="Devices").wait_for(timeout=8000)
                assert "#" not in page.url, page.url

    def crowded(self):
        page = self.context()
        page.add_init_script("sessionStorage.setItem('answer', 'crowded');" + IMPOSTOR)
        page.goto(self.base + "#" + "A" * 22)
        page.locator(".spinner").wait_for(timeout=5000)
        limit = time.monotonic() + 8
        while len(page.evaluate("sent")) < 3:
            assert time.monotonic() < limit, "it is not tried again"
            page.wait_for_timeout(50)
        assert all("proof" in each["login"] for each in page.evaluate("sent")), "the link is forgotten"
        assert page.locator("[role=alert]").count() == 0 and "kith web" not in page.inner_text("body")
        page.context.close()

    def impostor(self):
        """Somebody else answers at the address: nothing that was kept is sent, and the page says so."""
        for answer in ("stranger", "unsigned", "mute"):
            with self.another(IMPOSTOR) as page:
                page.goto(self.base + "#/shell")
                page.locator(".place").first.click()
                page.locator(".terminal.focused").wait_for()
                page.locator(".tab .dot.on").first.wait_for()
                page.evaluate("(answer) => { window.answer = answer; sockets.at(-1).close(); }", answer)
                page.keyboard.type("kept")
                page.locator("text=Something else answers at this address").wait_for(timeout=8000)
                page.wait_for_timeout(400)
                sent = page.evaluate("sent")
                assert len(sent) == 1 and list(sent[0]) == ["login"], (answer, sent)
                page.evaluate("sessionStorage.setItem('answer', window.answer)")
                page.reload()
                page.locator("text=Something else answers at this address").wait_for(timeout=8000)
                page.evaluate("sessionStorage.removeItem('answer')")
                page.reload()  # the device itself is known still
                page.locator(".tab .dot.on").first.wait_for(timeout=8000)

    def addresses(self):
        """What an address can do: show, and say what is wrong with it; act only when somebody asks."""
        with self.another() as page:
            for address in ("#/shell/here", "#/shell/here/00000000", "#/shell/here?new&in=/tmp"):
                page.goto("about:blank")
                page.goto(self.base + address)
                page.locator(".place").first.wait_for()
                page.wait_for_timeout(100)
                assert page.locator(".terminal").count() == 0, f"{address} opens a shell"
                assert page.get_by_text("A shell in /tmp on").count() == (1 if "in=" in address else 0)
            page.get_by_role("button", name="Open", exact=True).click()
            page.locator(".terminal.focused").wait_for()
            for address in ("#/constructor", "#/__proto__", "#/toString/x"):
                page.evaluate("(address) => { location.hash = address }", address)
                page.locator("h1", has_text="Devices").wait_for()
                page.evaluate("location.hash = '#/page'")
                page.locator("h1", has_text="This page").wait_for()
            for address in ("#/files/%zz/x", "#/shell/%E0%A4", "#/files/here", "#/files/%zz", "#/shell"):
                page.evaluate("(address) => { location.hash = address }", address)
                damaged = page.locator("text=This address is damaged")
                damaged.wait_for(state="visible" if "%" in address else "detached")

    def size(self):
        with open(os.path.join(PAGE, "FILES")) as file:
            listed = file.read().split()
        found = sorted(os.path.relpath(os.path.join(folder, name), PAGE) for folder, _, names in os.walk(PAGE) for name in names if name != "FILES")
        assert listed == found, f"FILES is not what is there: {set(listed) ^ set(found)}"
        whole = sum(os.path.getsize(os.path.join(PAGE, name)) for name in listed)
        assert whole <= self.a.budget, whole
        return {"bytes": whole, "files": len(listed)}

    # Devices

    def devices(self):
        assert self.page.locator("h1").inner_text() == "Devices"
        if self.a.device:
            row = self.page.locator(".device", has_text=self.a.device)
            self.until("(name) => [...document.querySelectorAll('.device')].some((d) => d.textContent.includes(name) && d.textContent.includes('Online'))", 10, self.a.device)
            row.get_by_role("button", name=f"Details of {self.a.device}").click()
            row.get_by_text("May do here").wait_for()
            row.get_by_role("button", name="Examine").click()
            row.locator(".steps li.ok").nth(2).wait_for(timeout=10000)
            row.get_by_label("Folder, place or name").click()
            self.page.keyboard.type("/tour")
            self.page.keyboard.press("Enter")
            row.get_by_role("button", name="Take away: Read /tour").wait_for()
            self.page.locator(".notice").get_by_role("button", name="Undo").click()
            row.get_by_role("button", name="Take away: Read /tour").wait_for(state="detached")
            row.get_by_role("button", name=f"Details of {self.a.device}").click()

    def invitation(self):
        self.page.get_by_role("button", name="Pair a device").first.click()
        self.page.get_by_role("button", name="Make an invitation").click()
        self.page.get_by_role("img", name="Invitation as a QR code").wait_for()
        assert self.page.locator(".secret").inner_text().startswith("kith-invite")
        self.page.get_by_role("button", name="Revoke").click()
        self.page.get_by_role("button", name="Make an invitation").wait_for()
        self.page.get_by_role("button", name="Close").first.click()

    # Files

    def upload(self):
        tree = os.path.join(self.a.folder, "outside", "tree")
        os.makedirs(os.path.join(tree, "deep"))
        self.content = os.urandom(3_000_000)
        for name, data in (("big.bin", self.content), ("deep/small.txt", b"one line\n"), ("empty", b"")):
            with open(os.path.join(tree, name), "wb") as file:
                file.write(data)
        self.into = os.path.join(self.a.folder, "inside")
        os.makedirs(self.into)
        self.folder(self.into)
        with self.page.expect_file_chooser() as chooser:
            self.page.get_by_role("button", name="Upload").first.click()
            self.page.get_by_role("menuitem", name="A folder").click()
        chooser.value.set_files(tree)
        for name in ("tree/big.bin", "tree/deep/small.txt", "tree/empty"):
            self.on_disk(os.path.join(self.into, name))
        self.row("tree").wait_for()
        with open(os.path.join(self.into, "tree/big.bin"), "rb") as file:
            assert file.read() == self.content, "the upload differs"

    def upload_again(self):
        self.folder(os.path.join(self.into, "tree"))
        with self.page.expect_file_chooser() as chooser:
            self.page.get_by_role("button", name="Upload").first.click()
            self.page.get_by_role("menuitem", name="Files").click()
        chooser.value.set_files([{"name": "big.bin", "mimeType": "", "buffer": b"other"}])
        self.page.locator(".dock .question").get_by_role("button", name="Keep both").click()
        self.on_disk(os.path.join(self.into, "tree", "big (2).bin"))

    def drop(self):
        self.folder(self.into)
        self.page.evaluate("""() => {
            const transfer = new DataTransfer();
            transfer.items.add(new File(['dropped\\n'], 'dropped.txt'));
            document.querySelector('.files').dispatchEvent(new DragEvent('drop', { dataTransfer: transfer, bubbles: true, cancelable: true }));
        }""")
        self.on_disk(os.path.join(self.into, "dropped.txt"))
        self.row("dropped.txt").wait_for()

    def preview(self):
        self.row("dropped.txt").locator("bdi").click()
        self.page.locator("pre.text", has_text="dropped").wait_for()
        assert self.page.url.endswith("dropped.txt")
        self.page.get_by_role("button", name="Edit").click()
        self.page.locator("textarea.editor").fill("changed\n")
        with open(os.path.join(self.into, "dropped.txt"), "w") as file:
            file.write("by somebody else\n")
        self.page.get_by_role("button", name="Save").click()
        self.page.get_by_role("button", name="Write mine over it").click()
        self.notice("Saved.")
        with open(os.path.join(self.into, "dropped.txt")) as file:
            assert file.read() == "changed\n"
        self.page.get_by_role("button", name="Close the preview").click()
        self.page.locator(".pane").wait_for(state="hidden")
        self.folder(os.path.join(self.into, "tree"))
        self.row("big.bin").locator("bdi").click()
        self.page.locator("pre.bytes").wait_for()
        self.page.go_back()
        self.page.locator(".pane").wait_for(state="hidden")

    def rename(self):
        self.folder(self.into)
        self.row("dropped.txt").click(button="right")
        self.page.get_by_role("menuitem", name="Rename").click()
        box = self.page.get_by_label("New name")
        box.press("Control+a")
        self.page.keyboard.type("renamed ' <b>.txt")
        self.page.keyboard.press("Enter")
        self.on_disk(os.path.join(self.into, "renamed ' <b>.txt"))
        self.row("renamed ' <b>.txt").wait_for()

    def trash(self):
        path = os.path.join(self.into, "renamed ' <b>.txt")
        self.row("renamed").get_by_role("checkbox").check()
        self.page.get_by_role("button", name="To the trash").click()
        self.on_disk(path, False)
        self.row("renamed").wait_for(state="detached")
        self.page.locator(".notice").get_by_role("button", name="Undo").last.click()
        self.on_disk(path)
        self.row("renamed").wait_for()

    def make_folder(self):
        self.page.get_by_role("button", name="New folder").click()
        self.page.keyboard.type("made here")
        self.page.keyboard.press("Enter")
        self.on_disk(os.path.join(self.into, "made here"))

    def download(self):
        self.folder(os.path.join(self.into, "tree"))
        with self.page.expect_download() as download:
            self.row("big.bin").get_by_role("checkbox").check()
            self.page.get_by_role("button", name="Download").click()
        with open(download.value.path(), "rb") as file:
            assert hashlib.sha256(file.read()).digest() == hashlib.sha256(self.content).digest(), "the download differs"
        assert download.value.suggested_filename == "big.bin", download.value.suggested_filename
        self.folder(self.into)
        with self.page.expect_download() as download:
            self.row("tree").get_by_role("checkbox").check()
            self.page.get_by_role("button", name="Download").click()
        with zipfile.ZipFile(download.value.path()) as archive:
            assert archive.testzip() is None
            assert archive.read("tree/deep/small.txt") == b"one line\n", archive.namelist()
        self.page.get_by_role("button", name="Select nothing").click()

    def copy_across(self):
        self.folder(self.into)
        self.row("tree").click(button="right")
        self.page.get_by_role("menuitem", name="Copy", exact=True).click()
        self.folder(self.a.device_folder, self.a.device)
        self.page.get_by_role("button", name="Copy here").click()
        self.on_disk(os.path.join(self.a.device_folder, "tree/deep/small.txt"), seconds=15)
        self.row("tree").wait_for(timeout=15000)
        self.row("tree").click(button="right")
        self.page.get_by_role("menuitem", name="Delete").click()
        self.page.locator(".bar").get_by_role("button", name="Delete").click()
        self.on_disk(os.path.join(self.a.device_folder, "tree"), False)

    def hostile(self):
        folder = os.path.join(self.a.folder, "hostile").encode()
        os.makedirs(folder)
        for name in HOSTILE:
            with open(os.path.join(folder, name), "wb") as file:
                file.write(b"<script>canary()</script>\n")
        for name in (b"script.svg", b"script.html"):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(b"<svg xmlns='http://www.w3.org/2000/svg'><script>parent.canary()</script></svg>")
        self.folder(folder.decode())
        names = self.names()
        assert len(names) == len(HOSTILE) + 2, names
        assert not any(set(name) & set("\u202e\n") for name in names), names
        assert "<img src=x onerror=canary()>.txt" in names, names
        for index in range(len(names)):
            self.page.locator(f"#entry{index} bdi").click()
            self.page.locator("pre.text", has_text="canary()").wait_for()
            assert self.page.title() and "\u202e" not in self.page.title()
        self.page.keyboard.press("Escape")
        for name in ("not utf8", "line"):
            self.row(name).click(button="right")
            self.page.get_by_role("menuitem", name="To the trash").click()
            self.row(name).wait_for(state="detached")
        os.makedirs(os.path.join(folder, b"<b>in \xff</b>".replace(b"/", b"")))
        self.page.evaluate("(path) => { location.hash = path }", f"#/files/here{folder.decode()}/%3Cb%3Ein%20%FF%3Cb%3E")
        self.page.locator("text=This folder is empty").wait_for()
        assert self.page.evaluate("seen.canary") == 0

    def many(self):
        folder = os.path.join(self.a.folder, "many")
        os.makedirs(folder)
        for number in range(3000):
            open(os.path.join(folder, f"entry {number:05}"), "w").close()
        self.folder(folder)
        self.until("document.querySelector('.list').getAttribute('aria-rowcount') === '3001'", 15)
        assert self.page.locator(".entry").count() < 80
        self.page.locator(".list").press("End")
        self.row("entry 02999").wait_for()
        self.page.get_by_label("Filter this folder").fill("02500")
        self.until("document.querySelectorAll('.entry').length === 1")

    # The rest

    def shell(self):
        self.go(f"#/shell/{self.a.device or 'here'}?new")
        self.page.locator(".terminal.focused").wait_for()
        self.until(f"{SCREEN}.trim() !== ''", 10)
        self.page.keyboard.type("echo so$((2+3))me 'äöü' \"$TERM\"")
        self.page.keyboard.press("Enter")
        self.until(f"{SCREEN}.includes('so5me äöü xterm-256color')", 10)
        self.page.keyboard.type("printf '\\033[38;2;255;0;120mcoloured\\033[0m\\n'; seq 1 300")
        self.page.keyboard.press("Enter")
        self.until("document.querySelector('.scrolls').scrollTop > 1000", 10)
        self.page.evaluate("document.querySelector('.scrolls').scrollTop = 0")
        self.until("document.querySelector('.back').textContent.includes('so5me')")
        assert self.page.evaluate("[...document.querySelectorAll('.back span')].some((s) => s.style.color === 'rgb(255, 0, 120)')")
        self.page.keyboard.press("Control+Shift+F")
        self.page.get_by_label("Find in this terminal").fill("coloured")
        self.page.get_by_label("Find in this terminal").press("Enter")
        self.page.locator(".bar", has_text="of").wait_for()
        self.page.keyboard.press("Escape")
        self.page.keyboard.type("exit")
        self.page.keyboard.press("Enter")
        self.page.locator("text=The shell has ended").wait_for()
        self.page.locator(".bar").get_by_role("button", name="Close").click()

    def search(self):
        self.go("#/search")
        self.page.locator("h1", has_text="Search").wait_for()
        if self.a.query:
            word, name = self.a.query.split("=", 1)
            self.page.get_by_label("Search the libraries").fill(word)
            self.page.locator(".hitname", has_text=name).first.wait_for()
        else:
            self.page.locator(".state, .stack").first.wait_for()

    def jobs(self):
        self.go("#/jobs")
        self.page.locator(".job", has_text="Done").first.wait_for()

    def log(self):
        self.go("#/log")
        self.page.locator(".logline" if self.a.device else ".logline, .over .state:not(.slow)").first.wait_for()
        with self.page.expect_download() as download:
            self.page.get_by_role("button", name="Export").click()
        with open(download.value.path()) as file:
            assert file.readline().startswith("time,device")

    def this_page(self):
        self.go("#/page")
        self.page.locator("text=this one").wait_for()
        self.page.get_by_role("button", name="Dark").click()
        assert self.page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
        self.page.get_by_role("button", name="Deutsch").click()
        self.page.locator("h1", has_text="Diese Seite").wait_for()
        self.page.get_by_role("button", name="English").click()
        self.page.locator("h1", has_text="This page").wait_for()
        self.page.get_by_role("button", name="As the system").click()

    def keyboard(self):
        press = self.page.keyboard.press
        self.go("#/devices")
        self.page.locator("h1", has_text="Devices").wait_for()
        for expected in ("Files", "Jobs"):
            press("Control+k")
            self.page.keyboard.type(expected)
            press("Enter")
            self.until("(name) => document.title.includes(name)", 5, expected)
        press("Control+k")
        self.page.keyboard.type(self.into)
        press("Enter")
        self.until("document.title.startsWith('inside')")
        self.until("document.querySelector('.entry')")
        self.page.locator(".list").focus()
        press("Home")
        press("End")
        press("F2")
        self.page.keyboard.type("by keys")
        press("Enter")
        self.on_disk(os.path.join(self.into, "by keys.txt"))
        self.row("by keys").wait_for()
        press("Enter")
        self.page.locator("pre.text").wait_for()
        press("Escape")
        self.page.locator(".pane").wait_for(state="hidden")
        press("Backspace")
        self.until("(name) => document.title.startsWith(name)", 5, os.path.basename(self.a.folder))
        # From the first control on, Tab reaches each, and what has the focus can be seen.
        self.page.evaluate("document.activeElement.blur()")
        seen = []
        for _ in range(34):
            press("Tab")
            where = self.page.evaluate("""() => { const e = document.activeElement, s = getComputedStyle(e), l = e.matches('.list') ? getComputedStyle(document.querySelector('.entry.cursor')) : s;
                return e === document.body ? '' : (e.getAttribute('aria-label') || e.textContent || e.tagName).slice(0, 40) + (s.outlineStyle === 'none' && l.outlineStyle === 'none' ? ' UNSEEN' : '') }""")
            seen.append(where)
        assert not [each for each in seen if each.endswith("UNSEEN")], seen
        assert any("Upload" in each for each in seen) and any(each == "Shell" for each in seen), seen

    def accessible(self):
        session = self.page.context.new_cdp_session(self.page)
        unnamed, counted = [], 0
        for view in ("#/devices", f"#/files/here{self.into}", "#/shell", "#/search", "#/jobs", "#/log", "#/page"):
            self.go(view)
            self.page.wait_for_timeout(250)
            for node in session.send("Accessibility.getFullAXTree")["nodes"]:
                role, name = node.get("role", {}).get("value"), node.get("name", {}).get("value")
                if node.get("ignored") or role not in NAMED:
                    continue
                counted += 1
                if not (name or "").strip():
                    unnamed.append(f"{view} {role}")
        assert not unnamed, unnamed
        return {"controls": counted}

    def narrow(self):
        wide = []
        for width in (320, 1920):
            self.page.set_viewport_size({"width": width, "height": 700})
            for view in ("#/devices?pair", f"#/files/here{self.into}", "#/shell", "#/search", "#/jobs", "#/log", "#/page"):
                self.go(view)
                self.page.wait_for_timeout(200)
                if self.page.evaluate("document.querySelector('main').scrollWidth > document.querySelector('main').clientWidth + 1 || document.body.scrollWidth > innerWidth"):
                    wide.append(f"{width} {view}")
        self.page.set_viewport_size({"width": 1280, "height": 800})
        assert not wide, wide

    def quiet(self):
        seen = self.page.evaluate("seen")
        assert not seen["violations"] and not self.noise, (seen["violations"], self.noise)
        assert seen["canary"] == 0 and seen["shift"] < 0.1, seen
        return {"layout shift": round(seen["shift"], 4), "moved": seen["moved"], "long tasks": seen["long"]}

    def logout(self):
        self.go("#/page")
        self.page.get_by_role("button", name="Sign out").click()
        self.page.locator("text=You have signed out").wait_for()
        self.page.reload()
        self.page.locator("text=kith web").first.wait_for()

    def run(self):
        with sync_playwright() as playwright:
            self.browser = playwright.chromium.launch(executable_path=self.a.chromium, args=["--no-sandbox"])
            try:
                self.check("the page fits its budget", self.size)
                self.check("without JavaScript the page says so", self.without_script)
                self.check("without Ed25519 the page says so", self.without_key)
                self.check("before login the page says how to get in", self.before_login)
                if not self.check("the link signs in and shows the devices", self.login):
                    return
                self.check("the link works once", self.link_once)
                self.check("a used or foreign link opens the page where the key is known", self.link_again)
                self.check("when it is crowded, it is tried again", self.crowded)
                self.check("another that answers gets nothing", self.impostor)
                self.check("addresses show, and do not act", self.addresses)
                self.check("devices", self.devices)
                self.check("an invitation, shown and revoked", self.invitation)
                for name, act in (("a folder is uploaded", self.upload), ("a taken name is asked about", self.upload_again), ("a file is dropped", self.drop),
                                  ("preview, edit, conflict", self.preview), ("rename", self.rename), ("trash and undo", self.trash), ("new folder", self.make_folder),
                                  ("download and zip", self.download)):
                    self.check(name, act)
                if self.a.device_folder:
                    self.check("copy to another device, delete there", self.copy_across)
                for name, act in (("hostile names", self.hostile), ("a long folder", self.many), ("shell", self.shell), ("search", self.search), ("jobs", self.jobs), ("log", self.log),
                                  ("this page, dark, German", self.this_page), ("by keyboard alone", self.keyboard), ("all controls have names", self.accessible),
                                  ("no error, no violation, no shift", self.quiet), ("320 and 1,920 pixels", self.narrow), ("sign out", self.logout)):
                    self.check(name, act)
            finally:
                self.browser.close()


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("link")
parser.add_argument("--folder", required=True)
parser.add_argument("--device")
parser.add_argument("--device-folder")
parser.add_argument("--query")
parser.add_argument("--chromium", default="/usr/bin/chromium")
parser.add_argument("--budget", type=int, default=245_000, help="the bytes that all files of the page may have together")
parser.add_argument("--pictures")
tour = Tour(parser.parse_args())
tour.run()
sys.exit(1 if tour.failed else 0)
