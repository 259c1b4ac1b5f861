"""CAL blocks and the adapter that attaches them to a transformers decoder.

One sequence at a time: hidden states are [seq_len, hidden_size], spans are [(begin, end), ...] in tokens.
"""

import contextlib
import hashlib
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn

PRESETS = {
    "late8th": lambda count: range(max(0, 7 * count // 8 - 1), count),
    "late-quarter": lambda count: range(3 * count // 4, count),
    "last": lambda count: range(count - 1, count),
    "all": lambda count: range(count),
}


@dataclass
class CalConfig:
    """The "cal" section of adapter_config.json."""

    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    rms_norm_eps: float
    position: str = "none"
    self_inclusion: str = "inclusive"
    mlp_scope: str = "all"
    attention_bias: bool = False
    qk_norm: bool = False

    @classmethod
    def like_backbone(cls, config, **overrides):
        """The defaults: every shape as the backbone has it."""
        head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        shape = dict(
            num_heads=config.num_attention_heads,
            num_kv_heads=config.num_key_value_heads,
            head_dim=head_dim,
            intermediate_size=config.intermediate_size,
            rms_norm_eps=config.rms_norm_eps,
        )
        return cls(**{**shape, **overrides})


def visibility(seq_len, spans, self_inclusion):
    """[seq_len, seq_len] bool: query i sees key j if j is in a span and j <= i (exclusive: j < i)."""
    in_span = torch.zeros(seq_len, dtype=torch.bool)
    for begin, end in spans:
        in_span[begin:end] = True
    index = torch.arange(seq_len)
    earlier = (
        index[None, :] < index[:, None] if self_inclusion == "exclusive" else index[None, :] <= index[:, None]
    )
    return earlier & in_span[None, :]


class RMSNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def rotate(x, cos, sin):
    """Rotary embedding by halves; x [heads, seq_len, head_dim], cos and sin [seq_len, head_dim]."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class CrossAttention(nn.Module):
    def __init__(self, hidden_size, config):
        super().__init__()
        self.config = config
        bias = config.attention_bias
        q_size, kv_size = config.num_heads * config.head_dim, config.num_kv_heads * config.head_dim
        self.q_proj = nn.Linear(hidden_size, q_size, bias=bias)
        self.k_proj = nn.Linear(hidden_size, kv_size, bias=bias)
        self.v_proj = nn.Linear(hidden_size, kv_size, bias=bias)
        self.o_proj = nn.Linear(q_size, hidden_size, bias=False)
        if config.qk_norm:
            self.q_norm = RMSNorm(config.head_dim, config.rms_norm_eps)
            self.k_norm = RMSNorm(config.head_dim, config.rms_norm_eps)

    def forward(self, h, visible, cos, sin):
        config, seq_len = self.config, h.shape[0]
        split = lambda x, heads: x.view(seq_len, heads, config.head_dim).transpose(0, 1)
        q = split(self.q_proj(h), config.num_heads)
        k = split(self.k_proj(h), config.num_kv_heads)
        v = split(self.v_proj(h), config.num_kv_heads)
        if config.qk_norm:
            q, k = self.q_norm(q), self.k_norm(k)
        if config.position == "rope":
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        group = config.num_heads // config.num_kv_heads
        k, v = k.repeat_interleave(group, dim=0), v.repeat_interleave(group, dim=0)
        scores = q @ k.transpose(1, 2) / math.sqrt(config.head_dim)
        # The lowest finite number keeps blind rows free of NaN; they are zeroed right after.
        scores = scores.masked_fill(~visible, torch.finfo(scores.dtype).min)
        weights = scores.softmax(-1) * visible
        return self.o_proj((weights @ v).transpose(0, 1).reshape(seq_len, -1))


class GatedMlp(nn.Module):
    def __init__(self, hidden_size, intermediate_size):
        super().__init__()
        self.gate_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.up_proj = nn.Linear(hidden_size, intermediate_size, bias=False)
        self.down_proj = nn.Linear(intermediate_size, hidden_size, bias=False)

    def forward(self, x):
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class CalBlock(nn.Module):
    def __init__(self, hidden_size, config):
        super().__init__()
        self.config = config
        self.attn_norm = RMSNorm(hidden_size, config.rms_norm_eps)
        self.attn = CrossAttention(hidden_size, config)
        if config.intermediate_size > 0:
            self.mlp_norm = RMSNorm(hidden_size, config.rms_norm_eps)
            self.mlp = GatedMlp(hidden_size, config.intermediate_size)

    def forward(self, x, visible, cos, sin, scale):
        x = x + scale * self.attn(self.attn_norm(x), visible, cos, sin)
        if self.config.intermediate_size == 0:
            return x
        update = self.mlp(self.mlp_norm(x))
        if self.config.mlp_scope == "anchored":
            update = update * visible.any(-1, keepdim=True)
        return x + scale * update


def adapter_document(kind, placement, section, model_config, norms_sha256=None):
    """adapter_config.json as a dictionary; `section` is the one named after the kind."""
    base = dict(
        model_type=model_config.model_type,
        hidden_size=model_config.hidden_size,
        num_hidden_layers=model_config.num_hidden_layers,
        vocab_size=model_config.vocab_size,
    )
    if norms_sha256:
        base["norms_sha256"] = norms_sha256
    head = {
        "format": "calyrex-adapter",
        "version": 1,
        "kind": kind,
        "placement": list(placement),
        "base": base,
    }
    span = {"part": "content", "default_text": "ignore"}
    return {**head, **section, "span": span, "peft_type": "CALYREX"}


class CalAdapter(nn.Module):
    """The blocks of one adapter, keyed by the 0-based layer that each follows."""

    def __init__(self, hidden_size, placement, config):
        super().__init__()
        self.placement, self.config = list(placement), config
        self.blocks = nn.ModuleDict({str(layer): CalBlock(hidden_size, config) for layer in self.placement})

    @classmethod
    def load(cls, folder, model_config):
        """Reads an adapter folder (adapter_config.json, adapter_model.safetensors) in float32."""
        folder = Path(folder)
        document = json.loads((folder / "adapter_config.json").read_text())
        if document["kind"] != "cal":
            raise ValueError(f"{folder}: kind {document['kind']} is not cal")
        config = CalConfig.like_backbone(model_config, **document.get("cal", {}))
        adapter = cls(model_config.hidden_size, document["placement"], config)
        tensors = {
            name: tensor.float() for name, tensor in load_file(folder / "adapter_model.safetensors").items()
        }
        adapter.load_state_dict(tensors, strict=True)
        return adapter

    def save(self, folder, model_config, norms_sha256=None, dtype=torch.float32, section=None):
        """Writes an adapter folder; `section` replaces the full "cal" section."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        section = {"cal": asdict(self.config) if section is None else section}
        document = adapter_document("cal", self.placement, section, model_config, norms_sha256)
        text = json.dumps(document, indent=2) + "\n"
        (folder / "adapter_config.json").write_text(text)
        tensors = {name: tensor.detach().to(dtype).contiguous() for name, tensor in self.state_dict().items()}
        save_file(tensors, folder / "adapter_model.safetensors")

    @contextlib.contextmanager
    def attached(self, model, seq_len, spans, scale=1.0):
        """Inside the context the model's forward runs the blocks on a batch of exactly one sequence."""
        decoder = model.model
        visible = visibility(seq_len, spans, self.config.self_inclusion)
        like = next(decoder.parameters())
        cos, sin = (x[0] for x in decoder.rotary_emb(like, position_ids=torch.arange(seq_len)[None]))
        if self.config.position == "rope" and cos.shape[-1] != self.config.head_dim:
            raise ValueError("position rope needs the backbone's head_dim")

        def hook_of(block):
            return lambda module, args, output: block(output[0], visible, cos, sin, scale)[None]

        handles = [
            decoder.layers[layer].register_forward_hook(hook_of(self.blocks[str(layer)]))
            for layer in self.placement
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def norms_digest(model):
    """SHA-256 over every RMSNorm vector of the backbone as float32, layer by layer, final norm last."""
    digest = hashlib.sha256()
    vectors = []
    for layer in model.model.layers:
        vectors += [layer.input_layernorm.weight, layer.post_attention_layernorm.weight]
        for name in ("q_norm", "k_norm"):
            if hasattr(layer.self_attn, name):
                vectors.append(getattr(layer.self_attn, name).weight)
    vectors.append(model.model.norm.weight)
    for vector in vectors:
        digest.update(vector.detach().float().numpy().astype("<f4").tobytes())
    return digest.hexdigest()


def run_layers(model, token_ids, adapter=None, spans=(), scale=1.0):
    """Runs one sequence; (hidden states after every layer and its block, before the final norm; logits)."""
    states = []
    context = adapter.attached(model, len(token_ids), spans, scale) if adapter else contextlib.nullcontext()
    with context:
        keep = lambda module, args, output: states.append(output[0])
        handles = [layer.register_forward_hook(keep) for layer in model.model.layers]
        try:
            logits = model(input_ids=torch.tensor([token_ids]), use_cache=False).logits[0]
        finally:
            for handle in handles:
                handle.remove()
    return states, logits


def token_logprobs(logits, token_ids):
    """[seq_len - 1]: entry t is the log-probability of token t + 1."""
    targets = torch.tensor(token_ids[1:])
    return logits[:-1].float().log_softmax(-1).gather(1, targets[:, None])[:, 0]
