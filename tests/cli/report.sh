#!/usr/bin/env bash
# motley report: pages of all kinds of documents; one file without scripts or addresses; text escaped; other formats.
. "$SOURCE/tests/cli/lib.bash"
small="gpt2:layers=2,heads=2,embed=32,context=16,vocab=64"

# page FILE MOST KIND...: it is whole, small enough, refers to nothing, and has the pictures, each with its names.
page() {
  local file=$1 most=$2
  shift 2
  [ "$(stat -c %s "$file")" -le "$most" ] || fail "$file has $(stat -c %s "$file") bytes, more than $most"
  [ "$(tail -n 1 "$file")" = "</html>" ] || fail "$file does not end"
  ! grep -qiE '<script|<iframe|<object|@import|url\(|[a-z]+="?https?:|(src|srcset|poster)=' "$file" ||
    fail "$file refers to something: $(grep -oiE '.{40}(<script|@import|url\(|https?:).{40}' "$file" | head -n 1)"
  for picture; do
    for form in wide narrow; do
      grep -q "<svg id=\"$picture-$form\" role=\"img\" aria-labelledby=\"$picture-$form-t $picture-$form-d\"" "$file" ||
        fail "$file has no picture $picture-$form"
      grep -qE "<title id=\"$picture-$form-t\">[^<]+</title>" "$file" || fail "$file: $picture-$form has no title"
      grep -qE "<desc id=\"$picture-$form-d\">[^<]+</desc>" "$file" || fail "$file: $picture-$form has no description"
    done
    grep -q "<table id=\"$picture\">" "$file" || fail "$file has no table $picture"
  done
  local twice
  twice=$(grep -oE ' id="[^"]*"' "$file" | sort | uniq -d)
  [ -z "$twice" ] || fail "$file: the same id twice: $twice"
}
cluster_pictures="topology pairs roofline-0 devices"
plan_pictures="holders memory timeline memory-over-time alternatives binds"

# A described cluster of 64 GPUs, alone; a plan of a small model for few of them, with and without its cluster.
$MOTLEY profile --describe "h100:4x8 nvlink=450G net=400G + a100-80:4x8 nvlink=300G net=200G" -o large.json >/dev/null
$MOTLEY report large.json -o large.html
page large.html 500000 $cluster_pictures
here="a100-40:1x2 nvlink=300G net=100G + a10:1x2"
$MOTLEY profile --describe "$here" -o cluster.json >/dev/null
$MOTLEY plan --cluster cluster.json --model $small --batch 16 --use all -o plan.json >/dev/null
$MOTLEY report cluster.json plan.json -o both.html
page both.html 500000 topology pairs roofline-0 roofline-1 devices holders-2 memory-2 timeline-2 memory-over-time-2 \
  alternatives-2
$MOTLEY report plan.json --cluster "$here" >plan.html
page plan.html 500000 holders memory timeline memory-over-time alternatives
$MOTLEY report plan.json -o alone.html
page alone.html 500000 holders memory alternatives
! grep -q 'id="timeline' alone.html || fail "a step is simulated without a cluster"
has 'need the cluster' <alone.html || fail "alone.html does not say what is missing"
$MOTLEY report plan.json --cluster "$here" | cmp - plan.html || fail "the page is not stable"

# Geometry and text, read back by a program that shares nothing with the writer, against the documents; the simulated
# times are those of the trace. Numbers of the page that are altered are noticed.
agrees() { "$READ_REPORT" "$@" >read.txt 2>&1 || fail "$*: $(head -n 5 read.txt)"; }
$MOTLEY explain plan.json --cluster "$here" --trace predicted.json >/dev/null
agrees plan.html plan=plan.json trace=predicted.json mutants
agrees large.html cluster=large.json mutants
$MOTLEY profile --describe "a10:1x4 egress=100M ingress=10G + h100:1 + l4:2x2 net=200G" -o unlike.json >/dev/null
$MOTLEY report unlike.json -o unlike.html
agrees unlike.html cluster=unlike.json mutants
sed 's/\(<table id="pairs">.*\)/\1/; /<table id="pairs">/,/<\/table>/s/<td class="r">\([1-9]\)\([0-9.]* GB\)/<td class="r">1\1\2/' large.html >altered.html
! "$READ_REPORT" altered.html cluster=large.json 2>/dev/null >&2 || fail "altered cells are not noticed"
sed 's/"GB\/s"/&/; s/: \([0-9]\)\([0-9.]* GB\/s<\/title>\)/: 9\1\2/' large.html >altered.html
! "$READ_REPORT" altered.html cluster=large.json 2>/dev/null >&2 || fail "altered names are not noticed"

# A what-if, with prices; a run with its trace, beside which the predicted step is written.
printf 'class,price_per_hour\na100-40,1.5\na10,0.5\nh100,4\n' >prices.csv
$MOTLEY whatif --cluster cluster.json --plan plan.json --tokens 1G --prices prices.csv --set link.net=400G --remove 2xa10 \
  --add 2xh100 --json=whatif.json >/dev/null
$MOTLEY report whatif.json -o whatif.html
page whatif.html 500000 alternatives-rates costs
agrees whatif.html whatif=whatif.json mutants

mpirun --bind-to none --oversubscribe -n 2 "$MOTLEY" profile --budget 2 -o here.json >profile.txt 2>&1 || fail "$(cat profile.txt)"
$MOTLEY plan --cluster here.json --model $small --batch 8 --steps 30 --use all -o cpu.json >/dev/null
seq 20000 >data.txt
mpirun --bind-to none --oversubscribe -n 2 "$MOTLEY" train cpu.json --data data.txt --out run --checkpoint-every 10 --keep 3 --eval-every 10 \
  --trace trace.json --cluster here.json >run.txt 2>&1 || fail "$(cat run.txt)"
for rank in 0 1 1000000 1000001; do
  has "\"ph\": \"X\", \"pid\": $rank," <trace.json || fail "the trace has no events of process $rank"
done
$MOTLEY report run trace.json cpu.json --cluster here.json -o run.html
page run.html 500000 loss-2 tokens-2 steps-2 run-ranks-2 measured-timeline-2
has 'A step as predicted and as measured' <run.html || fail "nothing is predicted beside the trace"
for step in 10 20 30; do has "<td class=\"r\">$step</td><td>checkpoint</td>" <run.html || fail "no checkpoint $step"; done
$MOTLEY report run -o alone.html
agrees alone.html run=run/run.json metrics=run/metrics.csv mutants
$MOTLEY report here.json -o here.html
agrees here.html cluster=here.json mutants
refused 2 "say --trace" $MOTLEY train cpu.json --data data.txt --cluster here.json
refused 2 "name the run's folder" $MOTLEY report trace.json

# A purchase.
printf 'name,based_on,devices,price,net\nbig,H100,2,60k,100Gbps\nsmall,l4,1,3000,25G\n' >catalogue.csv
$MOTLEY buy --catalogue catalogue.csv --job "model=gpt2:layers=1,heads=8,embed=1024,context=128,vocab=2048 batch=64 \
steps=500 precision=f16" --budget 70k -o purchase.json >/dev/null
$MOTLEY report purchase.json -o purchase.html
page purchase.html 500000 purchases next
agrees purchase.html purchase=purchase.json mutants

# 512 ranks: equal ones are folded.
$MOTLEY plan --cluster "h100:64x8 net=400G" --model mlp:layers=2,hidden=256 --batch 2048 --use all \
  --strategy data -o many.json >/dev/null
$MOTLEY report many.json --cluster "h100:64x8 net=400G" -o many.html
page many.html 2000000 holders memory timeline memory-over-time alternatives

# Names are text wherever they come: in titles, attributes, pictures, tables, and cells of spreadsheets.
cp cluster.json '<script>&"'"'"'.json'
$MOTLEY report '<script>&"'"'"'.json' -o named.html
page named.html 500000 topology
has -F '<h2 id="s1">Cluster &lt;script&gt;&amp;&quot;&#39;.json</h2>' <named.html || fail "$(grep '<h[12]' named.html)"
for format in md csv json; do
  $MOTLEY report cluster.json plan.json --format $format -o page.$format
  [ -s page.$format ] || fail "page.$format is empty"
done
has '^| nodes | name ' <page.md || fail "$(head page.md)"
has '^topology,' <page.csv || fail "$(head page.csv)"
has '"format": "motley-tables"' <page.json || fail "$(head page.json)"

# Refusals name what is wrong.
refused 2 "Name a document" $MOTLEY report
refused 2 "xml" $MOTLEY report cluster.json --format xml
hash_of() { sed -n 's/.*"hash": "\([0-9a-f]*\)".*/\1/p' "$1" | tail -n 1; }
$MOTLEY profile --describe "h100:1x2" -o other.json >/dev/null
refused 2 "plan.json: cluster_hash: the plan was made for another cluster ($(hash_of cluster.json)) than other.json ($(hash_of other.json))" \
  $MOTLEY report plan.json --cluster other.json -o refused.html
refused 2 "cpu.json: cluster_hash: the plan was made for another cluster" $MOTLEY report run cpu.json --cluster h100:1x2 -o refused.html
refused 2 "--cluster: has no use without a plan" $MOTLEY report cluster.json --cluster h100:1x2 -o refused.html
[ ! -e refused.html ] || fail "a refused report was written"
echo '{"format": "motley-tune", "version": 1}' >other.json
refused 2 'there is no report' $MOTLEY report other.json
refused 2 nothing.json $MOTLEY report nothing.json
