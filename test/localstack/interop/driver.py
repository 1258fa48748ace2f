"""Drives the real Python zae-limiter for the tests of this folder.

Every line on standard input is a command, every line on standard output an answer, both JSON. Commands run
concurrently; an answer carries the id of its command, and either a result or an error:

    {"id": 1, "op": "open", "table": "t", "namespace": "n"}            a client with caches of its own
    {"id": 2, "op": "acquire", "client": 1, "entity": "e", ...}        a lease that stays open
    {"id": 2, "error": {"type": "RateLimitExceeded", "message": "...", "retry_after_seconds": 1.5}}

Nothing is decided here: the tests are written in Go. The operations are the methods of Driver below.
"""

import asyncio
import dataclasses
import datetime
import enum
import importlib.metadata
import json
import sys
import time
import zoneinfo

from zae_limiter import Limit, OnUnavailable, RateLimiter, RateLimitExceeded, Repository


class Abandoned(Exception):
    """Leaves a lease the way a failing caller does."""


class Driver:
    def __init__(self):
        self.clients = {}
        self.leases = {}
        self.last = 0

    def keep(self, where, what):
        self.last += 1
        where[self.last] = what
        return self.last

    async def open(self, table, namespace, options=None):
        repository = await Repository.open(namespace, stack=table, **(options or {}))
        client = self.keep(self.clients, (repository, RateLimiter(repository)))
        return {"client": client, "namespace_id": repository.namespace_id}

    async def version(self):
        return importlib.metadata.version("zae-limiter")

    async def call(self, client, method, args, on="limiter"):
        target = self.clients[client][0 if on == "repository" else 1]
        return await getattr(target, method)(**{name: argument(name, value) for name, value in args.items()})

    async def acquire(self, client, entity, resource, consume, limits=None, on_unavailable=None):
        context = self.clients[client][1].acquire(
            entity, resource, consume,
            limits=argument("limits", limits), on_unavailable=argument("on_unavailable", on_unavailable),
        )
        lease = await context.__aenter__()
        return {"lease": self.keep(self.leases, (context, lease)), "consumed": lease.consumed}

    async def settle(self, lease, method, amounts):
        """adjust, consume or release on an open lease."""
        await getattr(self.leases[lease][1], method)(**amounts)

    async def leave(self, lease, fail=False):
        """Ends the with block of a lease, normally or by an exception."""
        context, _ = self.leases.pop(lease)
        if not fail:
            await context.__aexit__(None, None, None)
            return
        error = Abandoned()
        try:
            await context.__aexit__(Abandoned, error, None)
        except Abandoned:
            pass

    async def load(self, client, entity, resource, consume, workers, seconds, pause):
        """Acquires in a loop; reports begin and end of each granted call in microseconds of the wall clock."""
        limiter = self.clients[client][1]
        grants, counts, errors = [], {"denied": 0, "failed": 0}, {}
        until = time.time() + seconds

        async def work():
            while time.time() < until:
                begin = time.time_ns() // 1000
                try:
                    async with limiter.acquire(entity, resource, consume):
                        grants.append([begin, time.time_ns() // 1000])
                    await asyncio.sleep(pause)
                except RateLimitExceeded as error:
                    counts["denied"] += 1
                    await asyncio.sleep(min(max(error.retry_after_seconds, 0.005), 0.2))
                except Exception as error:
                    counts["failed"] += 1
                    errors[type(error).__name__] = str(error)[:300]
                    await asyncio.sleep(0.02)

        await asyncio.gather(*(work() for _ in range(workers)))
        return {"grants": grants, "errors": errors, **counts}

    async def edges(self, questions):
        """The next reset edge of cron expressions, of the newer release."""
        from zae_limiter import schedule

        return [
            schedule.next_reset_edge((schedule.ScheduleEntry.reset(cron, tz),), now_ms=at) for cron, tz, at in questions
        ]

    async def cronsim(self, cron, zone, spans):
        """When cronsim, which is no part of the client, has the times of an expression: seconds, by span of them."""
        from cronsim import CronSim

        def times(begin, end):
            for one in CronSim(cron, datetime.datetime.fromtimestamp(begin, zoneinfo.ZoneInfo(zone))):
                if (at := one.timestamp()) >= end:
                    return
                if at > begin:
                    yield at

        return [list(times(begin, end)) for begin, end in spans]

    async def clock(self, client, ahead):
        """Sets the clock of a client, so many milliseconds ahead."""
        self.clients[client][0]._now_ms = lambda: int(time.time() * 1000) + ahead

    async def aggregate(self, table, windows, records):
        """One invocation of the Python aggregator."""
        from zae_limiter_aggregator.processor import process_stream_records

        result = await asyncio.to_thread(process_stream_records, records, table, windows)
        return {"snapshots": result.snapshots_updated, "refills": result.refills_written, "errors": result.errors}


def argument(name, value):
    """Turns JSON into the types that the API wants."""
    if value is None:
        return None
    if name == "limits":
        return [Limit(**{field: argument(field, one) for field, one in limit.items()}) for limit in value]
    if name == "reset_after":
        return datetime.timedelta(seconds=value)
    if name == "schedule":
        from zae_limiter import ScheduleEntry  # of the newer release

        return tuple(ScheduleEntry(**entry) for entry in value)
    if name == "reset_schedule":
        from zae_limiter import ScheduleEntry

        return tuple(ScheduleEntry.reset(**entry) for entry in value)
    if name == "on_unavailable":
        return OnUnavailable(value)
    if name in ("start_time", "end_time"):
        return datetime.datetime.fromisoformat(value)
    return value


def plain(value):
    """Turns what the API returns into JSON."""
    if dataclasses.is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(item) for item in value]
    if isinstance(value, enum.Enum):
        return value.value
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return str(value)


def failure(error):
    out = {"type": type(error).__name__, "message": str(error)}
    cause = getattr(error, "cause", None)
    if cause is not None:
        out["cause"] = f"{type(cause).__name__}: {cause}"
    if isinstance(error, RateLimitExceeded):
        out["retry_after_seconds"] = error.retry_after_seconds
        out["body"] = error.as_dict()
    return out


async def serve(driver, answers, line):
    command = json.loads(line)
    answer = {"id": command.pop("id")}
    try:
        answer["result"] = plain(await getattr(driver, command.pop("op"))(**command))
    except Exception as error:
        answer["error"] = failure(error)
    print(json.dumps(answer), file=answers, flush=True)


async def main():
    driver = Driver()
    answers, sys.stdout = sys.stdout, sys.stderr  # the aggregator prints its log
    reader = asyncio.StreamReader(limit=64 << 20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    running = set()
    while line := await reader.readline():
        task = asyncio.create_task(serve(driver, answers, line))
        running.add(task)
        task.add_done_callback(running.discard)


if __name__ == "__main__":
    asyncio.run(main())
