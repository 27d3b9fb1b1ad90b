public import KithIdentity
public import KithRPC
public import KithWire

// What is written by hand, as JSON.

extension DeviceID: SchemaDescribing {
    /// The text form.
    public static var schema: JSONSchema {
        [
            "type": "string", "description": "A device's key, as text that holds a check.",
            "examples": ["25njq-amcwe-flpvk-l73j4-szahh-ihoc4-xt3kt-cgjnp-aingr-5yhke-nakda"],
        ]
    }
}

extension Grant: SchemaDescribing {
    /// The text form.
    public static var schema: JSONSchema {
        [
            "type": "string",
            "description": """
            What a device may do: shell, shell:command=LINE, shell:view, shell:agent, files:read=/PATH, \
            files:write=/PATH, screen:view, screen:control, screen:clipboard, screen:record, screen:privacy, \
            screen:unattended, forward, forward:to=HOST:PORT, forward:listen=ADDRESS:PORT, library, library:read, \
            node:PATH.
            """,
            "examples": ["shell", "files:read=/srv/photos", "forward:to=example.org:443"],
        ]
    }
}

extension Screen.ChatLine: SchemaDescribing {
    /// An object with the text.
    public static var schema: JSONSchema {
        [
            "type": "object", "description": "A line that one person writes to another.",
            "properties": ["text": ["type": "string", "maxLength": .integer(Int64(lengthLimit))]], "required": ["text"],
            "examples": [["text": "Is it the window behind?"]],
        ]
    }
}

extension NetworkAddress: SchemaDescribing {
    /// The text form.
    public static var schema: JSONSchema {
        [
            "type": "string", "description": "An IP address with a port.",
            "examples": ["192.0.2.1:4433", "[2001:db8::1]:4433"],
        ]
    }
}

extension Files.Path: SchemaDescribing {
    /// Text, or an object for a path that is none.
    public static var schema: JSONSchema {
        [
            "description": "A path on a device: text, or its bytes where they are not UTF-8.",
            "anyOf": [
                ["type": "string"],
                [
                    "type": "object", "properties": ["bytes": ["type": "string", "contentEncoding": "base64"]],
                    "required": ["bytes"],
                ],
            ],
            "examples": ["/srv/photos", "~/notes.txt", ["bytes": "L3Nydi//"]],
        ]
    }
}

extension Search.Cursor: SchemaDescribing {
    /// Text.
    public static var schema: JSONSchema {
        [
            "type": "string",
            "description": "A place in the answer to a search: `next` of the part before, as it was.",
            "examples": ["bmFtZQ"],
        ]
    }
}

extension Forward.Endpoint: SchemaDescribing {
    /// The text form.
    public static var schema: JSONSchema {
        [
            "type": "string", "description": "Where a connection goes, or where one is listened for.",
            "examples": ["example.org:80", "192.0.2.1:80", "[2001:db8::1]:80", "*:80", "unix:/run/app.sock"],
        ]
    }
}

extension JSONSchema: SchemaDescribing {
    /// An object of keywords.
    public static var schema: JSONSchema {
        ["type": "object", "description": "A JSON Schema, draft 2020-12.", "examples": [["type": "string"]]]
    }
}

extension JSONValue: SchemaDescribing {
    /// Anything.
    public static var schema: JSONSchema { ["description": "Any JSON value.", "examples": ["text"]] }
}

extension Events.Message: SchemaDescribing {
    /// Anything.
    public static var schema: JSONSchema { JSONValue.schema }
}

extension Events.Delivery: SchemaCases {
    /// The names of its cases.
    public static var schemaCases: [String] { ["event", "gap"] }
}

extension ShellFrame: SchemaCases {
    /// The members of its JSON form.
    public static var schemaCases: [String] {
        [
            "input", "endOfInput", "resize", "signal", "received", "agent", "output", "errorOutput", "exited", "taken",
            "jump", "screen", "echoed", "ended",
        ]
    }
}

extension Shell.Screen.Action: SchemaCases {
    /// The members of its JSON form.
    public static var schemaCases: [String] {
        ["text", "key", "paste", "mouse", "focus", "size", "shown", "lines"]
    }
}

extension Shell.Screen.Color: SchemaDescribing {
    /// A number, or text.
    public static var schema: JSONSchema {
        [
            "description": "A colour: a number of the palette, or its parts.",
            "anyOf": [
                ["type": "integer", "minimum": 0, "maximum": 255],
                ["type": "string", "pattern": "^#[0-9a-f]{6}$"],
            ],
            "examples": [4, "#ff8800"],
        ]
    }
}

extension ScreenUpdate: SchemaCases {
    /// The members of its JSON form.
    public static var schemaCases: [String] { ["picture", "video", "cursor", "displays", "permissions", "ended"] }
}

extension ScreenReply: SchemaCases {
    /// The members of its JSON form.
    public static var schemaCases: [String] { ["received", "refresh", "keyFrame", "exactOnly", "show", "limits"] }
}

extension ScreenInput: SchemaCases {
    /// The members of its JSON form.
    public static var schemaCases: [String] { ["move", "button", "scroll", "key", "text", "release"] }
}

extension ScreenClipboard: SchemaCases {
    /// The members of its JSON form.
    public static var schemaCases: [String] { ["offer", "request", "content", "refused"] }
}

extension PairingMethods.JoinEvent: SchemaCases {
    /// The names of its cases.
    public static var schemaCases: [String] { ["compare", "paired", "failed"] }
}

extension PairingMethods.Event: SchemaCases {
    /// The names of its cases.
    public static var schemaCases: [String] { ["requested", "paired", "ended", "brokenOff"] }
}

extension PairingMethods.FromJoiner: SchemaCases {
    /// The names of its cases.
    public static var schemaCases: [String] { ["present", "reveal", "verdict"] }
}

extension PairingMethods.FromInviter: SchemaCases {
    /// The names of its cases.
    public static var schemaCases: [String] { ["challenge", "verdict", "refused"] }
}
