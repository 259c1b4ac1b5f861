"""LoRA by PEFT on padded batches: the usual way to adapt a whole network today."""

from eager_cal import summed_loss
from peft import LoraConfig, get_peft_model
from torch import nn


class EagerLora(nn.Module):
    """A transformers decoder with LoRA in every linear but the head; forward as EagerCal."""

    def __init__(self, model, rank, logits):
        super().__init__()
        self.logits = logits
        config = LoraConfig(r=rank, lora_alpha=rank, lora_dropout=0.0, target_modules="all-linear", task_type="CAUSAL_LM")
        self.model = [get_peft_model(model, config).get_base_model()]  # kept out of parameters()
        self.trained = nn.ParameterList([p for p in model.parameters() if p.requires_grad])

    def forward(self, batch):
        """Summed loss over the label tokens and their number."""
        model = self.model[0]
        hidden = model.model(batch.input_ids, attention_mask=batch.attention_mask, use_cache=False).last_hidden_state
        return summed_loss(model, hidden, batch, self.logits)
