"""Small models of the families that users bring: two layers, seeded, weights large enough that every part of them counts.

`initializer_range` is 0.2, ten times the usual, so that attention is far from uniform and a lost mask or a swapped head
shows in the result.
"""

from dataclasses import dataclass
from typing import Any

import torch
import transformers as tf

RANGE = 0.2
SMALL: dict[str, Any] = dict(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96)
ENCODER: dict[str, Any] = dict(**SMALL, vocab_size=128, max_position_embeddings=64, initializer_range=RANGE)
DECODER: dict[str, Any] = dict(**ENCODER, num_key_value_heads=2, head_dim=16)


@dataclass(frozen=True)
class Tiny:
    """`config` makes a model of `kind`, an AutoModel class; `image`: its input are pixels."""

    config: tf.PretrainedConfig
    kind: Any = tf.AutoModel
    image: bool = False


def tiny(name: str) -> Tiny:
    """The configuration of a family, by name. Raises KeyError."""
    makers: dict[str, Any] = {
        "bert": lambda: Tiny(tf.BertConfig(**ENCODER)),
        "roberta": lambda: Tiny(tf.RobertaConfig(**ENCODER)),
        "xlm-roberta": lambda: Tiny(tf.XLMRobertaConfig(**ENCODER)),
        "distilbert": lambda: Tiny(
            tf.DistilBertConfig(
                dim=64, n_layers=2, n_heads=4, hidden_dim=96, vocab_size=128, max_position_embeddings=64,
                initializer_range=RANGE,
            )  # fmt: skip
        ),
        "mpnet": lambda: Tiny(tf.MPNetConfig(**ENCODER)),
        "modernbert": lambda: Tiny(
            tf.ModernBertConfig(**ENCODER, local_attention=8, global_attn_every_n_layers=2, pad_token_id=0)
        ),
        "llama": lambda: Tiny(tf.LlamaConfig(**DECODER)),
        "qwen3": lambda: Tiny(tf.Qwen3Config(**DECODER)),
        "gemma3": lambda: Tiny(
            tf.Gemma3TextConfig(**DECODER, sliding_window=8, layer_types=["sliding_attention", "full_attention"])
        ),
        "granite": lambda: Tiny(
            tf.GraniteConfig(
                **{k: v for k, v in DECODER.items() if k != "head_dim"}, embedding_multiplier=2.0,
                attention_multiplier=0.25, residual_multiplier=0.5,
            )  # fmt: skip
        ),
        "mistral": lambda: Tiny(tf.MistralConfig(**DECODER, sliding_window=8)),
        "gpt2": lambda: Tiny(
            tf.GPT2Config(n_embd=64, n_layer=2, n_head=4, n_inner=96, vocab_size=128, n_positions=64,
                          initializer_range=RANGE)  # fmt: skip
        ),
        "albert": lambda: Tiny(tf.AlbertConfig(**ENCODER, embedding_size=32)),
        "vit": lambda: Tiny(
            tf.ViTConfig(**SMALL, image_size=32, patch_size=8, initializer_range=RANGE), image=True
        ),
        "t5": lambda: Tiny(
            tf.T5Config(d_model=64, d_kv=16, d_ff=96, num_layers=2, num_heads=4, vocab_size=128, initializer_factor=0.2),
            tf.T5EncoderModel,
        ),
    }
    return makers[name]()


NAMES = ["bert", "roberta", "xlm-roberta", "distilbert", "mpnet", "modernbert", "llama", "qwen3", "gemma3", "granite",
         "mistral", "gpt2", "albert", "vit", "t5"]  # fmt: skip


def model_of(name: str, dtype: torch.dtype = torch.float32) -> torch.nn.Module:
    """The model, on the CPU, in evaluation mode; the same weights every time."""
    torch.manual_seed(1)
    spec = tiny(name)
    spec.config.use_cache = False
    model = spec.kind.from_config(spec.config) if spec.kind is tf.AutoModel else spec.kind(spec.config)
    with torch.no_grad():  # norms away from 1, biases away from 0
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return model.eval().to(dtype)


def inputs_of(name: str, batch: int, length: int, padded: bool, dtype: torch.dtype = torch.float32) -> dict[str, Any]:
    """Keyword arguments of the model, on the CPU; `padded` rows end early, each elsewhere."""
    torch.manual_seed(batch * 100 + length)
    if tiny(name).image:
        return {"pixel_values": torch.randn(batch, 3, 32, 32, dtype=dtype)}
    mask = torch.ones(batch, length, dtype=torch.int64)
    if padded:
        for row in range(batch):
            mask[row, length - 3 * row :] = 0
    ids = torch.randint(3, 128, (batch, length))
    return {"input_ids": ids.masked_fill(mask == 0, 1 if name in ("roberta", "xlm-roberta", "mpnet") else 0), "attention_mask": mask}
