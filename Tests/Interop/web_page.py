# A page of kith web by the Python package websockets, whose key is cryptography's: what a browser's script would say.
#
#   web_page.py LINK FOLDER    signs in, calls, has a file sent and brought back; prints what came of it as JSON
import asyncio, base64, hashlib, hmac, json, secrets, subprocess, sys, urllib.parse

import websockets
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def curl(*words):
    return subprocess.run(["curl", "-sS", *words], capture_output=True, check=True).stdout


async def main(link, folder):
    page, secret = link.split("#")
    # Only browsers know the names below localhost.
    origin = f"http://localhost:{urllib.parse.urlsplit(page).port}"
    key = Ed25519PrivateKey.generate()
    public = encode(key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw))
    async with websockets.connect(origin.replace("http:", "ws:") + "/ws", origin=origin, compression="deflate") as socket:
        hello = json.loads(await socket.recv())["hello"]
        text = f"kith web 1\n{hello['nonce']}\n{hello['device']}\n{origin}\n{public}".encode()
        proof = hmac.new(base64.urlsafe_b64decode(secret + "=="), text, hashlib.sha256).digest()
        login = {"key": public, "name": "Python", "signature": encode(key.sign(text)), "proof": encode(proof)}
        challenge = login["challenge"] = encode(secrets.token_bytes(32))
        await socket.send(json.dumps({"login": login}))
        welcome = json.loads(await socket.recv())["welcome"]
        device = Ed25519PublicKey.from_public_bytes(base64.urlsafe_b64decode(welcome["key"] + "="))
        signed = b"kith web welcome 1\n" + text + b"\n" + challenge.encode()
        device.verify(base64.urlsafe_b64decode(welcome["signature"] + "=="), signed)

        async def call(method, params):
            await socket.send(json.dumps({"jsonrpc": "2.0", "id": method, "method": method, "params": params}))
            while True:
                answer = json.loads(await socket.recv())
                if answer.get("id") == method:
                    return answer["result"]

        await call("rpc.hello", {"protocol": 2})
        status = await call("device.status", {})
        data = bytes(range(256)) * 40_000
        with open(folder + "/source", "wb") as file:
            file.write(data)
        place = await call("web/upload", {"folder": folder, "path": "sent", "size": len(data)})
        sent = json.loads(curl("-T", folder + "/source", "-H", "Upload-Offset: 0", origin + place["url"]))
        ticket = await call("web/download", {"paths": [folder + "/sent"]})
        back = curl(origin + ticket["url"])
        part = curl("-r", "1000-1999", origin + ticket["url"])
        rest = curl("-C", "10000000", origin + ticket["url"])
        result = {
            "name": welcome["name"], "id": status["id"], "size": sent["size"],
            "same": back == data and part == data[1000:2000] and rest == data[10_000_000:],
        }
        print(json.dumps(result), flush=True)
        sys.stdin.read()


asyncio.run(main(*sys.argv[1:]))
