#!/usr/bin/env bash
# Makes every file of tests/golden anew. PYTHON names an interpreter with tools/golden/requirements.txt installed.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
golden="$here/../../tests/golden"
python=${PYTHON:-python3}
export OMP_NUM_THREADS=1

rm -rf "$golden/models" "$golden/model"
"$python" "$here/make_tiny_models.py" "$golden/models"
"$python" "$here/make_model_goldens.py" "$golden/models" "$golden/model"
"$python" "$here/make_lora_goldens.py" "$golden/models" "$golden/model"
"$python" "$here/make_analysis_goldens.py" "$golden/models" "$golden/model" "$golden/study"
"$python" "$here/make_data_statistics.py"
"$python" "$here/make_ifeval_goldens.py" "$golden/ifeval"
"$python" "$here/text_tokenizers.py" "$golden/text"
"$python" "$here/text_templates.py" "$golden/text"
rm -rf "$golden/weights"
"$python" "$here/weights_blocks.py" "$golden/weights"
"$python" "$here/weights_rope.py" "$golden/weights"
"$python" "$here/weights_gguf.py" "$golden/models" "$golden/weights"

backbone="$here/../../.deps/models/SmolLM2-135M-Instruct.Q4_1.gguf"
if [[ -f "$backbone" ]]; then
  "$python" "$here/make_score_goldens.py" "$backbone" "$golden/score"
  "$python" "$here/make_training_goldens.py" "$backbone" "$golden"
else
  echo "SKIPPED score and training: the default backbone is absent (./run build fetches it)" >&2
fi

data=${CALYREX_EVAL_DATA:-$here/../../../shared/data}
if [[ -f "$backbone" && -d "$data" ]]; then
  "$python" "$here/make_eval_goldens.py" "$backbone" "$data" "$golden/eval"
else
  echo "SKIPPED eval: the default backbone or the benchmark data (CALYREX_EVAL_DATA) are absent" >&2
fi
