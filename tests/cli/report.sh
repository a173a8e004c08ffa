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
echo '{"format": "motley-tune", "version": 1}' >other.json
refused 2 'there is no report' $MOTLEY report other.json
refused 2 nothing.json $MOTLEY report nothing.json
