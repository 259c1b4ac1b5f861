"""CAL on padded batches in plain eager PyTorch: what a careful user writes today with transformers."""

import torch
from torch import nn
from torch.nn import functional as F


class PaddedCalBlock(nn.Module):
    """The method's defaults; keys and values of the span tokens alone."""

    def __init__(self, config):
        super().__init__()
        hidden, eps = config.hidden_size, config.rms_norm_eps
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.head_dim = getattr(config, "head_dim", None) or hidden // self.heads
        linear = lambda rows, columns: nn.Linear(columns, rows, bias=False)
        self.attn_norm, self.mlp_norm = nn.RMSNorm(hidden, eps), nn.RMSNorm(hidden, eps)
        self.q_proj = linear(self.heads * self.head_dim, hidden)
        self.k_proj = linear(self.kv_heads * self.head_dim, hidden)
        self.v_proj = linear(self.kv_heads * self.head_dim, hidden)
        self.o_proj = linear(hidden, self.heads * self.head_dim)
        self.gate_proj = linear(config.intermediate_size, hidden)
        self.up_proj = linear(config.intermediate_size, hidden)
        self.down_proj = linear(hidden, config.intermediate_size)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)
        nn.init.zeros_(self.o_proj.weight)
        nn.init.zeros_(self.down_proj.weight)

    def forward(self, x, span_index, mask, sees):
        """x and what it returns: [batch, seq, hidden]; the rest as PaddedBatch holds it."""
        batch, seq, hidden = x.shape
        h = self.attn_norm(x)
        of_span = h.gather(1, span_index[..., None].expand(-1, -1, hidden))
        q = self.q_proj(h).view(batch, seq, self.heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(of_span).view(batch, -1, self.kv_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(of_span).view(batch, -1, self.kv_heads, self.head_dim).transpose(1, 2)
        attended = F.scaled_dot_product_attention(q, k, v, attn_mask=mask.to(q.dtype), enable_gqa=True)
        x = x + self.o_proj(attended.transpose(1, 2).reshape(batch, seq, -1)) * sees
        h = self.mlp_norm(x)
        return x + self.down_proj(F.silu(self.gate_proj(h)) * self.up_proj(h))


class PaddedBatch:
    """Chats padded on the right, with what the blocks and the loss need."""

    def __init__(self, chats, pad_id):
        lengths = [len(chat.token_ids) for chat in chats]
        seq, rows = max(lengths), len(chats)
        self.real_tokens = sum(lengths)
        self.input_ids = torch.full((rows, seq), pad_id)
        self.attention_mask = torch.zeros(rows, seq, dtype=torch.long)
        self.labels = torch.zeros(rows, seq, dtype=torch.bool)
        keys = [[i for begin, end in chat.system_spans for i in range(begin, end)] for chat in chats]
        width = max(1, max(map(len, keys)))
        self.span_index = torch.zeros(rows, width, dtype=torch.long)
        visible = torch.zeros(rows, seq, width, dtype=torch.bool)
        for row, (chat, span) in enumerate(zip(chats, keys)):
            length = lengths[row]
            self.input_ids[row, :length] = torch.tensor(chat.token_ids)
            self.attention_mask[row, :length] = 1
            self.labels[row, :length] = torch.tensor(chat.label_mask(), dtype=torch.bool)
            self.span_index[row, : len(span)] = torch.tensor(span, dtype=torch.long)
            visible[row, :, : len(span)] = (
                torch.arange(seq)[:, None] >= torch.tensor(span, dtype=torch.long)[None, :]
            )
        self.sees = visible.any(-1, keepdim=True)
        self.mask = torch.zeros(visible.shape).masked_fill_(~visible, -1e9)[:, None]


def summed_loss(model, hidden, batch, logits):
    """Summed cross-entropy of a batch's labels and their number. `logits`: "all" makes those of every position, as
    transformers' own loss does; "labels" only those that have a label."""
    targets, wanted = batch.input_ids[:, 1:], batch.labels[:, 1:]
    if logits == "labels":
        values, targets = model.lm_head(hidden[:, :-1][wanted]), targets[wanted]
    else:
        values, targets = model.lm_head(hidden)[:, :-1].flatten(0, 1), targets.masked_fill(~wanted, -100).flatten()
    return F.cross_entropy(values.float(), targets, ignore_index=-100, reduction="sum"), int(wanted.sum())


class EagerCal(nn.Module):
    """A frozen transformers decoder and its blocks; forward gives the summed loss of a batch's labels."""

    def __init__(self, model, placement, logits):
        super().__init__()
        self.model = [model]  # kept out of parameters()
        self.logits = logits
        self.blocks = nn.ModuleDict({str(layer): PaddedCalBlock(model.config) for layer in placement})
        self.batch = None
        for layer in placement:
            model.model.layers[layer].register_forward_hook(self._hook(self.blocks[str(layer)]))

    def _hook(self, block):
        return lambda module, args, output: block(
            output, self.batch.span_index, self.batch.mask, self.batch.sees
        )

    def forward(self, batch):
        """Summed loss over the label tokens and their number."""
        self.batch, model = batch, self.model[0]
        hidden = model.model(
            batch.input_ids, attention_mask=batch.attention_mask, use_cache=False
        ).last_hidden_state
        return summed_loss(model, hidden, batch, self.logits)
