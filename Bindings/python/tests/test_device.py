"""Run with $KITH_LIBRARY; $KITH_C_PEER is Examples/c/peer.c, built (scripts/bindings does both)."""

import asyncio
import json
import os
import tempfile
import unittest

import kith
from kith import Code, KithError, Method

ADD = Method(
    lambda numbers, call: numbers["a"] + numbers["b"], kind="query", access="paired",
    input={
        "type": "object", "required": ["a", "b"], "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
    })


class DeviceTests(unittest.IsolatedAsyncioTestCase):
    def folder(self) -> str:
        made = tempfile.TemporaryDirectory(prefix="kith-python-")
        self.addCleanup(made.cleanup)
        return made.name

    async def device(self, name: str) -> kith.Device:
        made = await kith.Device.open(os.path.join(self.folder(), name), name=name)
        return await self.enterAsyncContext(made)

    async def fails(self, code: Code, awaitable) -> KithError:
        with self.assertRaises(KithError) as caught:
            await awaitable
        self.assertEqual(caught.exception.code, code)
        return caught.exception

    async def test_a_service_answers_calls_and_its_errors_arrive(self):
        here = await self.device("one")
        self.assertRegex(kith.version, r"^\d+\.\d+\.\d+$")

        async def refuse(input, call):
            await asyncio.sleep(0)
            raise KithError(Code.CONFLICT, "Not today.")

        def fail(input, call):
            raise ValueError("a secret of the program")

        service = here.serve("math", {
            "add": ADD, "refuse": refuse, "fail": fail, "nothing": lambda *_: None, "odd": lambda *_: object(),
        })
        self.assertEqual(await here.call("math/add", {"a": 2, "b": 3}), 5)
        self.assertEqual(await here.call("math/nothing"), {})
        await self.fails(Code.INVALID, here.call("math/add", {"a": 2}))
        self.assertEqual(str(await self.fails(Code.CONFLICT, here.call("math/refuse"))), "Not today.")
        with self.assertLogs("kith", "ERROR"):
            self.assertNotIn("secret", str(await self.fails(Code.INTERNAL, here.call("math/fail"))))
            await self.fails(Code.INTERNAL, here.call("math/odd"))
        await self.fails(Code.UNSUPPORTED, here.call("math/none"))
        with self.assertRaises(KithError):
            here.serve("math", {"add": ADD})
        await service.remove()
        await self.fails(Code.UNSUPPORTED, here.call("math/add", {"a": 2, "b": 3}))

    async def test_a_call_that_is_cancelled_or_takes_too_long_ends(self):
        here = await self.device("one")
        begun = asyncio.Event()

        async def wait(input, call):
            begun.set()
            await asyncio.Event().wait()

        here.serve("slow", {"wait": wait})
        await self.fails(Code.TIMED_OUT, here.call("slow/wait", timeout=0.05))
        begun.clear()
        call = asyncio.create_task(here.call("slow/wait"))
        await begun.wait()
        call.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await call
        # A hundred at once, each with its own answer.
        here.serve("math", {"add": ADD})
        sums = await asyncio.gather(*(here.call("math/add", {"a": n, "b": 1}) for n in range(100)))
        self.assertEqual(sums, list(range(1, 101)))

    async def test_published_events_come_to_a_subscription_until_it_is_left(self):
        here = await self.device("one")
        async with here.subscribe("weather/*") as events:
            await events.accepted()
            for degrees in [20, 21, 22]:
                await here.publish("weather/graz", {"degrees": degrees})
            seen = []
            async for delivery in events:
                seen.append(delivery["event"]["message"]["degrees"])
                if len(seen) == 3:
                    break
        self.assertEqual(seen, [20, 21, 22])
        with self.assertRaises(StopAsyncIteration):
            await anext(events)

    async def test_what_is_freed_is_an_error_and_so_is_a_directory_in_use(self):
        here = await self.device("one")
        other = os.path.join(self.folder(), "two")
        first = await kith.Device.open(other)
        await self.fails(Code.CONFLICT, kith.Device.open(other))
        stream = here.subscribe("a/b")
        await stream.accepted()
        await first.free()
        await here.free()
        await self.fails(Code.NOT_FOUND, here.call("device.status"))
        await self.fails(Code.NOT_FOUND, here.free())
        await self.fails(Code.CANCELLED, anext(stream))
        await self.fails(Code.NOT_FOUND, stream.send({}))
        await (await kith.Device.open(other)).free()

    async def test_a_device_stops_and_runs_again(self):
        here = await self.device("one")
        here.serve("math", {"add": ADD})
        for _ in range(3):
            self.assertEqual(await here.call("math/add", {"a": 2, "b": 3}), 5)
            await here.stop()
            await here.start()
        await self.fails(Code.CONFLICT, here.start())

    @unittest.skipUnless(os.environ.get("KITH_C_PEER"), "KITH_C_PEER is not set")
    async def test_this_process_and_one_in_C_call_each_other(self):
        here = await self.device("python")

        async def join(input, call):
            return {"joined": " ".join(input["words"]), "caller": call.caller}

        here.serve("words", {"join": Method(join, access="paired")})
        peer = await asyncio.create_subprocess_exec(
            os.environ["KITH_C_PEER"], os.path.join(self.folder(), "c"), stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE)
        try:
            invitation = json.loads(await peer.stdout.readline())["text"]
            async with here.stream("pairing.join", {"invitation": invitation}) as joining:
                async for event in joining:
                    self.assertNotIn("failed", event)
                    if "compare" in event:
                        await joining.send({"accept": True})
                    if "paired" in event:
                        break
            self.assertEqual(await here.call("math/add", {"a": 20, "b": 3}, on="c", timeout=10), 23)

            peer.stdin.write(f'{here.id} words/join {{"words":["from","C"]}}\n'.encode())
            answer = json.loads(await peer.stdout.readline())
            self.assertEqual(answer["joined"], "from C")
            self.assertIsNotNone(answer["caller"])
            peer.stdin.close()
            self.assertEqual(await peer.wait(), 0)
        finally:
            if peer.returncode is None:
                peer.kill()


if __name__ == "__main__":
    unittest.main()
