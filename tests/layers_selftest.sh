#!/usr/bin/env bash
# layers_test.sh must see each kind of wrong include.
set -euo pipefail
test=$(cd "$(dirname "$0")" && pwd)/layers_test.sh
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

# expect WORDS FILE INCLUDE...: a tree with these includes in FILE is refused with WORDS ("" = fine).
expect() {
  local words=$1 file=$2 output
  shift 2
  rm -rf "${tree:?}"/*
  mkdir -p "$tree"/{kernels,core,formats,model,quantize,qat,report,cli,recipes}
  for header in kernels/elq_layout kernels/elq_kernels core/a formats/b model/decoder qat/trainer \
    qat/run_qat cli/c quantize/run_quantize; do
    : >"$tree/$header.h"
  done
  echo '#include <torch/torch.h>' >"$tree/model/decoder.h"
  printf '#include %s\n' "$@" >"$tree/$file"
  if output=$(bash "$test" "$tree" 2>&1); then
    [ -z "$words" ] && return 0
  elif [ -n "$words" ] && grep -qF -- "$words" <<<"$output"; then
    return 0
  fi
  echo "layers_selftest: $file with $*: expected '$words', got: $output" >&2
  exit 1
}

expect '' core/x.cc '"core/a.h"' '"kernels/elq_layout.h"' '<vector>'
expect '' recipes/x.cc '"qat/run_qat.h"'
expect '' qat/x.cc '"model/decoder.h"'
expect 'core may not include "kernels/elq_kernels.h"' core/x.cc '"kernels/elq_kernels.h"'
expect 'core may not include "formats/b.h"' core/x.h '"formats/b.h"'
expect 'kernels may not include "core/a.h"' kernels/x.c '"core/a.h"'
expect '' quantize/run_x.cc '"formats/b.h"'
expect 'quantize may not include "formats/b.h"' quantize/x.cc '"formats/b.h"'
expect 'formats may not include "kernels/elq_kernels.h"' formats/x.cc '"kernels/elq_kernels.h"'
expect 'recipes may not include "qat/trainer.h"' recipes/x.cc '"qat/trainer.h"'
expect 'report may not include "cli/c.h"' report/x.cc '"cli/c.h"'
expect 'written from the root' core/x.cc '"a.h"'
expect 'use quotes' formats/x.cc '<core/a.h>'
expect 'without LibTorch' report/x.cc '<ATen/Parallel.h>'
expect 'model/x.cc is in a target without LibTorch' model/x.cc '"model/decoder.h"'
expect 'quantize/plan.cc is in a target without LibTorch' quantize/plan.cc '"model/decoder.h"'
echo "layers_selftest: passed"
