// swift-format-ignore-file
import KithAPI

/// Writes a client in TypeScript, for Node.js, without dependencies.
struct TypeScriptClient {
    let model: ClientModel

    private static let keywords: Set<String> = [
        "break", "case", "catch", "class", "const", "continue", "debugger", "default", "delete", "do", "else", "enum",
        "export", "extends", "false", "finally", "for", "function", "if", "import", "in", "instanceof", "new", "null",
        "return", "super", "switch", "this", "throw", "true", "try", "typeof", "var", "void", "while", "with",
    ]

    var source: String {
        var text = """
            // Written by `kith api generate typescript` for version \(model.version) of the table; write it anew, do not edit it.
            /**
             * A client of Kith: every method of a device, typed, over the socket in its data directory.
             *
             *     const kith = await Client.connect("/home/ana/.local/share/kith");
             *     for (const location of (await kith.locations.list()).locations) console.log(location.name);
             *     for await (const difference of await kith.search.follow({ query: "ext:pdf" })) console.log(difference);
             *     kith.close();
             *
             * The last argument of each method names another device (`on`), a limit in milliseconds (`timeout`) and a signal
             * that cancels. Numbers beyond 2^53 lose digits.
             */
            import * as fs from "node:fs";
            import * as net from "node:net";
            import * as os from "node:os";
            import * as path from "node:path";


            """
        text += "const ERRORS: Record<number, ErrorCode> = {\n"
        text += model.errors.map { "  [\($0.code)]: \"\($0.name)\",\n" }.joined() + "};\n"
        text += "/** What a caller can do about an error. */\n"
        text += "export type ErrorCode = \(model.errors.map { "\"\($0.name)\"" }.joined(separator: " | "));\n"
        text += "\n" + Self.runtime + "\n\n// Types\n"
        for definition in model.definitions { text += "\n" + self.definition(definition) }
        text += "\n// Methods\n"
        for (name, methods) in model.namespaces {
            text += "\n/** The methods named `\(name.asComment).…`. */\n"
            text += "export class \(name.asTypeName)Namespace {\n"
            text += "  private readonly client: Connection;\n  constructor(client: Connection) { this.client = client; }\n"
            for method in methods { text += "\n" + self.method(method).indented(2) }
            text += "}\n"
        }
        text += "\n/** A device that runs on this machine, by its data directory. */\nexport class Client extends Connection {\n"
        for (name, _) in model.namespaces {
            text += "  readonly \(member(SwiftWord.camel(name))) = new \(name.asTypeName)Namespace(this);\n"
        }
        text += """

              /** Connects to the device that runs on `directory`. */
              static async connect(directory?: string): Promise<Client> {
                const client = new Client(await Connection.dial(directory));
                await client.hello();
                return client;
              }
            }

            """
        return text
    }

    private func form(_ form: ClientModel.Form) -> String {
        switch form {
        case .any: "unknown"
        case .boolean: "boolean"
        case .integer, .number: "number"
        case .text, .bytes: "string"
        case .null: "null"
        case .words(let words): words.map(Self.quoted).joined(separator: " | ")
        case .list(let element): "Array<\(self.form(element))>"
        case .dictionary(let value): "Record<string, \(self.form(value))>"
        case .object(let members): "{ \(members.map(property).joined(separator: "; ")) }"
        case .oneOf(let forms): forms.map { "(\(self.form($0)))" }.joined(separator: " | ")
        case .named(let name): name.asTypeName
        }
    }

    private func property(_ member: ClientModel.Member) -> String {
        "\(self.member(member.name))\(member.isRequired ? "" : "?"): \(form(member.form))"
    }

    private func member(_ name: String) -> String {
        let isPlain = name.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || $0 == "_") }
        return isPlain && name.first?.isNumber == false ? name : Self.quoted(name)
    }

    private static func quoted(_ text: String) -> String {
        "\"\(text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\""))\""
    }

    private func definition(_ definition: ClientModel.Definition) -> String {
        let comment = definition.description.map { "/** \($0.asComment) */\n" } ?? ""
        guard case .object(let members) = definition.form else {
            return comment + "export type \(definition.name.asTypeName) = \(form(definition.form));\n"
        }
        var text = comment + "export interface \(definition.name.asTypeName) {\n"
        for member in members {
            if let description = member.description { text += "  /** \(description.asComment) */\n" }
            text += "  \(property(member));\n"
        }
        return text + "}\n"
    }

    private func method(_ method: ClientModel.Method) -> String {
        var (input, value) = ("", "{}")
        if let whole = method.input {
            (input, value) = ("input: \(form(whole)), ", "input")
        } else if !method.members.isEmpty {
            let isOptional = !method.members.contains(where: \.isRequired)
            input = "input: \(form(.object(method.ordered)))\(isOptional ? " = {}" : ""), "
            value = "input"
        }
        let output = form(method.output)
        let answer: String
        if let stream = method.stream {
            answer = "Stream<\(way(stream.down)), \(way(stream.up)), \(output)>"
        } else {
            answer = output
        }
        return """
            /**
             * \(method.summary.asComment)
             *
             * The method `\(method.name.asComment)`. Callers: \(method.callers.asComment).
             */
            async \(member(SwiftWord.camel(method.word)))(\(input)options: Options = {}): Promise<\(answer)> {
              return (await this.client.\(method.stream == nil ? "call" : "open")(\(Self.quoted(method.name)), \(value), options)) as \(answer);
            }

            """
    }

    private func way(_ way: ClientModel.Way) -> String {
        switch way {
        case .nothing: "never"
        case .bytes: "Uint8Array"
        case .messages(let form): self.form(form)
        }
    }

    /// What carries the calls.
    private static let runtime = #"""
        /** A call that failed. */
        export class KithError extends Error {
          readonly code: ErrorCode;
          /** The number in the answer. */
          readonly number: number;
          /** What an application adds. */
          readonly data: unknown;

          constructor(code: ErrorCode, message: string, number = 0, data?: unknown) {
            super(message);
            this.name = "KithError";
            this.code = code;
            this.number = number;
            this.data = data;
          }

          /** Reads the error of an answer. */
          static read(error: { code?: number; message?: string; data?: unknown }): KithError {
            const number = error.code ?? 0;
            return new KithError(ERRORS[number] ?? "internal", error.message ?? "", number, error.data);
          }
        }

        /** What concerns a call itself. */
        export interface Options {
          /** The device to ask; this one without it. */
          on?: string;
          /** How long the answer may take, in milliseconds; no limit without it. */
          timeout?: number;
          /** Cancels the call, or the stream. */
          signal?: AbortSignal;
        }

        interface Waiter {
          answered(answer: unknown): void;
          failed(error: KithError): void;
          stream?: Arrivals;
        }

        /** What came for a stream and was not taken. */
        class Arrivals {
          readonly messages: unknown[] = [];
          credit = 32;
          ended = false;
          error?: KithError;
          private wakers: Array<() => void> = [];

          wake(): void {
            const wakers = this.wakers;
            this.wakers = [];
            for (const wake of wakers) wake();
          }

          wait(): Promise<void> {
            return new Promise((resolve) => this.wakers.push(resolve));
          }
        }

        /** A stream that a service has accepted; iterating gives what it sends, until it ends. Leaving the loop cancels it. */
        export class Stream<Down, Up, Answer> implements AsyncIterable<Down> {
          static readonly window = 64;
          private taken = 0;
          /** The service's answer. */
          readonly answer: Answer;
          private readonly connection: Connection;
          private readonly id: number;
          private readonly arrivals: Arrivals;

          constructor(connection: Connection, id: number, arrivals: unknown, answer: Answer) {
            this.connection = connection;
            this.id = id;
            this.arrivals = arrivals as Arrivals;
            this.answer = answer;
          }

          /** Waits for the next message; `undefined` at the end. */
          async receive(): Promise<Down | undefined> {
            for (;;) {
              if (this.arrivals.messages.length > 0) {
                this.taken += 1;
                if (this.taken >= Stream.window / 2) {
                  this.connection.notify("$/credit", { id: this.id, messages: this.taken });
                  this.taken = 0;
                }
                return this.arrivals.messages.shift() as Down;
              }
              if (this.arrivals.error) throw this.arrivals.error;
              if (this.arrivals.ended) return undefined;
              await this.arrivals.wait();
            }
          }

          async *[Symbol.asyncIterator](): AsyncGenerator<Down> {
            try {
              for (;;) {
                const message = await this.receive();
                if (message === undefined) return;
                yield message;
              }
            } finally {
              this.cancel();
            }
          }

          /** Sends one message, or bytes, waiting while the other end is slow. */
          async send(message: Up): Promise<void> {
            while (this.arrivals.credit === 0 && !this.arrivals.ended) await this.arrivals.wait();
            if (this.arrivals.ended) throw this.arrivals.error ?? new KithError("closed", "The stream is over.", -32010);
            this.arrivals.credit -= 1;
            const content = message instanceof Uint8Array
              ? { bytes: Buffer.from(message).toString("base64") }
              : { message };
            this.connection.notify("$/message", { id: this.id, ...content });
          }

          /** Says that nothing more comes from here. */
          finish(): void {
            this.connection.notify("$/finish", { id: this.id });
          }

          /** Ends it; again does nothing. */
          cancel(): void {
            if (!this.arrivals.ended) this.connection.notify("$/cancel", { id: this.id });
          }
        }

        /** One connection to a device, for any number of calls at once. */
        export class Connection {
          private readonly socket: net.Socket;
          private readonly waiting = new Map<number, Waiter>();
          private next = 0;
          private closed?: KithError;
          private parts: Buffer[] = [];

          protected constructor(socket: net.Socket) {
            this.socket = socket;
            socket.on("data", (data: Buffer) => this.receive(data));
            socket.on("error", () => this.end());
            socket.on("close", () => this.end());
          }

          protected static dial(directory?: string): Promise<net.Socket> {
            const folder = directory ?? process.env.KITH_DATA ?? path.join(os.homedir(), ".local/share/kith");
            let place = path.join(folder, "kith.sock");
            if (fs.existsSync(place + ".path")) place = fs.readFileSync(place + ".path", "utf8").trim();
            return new Promise((resolve, reject) => {
              const socket = net.createConnection(place);
              const failed = (error: Error) =>
                reject(new KithError("unreachable", `No device runs on ${folder}: ${error.message}`, -32005));
              socket.once("error", failed);
              socket.once("connect", () => {
                socket.removeListener("error", failed);
                resolve(socket);
              });
            });
          }

          protected async hello(): Promise<void> {
            const answer = (await this.call("rpc.hello", { protocol: 2 }, {})) as { protocol: number };
            if (answer.protocol === 2) return;
            this.close();
            throw new KithError("unsupported", "This client is written for version 2 of the socket.", -32601);
          }

          /** Ends the connection; calls that wait fail with `closed`. */
          close(): void {
            this.socket.destroy();
            this.end();
          }

          /** Calls a method by its name, and waits for its answer. */
          call(method: string, params: unknown, options: Options = {}): Promise<unknown> {
            return this.begin(method, params, options, undefined, (_, answer) => answer);
          }

          /** Opens a stream by its method's name, and waits until the service has accepted. */
          open(method: string, params: unknown, options: Options = {}): Promise<unknown> {
            const arrivals = new Arrivals();
            return this.begin(method, params, options, arrivals, (id, answer) => new Stream(this, id, arrivals, answer));
          }

          notify(method: string, params: unknown): void {
            if (!this.closed) this.send({ jsonrpc: "2.0", method, params });
          }

          private begin<Result>(
            method: string, params: unknown, options: Options, stream: Arrivals | undefined,
            finish: (id: number, answer: unknown) => Result,
          ): Promise<Result> {
            return new Promise((resolve, reject) => {
              if (this.closed) return reject(this.closed);
              if (options.signal?.aborted) return reject(new KithError("cancelled", "The call was cancelled.", -32007));
              const id = ++this.next;
              const cancel = () => this.notify("$/cancel", { id });
              options.signal?.addEventListener("abort", cancel, { once: true });
              const settled = () => {
                if (!stream) options.signal?.removeEventListener("abort", cancel);
              };
              this.waiting.set(id, {
                answered: (answer) => { settled(); resolve(finish(id, answer)); },
                failed: (error) => { settled(); reject(error); },
                stream,
              });
              this.send({
                jsonrpc: "2.0", id, method, params, on: options.on, timeout: options.timeout,
                credit: stream ? Stream.window : undefined,
              });
            });
          }

          private send(packet: unknown): void {
            this.socket.write(JSON.stringify(packet) + "\n");
          }

          private receive(data: Buffer): void {
            let rest = data;
            for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
              const line = Buffer.concat([...this.parts, rest.subarray(0, end)]).toString("utf8");
              this.parts = [];
              rest = rest.subarray(end + 1);
              try {
                this.take(JSON.parse(line));
              } catch {
                return this.close(); // it makes no sense any more
              }
            }
            if (rest.length > 0) this.parts.push(rest);
          }

          private take(packet: any): void {
            if (packet.method !== undefined) return this.notice(packet.method, packet.params ?? {});
            const waiter = this.waiting.get(packet.id);
            if (!waiter) return;
            if (!waiter.stream || packet.error) this.waiting.delete(packet.id);
            if (packet.error) waiter.failed(KithError.read(packet.error));
            else waiter.answered(packet.result);
          }

          private notice(method: string, params: any): void {
            const stream = this.waiting.get(params.id)?.stream;
            if (!stream) return;
            if (method === "$/message") {
              stream.messages.push("bytes" in params ? new Uint8Array(Buffer.from(params.bytes, "base64")) : params.message);
            } else if (method === "$/credit") {
              stream.credit += params.messages ?? 0;
            } else if (method === "$/end") {
              this.waiting.delete(params.id);
              stream.ended = true;
              if (params.error) stream.error = KithError.read(params.error);
            }
            stream.wake();
          }

          private end(): void {
            if (this.closed) return;
            const closed = new KithError("closed", "The device has stopped.", -32010);
            this.closed = closed;
            for (const waiter of this.waiting.values()) {
              waiter.failed(closed);
              if (!waiter.stream) continue;
              waiter.stream.ended = true;
              waiter.stream.error = closed;
              waiter.stream.wake();
            }
            this.waiting.clear();
          }
        }
        """#
}
