"""Serve batch jobs on loopback: files and jobs of the OpenAI protocol, with state on disk.

A job advances one step with each poll, so nothing here waits for time to pass. On request the server restarts itself,
loses lines, answers out of order and puts lines into the error file.
"""

import json
import math
from collections import Counter
from collections.abc import Callable
from email import message_from_bytes
from pathlib import Path
from random import Random
from typing import Any

from support.webs.loopback import Loopback, Seen

Answer = Callable[[dict[str, Any]], dict[str, Any]]
"""Body of a chat request → the server's response: status, json."""
_STEPS = ("validating", "in_progress", "in_progress", "finalizing")


class BatchServer:
    """The server; its address stays the same after a restart."""

    def __init__(
        self,
        folder: Path,
        answer: Answer,
        *,
        loses_every: int = 0,
        fails_every: int = 0,
        restarts_at: frozenset[int] = frozenset(),
    ) -> None:
        """Start the server.

        `loses_every` and `fails_every` count all lines from the first; `restarts_at` lists requests, counted from 1.
        """
        self.answered: Counter[str] = Counter()
        """Digest of a line's request body → number of responses."""
        self.ends: dict[int, str] = {}
        """Number of a job, from 1 → its end, if not `completed`."""
        self.spoil: Callable[[bytes], bytes] = lambda content: content
        """Changes the bytes of output files."""
        self.restarts = self.requests = self.lost = self.failed = 0
        self.answers_singly = True
        self.lists = True
        """False: the server lists neither files nor jobs."""
        self.cuts: Counter[str] = Counter()
        """Path → number of POSTs that take effect but lose their response."""
        self.most_in_hand: Callable[[], float] = lambda: math.inf
        """Maximum number of requests in all jobs of the account at once; a job beyond it fails as a whole."""
        self.file_states: Callable[[int], str] = lambda _: ""
        """Number of polls of a file, or of attempts to create its job → its status.

        Empty: the server reports no status. A job needs a file that is `processed`.
        """
        self._looks: Counter[str] = Counter()
        self._answer = answer
        self._loses_every, self._fails_every, self._restarts_at = loses_every, fails_every, restarts_at
        self._lines = 0
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.web = Loopback()
        self.web.handle = self._handle
        self.url = f"{self.web.url}/v1"

    @property
    def jobs(self) -> list[dict[str, Any]]:
        """Return the jobs in their state on disk."""
        paths = sorted(self._folder.glob("batch_*.json"))
        return [json.loads(path.read_text("utf-8")) for path in paths]

    def read_input(self, job: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the requests of a job."""
        lines = (self._folder / job["input_file_id"]).read_bytes().split(b"\n")
        return [json.loads(line) for line in lines if line]

    def forget(self) -> None:
        """Delete all jobs and files."""
        for path in self._folder.iterdir():
            path.unlink()

    def restart(self) -> None:
        """Stop and start again on the same address with only the state on disk."""
        self.restarts += 1
        old, port = self.web, self.web.port
        old.handle = lambda _: {"cut": True}
        old.stop()
        self.web = Loopback(port)
        self.web.handle = self._handle

    def close(self) -> None:
        self.web.close()

    def _handle(self, seen: Seen) -> dict[str, Any]:
        self.requests += 1
        if self.requests in self._restarts_at:
            self.restart()
            return {"cut": True}
        path = seen.path.removeprefix("/v1")
        answer = self._serve(seen, path)
        if seen.method == "POST" and self.cuts[path] > 0:
            self.cuts[path] -= 1
            return {"cut": True}
        return answer

    def _serve(self, seen: Seen, path: str) -> dict[str, Any]:
        match seen.method, path.strip("/").split("/"):
            case "POST", ["chat", "completions"] if self.answers_singly:
                answer = self._answer(seen.json())
            case "POST", ["files"]:
                answer = self._take_file(seen)
            case "POST", ["batches"]:
                answer = self._make_job(seen.json())
            case "POST", ["batches", job_id, "cancel"]:
                answer = self._save({**self._load(job_id), "status": "cancelling"})
            case "GET", ["batches", job_id] if (self._folder / f"{job_id}.json").is_file():
                answer = self._save(self._step(self._load(job_id)))
            case "GET", ["files", file_id] if (self._folder / f"{file_id}.name").is_file():
                self._looks[file_id] += 1
                answer = self._describe_file(file_id)
            case "GET", ["files", file_id, "content"] if (self._folder / file_id).is_file():
                content = self.spoil((self._folder / file_id).read_bytes())
                answer = {"bytes": content, "type": "application/octet-stream"}
            case "GET", [("batches" | "files") as kind] if self.lists:
                answer = self._list(kind, seen.query.get("after"))
            case _:
                answer = _error(404, f"No such thing: {path}")
        return answer

    def _list(self, kind: str, after: str | None) -> dict[str, Any]:
        """Return a page of one entry, newest first, so that clients have to page."""
        if kind == "batches":
            listed = self.jobs[::-1]
        else:
            names = sorted(self._folder.glob("file-*.name"), reverse=True)
            listed = [{"id": path.stem, "filename": path.read_text("utf-8")} for path in names]
        places = [each["id"] for each in listed]
        start = places.index(after) + 1 if after else 0
        return {"json": {"object": "list", "data": listed[start : start + 1], "has_more": start + 1 < len(listed)}}

    def _take_file(self, seen: Seen) -> dict[str, Any]:
        head = f"Content-Type: {seen.headers['content-type']}\r\n\r\n".encode()
        parts = {
            part.get_param("name", header="content-disposition"): part
            for part in message_from_bytes(head + seen.body).get_payload()
        }
        if parts["purpose"].get_payload(decode=True) != b"batch":
            return _error(400, "Invalid purpose")
        file_id = f"file-{len(list(self._folder.glob('file-*.name'))):04}"
        (self._folder / f"{file_id}.name").write_text(parts["file"].get_filename(), "utf-8")
        (self._folder / file_id).write_bytes(parts["file"].get_payload(decode=True))
        return self._describe_file(file_id)

    def _describe_file(self, file_id: str) -> dict[str, Any]:
        status = self.file_states(self._looks[file_id])
        return {"json": {"id": file_id, "object": "file", "purpose": "batch"} | ({"status": status} if status else {})}

    def _make_job(self, asked: dict[str, Any]) -> dict[str, Any]:
        if asked["completion_window"] != "24h" or asked["endpoint"] != "/v1/chat/completions":
            return _error(400, "Invalid completion_window or endpoint")
        if not (self._folder / asked["input_file_id"]).is_file():
            return _error(400, "Invalid input_file_id")
        self._looks[asked["input_file_id"]] += 1
        if self.file_states(self._looks[asked["input_file_id"]] - 1) not in ("", "processed"):
            return _error(400, f"The file {asked['input_file_id']} is not yet processed.")
        number = len(self.jobs) + 1
        counts = {"total": 0, "completed": 0, "failed": 0}
        job = {**asked, "id": f"batch_{number:04}", "object": "batch", "status": "validating", "step": 0}
        return self._save({**job, "number": number, "created_at": 1000, "request_counts": counts, "errors": None})

    def _load(self, job_id: str) -> dict[str, Any]:
        return dict(json.loads((self._folder / f"{job_id}.json").read_text("utf-8")))

    def _save(self, job: dict[str, Any]) -> dict[str, Any]:
        draft = self._folder / "draft"
        draft.write_text(json.dumps(job), "utf-8")
        draft.replace(self._folder / f"{job['id']}.json")
        return {"json": job}

    def _step(self, job: dict[str, Any]) -> dict[str, Any]:
        """Return a job after its next step."""
        end = "cancelled" if job["status"] == "cancelling" else self.ends.get(job["number"], "completed")
        if job["status"] not in (*_STEPS, "cancelling"):
            return job
        if end == "never":
            return {**job, "status": "in_progress"}
        if job["status"] == "validating" and self._count_in_hand(job) > self.most_in_hand():
            end = "failed token_limit_exceeded"
        if end.startswith("failed"):
            code = end.partition(" ")[2]
            errors = {"object": "list", "data": [{"code": code, "line": None, "message": "not today"}]}
            return {**job, "status": "failed", "errors": errors, "failed_at": 1060}
        step = job["step"] + 1
        lines = self.read_input(job)
        if step < len(_STEPS) and end != "cancelled":
            counts = {"total": len(lines), "completed": step * len(lines) // 4, "failed": 0}
            return {**job, "step": step, "status": _STEPS[step], "request_counts": counts}
        return self._end(job, lines, end)

    def _count_in_hand(self, job: dict[str, Any]) -> int:
        """Return the number of requests in a job and in all other active jobs."""
        others = [each for each in self.jobs if each["status"] in _STEPS[1:]]
        return sum(len(self.read_input(each)) for each in [job, *others])

    def _end(self, job: dict[str, Any], lines: list[dict[str, Any]], end: str) -> dict[str, Any]:
        """Answer the lines of a job, or half of them if it does not complete."""
        assert len({line["custom_id"] for line in lines}) == len(lines)
        assert all((line["method"], line["url"]) == ("POST", job["endpoint"]) for line in lines)
        Random(job["id"]).shuffle(lines)
        done = lines if end == "completed" else lines[: len(lines) // 2]
        good, bad, lost = [], [], 0
        for line in done:
            self._lines += 1
            if self._loses_every and self._lines % self._loses_every == 0:
                lost += 1
                continue
            result = {"id": f"line_{self._lines}", "custom_id": line["custom_id"], "response": None, "error": None}
            if self._fails_every and self._lines % self._fails_every == 0:
                bad.append(result | {"error": {"code": "server_error", "message": "an error on our side"}})
                continue
            answer = self._answer(line["body"])
            status = answer.get("status", 200)
            self.answered[json.dumps(line["body"], sort_keys=True)] += status == 200
            (good if status == 200 else bad).append(
                result | {"response": {"status_code": status, "request_id": "r", "body": answer["json"]}}
            )
        code = {"expired": "batch_expired", "cancelled": "batch_cancelled"}.get(end, "")
        for line in lines[len(done) :]:
            bad.append(
                {"custom_id": line["custom_id"], "response": None, "error": {"code": code, "message": "too late"}}
            )
        self.lost, self.failed = self.lost + lost, self.failed + len(bad)
        counts = {"total": len(lines), "completed": len(good), "failed": len(bad)}
        ended = {**job, "status": end, f"{end}_at": 1060, "request_counts": counts}
        for name, written in (("output", good), ("error", bad)):
            if written:
                (self._folder / f"{name}-{job['id']}").write_bytes(
                    b"".join(json.dumps(each).encode() + b"\n" for each in written)
                )
            ended[f"{name}_file_id"] = f"{name}-{job['id']}" if written else None
        return ended


def _error(status: int, message: str) -> dict[str, Any]:
    return {"status": status, "json": {"error": {"message": message, "type": "invalid_request_error"}}}
