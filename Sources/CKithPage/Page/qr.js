// A text in capitals and digits as a QR code (ISO/IEC 18004, model 2, level L), as an SVG element.

const capitals = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ $%*+-./:";
// For level L, by version: error correction codewords a block, and blocks.
const perBlock = [7, 10, 15, 20, 26, 18, 20, 24, 30, 18, 20, 24, 26, 30, 22, 24, 28, 30, 28, 28,
	28, 28, 30, 30, 26, 28, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30, 30];
const blockCount = [1, 1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4, 4, 4, 6, 6, 6, 6, 7, 8, 8, 9, 9, 10, 12, 12, 12, 13, 14, 15, 16, 17, 18, 19, 19, 20, 21, 22, 24, 25];

const power = new Uint8Array(255), logarithm = new Uint8Array(256);
for (let i = 0, x = 1; i < 255; i++) power[i] = x, logarithm[x] = i, x = (x << 1) ^ (x & 128 ? 0x11d : 0);
const product = (a, b) => (a && b ? power[(logarithm[a] + logarithm[b]) % 255] : 0);

function remainder(data, degree) {
	let divisor = [1];
	for (let i = 0; i < degree; i++) {
		const next = [...divisor, 0];
		divisor.forEach((value, index) => (next[index + 1] ^= product(value, power[i])));
		divisor = next;
	}
	const rest = new Uint8Array(degree);
	for (const byte of data) {
		const factor = byte ^ rest[0];
		rest.copyWithin(0, 1);
		rest[degree - 1] = 0;
		for (let i = 0; i < degree; i++) rest[i] ^= product(divisor[i + 1], factor);
	}
	return rest;
}

function alignments(version) {
	if (version === 1) return [];
	const many = Math.floor(version / 7) + 2, last = version * 4 + 10;
	const step = version === 32 ? 26 : Math.ceil((last - 6) / (many - 1) / 2) * 2;
	return [6, ...Array.from({ length: many - 1 }, (_, index) => last - step * (many - 2 - index))];
}

function functionModules(version) {
	const size = version * 4 + 17, dark = [], fixed = [];
	for (let y = 0; y < size; y++) dark.push(new Uint8Array(size)), fixed.push(new Uint8Array(size));
	const set = (x, y, on) => x >= 0 && y >= 0 && x < size && y < size && ((dark[y][x] = on ? 1 : 0), (fixed[y][x] = 1));
	for (let i = 0; i < size; i++) set(6, i, i % 2 === 0), set(i, 6, i % 2 === 0);
	for (const [cx, cy] of [[3, 3], [size - 4, 3], [3, size - 4]])
		for (let y = -4; y <= 4; y++) for (let x = -4; x <= 4; x++) {
			const ring = Math.max(Math.abs(x), Math.abs(y));
			set(cx + x, cy + y, ring !== 2 && ring !== 4);
		}
	const places = alignments(version);
	places.forEach((cx, i) => places.forEach((cy, j) => {
		if ((i === 0 && j === 0) || (i === 0 && j === places.length - 1) || (j === 0 && i === places.length - 1)) return;
		for (let y = -2; y <= 2; y++) for (let x = -2; x <= 2; x++) set(cx + x, cy + y, Math.max(Math.abs(x), Math.abs(y)) !== 1);
	}));
	// Level L and mask 0 in 15 bits, twice.
	const bits = 0b111011111000100, bit = (i) => (bits >> i) & 1;
	for (let i = 0; i < 6; i++) set(8, i, bit(i));
	set(8, 7, bit(6)), set(8, 8, bit(7)), set(7, 8, bit(8));
	for (let i = 9; i < 15; i++) set(14 - i, 8, bit(i));
	for (let i = 0; i < 8; i++) set(size - 1 - i, 8, bit(i));
	for (let i = 8; i < 15; i++) set(8, size - 15 + i, bit(i));
	set(8, size - 8, 1);
	if (version >= 7) {
		let rest = version;
		for (let i = 0; i < 12; i++) rest = (rest << 1) ^ ((rest >> 11) * 0x1f25);
		const bits = (version << 12) | rest;
		for (let i = 0; i < 18; i++) { const a = size - 11 + (i % 3), b = Math.floor(i / 3); set(a, b, (bits >> i) & 1), set(b, a, (bits >> i) & 1); }
	}
	return { size, dark, fixed };
}

/// The modules of a text in capitals: rows of 0 and 1.
export function modules(text) {
	for (let version = 1; version <= 40; version++) {
		const { size, dark, fixed } = functionModules(version);
		let free = 0;
		for (const row of fixed) for (const each of row) free += each ? 0 : 1;
		const whole = Math.floor(free / 8), blocks = blockCount[version - 1], correction = perBlock[version - 1], room = whole - blocks * correction;
		const bits = [];
		const put = (value, length) => { for (let i = length - 1; i >= 0; i--) bits.push((value >> i) & 1); };
		put(2, 4), put(text.length, version < 10 ? 9 : version < 27 ? 11 : 13);
		for (let i = 0; i < text.length; i += 2) {
			if (i + 1 < text.length) put(capitals.indexOf(text[i]) * 45 + capitals.indexOf(text[i + 1]), 11);
			else put(capitals.indexOf(text[i]), 6);
		}
		if (bits.length > room * 8) continue;
		put(0, Math.min(4, room * 8 - bits.length));
		while (bits.length % 8) bits.push(0);
		for (let pad = 0xec; bits.length < room * 8; pad ^= 0xfd) put(pad, 8);
		const words = Uint8Array.from({ length: room }, (_, i) => bits.slice(i * 8, i * 8 + 8).reduce((sum, bit) => sum * 2 + bit, 0));
		const short = Math.floor(room / blocks), longs = room % blocks, parts = [];
		for (let i = 0, at = 0; i < blocks; i++) { const length = short + (i >= blocks - longs ? 1 : 0); parts.push(words.subarray(at, at + length)); at += length; }
		const rests = parts.map((part) => remainder(part, correction)), stream = [];
		for (let i = 0; i <= short; i++) for (const part of parts) if (i < part.length) stream.push(part[i]);
		for (let i = 0; i < correction; i++) for (const rest of rests) stream.push(rest[i]);
		let index = 0;
		for (let right = size - 1; right >= 1; right -= 2) {
			if (right === 6) right = 5;
			for (let step = 0; step < size; step++) for (let j = 0; j < 2; j++) {
				const x = right - j, y = (right + 1) & 2 ? step : size - 1 - step;
				if (!fixed[y][x] && index < stream.length * 8) dark[y][x] = (stream[index >> 3] >> (7 - (index & 7))) & 1, index++;
			}
		}
		// One mask for all: readers take any, and what is shown here looks random anyway.
		for (let y = 0; y < size; y++) for (let x = y % 2; x < size; x += 2) if (!fixed[y][x]) dark[y][x] ^= 1;
		return dark;
	}
	throw new RangeError("too long for a QR code");
}

export function qr(text, label) {
	const rows = modules(text), size = rows.length;
	const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg"), path = document.createElementNS(svg.namespaceURI, "path");
	svg.setAttribute("viewBox", `0 0 ${size} ${size}`);
	svg.setAttribute("class", "qr");
	svg.setAttribute("role", "img");
	svg.setAttribute("aria-label", label);
	svg.setAttribute("shape-rendering", "crispEdges");
	let shape = "";
	rows.forEach((row, y) => {
		for (let x = 0; x < size; x++) if (row[x]) { let end = x; while (row[end + 1]) end++; shape += `M${x} ${y}h${end - x + 1}v1h-${end - x + 1}z`; x = end; }
	});
	path.setAttribute("d", shape);
	svg.append(path);
	return svg;
}
