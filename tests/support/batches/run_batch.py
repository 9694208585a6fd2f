"""Imitate `vllm run-batch`, which needs a model: post each line of a file to a server and write its response.

Lines have the form of vLLM's program: a response in `response.body`, a refusal in `error` without a body.
"""

import json
from pathlib import Path

import httpx2


def run_batch(requests: Path, replies: Path, url: str) -> int:
    """Answer a file of requests from the server at a base URL, in no fixed order; return their number."""
    lines = [json.loads(line) for line in requests.read_text("utf-8").splitlines()]
    assert len({line["custom_id"] for line in lines}) == len(lines)
    assert all(line.keys() == {"custom_id", "method", "url", "body"} for line in lines)
    written = []
    with httpx2.Client() as client:
        for number, line in enumerate(lines):
            assert line["url"] == "/v1/chat/completions" and len(line["custom_id"]) <= 64
            answer = client.post(f"{url}/chat/completions", json=line["body"])
            response = {"status_code": answer.status_code, "request_id": f"vllm-batch-{number}"}
            said = answer.json()
            written.append(
                {"id": f"vllm-{number}", "custom_id": line["custom_id"], "response": response, "error": None}
                | ({"response": response | {"body": said}} if answer.is_success else {"error": said})
            )
    replies.write_text("".join(json.dumps(line) + "\n" for line in reversed(written)), "utf-8")
    return len(lines)
