"""Writes a CAL adapter folder with random non-zero weights, for compare_score.py.

python make_adapter.py --model M --output DIR --placement late8th --set position=rope intermediate_size=64
"""

import argparse
import json

import torch

from reference.backbone import load_backbone
from reference.cal import PRESETS, CalAdapter, CalConfig, norms_digest
from reference.hashed import fill_hashed


def parse_options(pairs):
    """["position=rope", "qk_norm=true"] -> {"position": "rope", "qk_norm": True}"""
    options = {}
    for pair in pairs:
        key, _, value = pair.partition("=")
        options[key] = value if value[:1].isalpha() and value not in ("true", "false") else json.loads(value)
    return options


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--placement", default="late8th", help="a preset or a JSON list of layers")
    parser.add_argument(
        "--amplitude", type=float, default=0.0625, help="a power of two; weights are uniform within it"
    )
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16", "float16"])
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help='keys of the "cal" section')
    arguments = parser.parse_args()
    model = load_backbone(arguments.model)
    layers = model.config.num_hidden_layers
    preset = PRESETS.get(arguments.placement)
    placement = list(preset(layers)) if preset else json.loads(arguments.placement)
    config = CalConfig.like_backbone(model.config, **parse_options(arguments.set))
    adapter = fill_hashed(CalAdapter(model.config.hidden_size, placement, config), arguments.amplitude)
    adapter.save(arguments.output, model.config, norms_digest(model), getattr(torch, arguments.dtype))


if __name__ == "__main__":
    main()
