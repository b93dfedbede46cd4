#!/usr/bin/env bash
# Includes of ours go down the order of docs/architecture.md, are written from the root, name a file
# that is there, and only the LibTorch targets see LibTorch, directly or through a header of ours.
# layers_test.sh [ROOT]: another tree, to test this test (tests/layers_selftest.sh).
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

# folder: what it may include besides itself. Of quantize only the stage files (run_*) see formats and model:
# the algorithms take spans. recipes takes the stages' run_*.h (their options) and
# nothing else of theirs; nobody includes tests, and only tests include cli.
rules='kernels
core kernels/elq_layout.h
formats core/ kernels/elq_layout.h
model core/ formats/ kernels/
calibrate core/ formats/ model/
quantize core/ kernels/
qat core/ formats/ kernels/ model/ quantize/
export core/ formats/ kernels/ model/ quantize/
report core/ formats/
recipes core/ model/config.h model/metrics.h model/run_ report/run_ calibrate/run_ quantize/run_ qat/run_ export/run_
cli core/ recipes/ model/run_ calibrate/run_ quantize/run_ qat/run_ export/run_ report/run_
data-samples core/ formats/ model/'

# Sources of the targets that link LibTorch; a header they own may include it.
torch_files='^(calibrate/|qat/|model/(decoder|evaluate|run_evaluate\.cc)|quantize/run_(blocks|propagate|quantize\.cc)|cli/torch_)'

folders=$(awk '{print $1}' <<<"$rules")
existing=$(for folder in $folders; do if [ -d "$folder" ]; then echo "$folder"; fi; done)

# shellcheck disable=SC2086
includes=$(grep -rnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]' \
  --include='*.h' --include='*.c' --include='*.cc' $existing || true)
# shellcheck disable=SC2086
files=$(find $existing -name '*.h')

awk -v rules="$rules" -v files="$files" -v torch_files="$torch_files" '
  function refuse(place, text) { print place ": " text > "/dev/stderr"; bad = 1 }
  BEGIN {
    n = split(rules, line, "\n")
    for (i = 1; i <= n; i++) {
      m = split(line[i], word, " ")
      allowed[word[1]] = word[1] "/"
      for (j = 2; j <= m; j++) allowed[word[1]] = allowed[word[1]] " " word[j]
    }
    n = split(files, line, "\n")
    for (i = 1; i <= n; i++) is_file[line[i]] = 1
  }
  {
    split($0, part, ":")
    file = part[1]
    place = file ":" part[2]
    match($0, /["<][^">]*[">]/)
    quote = substr($0, RSTART, 1)
    name = substr($0, RSTART + 1, RLENGTH - 2)
    folder = file; sub(/\/.*/, "", folder)
    first = name; sub(/\/.*/, "", first)
    count++
    if (name ~ /^(torch|ATen|c10|caffe2)\//) {
      sees[file] = place
      next
    }
    ours = (first in allowed) || first == "tests"
    if (quote == "<") {
      if (ours) refuse(place, "<" name "> is ours: use quotes")
      next
    }
    if (!(name in is_file)) refuse(place, "\"" name "\" is not a header of ours, written from the root")
    ok = 0
    m = split(allowed[folder], prefix, " ")
    for (j = 1; j <= m; j++) if (index(name, prefix[j]) == 1) ok = 1
    if (file ~ /^quantize\/run_/ && (first == "formats" || first == "model")) ok = 1
    if (!ok) refuse(place, folder " may not include \"" name "\"")
    edges++
    from[edges] = file; to[edges] = name; at[edges] = place
  }
  END {
    # Whoever includes a header that sees LibTorch sees it too.
    do {
      changed = 0
      for (i = 1; i <= edges; i++) {
        if (!(to[i] in sees) || (from[i] in sees)) continue
        sees[from[i]] = at[i]
        changed = 1
      }
    } while (changed)
    for (file in sees) {
      if (file !~ torch_files) refuse(sees[file], file " is in a target without LibTorch but includes it")
    }
    if (count == 0) refuse("layers", "no include found")
    if (!bad) print "layers: " count " includes, all go down"
    exit bad
  }' <<<"$includes"
