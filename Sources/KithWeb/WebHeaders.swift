import KithWire
import NIOHTTP1

/// The fields of answers.
enum WebHeaders {
    /// Those of every answer.
    private static let common: [(String, String)] = [
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ]

    /// Those of the page's own files.
    static let page = HTTPHeaders(
        common + [
            (
                "content-security-policy",
                "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; manifest-src 'self'; "
                    + "worker-src 'self'; font-src 'self'; img-src 'self' blob:; media-src 'self' blob:; base-uri 'none'; "
                    + "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
                    + "trusted-types 'none'"
            ),
            (
                "permissions-policy",
                "camera=(self), microphone=(), geolocation=(), payment=(), usb=(), serial=(), hid=(), "
                    + "display-capture=(), midi=()"
            ),
            ("cache-control", "no-cache"),
        ])

    /// Those of everything else: what comes from elsewhere is nothing that runs.
    static let content = HTTPHeaders(
        common + [
            ("content-security-policy", "sandbox; default-src 'none'"),
            ("cache-control", "no-store"),
        ])

    /// Says under which name an answer is to be saved, or that it may be shown (RFC 6266, RFC 8187).
    static func disposition(_ name: String, isInline: Bool) -> String {
        let name = shown(name)
        let plain = String(
            String.UnicodeScalarView(
                name.unicodeScalars.map { scalar in
                    scalar.isASCII && scalar != "\"" && scalar != "\\" && scalar != "%" ? scalar : "_"
                }))
        var text = "\(isInline ? "inline" : "attachment"); filename=\"\(plain)\""
        if plain != name { text += "; filename*=UTF-8''" + escaped(name) }
        return text
    }

    /// A name without what would be no part of a name where it is saved: control characters, slashes, marks that turn the
    /// direction of writing.
    static func shown(_ name: String) -> String {
        var scalars = String.UnicodeScalarView()
        for scalar in name.unicodeScalars {
            let isPlain: Bool =
                switch scalar.properties.generalCategory {
                case .control, .format, .lineSeparator, .paragraphSeparator: false
                default: scalar != "/" && scalar != "\\"
                }
            scalars.append(isPlain ? scalar : "_")
        }
        let text = String(scalars)
        return text.isEmpty || text == "." || text == ".." ? "file" : text
    }

    private static func escaped(_ text: String) -> String {
        var escaped: [UInt8] = []
        for byte in text.utf8 {
            let isPlain =
                (0x30...0x39).contains(byte) || (0x41...0x5A).contains(byte) || (0x61...0x7A).contains(byte)
                || "!#$&+-.^_`|~".utf8.contains(byte)
            if isPlain {
                escaped.append(byte)
            } else {
                escaped += Array("%\(Hex.encode(CollectionOfOne(byte)).uppercased())".utf8)
            }
        }
        return String(decoding: escaped, as: UTF8.self)
    }
}

/// The media types of files, by the end of their names.
enum MediaType {
    /// Those a browser may show: pictures, films, sound and plain text, nothing that could run.
    private static let shown: [String: String] = [
        "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp",
        "avif": "image/avif", "bmp": "image/bmp", "ico": "image/x-icon", "apng": "image/apng",
        "mp4": "video/mp4", "m4v": "video/mp4", "webm": "video/webm", "ogv": "video/ogg", "mov": "video/quicktime",
        "mkv": "video/x-matroska", "mp3": "audio/mpeg", "m4a": "audio/mp4", "aac": "audio/aac", "ogg": "audio/ogg",
        "oga": "audio/ogg", "opus": "audio/ogg", "flac": "audio/flac", "wav": "audio/wav", "weba": "audio/webm",
    ]
    /// Those that are shown as plain text, whatever is in them.
    private static let text: Set<String> = [
        "txt", "text", "log", "md", "markdown", "rst", "csv", "tsv", "json", "jsonl", "ndjson", "yaml", "yml", "toml",
        "ini", "conf", "cfg", "env", "properties", "diff", "patch", "tex", "srt", "vtt", "swift", "c", "h", "cc", "cpp",
        "hpp", "m", "mm", "rs", "go", "py", "rb", "pl", "php", "java", "kt", "scala", "cs", "ts", "tsx", "jsx", "js",
        "mjs", "css", "scss", "less", "sh", "bash", "zsh", "fish", "sql", "lua", "r", "jl", "hs", "ml", "ex", "exs",
        "erl", "clj", "el", "vim", "cmake", "mk", "gradle", "dockerfile", "gitignore", "service", "plist",
    ]
    /// Those of the page's own files.
    private static let page: [String: String] = [
        "html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8",
        "mjs": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml",
        "png": "image/png", "ico": "image/x-icon", "json": "application/json",
        "webmanifest": "application/manifest+json",
        "woff2": "font/woff2", "txt": "text/plain; charset=utf-8",
    ]

    /// The type of a file that a browser may show; `nil` for one that it may only save.
    static func shown(_ name: String) -> String? {
        let end = ending(name)
        return shown[end] ?? (text.contains(end) || !name.contains(".") ? "text/plain; charset=utf-8" : nil)
    }

    /// The type of a file of the page.
    static func ofPage(_ path: String) -> String { page[ending(path)] ?? "application/octet-stream" }

    private static func ending(_ name: String) -> String {
        name.lastIndex(of: ".").map { name[name.index(after: $0)...].lowercased() } ?? ""
    }
}
