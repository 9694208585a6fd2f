"""Offline batches: files of requests that a run writes and of replies that it reads, for programs such as `vllm
run-batch`.

Both files hold the lines of batch jobs (jsonl.py), but no server is asked: a run delivers the replies it reads, writes
the stage's other requests to a file and stops. Delivered replies are recorded, so each file of replies is given once. A
request's id names the run and the settings that built the request, so replies for another build are detected, and a
refusal that is read twice has the same effect both times. State that outlasts a run lies in the build's run folder.
"""

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from factmill.tasks import progress
from factmill.tasks.clients.batch_jobs.jsonl import (
    ParsedBatchResults,
    format_request_count,
    format_request_line,
    parse_result_lines,
)
from factmill.tasks.clients.batch_jobs.pending_requests import RequestForCallSamples
from factmill.tasks.clients.openai_server import ServerResponse
from factmill.tasks.clients.sending.sender import Retry
from factmill.tasks.core.calls.call import CallResponse
from factmill.tasks.core.digests import digest_json
from factmill.tasks.core.service_settings import ModelSettings
from factmill.tasks.errors import OutputError, SourceError
from factmill.tasks.files import open_regular_file

if TYPE_CHECKING:
    from factmill.tasks.clients.chat import ChatClient
_STATE_FILE_NAME = "requests.json"


class OfflineRequestAndReplyFilesOfRun:
    """The file of replies that a run reads, and the files of requests that it writes, one for each model."""

    def __init__(self, run: str, folder: Path, requests: Path | None, replies: Path | None) -> None:
        """Read the replies that the run `run` with its folder gets. `requests`: None where requests without a reply go
        to the models directly.

        SourceError when the replies are unreadable, or none belongs to this run; OutputError when the folder of
        `requests` does not exist.
        """
        self.run = run
        self._mark = digest_json(run)[:8]
        self._state = folder / _STATE_FILE_NAME
        self._requests, self._replies = requests, replies
        self._lock = threading.Lock()
        self._drafts: dict[str, tuple[Path, BinaryIO]] = {}
        self._written: dict[str, set[str]] = {}
        """Model → ids of the requests written for it."""
        self._learnt: dict[str, list[dict[str, Any]]] = {}
        """Model → settings that built its requests, the latest last; a request's id holds the index."""
        self._failures: Counter[str] = Counter()
        """Request → how many of its lines reported a transient failure."""
        self._retry_reasons: Counter[str] = Counter()
        """Why replies are not used and their requests asked again → how many."""
        self._carried: dict[str, tuple[int, ServerResponse]] = {}
        """Request → its index and line, for calls that are not fully answered."""
        with suppress(FileNotFoundError):
            state = json.loads(self._state.read_bytes())
            self._learnt = state["learnt"]
            self._failures.update(state["failures"])
            self._carried = {
                each: (at, ServerResponse(status, text)) for each, (at, status, text) in state["carried"].items()
            }
        self._lines = ParsedBatchResults()
        self._answers = self._read_replies(replies) if replies else {}
        self._asked: set[str] = set()
        if requests and not requests.parent.is_dir():
            raise OutputError(
                f"--requests: cannot write {requests.name}: there is no folder {requests.parent}; create it first"
            )

    @property
    def writes_requests(self) -> bool:
        """True where requests are written to a file, False where they are sent."""
        return self._requests is not None

    def find_result(self, request_id: str) -> tuple[int, ServerResponse] | None:
        """Return the index of the settings that built a request, and its result; None where there is none."""
        with self._lock:
            self._asked.add(request_id)
            return self._answers.get(request_id) or self._carried.get(request_id)

    def get_settings(self, model: str, at: int) -> dict[str, Any]:
        """Return the settings at an index that built requests to a model; -1 for the latest."""
        with self._lock:
            known = self._learnt.get(model, [])
            return dict(known[at]) if -len(known) <= at < len(known) else {}

    def count_failure(self, request_id: str, code: str) -> int:
        """Count a transient failure of a request; return how many it has had."""
        with self._lock:
            self._retry_reasons[code] += 1
            self._failures[request_id] += 1
            return self._failures[request_id]

    def count_refusal(self, settings: Iterable[str]) -> None:
        """Count a refusal of a request; `settings`: those that change in the next try."""
        with self._lock:
            self._retry_reasons[f"refused; written again with another {' and '.join(sorted(settings))}"] += 1

    def carry_over(self, kept: Iterable[str], open_ids: Iterable[str]) -> None:
        """Drop the lines of requests whose replies are recorded, and keep the lines of `open_ids` for the next run."""
        with self._lock:
            for request_id in kept:
                self._carried.pop(request_id, None)
            for request_id in open_ids:
                if request_id in self._answers:
                    self._carried[request_id] = self._answers[request_id]

    def write(self, model: str, request_id: str, body: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        """Write a request to a model's file, once; `settings`: those that built it. OutputError when that fails."""
        with self._lock:
            known = self._learnt.setdefault(model, [])
            if settings in known:
                at = known.index(dict(settings))
            else:
                at = len(known)
                known.append(dict(settings))
            written = self._written.setdefault(model, set())
            if request_id in written:
                return
            written.add(request_id)
            try:
                if model not in self._drafts:
                    path = self._name_file(str(len(self._drafts)), ".part")
                    self._drafts[model] = path, path.open("wb")
                self._drafts[model][1].write(format_request_line(f"{self._mark}-{at}-{request_id}", body))
            except OSError as error:
                raise OutputError(f"cannot write the requests to {self._requests}: {error.strerror}") from error

    def finish_request_files(self) -> str:
        """Finish the files of requests; return a message on their content and use. OutputError when that fails."""
        assert self._requests is not None
        with self._lock:
            summaries, commands = [], []
            try:
                state = {
                    "learnt": self._learnt,
                    "failures": self._failures,
                    "carried": {each: [at, line.status, line.text] for each, (at, line) in self._carried.items()},
                }
                draft = self._state.with_suffix(".draft")
                draft.write_text(json.dumps(state), "utf-8")
                draft.replace(self._state)
                for model, (path, file) in self._drafts.items():
                    file.close()
                    final = self._requests if len(self._drafts) == 1 else self._name_file(model, self._requests.suffix)
                    path.replace(final)
                    summaries.append(f"{format_request_count(len(self._written[model]))} to {model} in {final}")
                    commands.append(f"vllm run-batch --model {model} -i {final} -o REPLIES")
            except OSError as error:
                raise OutputError(f"cannot write the requests to {self._requests}: {error.strerror}") from error
            self._drafts.clear()
        several = ", and put all replies into one file" if len(summaries) > 1 else ""
        return (
            f"{self.run}: wrote {', '.join(summaries)}. Run a program that answers them, for example `{'`, `'.join(commands)}`{several}; then "
            "run the same command with --replies REPLIES, and with --requests for the next requests"
        )

    def close(self) -> None:
        """Report how the replies were used, and remove unfinished files."""
        for path, file in self._drafts.values():
            file.close()
            path.unlink(missing_ok=True)
        if not self._replies:
            return
        found = len(self._answers)
        used = len(self._asked & self._answers.keys())
        odd = [self._lines.format_problems()] if self._lines.format_problems() else []
        odd += [f"{number:,} failed ({why})" for why, number in sorted(self._retry_reasons.items())]
        odd += [f"{found - used:,} answer requests that are no longer open"] if used < found else []
        progress.print_and_log(
            f"{self._replies}: {found:,} replies to this build{''.join(f', {each}' for each in odd)}"
        )

    def _name_file(self, infix: str, suffix: str) -> Path:
        assert self._requests is not None
        return self._requests.with_name(f"{self._requests.stem}.{re.sub(r'[^A-Za-z0-9._-]+', '-', infix)}{suffix}")

    def _read_replies(self, path: Path) -> dict[str, tuple[int, ServerResponse]]:
        try:
            with open_regular_file(path) as file:
                parse_result_lines(file.read(), None, self._lines)
        except OSError as error:
            raise SourceError(f"--replies: cannot read {path}: {error.strerror}") from error
        answers: dict[str, tuple[int, ServerResponse]] = {}
        for custom_id, answer in self._lines.results.items():
            mark, _, rest = custom_id.partition("-")
            at, _, request_id = rest.partition("-")
            if mark != self._mark or not at.isdecimal():
                self._lines.unknown_ids += 1
            elif request_id not in answers or answer.is_success or not answers[request_id][1].is_success:
                answers[request_id] = int(at), answer
        if not answers:
            what = (
                f"all {self._lines.unknown_ids:,} of its lines answer requests of another build; give it to the command that wrote those "
                "requests, or give the replies to the file that this command wrote"
                if self._lines.unknown_ids
                else 'none of its lines is a reply; expected lines such as {"custom_id": …, "response": {"status_code": 200, "body": …}}'
            )
            raise SourceError(f"--replies: {path} has no reply to a request of {self.run}: {what}")
        return answers


class OfflineReplyReaderAndRequestWriter:
    """Answers one model's requests from a file of replies, and writes the others to a file."""

    def __init__(self, model: ModelSettings, asker: "ChatClient", files: OfflineRequestAndReplyFilesOfRun) -> None:
        self._model = model
        self._asker = asker
        self._files = files
        self.writes_requests = files.writes_requests
        self.learnt = files.get_settings(model.name, -1)
        """Settings that built the latest requests."""
        self._lock = threading.Lock()

    def send(
        self,
        asked: Sequence[RequestForCallSamples],
        deliver: Callable[[RequestForCallSamples, CallResponse], Iterable[str]],
    ) -> list[RequestForCallSamples]:
        """Deliver every request that has a reply, and write the others where that is enabled; return those without one.

        `deliver` returns the ids whose replies are recorded.
        """
        open_requests: list[RequestForCallSamples] = []
        delivered: set[str] = set()
        kept: list[str] = []
        for each in asked:
            if reply := self._find_reply(each):
                delivered.add(each.custom_id)
                kept.extend(deliver(each, reply))
            else:
                open_requests.append(each)
        self._files.carry_over(kept, delivered.difference(kept))
        if not self.writes_requests:
            return open_requests
        left = []
        with self._lock:
            settings = {**self.learnt, **self._asker.learnt_settings()}
        for each in open_requests:
            body = self._asker.build_request_body(each, settings)
            if isinstance(body, CallResponse):
                deliver(each, body)
            else:
                self._files.write(self._model.name, each.custom_id, body, settings)
                left.append(each)
        return left

    def _find_reply(self, asked: RequestForCallSamples) -> CallResponse | None:
        """Return the reply to a request; None where there is none, or it has to be written with other settings."""
        found = self._files.find_result(asked.custom_id)
        if found is None:
            return None
        at, answer = found
        settings = self._files.get_settings(self._model.name, at)
        try:
            response = self._asker.read_batch_result(asked, settings, answer, "completed")
        except Retry as trouble:
            if self._files.count_failure(asked.custom_id, trouble.code) < self._model.limits.attempts:
                return None
            return CallResponse(None, "failed", error=str(trouble), transient=True)
        if isinstance(response, CallResponse):
            return replace(response, cost_usd=response.cost_usd * self._model.batch_price)
        with self._lock:
            self.learnt |= {**settings, **response}
        self._files.count_refusal(response)
        return None
