"""Test batched zero-ablation against ablation of one component and token at a time, and against hand-worked values."""

from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="ablation needs the extra `mechanism`")
pytest.importorskip("transformers", reason="ablation needs the extra `mechanism`")

from support.models.tiny_causal import Family, ablate_one, lift_logits, make_model  # noqa: E402

from factmill.tasks.slaq.mechanism.ablation import (  # noqa: E402
    AblationOutOfMemory,
    ComponentAblator,
    NonFiniteLogit,
    UnsupportedArchitecture,
    find_transformer_parts,
    measure_ablation_effects,
)

IDS = [5, 17, 33, 80, 2, 9, 100, 200, 7, 4]
PLACES = [5, 7, 8]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Use one thread: small matrices gain nothing from threads, and lose much while other tests use the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("family", ["llama", "gpt2", "qwen3"])
def test_batched_ablation_matches_single_component_ablation(family: Family) -> None:
    model = make_model(family, layers=3)
    one_by_one = [
        [ablate_one(model, IDS, place, layer, head) for place in PLACES]
        for layer in range(3)
        for head in (0, 1, 2, 3, None)
    ]
    ablator = ComponentAblator(model, rows=4)
    base = ablator.run_unablated(IDS, PLACES)
    found = ablator.run_with_each_ablated()
    ablator.close()
    with torch.inference_mode():
        logits = model(torch.tensor([IDS])).logits[0]
    assert base == pytest.approx([float(logits[place - 1, IDS[place]]) for place in PLACES], abs=1e-5)
    assert torch.tensor(found) == pytest.approx(torch.tensor(one_by_one), abs=1e-5)
    assert len({round(each, 4) for row in found for each in row}) > 20  # every ablation has an effect


def test_ablating_all_components_leaves_only_embedding_logits() -> None:
    llama = make_model("llama")
    ablator = ComponentAblator(llama)
    ablator.run_unablated(IDS, PLACES)
    left = ablator.run_with_only([[]] * 3, [0, 1, 2])
    with torch.inference_mode():
        embedded = llama.model.embed_tokens(torch.tensor(IDS))
        logits = llama.lm_head(llama.model.norm(embedded))
    assert left == pytest.approx([float(logits[place - 1, IDS[place]]) for place in PLACES], abs=1e-5)


def test_gpt2_ablation_keeps_attention_projection_biases() -> None:
    gpt2 = make_model("gpt2")
    for block in gpt2.transformer.h:
        torch.nn.init.normal_(block.attn.c_proj.bias)
        torch.nn.init.normal_(block.mlp.c_proj.bias)
    ablator = ComponentAblator(gpt2)
    ablator.run_unablated(IDS, PLACES)
    left = ablator.run_with_only([[]] * 3, [0, 1, 2])
    body = gpt2.transformer
    with torch.inference_mode():
        hidden = body.wte(torch.tensor(IDS)) + body.wpe(torch.arange(len(IDS)))
        hidden = hidden + sum(block.attn.c_proj.bias for block in body.h)  # an MLP's bias goes with its output
        logits = gpt2.lm_head(body.ln_f(hidden))
    assert left == pytest.approx([float(logits[place - 1, IDS[place]]) for place in PLACES], abs=1e-5)


def make_copier(layer: int, head: int) -> Any:
    """Return a model of 3 layers and 4 heads in which one head copies earlier tokens and nothing else happens."""
    model = make_model("llama", layers=3, heads=4, width=32, vocabulary=8)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if "norm" not in name:
                weights.zero_()
        eye = torch.eye(8)
        model.model.embed_tokens.weight[:, :8] = eye
        model.lm_head.weight[:, 8:16] = eye
        attention = model.model.layers[layer].self_attn
        group = head // 2  # two heads share keys and values
        attention.v_proj.weight[8 * group : 8 * group + 8, :8] = eye
        attention.o_proj.weight[8:16, 8 * head : 8 * head + 8] = eye
    return model


@pytest.mark.parametrize(("layer", "head"), [(1, 2), (0, 0), (2, 3)])
def test_planted_copying_head_ranks_first_and_is_minimal_set(layer: int, head: int) -> None:
    ablator = ComponentAblator(make_copier(layer, head), rows=5)
    (effect,) = measure_ablation_effects(ablator, [3, 3, 1, 3, 3], [4], recover=0.9, largest_set=1.0)
    place = layer * 5 + head
    assert effect.base > 0
    assert effect.importances[place] == 1.0
    assert [each for at, each in enumerate(effect.importances) if at != place] == [0.0] * 14
    assert (effect.chosen, effect.recovered) == ([place], 1.0)


def test_minimal_set_grows_by_importance_until_it_recovers_enough() -> None:
    model = lift_logits(make_model("llama", layers=3, seed=3))
    ablator = ComponentAblator(model, rows=7)
    for at, effect in enumerate(measure_ablation_effects(ablator, IDS, PLACES, recover=0.95, largest_set=1.0)):
        order = sorted(range(15), key=lambda each: -effect.importances[each])
        assert effect.chosen == order[: len(effect.chosen)]
        smaller = [order[:size] for size in range(1, len(effect.chosen))]
        assert all(each < 0.95 * effect.base for each in ablator.run_with_only(smaller, [at] * len(smaller)))
        (kept,) = ablator.run_with_only([effect.chosen], [at])
        assert kept / effect.base == pytest.approx(effect.recovered, rel=1e-3)
        assert effect.recovered is not None
        assert effect.recovered >= 0.95


def test_minimal_set_above_size_limit_is_empty() -> None:
    ablator, positive = ComponentAblator(make_model("llama")), [PLACES[0], PLACES[2]]
    whole = measure_ablation_effects(ablator, IDS, positive, recover=0.9, largest_set=1.0)
    size = max(len(each.chosen) for each in whole)
    assert size > 1
    smaller = measure_ablation_effects(ablator, IDS, positive, recover=0.9, largest_set=(size - 0.5) / 10)
    for before, after in zip(whole, smaller, strict=True):
        reached = 0 < len(before.chosen) < size
        assert (after.chosen, after.recovered) == ((before.chosen, before.recovered) if reached else ([], None))
        assert after.importances == before.importances


def test_ablation_is_skipped_when_token_logit_is_not_positive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ComponentAblator, "run_with_each_ablated", lambda _: pytest.fail("it ablates"))
    effects = measure_ablation_effects(ComponentAblator(make_model("llama")), IDS, PLACES, recover=0.9, largest_set=1.0)
    assert [each.base > 0 for each in effects] == [True, False, True]
    assert all((each.importances, each.chosen, each.recovered) == ([], [], None) for each in effects)


def test_logits_can_be_centred_on_their_mean() -> None:
    model = make_model("gpt2")
    ablator = ComponentAblator(model, centre=True)
    base = ablator.run_unablated(IDS, PLACES)
    with torch.inference_mode():
        logits = model(torch.tensor([IDS])).logits[0]
    logits = logits - logits.mean(-1, keepdim=True)
    assert base == pytest.approx([float(logits[place - 1, IDS[place]]) for place in PLACES], abs=1e-5)


def refuse(most: int) -> Any:
    def hook(_layer: Any, arguments: tuple[Any, ...], named: Any) -> None:
        if len(arguments[0]) > most:
            raise RuntimeError(
                "[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory: you tried …"
            )

    return hook


def test_batch_too_large_for_memory_is_halved_and_continues() -> None:
    model = lift_logits(make_model("llama"))
    expected = measure_ablation_effects(ComponentAblator(model, rows=8), IDS, PLACES, recover=0.9, largest_set=1.0)
    model = lift_logits(make_model("llama"))
    model.model.layers[0].register_forward_pre_hook(refuse(3), with_kwargs=True)
    ablator = ComponentAblator(model, rows=8)
    found = measure_ablation_effects(ablator, IDS, PLACES, recover=0.9, largest_set=1.0)
    assert ablator.rows in (2, 3)
    for one, other in zip(expected, found, strict=True):
        assert one.chosen == other.chosen
        assert one.importances == pytest.approx(other.importances, abs=1e-5)


def test_single_row_too_large_for_memory_raises_error() -> None:
    model = make_model("llama")
    model.model.layers[1].register_forward_pre_hook(refuse(0), with_kwargs=True)
    with pytest.raises(AblationOutOfMemory, match="can't allocate memory"):
        ComponentAblator(model).run_unablated(IDS, PLACES)


def test_other_model_errors_are_not_treated_as_out_of_memory() -> None:
    with pytest.raises(IndexError):
        ComponentAblator(make_model("llama")).run_unablated([999, 5], [1])


@pytest.mark.parametrize("when", ["always", "ablated"])
def test_nan_logits_raise_error_naming_ablated_components(when: str) -> None:
    model = lift_logits(make_model("llama"))

    def spoil(_head: Any, _arguments: Any, out: Any) -> Any:
        return out * float("nan") if when == "always" or len(out) > 1 else out

    model.lm_head.register_forward_hook(spoil)
    ablator = ComponentAblator(model)
    with pytest.raises(NonFiniteLogit, match="nothing ablated" if when == "always" else "components 0 to 9 ablated"):
        measure_ablation_effects(ablator, IDS, PLACES, recover=0.9, largest_set=1.0)


def test_unsupported_architecture_raises_error() -> None:
    import transformers

    bloom = transformers.BloomForCausalLM(transformers.BloomConfig(vocab_size=50, hidden_size=8, n_layer=1, n_head=2))
    with pytest.raises(UnsupportedArchitecture, match="BloomForCausalLM"):
        find_transformer_parts(bloom)
    model = make_model("llama")
    model.lm_head.register_forward_hook(lambda _head, _arguments, out: out)
    original = model.forward
    model.forward = lambda *expected, **named: _scale(original(*expected, **named))  # like Gemma's cap on logits
    with pytest.raises(UnsupportedArchitecture, match="are not the unembedding"):
        ComponentAblator(model).run_unablated(IDS, PLACES)


def _scale(out: Any) -> Any:
    out.logits = out.logits * 0.5
    return out


def test_close_removes_all_hooks() -> None:
    model = make_model("llama")
    ablator = ComponentAblator(model)
    ablator.close()
    assert not any(each._forward_hooks or each._forward_pre_hooks for each in model.modules())
