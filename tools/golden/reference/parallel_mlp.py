"""ParallelMLP: late capacity of the same kind as a CAL block's MLP, without the route to the span."""

import contextlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn

from reference.cal import GatedMlp, RMSNorm, adapter_document, visibility


@dataclass
class ParallelMlpConfig:
    """The "parallel_mlp" section of adapter_config.json."""

    intermediate_size: int
    rms_norm_eps: float
    input: str = "serial"
    mlp_scope: str = "all"


class ParallelMlpBlock(nn.Module):
    def __init__(self, hidden_size, config):
        super().__init__()
        self.mlp_norm = RMSNorm(hidden_size, config.rms_norm_eps)
        self.mlp = GatedMlp(hidden_size, config.intermediate_size)


class ParallelMlpAdapter(nn.Module):
    def __init__(self, hidden_size, placement, config):
        super().__init__()
        self.placement, self.config = list(placement), config
        self.blocks = nn.ModuleDict({str(i): ParallelMlpBlock(hidden_size, config) for i in self.placement})

    @classmethod
    def load(cls, folder, model_config):
        document = json.loads((Path(folder) / "adapter_config.json").read_text())
        config = ParallelMlpConfig(**{"rms_norm_eps": model_config.rms_norm_eps, **document["parallel_mlp"]})
        adapter = cls(model_config.hidden_size, document["placement"], config)
        tensors = load_file(Path(folder) / "adapter_model.safetensors")
        adapter.load_state_dict({name: tensor.float() for name, tensor in tensors.items()}, strict=True)
        return adapter

    def save(self, folder, model_config, norms_sha256=None, dtype=torch.float32):
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        section = {"parallel_mlp": asdict(self.config)}
        document = adapter_document("parallel_mlp", self.placement, section, model_config, norms_sha256)
        (folder / "adapter_config.json").write_text(json.dumps(document, indent=2) + "\n")
        tensors = {name: tensor.detach().to(dtype).contiguous() for name, tensor in self.state_dict().items()}
        save_file(tensors, folder / "adapter_model.safetensors")

    @contextlib.contextmanager
    def attached(self, model, seq_len, spans, scale=1.0):
        sees = visibility(seq_len, spans, "inclusive").any(-1, keepdim=True)

        def hook_of(block):
            def hook(module, args, output):
                x = output[0] if self.config.input == "serial" else args[0][0]
                update = block.mlp(block.mlp_norm(x))
                return (
                    output[0] + scale * (update * sees if self.config.mlp_scope == "anchored" else update)
                )[None]

            return hook

        layers = model.model.layers
        handles = [layers[i].register_forward_hook(hook_of(self.blocks[str(i)])) for i in self.placement]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
