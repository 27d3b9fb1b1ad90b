import Foundation
import KithTesting
import Testing

/// The clients that `kith api generate` writes, against a real device.
///
/// Each does the same and prints the same: a call, an error with its code, a stream in both directions, one that is
/// cancelled, and what happens when the device stops.
@Suite(.timeLimit(.minutes(5))) struct GeneratedClientTests {
    private static let expected = """
        echo 5
        error notFound true
        pairing true
        list 0
        found 0
        found 1 report.txt
        job testVolume done
        cancelled true
        stopped true

        """

    /// Runs the client's program beside a device whose library gets a file once the program says that it follows.
    private func run(_ machine: Machine, _ command: [String]) async throws {
        let top = URL(fileURLWithPath: machine.path("tree")).resolvingSymlinksInPath().path
        try FileManager.default.createDirectory(atPath: top, withIntermediateDirectories: true)
        let running = try machine.start(
            command + [machine.data], byEnvironment: true, program: URL(fileURLWithPath: "/usr/bin/env"))
        try await eventually { running.soFar.contains("found 0\n") }
        try Data("1".utf8).write(to: URL(fileURLWithPath: top + "/report.txt"))
        try await machine.expect("add", top)
        try await eventually { running.soFar.contains("cancelled") }
        try await machine.expect("down")
        let outcome = try await running.outcome(seconds: 60)
        #expect(outcome.status == 0 && outcome.output == Self.expected, "\(outcome)")
    }

    private func withMachine(_ body: (Machine) async throws -> Void) async throws {
        let machine = try Machine("laptop")
        defer { Task { await machine.remove() } }
        try await machine.up()
        try await body(machine)
    }

    @Test func `one in Python calls, fails, follows and cancels`() async throws {
        try await withMachine { machine in
            try await machine.expect("api", "generate", "python", "-o", machine.path("kith_client.py"))
            try write(Self.python, to: machine.path("program.py"))
            // Every line of it is looked at, not only what runs.
            let checked = try await machine.bash("python3 -W error -m py_compile kith_client.py")
            #expect(checked.status == 0, "\(checked)")
            try await run(machine, ["python3", "-W", "error", machine.path("program.py")])
        }
    }

    @Test(.enabled(if: GeneratedClientTests.hasTypeScript, "needs node and tsc (scripts/bootstrap --test)"))
    func `one in TypeScript has types that agree, and does the same`() async throws {
        try await withMachine { machine in
            try await machine.expect("api", "generate", "typescript", "-o", machine.path("kith.ts"))
            try write(Self.typescript, to: machine.path("program.ts"))
            // What Node.js itself declares is not part of Debian's compiler: only what is used of it.
            try write(Self.node, to: machine.path("node.d.ts"))
            let compiled = try await machine.bash(
                "tsc --strict --noUnusedLocals --target es2021 --module commonjs --moduleResolution node "
                    + "node.d.ts kith.ts program.ts", seconds: 120)
            try #require(compiled.status == 0, "\(compiled)")
            try await run(machine, ["node", machine.path("program.js")])
        }
    }

    @Test func `one in Swift compiles without a warning, and does the same`() async throws {
        try await withMachine { machine in
            try await machine.expect("api", "generate", "swift", "-o", machine.path("KithClient.swift"))
            try write(Self.swift, to: machine.path("main.swift"))
            let compiled = try await machine.bash(
                "swiftc -swift-version 6 -warnings-as-errors -Onone -o program KithClient.swift main.swift",
                seconds: 240)
            try #require(compiled.status == 0, "\(compiled)")
            try await run(machine, [machine.path("program")])
        }
    }

    private static let hasTypeScript = isInstalled("node") && isInstalled("tsc")

    private static func isInstalled(_ tool: String) -> Bool {
        (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":").contains {
            FileManager.default.isExecutableFile(atPath: "\($0)/\(tool)")
        }
    }

    private static let python = """
        import sys, threading
        from kith_client import Client, KithError

        def say(*words):
            print(*(str(word).lower() if isinstance(word, bool) else word for word in words), flush=True)

        kith = Client(sys.argv[1])
        say("echo", len(kith.device.echo(bytes="aGVsbG8=")["bytes"]) * 3 // 4 - 1)
        try:
            kith.devices.forget(device="nobody")
        except KithError as error:
            say("error", error.code, "nobody" in error.message)
        say("pairing", kith.pairing.waiting() == [])
        say("list", len(kith.locations.list()["locations"]))
        with kith.search.follow(query="report") as stream:
            for difference in stream:
                names = [entry["path"].rsplit("/", 1)[1] for entry in difference["found"]]
                say("found", len(names), *names)
                if names:
                    break
        with kith.events.library(types=["job.changed"]) as events:
            started = kith.volumes.test(path=sys.argv[1], size=1 << 20)["job"]
            for delivery in events:
                job = delivery["event"]["event"]["jobChanged"]
                if job["id"] == started and job["state"] == "done":
                    say("job", job["kind"], job["state"])
                    break
        events = kith.events.library(types=["tags.changed"])
        threading.Timer(0.05, events.cancel).start()
        try:
            for event in events:
                say(event)
            say("cancelled", True)
        except KithError as error:
            say("cancelled", error.code == "cancelled")
        try:
            for event in kith.events.library():
                pass
            say("stopped", True)
        except KithError as error:
            say("stopped", error.code in ("closed", "cancelled"))
        kith.close()
        """

    private static let typescript = """
        import { Client, KithError } from "./kith";

        declare const process: { argv: string[]; exit(code: number): void };
        declare const console: { log(...words: unknown[]): void };

        async function main(): Promise<void> {
          const kith = await Client.connect(process.argv[2]);
          console.log("echo", Math.floor(((await kith.device.echo({ bytes: "aGVsbG8=" })).bytes.length * 3) / 4) - 1);
          try {
            await kith.devices.forget({ device: "nobody" });
          } catch (error) {
            if (error instanceof KithError) console.log("error", error.code, error.message.includes("nobody"));
          }
          console.log("pairing", (await kith.pairing.waiting()).length === 0);
          console.log("list", (await kith.locations.list()).locations.length);
          for await (const difference of await kith.search.follow({ query: "report" })) {
            const names = difference.found.map((entry) => String(entry.path).split("/").pop());
            console.log("found", names.length, ...names);
            if (names.length > 0) break;
          }
          const jobs = await kith.events.library({ types: ["job.changed"] });
          const started = (await kith.volumes.test({ path: process.argv[2], size: 1 << 20 })).job;
          for await (const delivery of jobs) {
            if (!("event" in delivery) || !("jobChanged" in delivery.event.event)) continue;
            const job = delivery.event.event.jobChanged;
            if (job.id !== started || job.state !== "done") continue;
            console.log("job", job.kind, job.state);
            break;
          }
          const stop = new AbortController();
          const events = await kith.events.library({ types: ["tags.changed"] }, { signal: stop.signal });
          setTimeout(() => stop.abort(), 50);
          try {
            for await (const event of events) console.log(event);
            console.log("cancelled", true);
          } catch (error) {
            console.log("cancelled", error instanceof KithError && error.code === "cancelled");
          }
          try {
            for await (const _ of await kith.events.library()) void _;
            console.log("stopped", true);
          } catch (error) {
            console.log("stopped", error instanceof KithError && ["closed", "cancelled"].includes(error.code));
          }
          kith.close();
        }

        main().catch((error) => { console.log(error); process.exit(1); });
        """

    /// What the client uses of Node.js.
    private static let node = """
        declare module "node:fs" {
          export function existsSync(path: string): boolean;
          export function readFileSync(path: string, encoding: "utf8"): string;
        }
        declare module "node:os" { export function homedir(): string; }
        declare module "node:path" { export function join(...parts: string[]): string; }
        declare module "node:net" {
          export class Socket {
            on(event: "data", listener: (data: Buffer) => void): this;
            on(event: "error", listener: (error: Error) => void): this;
            on(event: "close", listener: () => void): this;
            once(event: "error", listener: (error: Error) => void): this;
            once(event: "connect", listener: () => void): this;
            removeListener(event: "error", listener: (error: Error) => void): this;
            write(text: string): boolean;
            destroy(): void;
          }
          export function createConnection(path: string): Socket;
        }
        declare class Buffer extends Uint8Array {
          static from(data: Uint8Array): Buffer;
          static from(data: string, encoding: "base64"): Buffer;
          static concat(parts: Buffer[]): Buffer;
          subarray(start?: number, end?: number): Buffer;
          indexOf(byte: number): number;
          toString(encoding?: "utf8" | "base64"): string;
        }
        declare const process: { env: Record<string, string | undefined>; argv: string[]; exit(code: number): void };
        """

    private static let swift = """
        import Foundation

        func say(_ words: Any...) {
            FileHandle.standardOutput.write(Data((words.map { "\\($0)" }.joined(separator: " ") + "\\n").utf8))
        }

        let kith = try await KithClient.connect(directory: CommandLine.arguments[1])
        say("echo", try await kith.device.echo(bytes: Data("hello".utf8)).bytes.count)
        do {
            try await kith.devices.forget(device: "nobody")
        } catch let error as KithError {
            say("error", error.code, error.message.contains("nobody"))
        }
        say("pairing", try await kith.pairing.waiting().isEmpty)
        say("list", try await kith.locations.list().locations.count)
        for try await difference in try await kith.search.follow(query: "report") {
            let names = difference.found.map { entry in
                if case .string(let path) = entry.path { String(path.split(separator: "/").last ?? "") } else { "?" }
            }
            say((["found", "\\(names.count)"] + names).joined(separator: " "))
            if !names.isEmpty { break }
        }
        let jobs = try await kith.events.library(types: [.jobChanged])
        let started = try await kith.volumes.test(path: .string(CommandLine.arguments[1]), size: 1 << 20).job
        for try await delivery in jobs {
            guard let job = delivery.event?.event.jobChanged, job.id == started, job.state == .done else { continue }
            say("job", job.kind, job.state.rawValue)
            break
        }
        let following = Task {
            for try await event in try await kith.events.library(types: [.tagsChanged]) { say(event) }
        }
        // Real time: the program of somebody else, which has no other sign that the stream is open.
        try await Task.sleep(for: .milliseconds(50))
        following.cancel()
        do {
            try await following.value
            say("cancelled", true)
        } catch let error as KithError {
            say("cancelled", error.code == "cancelled")
        } catch is CancellationError {
            say("cancelled", true)
        }
        do {
            for try await _ in try await kith.events.library() {}
            say("stopped", true)
        } catch let error as KithError {
            say("stopped", ["closed", "cancelled"].contains(error.code))
        }
        """
}
