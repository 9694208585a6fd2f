"""Test cross-encoders: their scores, which do not depend on the other pairs of a batch, and what is refused."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.models.tiny_encoder import (
    HEADS,
    INNER,
    LAYERS,
    POSITIONS,
    VOCABULARY,
    WIDTH,
    classify_by_numpy,
    make_head,
    make_weights,
    write_checkpoint,
)

from factmill.tasks.errors import UsageError
from factmill.tasks.models.converting.encoder import make_cross_encoder_folder, make_embedder_folder
from factmill.tasks.models.cross_encoder import (
    CONSISTENT_LABELS,
    CONTRADICTION_LABELS,
    ENTAILMENT_LABELS,
    CrossEncoder,
    get_cross_encoder_identity,
    resolve_cross_encoder_folder,
)
from factmill.tasks.models.model_folder import get_models_folder

NLI = {"0": "CONTRADICTION", "1": "neutral", "2": "Entailment"}
PAIRS = [("Who was born in Paris?", "a river"), ("a river flows", "the river"), ("", "who"), ("river " * 40, "paris")]
CUT = POSITIONS - 4
TOKENS = [
    (["[CLS]", "who", "was", "born", "in", "paris", "?", "[SEP]"], ["a", "river", "[SEP]"]),
    (["[CLS]", "a", "river", "flows", "[SEP]"], ["the", "river", "[SEP]"]),
    (["[CLS]", "[SEP]"], ["who", "[SEP]"]),
    (["[CLS]", *["river"] * CUT, "[SEP]"], ["paris", "[SEP]"]),
]
IDS = [[VOCABULARY.index(token) for token in (*first, *second)] for first, second in TOKENS]
TYPES = [[0] * len(first) + [1] * len(second) for first, second in TOKENS]


def convert(home: Path, name: str = "nli", **config: Any) -> CrossEncoder:
    """Convert a tiny BERT with a head into a home and open it; `config` adds keys to its config.json."""
    labels = len(config.get("id2label", "ab"))
    weights = make_weights(prefix="bert.") | make_head(labels)
    make_cross_encoder_folder(write_checkpoint(home / name, weights, **config), get_models_folder(home))
    return CrossEncoder(resolve_cross_encoder_folder(name, home))


def soften(logits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    powers = np.exp(logits)
    return powers / powers.sum()


def test_label_probabilities_match_numpy_forward_pass(tmp_path: Path) -> None:
    found = convert(tmp_path, id2label=NLI)
    logits = [
        classify_by_numpy(ids, types, make_weights(), make_head(3)) for ids, types in zip(IDS, TYPES, strict=True)
    ]
    expected = np.array([soften(each) for each in logits])
    scores = found.score(PAIRS)
    np.testing.assert_allclose(scores, expected, atol=2e-6)
    assert found.settings.model_dump() == {
        "labels": list(NLI.values()), "activation": "softmax", "is_typed": True, "max_tokens": POSITIONS
    }  # fmt: skip
    assert np.array_equal(found.score(PAIRS, [ENTAILMENT_LABELS, CONTRADICTION_LABELS]), scores[:, [2, 0]])
    assert np.array_equal(found.score(PAIRS, [CONSISTENT_LABELS]), scores[:, [2]])
    assert found.score([], [ENTAILMENT_LABELS]).shape == (0, 1)


def test_roberta_uses_its_own_head_and_no_token_types(tmp_path: Path) -> None:
    weights = make_weights(prefix="roberta.") | make_head(2, "roberta.")
    write_checkpoint(tmp_path / "r", weights, model_type="xlm-roberta", pad_token_id=1)
    make_cross_encoder_folder(tmp_path / "r", get_models_folder(tmp_path))
    opened = CrossEncoder(get_models_folder(tmp_path) / "r")
    expected = [
        soften(classify_by_numpy(ids, [0] * len(ids), make_weights(), make_head(2, "roberta."), 2)) for ids in IDS[:3]
    ]
    np.testing.assert_allclose(opened.score(PAIRS[:3]), expected, atol=2e-6)
    assert (opened.settings.max_tokens, opened.settings.labels) == (POSITIONS - 2, ["LABEL_0", "LABEL_1"])


@pytest.mark.parametrize(
    ("config", "activation"),
    [
        ({}, "sigmoid"),
        ({"problem_type": "regression"}, "none"),
        ({"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}}, "none"),
        ({"sbert_ce_default_activation_function": "torch.nn.modules.activation.Sigmoid"}, "sigmoid"),
    ],
)
def test_single_output_is_score(tmp_path: Path, config: dict[str, Any], activation: str) -> None:
    opened = convert(tmp_path, id2label={"0": "LABEL_0"}, **config)
    logits = np.array(
        [classify_by_numpy(ids, types, make_weights(), make_head(1)) for ids, types in zip(IDS, TYPES, strict=True)]
    )
    expected = 1 / (1 + np.exp(-logits)) if activation == "sigmoid" else logits
    assert opened.settings.activation == activation
    np.testing.assert_allclose(opened.score(PAIRS), expected, atol=1e-5)


def test_pair_gets_same_bits_alone_in_any_order_and_on_any_thread_count(tmp_path: Path) -> None:
    draw = random.Random(3)
    words = ["who", "wrote", "was", "paris", "river", "19", "?"]
    pairs = [(" ".join(draw.choices(words, k=draw.randint(1, 9))), draw.choice(words)) for _ in range(300)]
    opened = convert(tmp_path, id2label=NLI)
    whole = opened.score(pairs)
    assert np.array_equal(whole[::-1], opened.score(pairs[::-1]))
    path = resolve_cross_encoder_folder("nli", tmp_path)
    assert np.array_equal(whole, CrossEncoder(path, threads=1).score(pairs))
    assert np.array_equal(whole, CrossEncoder(path, threads=3).score(pairs))
    assert np.array_equal(whole[:40], np.concatenate([opened.score([pair]) for pair in pairs[:40]]))


def test_model_is_identified_by_digest_and_rejected_without_required_labels(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no cross-encoder nli .*there: none\): factmill models add cross-encoder"):
        resolve_cross_encoder_folder("nli", tmp_path)
    opened = convert(tmp_path, id2label=NLI)
    assert get_cross_encoder_identity("nli", tmp_path, [ENTAILMENT_LABELS]) == {"name": "nli", "digest": opened.digest}
    assert make_cross_encoder_folder(tmp_path / "nli", tmp_path / "again").digest == opened.digest
    convert(tmp_path, "unnamed")
    with pytest.raises(
        UsageError, match=r"unnamed has the labels LABEL_0, LABEL_1 \(activation softmax\); .* entailment"
    ):
        get_cross_encoder_identity("unnamed", tmp_path, [ENTAILMENT_LABELS])
    convert(tmp_path, "single", id2label={"0": "LABEL_0"})
    assert get_cross_encoder_identity("single", tmp_path, [CONSISTENT_LABELS])["name"] == "single"
    with pytest.raises(UsageError, match="expected probabilities of: entailment, contradiction"):
        get_cross_encoder_identity("single", tmp_path, [ENTAILMENT_LABELS, CONTRADICTION_LABELS])
    convert(tmp_path, "ranker", id2label={"0": "LABEL_0"}, problem_type="regression")
    with pytest.raises(UsageError, match=r"LABEL_0 \(activation none\)"):
        get_cross_encoder_identity("ranker", tmp_path, [CONSISTENT_LABELS])
    make_embedder_folder(write_checkpoint(tmp_path / "tiny", make_weights()), get_models_folder(tmp_path))
    with pytest.raises(UsageError, match="of kind embedder, expected cross-encoder"):
        get_cross_encoder_identity("tiny", tmp_path, [ENTAILMENT_LABELS])


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"model_type": "deberta-v2"}, "model_type is 'deberta-v2'; expected one of: bert, roberta"),
        ({"id2label": {"1": "yes", "2": "no"}}, "id2label has the keys 1, 2;"),
        ({"problem_type": "multi_label_classification"}, "problem_type multi_label_classification of 2 labels"),
        ({"id2label": {"0": "x"}, "sbert_ce_default_activation_function": "torch.nn.ReLU"}, "torch.nn.ReLU; expected"),
        ({"id2label": NLI, "hidden_size": 48}, r"tensor .* config.json"),
    ],
)  # fmt: skip
def test_invalid_checkpoint_is_rejected_with_its_defect(tmp_path: Path, config: dict[str, Any], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        convert(tmp_path, **config)
    assert not list(get_models_folder(tmp_path).glob("*"))


def test_encoder_without_head_is_rejected_as_cross_encoder(tmp_path: Path) -> None:
    checkpoint = write_checkpoint(tmp_path / "bare", make_weights())
    with pytest.raises(UsageError, match=r"no tensor pooler\.dense\.weight"):
        make_cross_encoder_folder(checkpoint, get_models_folder(tmp_path))


@pytest.mark.parametrize("family", ["Bert", "Roberta"])
def test_checkpoint_saved_by_transformers_gives_same_results_as_torch(tmp_path: Path, family: str) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed; numpy's forward pass stands in for it")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    torch.manual_seed(1)
    config = getattr(transformers, f"{family}Config")(
        vocab_size=len(VOCABULARY), hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=HEADS,
        intermediate_size=INNER, max_position_embeddings=POSITIONS + 2, pad_token_id=0 if family == "Bert" else 1,
        id2label={0: "contradiction", 1: "neutral", 2: "entailment"}, type_vocab_size=2 if family == "Bert" else 1,
    )  # fmt: skip
    model = getattr(transformers, f"{family}ForSequenceClassification")(config).eval()
    checkpoint = write_checkpoint(tmp_path / "saved", make_weights())
    model.save_pretrained(checkpoint, safe_serialization=True)
    make_cross_encoder_folder(checkpoint, get_models_folder(tmp_path))
    found = CrossEncoder(get_models_folder(tmp_path) / "saved").score(PAIRS[:3])
    for ids, types, scores in zip(IDS, TYPES, found, strict=False):
        typed = {"token_type_ids": torch.tensor([types])} if family == "Bert" else {}
        with torch.no_grad():
            expected = model(torch.tensor([ids]), **typed).logits.softmax(-1)[0].numpy()
        np.testing.assert_allclose(scores, expected, atol=2e-6)
    assert json.loads((checkpoint / "config.json").read_text())["id2label"]["2"] == "entailment"
