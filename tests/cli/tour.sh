#!/usr/bin/env bash
# README.md's tour: its commands run, in order, in one empty folder, and print what the README says they print.
#
#   tests/cli/tour.sh            compare (the test cli_tour)
#   tests/cli/tour.sh --update   write what the commands print now into README.md; for whoever changes what is printed
#
# MOTLEY names the program [build/release/motley], SOURCE the source [this script's]. In README.md:
#
#   ```console               a block of the tour. What needs a GPU, hours or a download stands in other blocks (```sh).
#   $ COMMAND                one command of bash; lines that end with \ go on. It must end with 0.
#   ...                      alone on a line: any number of lines
#   OTHER                    a line of output: stderr's lines first, then stdout's
#   ```
#   ```console generated     the same, but the output is a model's text: only its first two words are compared
#
# Lines are compared in form, so that neither the machine nor its speed matters: numbers with their units, "-" in place
# of a number, hashes, spaces, remarks in parentheses with a percentage, and names of hosts and CPUs are all alike.
# With --update a line of the README becomes the line of the output that shares most words with it; where the README
# has "...", the rest stays left out; a command without output in the README gets all of it.
SOURCE=${SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)}
MOTLEY=${MOTLEY:-$SOURCE/build/release/motley}
. "$SOURCE/tests/cli/lib.bash"
for tool in mpirun bible; do
  command -v $tool >/dev/null || { echo "the tour needs $tool (examples/install.sh build data)"; exit 77; }
done
for module in onednn glpk; do
  [ -e "$(dirname "$MOTLEY")/motley_$module.so" ] || { echo "the tour needs motley_$module.so"; exit 77; }
done
[ -z "${ASAN_OPTIONS:-}" ] || { echo "the tour is run without sanitizers only: other tests run its commands"; exit 77; }
PATH=$(dirname "$MOTLEY"):$PATH
export PATH OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
mkdir tour work # the tour's own folder; and this script's

# Each command into work/N.command, the output that the README gives it into work/N.want; into work/index its number,
# kind ("console" or "console generated"), and the first and last line of that output in the README (last < first: none).
awk '
function finish() {
  if (command == "") return
  while (last >= first && line[last] ~ /^$/) last--
  print ++n "|" kind "|" first "|" last >"work/index"
  printf "%s", command >("work/" n ".command")
  printf "" >("work/" n ".want")
  for (i = first; i <= last; i++) print line[i] >("work/" n ".want")
  command = ""
}
{ line[NR] = $0 }
/^```/ { finish(); inside = !inside; kind = inside ? substr($0, 4) : ""; next }
inside && kind ~ /^console/ && going { command = command $0 "\n"; going = /\\$/; first = NR + 1; last = NR; next }
/^\$ / && kind !~ /^console( generated)?$/ { print "README.md:" NR ": a command outside of a ```console block"; bad = 1 }
inside && kind ~ /^console/ && /^\$ / { finish(); command = substr($0, 3) "\n"; going = /\\$/; first = NR + 1; last = NR; next }
{ last = NR }
END { if (n < 10) { print "README.md: has only " n + 0 " commands in ```console blocks"; bad = 1 } exit bad }
' "$SOURCE/README.md" || fail "README.md's tour cannot be read"

# form GENERATED FILE: what is compared.
form() {
  awk -v generated="$1" '
  { gsub(/ *\([^()]*%[^()]*\)/, ""); gsub(/[(),;]/, " "); gsub(/:( |$)/, " "); gsub(/ stolen /, " "); sub(/worst [^ ]+/, "worst NAME")
    out = ""; previous = ""; count = generated ? (NF < 2 ? NF : 2) : NF
    for (i = 1; i <= count; i++) {
      word = $i
      if (!generated) {
        if (word ~ /^[0-9a-f]+$/ && length(word) >= 16) word = "HASH"
        else if (word ~ /^[-+]?[0-9]+([-.:,\/][0-9]+)*(e[-+]?[0-9]+)?%?$/ || word == "-") word = "N"
        else if (word ~ /^[a-z0-9_]+-[0-9]+t$/) word = "CLASS"
        if (previous == "N" && word ~ /^([num]?s|[KMGT]iB|B|[kMGTP]?B\/s|[kMGTP]|[kMGT]bit\/s|[kMGTP]?flop\/s|N)$/) continue
      }
      if (word == "CLASS" && i == 3 && out ~ /^ N /) out = " N HOST"
      out = out " " word
      previous = word
    }
    print out
    if (generated) exit }' "$2"
}

# same WANT GOT: the lines of WANT, with "..." for any, are those of GOT.
same() {
  awk '
  function matches(i, j) {
    if (i > m) return j > n
    if (want[i] == " ...") return matches(i + 1, j) || (j <= n && matches(i, j + 1))
    return j <= n && want[i] == got[j] && matches(i + 1, j + 1)
  }
  NR == FNR { want[++m] = $0; next }
  { got[++n] = $0 }
  END { exit !matches(1, 1) }' "$1" "$2"
}

# renewed N: the lines of N.want made new by those of N.got. The best alignment by words that lines share (in their
# forms), by dynamic programming; a line of N.got that has no partner is left out where "..." stands, else it is new.
renewed() {
  [ -s "work/$1.want" ] || { cat "work/$1.got"; return; }
  paste -d '\n' "work/$1.want" "work/$1.want.form" >work/want.pairs
  paste -d '\n' "work/$1.got" "work/$1.got.form" >work/got.pairs
  awk '
  function shared(a, b, words, first, second, has, k, s) {
    first = split(a, words, " "); split("", has)
    for (k = 1; k <= first; k++) has[words[k]]++
    second = split(b, words, " "); s = 0
    for (k = 1; k <= second; k++) if (has[words[k]]-- > 0) s++
    return s ? 2 * s / (first + second) : a == b
  }
  # More than 0: the two may be one line. Equal forms count most, then words, then numbers.
  function likeness(i, j, words) {
    words = want_form[i] == got_form[j] ? 100 : shared(want_form[i], got_form[j])
    return words < 0.4 ? 0 : words + shared(want[i], got[j])
  }
  NR == FNR { if (FNR % 2) want[++m] = $0; else want_form[m] = $0; next }
  { if (FNR % 2) got[++n] = $0; else got_form[n] = $0 }
  END {
    for (i = m + 1; i >= 1; i--) for (j = n + 1; j >= 1; j--) {
      best[i, j] = -0.001 * (n + 1 - j); move[i, j] = j <= n ? "new" : "end"
      dots = want[i] == "..."
      if (i <= m) { best[i, j] = best[i + 1, j]; move[i, j] = dots ? "pass" : "drop" }
      rest = j <= n ? best[i, j + 1] - (dots ? 0 : 0.001) : -1
      if (rest > best[i, j]) { best[i, j] = rest; move[i, j] = dots ? "leave" : "new" }
      if (i <= m && j <= n && !dots && (s = likeness(i, j)) > 0 && s + best[i + 1, j + 1] >= best[i, j]) {
        best[i, j] = s + best[i + 1, j + 1]; move[i, j] = "pair" }
    }
    for (i = j = 1; move[i, j] != "end";) {
      step = move[i, j]
      if (step == "pass") print "..."
      if (step == "pair" || step == "new") print got[j]
      if (step == "pair" || step == "pass" || step == "drop") i++
      if (step == "pair" || step == "leave" || step == "new") j++
    }
  }' work/want.pairs work/got.pairs
}

failed=0
cp "$SOURCE/README.md" work/README.md
while IFS='|' read -r n kind first last; do
  code=0
  (cd tour && bash "../work/$n.command" </dev/null >../work/out 2>../work/err) || code=$?
  cat work/err work/out >"work/$n.got"
  sed -i -e :a -e '/^\n*$/{$d;N;ba' -e '}' "work/$n.got" # without blank lines at its end
  if [ $code != 0 ]; then
    echo "README.md:$((first - 1)): ended with $code: $(cat "work/$n.command")"
    cat "work/$n.got"
    exit 1 # what follows needs it
  fi
  generated=""
  [ "$kind" = console ] || generated=1
  for what in want got; do form "$generated" "work/$n.$what" >"work/$n.$what.form"; done
  if [ "${1:-}" = --update ]; then
    if [ -n "$generated" ]; then cp "work/$n.got" "work/$n.new"; else renewed "$n" >"work/$n.new"; fi
  elif ! same "work/$n.want.form" "work/$n.got.form"; then
    echo "README.md:$first: has other lines than are printed by: $(cat "work/$n.command")"
    diff "work/$n.want.form" "work/$n.got.form" || true
    echo "all that is printed:"
    cat "work/$n.got"
    failed=1
  fi
done <work/index
[ "${1:-}" != --update ] || while IFS='|' read -r n _ first last; do # from the end: numbers of lines stay
  [ "$last" -lt "$first" ] || sed -i "${first},${last}d" work/README.md
  sed -i "$((first - 1))r work/$n.new" work/README.md
done < <(tac work/index)
[ "${1:-}" != --update ] || cp work/README.md "$SOURCE/README.md"
[ $failed = 0 ] || fail "README.md is not what the program prints; when the program is right: tests/cli/tour.sh --update"
