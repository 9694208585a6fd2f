"""Measure the chat client's throughput against a server with 200 ms latency, and check that faults lose nothing.

    python bench speed.chat_throughput [--asks 2000] [--parallel 64] [--rounds 3]

Starts a chat server on loopback in its own process. Two clients run against it, each in a new process: factmill's, and
the plain openai client with a semaphore and its own retries. The server has two modes: even, and one that answers 10 %
of the requests with 429 (Retry-After: 1) and cuts the connection of 2 %. The ideal time is asks / parallel × 0.2 s.
"Doubled" counts prompts that the server answered in full more than once. The time includes the first request's imports
and connections.
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from typing import Any

from scripts import read_options

LATENCY_S = 0.2
ATTEMPTS = 8
MANNERS = {"even": (0.0, 0.0), "10 % 429, 2 % cut": (0.10, 0.02)}
PROMPT = '+++\nrole = "author"\ninputs = ["name"]\n+++\n# system\nAnswer in one word.\n# user\nWhat is $name?\n'


async def serve(refuse: float, cut: float) -> None:
    """Serve chat completions; GET /seen returns the number of requests and how often each prompt was answered."""
    chance = random.Random(7)
    answered: Counter[str] = Counter()
    requests = 0

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                if head.startswith("GET"):
                    _write(writer, 200, {"requests": requests, "answered": answered})
                    continue
                length = next(
                    int(line[15:]) for line in head.split("\r\n") if line.lower().startswith("content-length")
                )
                asked = json.loads(await reader.readexactly(length))["messages"][-1]["content"]
                requests += 1
                draw = chance.random()
                if draw < refuse:
                    _write(writer, 429, {"error": {"message": "slow down"}}, "Retry-After: 1\r\n")
                    continue
                await asyncio.sleep(LATENCY_S)
                if draw < refuse + cut:
                    break
                answered[asked] += 1
                choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": asked}}
                _write(writer, 200, {"choices": [choice], "usage": {"prompt_tokens": 20, "completion_tokens": 5}})
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client disconnected
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def _write(writer: asyncio.StreamWriter, status: int, body: dict[str, Any], headers: str = "") -> None:
    data = json.dumps(body).encode()
    writer.write(
        f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\n{headers}Content-Length: {len(data)}\r\n\r\n".encode()
        + data
    )


def ask_with_factmill(url: str, asks: int, parallel: int) -> dict[str, Any]:
    """Return the seconds that factmill's client took and its number of correct responses."""
    from factmill.tasks.clients.chat import ChatClient
    from factmill.tasks.core.calls.call import Call, CallResponse
    from factmill.tasks.core.calls.chat import make_chat_call
    from factmill.tasks.core.prompts import fill_prompt_template, parse_prompt_file
    from factmill.tasks.core.service_settings import ModelSettings, ServiceLimits

    limits = ServiceLimits(parallel=parallel, timeout_s=30, attempts=ATTEMPTS, backoff_s=0.2)
    chat = ChatClient(
        "bench", ModelSettings(kind="openai", name="m", url=url, limits=limits), lambda: "none", "benchmark"
    )
    prompt = parse_prompt_file("bench/word", PROMPT.encode())
    calls = [
        make_chat_call("bench", "m", fill_prompt_template(prompt, name=f"word {number}")) for number in range(asks)
    ]
    replies: list[tuple[Call, CallResponse]] = []
    started = time.perf_counter()
    chat.send(calls, lambda call, reply: replies.append((call, reply)))
    seconds = time.perf_counter() - started
    right = sum(
        1
        for call, reply in replies
        if isinstance(reply.body, dict) and reply.body["texts"] == [call.unrecorded_parts["messages"][-1]["content"]]
    )
    return {"seconds": seconds, "right": right}


def ask_with_openai(url: str, asks: int, parallel: int) -> dict[str, Any]:
    """Return the same for the plain openai client."""
    from openai import AsyncOpenAI, OpenAIError

    async def run() -> dict[str, Any]:
        client = AsyncOpenAI(api_key="none", base_url=url, max_retries=ATTEMPTS - 1, timeout=30)
        places = asyncio.Semaphore(parallel)

        async def ask(number: int) -> bool:
            text = f"What is word {number}?"
            async with places:
                try:
                    reply = await client.chat.completions.create(
                        model="m",
                        messages=[
                            {"role": "system", "content": "Answer in one word."},
                            {"role": "user", "content": text},
                        ],
                        temperature=0.0,
                        max_tokens=512,
                    )
                except OpenAIError:
                    return False
            return reply.choices[0].message.content == text

        started = time.perf_counter()
        right = await asyncio.gather(*[ask(number) for number in range(asks)])
        return {"seconds": time.perf_counter() - started, "right": sum(right)}

    return asyncio.run(run())


CONTENDERS = {"factmill": ask_with_factmill, "openai + semaphore": ask_with_openai}


def measure(contender: str, manner: str, asks: int, parallel: int) -> dict[str, Any]:
    """Return the results of one client against a new server."""
    server = subprocess.Popen([sys.executable, __file__, "--serve", manner], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        base = f"http://127.0.0.1:{int(server.stdout.readline())}"
        command = [sys.executable, __file__, "--ask", contender, f"{base}/v1", str(asks), str(parallel)]
        done = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        with urllib.request.urlopen(f"{base}/seen") as reply:
            seen = json.load(reply)
    finally:
        server.kill()
        server.wait()
    doubled = sum(1 for times in seen["answered"].values() if times > 1)
    return {**done, "requests": seen["requests"], "lost": asks - done["right"], "doubled": doubled}


def main() -> None:
    """Print a table of all clients and server modes."""
    given = read_options(
        __doc__,
        asks=2000,
        parallel=64,
        rounds=3,
        serve={"metavar": "MANNER", "help": argparse.SUPPRESS},
        ask={"nargs": 4, "help": argparse.SUPPRESS},
    )
    if given.serve:
        asyncio.run(serve(*MANNERS[given.serve]))
        return
    if given.ask:
        contender, url, asks, parallel = given.ask
        print(json.dumps(CONTENDERS[contender](url, int(asks), int(parallel))))
        return
    ideal = given.asks / given.parallel * LATENCY_S
    print(f"{given.asks} asks, {given.parallel} in parallel, {LATENCY_S * 1000:.0f} ms a reply: ideal {ideal:.2f} s")
    print(
        f"{'server':20}{'client':20}{'seconds':>9}{'of ideal':>10}{'requests':>10}{'right':>7}{'lost':>6}{'doubled':>9}"
    )
    for manner in MANNERS:
        for _ in range(given.rounds):
            for contender in CONTENDERS:
                got = measure(contender, manner, given.asks, given.parallel)
                print(
                    f"{manner:20}{contender:20}{got['seconds']:9.2f}{ideal / got['seconds']:10.1%}"
                    f"{got['requests']:10}{got['right']:7}{got['lost']:6}{got['doubled']:9}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
