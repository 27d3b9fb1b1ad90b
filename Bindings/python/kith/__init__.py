"""A device of Kith in this process, for asyncio.

    import asyncio, kith

    async def main():
        async with await kith.Device.open("/var/lib/ana") as device:
            device.serve("math", {"add": kith.Method(lambda numbers, call: numbers["a"] + numbers["b"], access="paired")})
            print(await device.call("math/add", {"a": 2, "b": 3}))
            async for delivery in device.subscribe("weather/>"):
                print(delivery)

    asyncio.run(main())

Values are what `json` makes and takes. libkith.so is found by $KITH_LIBRARY, or by the system's linker (`make lib`).
"""

from ._device import Call, Device, Method, Service, Stream, version
from ._errors import Code, KithError

__all__ = ["Call", "Code", "Device", "KithError", "Method", "Service", "Stream", "version"]
