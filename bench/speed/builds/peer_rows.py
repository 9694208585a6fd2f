"""Run the prompts of GRANOLA-EQ rows through another pipeline; rows.py starts this with the peer's Python.

    OTHER/bin/python bench/speed/builds/peer_rows.py distilabel|datatrove ROWS.jsonl COUNT FOLDER

A row has three filled-in prompts: the author's, and the judge's for both entities with eight samples each. The model
runs in the process and answers immediately. The peer looks up, checks and caches nothing; it writes the rows with their
responses.
"""

import json
import sys
from itertools import islice
from pathlib import Path

ASKS = (("author", "1:: Paris\n2:: France", 1), ("question", "Yes", 8), ("answer", "Yes", 8))
"""Name, completion, samples."""


def run_distilabel(rows: str, count: int, folder: str) -> int:
    """Pass rows through three TextGeneration tasks, each in its own process; return the number of output rows."""
    from distilabel.models.llms.base import LLM
    from distilabel.pipeline import Pipeline
    from distilabel.steps import LoadDataFromDicts
    from distilabel.steps.tasks import TextGeneration

    class Instant(LLM):  # type: ignore[misc] # not installed where types are checked
        says: str

        @property
        def model_name(self) -> str:
            return "instant"

        def generate(self, inputs: list, num_generations: int = 1) -> list:
            result = {"input_tokens": [20] * num_generations, "output_tokens": [2] * num_generations}
            return [{"generations": [self.says] * num_generations, "statistics": result} for _ in inputs]

    # distilabel's steps run in other processes, which find the class by name
    Instant.__qualname__ = "Instant"
    globals()["Instant"] = Instant
    with Path(rows).open(encoding="utf-8") as lines, Pipeline(name="rows", cache_dir=folder) as pipeline:
        read = LoadDataFromDicts(data=[json.loads(line) for line in islice(lines, count)], batch_size=500)
        author, question, answer = (
            TextGeneration(
                name=name,
                llm=Instant(says=says),
                num_generations=samples,
                group_generations=True,
                input_batch_size=500,
                input_mappings={"instruction": f"{name}_prompt"},
                output_mappings={"generation": name, "model_name": f"{name}_model"},
            )
            for name, says, samples in ASKS
        )
        read >> author >> question >> answer
    return len(pipeline.run(use_cache=False)["default"]["train"])


def run_datatrove(rows: str, count: int, folder: str) -> int:
    """Pass rows through three plain steps in one process and return the number of output rows.

    datatrove's own inference works only over HTTP, which costs more."""
    from datatrove.executor import LocalPipelineExecutor
    from datatrove.pipeline.readers import JsonlReader
    from datatrove.pipeline.writers import JsonlWriter

    written = []

    def ask(name: str, says: str, samples: int):  # type: ignore[no-untyped-def]
        def step(data, rank=0, world_size=1):  # type: ignore[no-untyped-def]
            for document in data:
                document.metadata |= {"asked": document.metadata[f"{name}_prompt"], name: [says] * samples}
                written.append(document.id)
                yield document

        return step

    steps = [ask(*each) for each in ASKS]
    reader = JsonlReader(rows, limit=count, text_key="id")
    executor = LocalPipelineExecutor(
        [reader, *steps, JsonlWriter(f"{folder}/out")], tasks=1, workers=1, logging_dir=f"{folder}/logs"
    )
    executor.run()
    return len(written) // len(ASKS)


if __name__ == "__main__":
    engine, given, number, into = sys.argv[1:]
    Path(into).mkdir(parents=True, exist_ok=True)
    print(
        json.dumps(
            {"rows": {"distilabel": run_distilabel, "datatrove": run_datatrove}[engine](given, int(number), into)}
        )
    )
