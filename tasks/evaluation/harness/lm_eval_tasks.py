"""Task folders for lm-evaluation-harness: a YAML file and questions per setting, and a module with factmill's scoring.

That harness sends one prompt per question, so only settings of one prompt and one answer have a task. A prompt's system
part becomes the task's description, its demonstrations become few-shot samples: with `--apply_chat_template
--fewshot_as_multiturn` a chat model receives the same messages as from `factmill evaluate`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Any

import yaml

from factmill.tasks.assets import asset_path
from factmill.tasks.core.evaluation.answers import ModelPrediction
from factmill.tasks.core.evaluation.rows import EvaluationQuestion
from factmill.tasks.core.prompts import FilledPrompt
from factmill.tasks.core.rows import rows_from_arrow
from factmill.tasks.errors import OutputError
from factmill.tasks.evaluation.scoring_session import EvaluationSession

_METRIC_FUNCTION = Template("""

def $name(items):
    return _value("$metric", "$column", items)
""")
_INTERVAL_METRICS = {"ci_lower": "ci_low", "ci_upper": "ci_high"}
"""End of a metric's name → column with that end of its 95 % interval: lm-evaluation-harness has no intervals, and its
standard errors are not those of clustered items, so the ends are metrics of their own below the value."""
_METRIC_SAMPLE_ROWS = 20
"""Number of rows that are scored to find out which metrics a setting has."""


class _YamlFunctionName(str):
    """Name of a function in a module next to the YAML file."""


class _TaskDumper(yaml.SafeDumper):
    pass


_TaskDumper.add_representer(_YamlFunctionName, lambda dumper, name: dumper.represent_scalar("!function", str(name)))


def write_lm_eval_folder(session: EvaluationSession, folder: Path, build_id: str, canary: str = "") -> list[Path]:
    """Write a benchmark's task folder, with all settings of the session that need only one prompt; return its files.

    `build_id`: the build's id; `canary`: a text to put into every file. Without such a setting nothing is written.
    """
    benchmark, format_gold = session.evaluation.benchmark.name, session.evaluation.make_oracle(session.rows)
    files: dict[str, str] = {}
    metrics: dict[str, list[str]] = {}
    functions: dict[str, tuple[str, str]] = {}
    few = session.with_build_rows(session.rows["id"].to_pylist()[:_METRIC_SAMPLE_ROWS])
    measured = few.score_answers("oracle", "oracle").metrics
    known = set(zip(measured["setting"].to_pylist(), measured["metric"].to_pylist(), strict=True))
    for setting, pairs in _list_single_prompt_questions(session).items():
        named = [name for name in session.evaluation.headline_metrics if (setting, name) in known]
        metrics[setting] = [
            *(each for name in named for each in (name, *(f"{name}_{end}" for end in _INTERVAL_METRICS))),
            "unscored",
        ]
        functions |= {name: (name, "value") for name in named}
        functions |= {f"{name}_{end}": (name, column) for name in named for end, column in _INTERVAL_METRICS.items()}
        files[f"{setting}.jsonl"] = "".join(
            _format_question_json_line(*pair, format_gold(pair[0]), canary) for pair in pairs
        )
        config = _make_task_config(session, setting, pairs[0][1], metrics[setting], build_id)
        files[f"factmill_{benchmark}_{setting}.yaml"] = _dump_yaml(config)
    if not files:
        return []
    group = {"group": f"factmill_{benchmark}", "task": [f"factmill_{benchmark}_{setting}" for setting in metrics]}
    files[f"factmill_{benchmark}.yaml"] = _dump_yaml(group)
    defined = "".join(
        _METRIC_FUNCTION.substitute(name=name, metric=metric, column=column)
        for name, (metric, column) in functions.items()
    )
    utils = Template(asset_path("data/templates", "lm_eval_utils.txt").read_text("utf-8"))
    files["utils.py"] = utils.substitute(benchmark=benchmark, metrics=repr(metrics)) + defined
    remark = f"# {canary}\n" if canary else ""
    files = {name: text if name.endswith(".jsonl") else remark + text for name, text in files.items()}
    place = folder / benchmark
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            (place / name).write_text(text, "utf-8", newline="")
    except OSError as error:
        raise OutputError(
            f"{place}: cannot be written: {error.strerror}; give another folder with --lm-eval"
        ) from error
    return [place / name for name in files]


def _list_single_prompt_questions(
    session: EvaluationSession,
) -> dict[str, list[tuple[EvaluationQuestion, FilledPrompt]]]:
    """Return setting → questions with their prompts, for settings of one prompt and one answer."""
    found: dict[str, list[tuple[EvaluationQuestion, FilledPrompt]]] = {}
    for asked in rows_from_arrow(session.evaluation.question_model, session.list_questions()):
        if ask := _find_single_prompt(session, asked):
            found.setdefault(asked.setting, []).append((asked, ask))
    return found


def _find_single_prompt(session: EvaluationSession, question: EvaluationQuestion) -> FilledPrompt | None:
    dialogue = session.evaluation.start_dialogue(question, session.inputs.params)
    ask = next(dialogue)
    if not isinstance(ask, FilledPrompt) or ask.samples > 1 or ask.tools:
        return None
    try:
        dialogue.send(ModelPrediction(("answer",), ("answer",)))
    except StopIteration:
        return ask
    return None


def _format_question_json_line(question: EvaluationQuestion, ask: FilledPrompt, gold: str, canary: str) -> str:
    line = {
        "id": question.question_id,
        "setting": question.setting,
        "prompt": ask.build_messages()[-1]["content"],
        "target": gold,
        "asked": question.model_dump_json(),
        **({"canary": canary} if canary else {}),
    }
    return json.dumps(line, ensure_ascii=False) + "\n"


def _make_task_config(
    session: EvaluationSession, setting: str, ask: FilledPrompt, metrics: list[str], build_id: str
) -> dict[str, Any]:
    *before, _ = ask.build_messages()
    system = "".join(f"{each['content']}\n\n" for each in before if each["role"] == "system")
    turns = [each["content"] for each in before if each["role"] != "system"]
    samples = [{"prompt": prompt, "target": reply} for prompt, reply in zip(turns[::2], turns[1::2], strict=True)]
    shown: Mapping[str, Any] = {
        "fewshot_config": {"sampler": "first_n", "samples": samples},
        "num_fewshot": len(samples),
    }
    evaluation, temperature = session.evaluation, ask.prompt.temperature
    ends = ("", *(f"_{end}" for end in _INTERVAL_METRICS))
    lower = {*(f"{name}{end}" for name in evaluation.lower_is_better for end in ends), "unscored"}
    return {
        "task": f"factmill_{evaluation.benchmark.name}_{setting}",
        "custom_dataset": _YamlFunctionName("utils.load"),
        "dataset_kwargs": {"setting": setting},
        "test_split": "test",
        "output_type": "generate_until",
        "description": f"{{% raw %}}{system}{{% endraw %}}" if "{" in system else system,
        "doc_to_text": "{{prompt}}",
        "doc_to_target": "{{target}}",
        "target_delimiter": "\n",
        **(shown if samples else {"num_fewshot": 0}),
        "generation_kwargs": {
            "until": [],
            "do_sample": temperature > 0,
            "temperature": temperature,
            "max_gen_toks": ask.prompt.max_tokens,
        },
        "process_results": _YamlFunctionName("utils.process_results"),
        "metric_list": [
            {"metric": name, "aggregation": _YamlFunctionName(f"utils.{name}"), "higher_is_better": name not in lower}
            for name in metrics
        ],
        "metadata": {"version": 1.0, "build": build_id},
    }


def _dump_yaml(content: Mapping[str, Any]) -> str:
    return yaml.dump(content, Dumper=_TaskDumper, sort_keys=False, allow_unicode=True, width=120)
