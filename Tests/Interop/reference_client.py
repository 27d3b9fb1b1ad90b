"""Speaks to a device as the clients of the reference do: its envelope, one request per connection, and its names.

    reference_client.py DATA-DIRECTORY FOLDER

FOLDER holds the file `annual report.txt`. Prints one JSON object per line: {"step", "ok", "said"}.
"""

import json
import os
import re
import socket
import sys
import time

directory, folder = sys.argv[1:3]
UUID = re.compile(r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$")
TIME = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")


def connect():
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(60)
    connection.connect(os.path.join(directory, "kith.sock"))
    return connection


def receive(connection):
    """All until the device closes the connection."""
    data = b""
    while True:
        more = connection.recv(65536)
        if not more:
            return data
        data += more


def swift(text):
    """One request as the Swift client sends it: a line, and the answer until the end."""
    with connect() as connection:
        connection.sendall(text.encode() + b"\n")
        return receive(connection)


def rust(text):
    """One request as the Rust client sends it: no line feed, and its direction shut."""
    with connect() as connection:
        connection.sendall(text.encode())
        connection.shutdown(socket.SHUT_WR)
        return receive(connection)


def ask(kind, method, payload, library=None):
    body = {"method": method, "library_id": library, "payload": payload}
    if kind == "Action" and library is None:
        del body["library_id"]
    answer = json.loads(swift(json.dumps({kind: body})))
    if "JsonOk" not in answer:
        raise ValueError(f"{method}: {answer}")
    return answer["JsonOk"]


def step(name, ok, said=None):
    print(json.dumps({"step": name, "ok": bool(ok), "said": said}), flush=True)


def attempt(name, body):
    try:
        body()
    except Exception as error:  # the test names the step and what was said
        step(name, False, repr(error))


# The exact bytes.
step("ping", swift('"Ping"') == b'"Pong"\n')
step("ping, half closed", rust('"Ping"') == b'"Pong"\n')
answer = swift(
    '{"Query":{"method":"query:libraries.list.v1","library_id":null,"payload":{"include_stats":false}}}'
)
libraries = json.loads(answer)["JsonOk"]
step("libraries.list", len(libraries) == 1 and UUID.match(libraries[0]["id"]), libraries)
library = libraries[0]["id"]
status = json.loads(
    rust('{"Query":{"method":"query:core.status.v1","library_id":null,"payload":null}}')
)["JsonOk"]
uptime = status["system"]["uptime"]
step(
    "core.status",
    status["library_count"] == 1 and set(uptime) == {"secs", "nanos"} and status["network"]["running"],
    status,
)
step("no library", b"ValidationError" in swift('{"Query":{"method":"query:jobs.list.v1","payload":{}}}'))
step(
    "unknown library",
    b"OperationFailed"
    in swift(
        '{"Query":{"method":"query:locations.list","library_id":"99999999-2222-4333-8444-555555555555","payload":null}}'
    ),
)
step("unknown method", b"HandlerNotFound" in swift('{"Query":{"method":"query:no.such.v1","payload":null}}'))
step("not a request", b"SerializationError" in swift('{"Frobnicate":{}}'))


def locations():
    added = ask(
        "Action",
        "action:locations.add.input.v1",
        {"path": {"Physical": {"device_slug": "local", "path": folder}}, "name": None, "mode": "Shallow"},
        library,
    )
    step("locations.add", UUID.match(added["location_id"]), added)
    # A scan takes its time; it is asked again, as a person would look again.
    for _ in range(600):
        found = ask(
            "Query",
            "query:search.files",
            {
                "query": "annual",
                "scope": "Library",
                "mode": "Normal",
                "filters": {"file_types": ["txt"]},
                "sort": {"field": "Relevance", "direction": "Desc"},
                "pagination": {"limit": 10, "offset": 0},
            },
            library,
        )
        if found["files"]:
            break
        time.sleep(0.1)
    file = found["files"][0]
    step(
        "search.files",
        file["name"] == "annual report"
        and file["extension"] == "txt"
        and file["kind"] == "File"
        and UUID.match(file["id"])
        and TIME.match(file["modified_at"])
        and found["total_found"] == 1,
        found,
    )
    path = file["sd_path"]["Physical"]["path"]
    by_path = ask("Query", "query:files.by_path.v1", {"path": path}, library)
    step("files.by_path", by_path["name"] == "annual report" and by_path["size"] == 5, by_path)
    by_id = ask("Query", "query:files.by_id", {"file_id": file["id"]}, library)
    step("files.by_id", by_id["sd_path"] == file["sd_path"], by_id)
    listing = ask(
        "Query",
        "query:files.directory_listing",
        {"path": file["sd_path"] | {"Physical": {"device_slug": "local", "path": folder}}, "sort_by": "Name"},
        library,
    )
    step("files.directory_listing", listing["total_count"] == 1 and not listing["has_more"], listing)
    made = ask("Action", "action:tags.create.input.v1", {"canonical_name": "work", "aliases": []}, library)
    applied = ask(
        "Action",
        "action:tags.apply.input",
        {"targets": {"EntryUuid": [file["id"]]}, "tag_ids": [made["tag_id"]]},
        library,
    )
    tags = ask("Query", "query:tags.search", {"query": "wor"}, library)
    step(
        "tags",
        applied["entries_affected"] == 1 and tags["tags"][0]["tag"]["id"] == made["tag_id"],
        [made, applied, tags],
    )
    ask("Action", "action:files.createFolder.input", {"parent": folder, "name": "new"}, library)
    step("files.createFolder", os.path.isdir(os.path.join(folder, "new")))
    listed = ask("Query", "query:locations.list.v1", None, library)["locations"]
    step("locations.list", [one["id"] for one in listed] == [added["location_id"]], listed)
    upkeep(added["location_id"], file)
    ask("Action", "action:locations.rescan.input", {"location_id": added["location_id"], "full_rescan": False}, library)
    ask("Action", "action:locations.remove.input.v1", {"location_id": added["location_id"]}, library)
    step("locations.remove", ask("Query", "query:locations.list", None, library)["locations"] == [])


def refusal(method, payload, scope=None):
    """What a device says to a request that it cannot do."""
    answer = json.loads(swift(json.dumps({"Action": {"method": method, "library_id": scope, "payload": payload}})))
    return answer.get("Error", {}).get("HandlerNotFound", "")


def upkeep(location, file):
    """What keeps a library as it is to be, on a location with one file."""
    ask("Action", "action:locations.update.input.v1", {"id": location, "name": "letters"}, library)
    listed = ask("Query", "query:locations.list", None, library)["locations"]
    step("locations.update", [one["name"] for one in listed] == ["letters"], listed)
    enabled = ask("Action", "action:locations.enable_indexing.input", {"id": location, "index_mode": "Content"}, library)
    step("locations.enable_indexing", enabled["location_id"] == location, enabled)
    job = ask("Action", "action:locations.triggerJob.input", {"location_id": location, "job_type": "content"}, library)
    step("locations.triggerJob", UUID.match(job["job_id"]) and job["location_id"] == location, job)
    refused = refusal("action:locations.triggerJob.input", {"location_id": location, "job_type": "ocr"}, library)
    step("locations.triggerJob ocr", "has the jobs content" in refused, refused)

    verified = ask(
        "Action", "action:indexing.verify.input", {"path": folder, "verify_content": True, "auto_fix": True}, library
    )
    step("indexing.verify", verified["is_valid"] and verified["path"] == folder, verified)
    with open(os.path.join(folder, "later.txt"), "w") as late:
        late.write("late")
    again = ask("Action", "action:indexing.verify.input", {"path": folder, "auto_fix": True}, library)
    step("indexing.verify finds", not again["is_valid"] or again["report"]["missing_from_index"] == 0, again)
    os.remove(os.path.join(folder, "later.txt"))

    kinds = ask("Query", "query:files.content_kind_stats", {}, library)
    step("files.content_kind_stats", kinds["total_files"] >= 1 and kinds["stats"][0]["file_count"] >= 1, kinds)
    others = ask("Query", "query:files.alternate_instances", {"entry_uuid": file["id"]}, library)
    step("files.alternate_instances", others == {"instances": [], "total_count": 0}, others)
    media = ask("Query", "query:files.media_listing", {"path": folder, "include_descendants": True}, library)
    step("files.media_listing", media["files"] == [] and not media["has_more"], media)

    exported = os.path.join(directory, "letters.kithlocation")
    out = ask("Action", "action:locations.export.input", {"location_uuid": location, "export_path": exported}, library)
    step("locations.export", out["file_size_bytes"] == os.path.getsize(exported), out)
    taken = json.loads(
        swift(
            json.dumps(
                {
                    "Action": {
                        "method": "action:locations.import.input",
                        "library_id": library,
                        "payload": {"import_path": exported},
                    }
                }
            )
        )
    )
    step("locations.import of what is there", "already" in taken.get("Error", {}).get("OperationFailed", ""), taken)


def settings():
    before = ask("Query", "query:config.library.get", None, library)["indexer"]
    changed = ask(
        "Action", "action:config.library.update.input", {"no_hidden": True, "generate_thumbnails": True}, library
    )
    after = ask("Query", "query:config.library.get", None, library)["indexer"]
    step(
        "config.library",
        not before["no_hidden"] and changed["success"] and after == before | {"no_hidden": True},
        [before, changed, after],
    )
    refused = refusal("action:config.library.update.input", {"encryption_enabled": True, "no_git": False}, library)
    same = ask("Query", "query:config.library.get", None, library)["indexer"]
    step("config.library refuses", "encryption_enabled" in refused and same == after, [refused, same])
    app = ask("Action", "action:config.app.update.input.v1", {"telemetry_enabled": False})
    step("config.app.update", app["success"] and not app["requires_restart"], app)
    step("config.app refuses", "theme" in refusal("action:config.app.update.input", {"theme": "dark"}))
    step("device.update", "kith up --name" in refusal("action:device.update.input", {"name": "other"}))
    step("media.ocr.extract", "cannot do" in refusal("action:media.ocr.extract.input", {}, library))


def volumes():
    all = ask("Query", "query:volumes.list", {}, library)["volumes"]
    step("volumes.list", all and not any(one["is_tracked"] for one in all), all)
    missing = json.loads(
        swift(
            json.dumps(
                {
                    "Action": {
                        "method": "action:volumes.track.input",
                        "library_id": library,
                        "payload": {"fingerprint": "no such"},
                    }
                }
            )
        )
    )
    step("volumes.track", "no volume" in missing["Error"]["OperationFailed"], missing)


def network():
    state = ask("Query", "query:network.status", None)
    devices = ask("Query", "query:devices.list", {"include_offline": True, "include_details": False}, library)
    step("network", state["running"] and len(devices) == 1 and devices[0]["is_current"], [state, devices])
    pairing = ask("Action", "action:network.pair.generate.input.v1", {})
    sessions = ask("Query", "query:network.pair.status", None)["sessions"]
    step("pair.generate", [one["id"] for one in sessions] == [pairing["session_id"]], [pairing, sessions])
    ask("Action", "action:network.pair.cancel.input", {"session_id": pairing["session_id"]})
    step("pair.cancel", ask("Query", "query:network.pair.status", None)["sessions"] == [])


def subscription():
    with connect() as connection:
        connection.sendall(b'{"Subscribe":{"event_types":["JobStarted"]}}\n')
        lines = connection.makefile("rb")
        subscribed = lines.readline()
        connection.sendall(b'"Unsubscribe"\n')
        step("subscribe", subscribed == b'"Subscribed"\n' and lines.readline() == b'"Unsubscribed"\n')
        step("unsubscribe", lines.readline() == b"")


def rpc():
    """The same names as JSON-RPC, several on one connection."""
    with connect() as connection:
        lines = connection.makefile("rwb")

        def call(id, method, params):
            request = {"jsonrpc": "2.0", "id": id, "method": method}
            if params is not None:
                request["params"] = params
            lines.write(json.dumps(request).encode() + b"\n")
            lines.flush()
            answer = json.loads(lines.readline())
            assert answer["id"] == id, answer
            return answer

        same = [
            call(number, method, params)["result"]
            for number, (method, params) in enumerate(
                [
                    ("query:libraries.list", {"input": None}),
                    ("query:libraries.list.v1", {"input": {}, "library_id": None}),
                    ("query:libraries.list", {}),
                    ("query:libraries.list", None),
                ]
            )
        ]
        step("names in JSON-RPC", all(one == libraries for one in same), same)
        missing = call("x", "query:spaces.list", {"input": None, "library_id": library})
        step("what cannot be done", missing["error"]["code"] == -32601, missing)


attempt("locations", locations)
attempt("settings", settings)
attempt("volumes", volumes)
attempt("network", network)
attempt("subscription", subscription)
attempt("rpc", rpc)
step("end", True)
sys.stdin.read()
