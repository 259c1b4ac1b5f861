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
