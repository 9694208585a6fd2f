"""Time batched zero-ablation against ablation of one component and one token at a time (extra `mechanism`).

    python bench speed.ablation

The model is random and Llama-shaped, with 16 layers of 16 heads. The one-at-a-time reference is the same function that
the tests compare with. Only a share of its runs is timed and scaled up, since each run takes equally long. With a GPU,
also prints the time per fact of a 1.7-billion-parameter model, and the hours for 240 facts next to the paper's 768 GPU
hours.
"""

import json
import time

import torch
from scripts import read_options
from support.models.tiny_causal import ablate_one, make_model

from factmill.tasks.slaq.mechanism.ablation import ComponentAblator, measure_ablation_effects

LAYERS, HEADS, WIDTH, PROMPT, ANSWER = 16, 16, 256, 40, 8
_EVERY = 16
"""One in this many reference runs is timed."""
_LARGE = {"layers": 28, "heads": 16, "width": 2048, "vocabulary": 151_936}
_PAPER_HOURS, _PAPER_FACTS = 768, 240


def compare(threads: int) -> dict[str, float]:
    """Return the seconds of both methods and the speed-up of batching."""
    torch.set_num_threads(threads)
    model = make_model("llama", layers=LAYERS, heads=HEADS, width=WIDTH)
    ids = [(7 * at + 3) % 340 for at in range(PROMPT + ANSWER)]
    places = list(range(PROMPT, PROMPT + ANSWER))
    runs = [(place, layer, head) for place in places for layer in range(LAYERS) for head in (*range(HEADS), None)]
    ablate_one(model, ids, places[0], 0, 0)
    started = time.perf_counter()
    for place, layer, head in runs[::_EVERY]:
        ablate_one(model, ids, place, layer, head)
    one_by_one_s = (time.perf_counter() - started) * len(runs) / len(runs[::_EVERY])
    ablator = ComponentAblator(model)
    ablator.run_unablated(ids, places)
    started = time.perf_counter()
    ablator.run_unablated(ids, places)
    ablator.run_with_each_ablated()
    batched_s = time.perf_counter() - started
    return {"one_by_one_s": one_by_one_s, "batched_s": batched_s, "times": one_by_one_s / batched_s}


def time_large() -> dict[str, float]:
    """Return GPU seconds per fact (both answers) of a large random model, and the hours for the paper's 240 facts."""
    with torch.device("cuda"):
        model = make_model("qwen3", **_LARGE)  # type: ignore[arg-type] # a shape
    seconds = 0.0
    for prompt, answer in ((40, 12), (120, 100)):
        ids = [(7 * at + 3) % 1000 for at in range(prompt + answer)]
        ablator = ComponentAblator(model, centre=True)
        torch.cuda.synchronize()
        started = time.perf_counter()
        measure_ablation_effects(
            ablator, ids, list(range(prompt + answer - 12, prompt + answer)), recover=0.9, largest_set=1.0
        )
        torch.cuda.synchronize()
        seconds += time.perf_counter() - started
        ablator.close()
    hours = seconds * _PAPER_FACTS / 3600
    return {"fact_s": seconds, "facts_240_h": hours, "paper_h": _PAPER_HOURS}


def main() -> None:
    result: dict[str, object] = {
        "device": "cpu",
        **compare(read_options(__doc__, threads=torch.get_num_threads()).threads),
    }
    print(json.dumps(result))
    if torch.cuda.is_available():
        print(json.dumps({"device": torch.cuda.get_device_name(), **time_large()}))
    else:
        print("no GPU here: the time of a model of 1.7 billion parameters is not measured")
