#!/usr/bin/env bash
# Every #include of ours goes down the order of docs/architecture.md, and is written from the root.
set -euo pipefail
cd "$(dirname "$0")/.."

# folder: what it may include besides itself. recipes takes the stages' run_*.h (their options) and nothing else of theirs.
declare -A allowed=(
  [kernels]=""
  [core]="kernels/elq_layout.h"
  [formats]="core/ kernels/"
  [model]="core/ formats/ kernels/"
  [calibrate]="core/ formats/ model/"
  [quantize]="core/ formats/ kernels/ model/"
  [qat]="core/ formats/ kernels/ model/ quantize/"
  [export]="core/ formats/ kernels/ model/ quantize/"
  [report]="core/ formats/"
  [recipes]="core/ model/ report/ calibrate/run_ quantize/run_ quantize/plan.h qat/run_ export/run_"
  [cli]="core/ kernels/ formats/ model/ report/ recipes/ calibrate/run_ quantize/run_ qat/run_ export/run_"
)

status=0
for folder in "${!allowed[@]}"; do
  while IFS=: read -r file line text; do
    included=$(sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*"\([^"]*\)".*/\1/p' <<<"$text")
    ok=no
    for prefix in "$folder/" ${allowed[$folder]}; do
      case $included in "$prefix"*) ok=yes ;; esac
    done
    if [ "$ok" = no ]; then
      echo "$file:$line: $folder may not include \"$included\"" >&2
      status=1
    fi
  done < <(grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' --include='*.h' --include='*.c' --include='*.cc' "$folder")
done
[ "$status" = 0 ] && echo "layers: all includes go down"
exit "$status"
