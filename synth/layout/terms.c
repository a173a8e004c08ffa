/* Whether a collective gives each new part its terms.
 *
 * A complete new box must get a whole old cover. In a cover of several parts, ranks of one part must get the same old
 * parts, and all of its parts together each part of one old cover once. */
#include <stdlib.h>
#include <string.h>

#include "synth/layout/number.h"
#include "synth/layout/study.h"

static bool holds_new(const struct mt_study *s, int rank) {
    return mt_box_count(&s->to->box[rank], s->to->naxes) > 0;
}

static bool reductions_differ(const struct mt_study *s) {
    return mt_layout_is_partial(s->to) && s->to->reduce != s->from->reduce;
}

static int old_cover(const struct mt_study *s, int rank) {
    return s->from->cover[s->from->part[rank]];
}

static int new_cover(const struct mt_study *s, int rank) {
    return s->to->cover[s->to->part[rank]];
}

/* ---- gathers and slices: elements keep their old part, which differs by region where covers do ---- */

/* What one new part gets from one old cover. */
struct feed {
    struct mt_numbering part;   /* (new part, old cover) -> the old part in part_of[] */
    struct mt_numbering unique; /* (new cover, old part) -> the new part in new_of[] */
    struct mt_numbering covers; /* (new cover, old cover) -> how many new parts, in fed[] */
    int *part_of, *new_of, *fed;
};

static void feed_init(struct feed *f, int nranks) {
    mt_numbering_init(&f->part, nranks);
    mt_numbering_init(&f->unique, nranks);
    mt_numbering_init(&f->covers, nranks);
    f->part_of = mt_calloc((size_t)(3 * nranks), sizeof *f->part_of);
    f->new_of = f->part_of + nranks, f->fed = f->new_of + nranks;
}

static void feed_release(struct feed *f) {
    free(f->part_of);
    mt_numbering_release(&f->part);
    mt_numbering_release(&f->unique);
    mt_numbering_release(&f->covers);
}

/* Note that the rank's new part gets elements of its old part. False if that contradicts what was noted. */
static bool feed_note(struct feed *f, const struct mt_study *s, int rank) {
    int old = s->from->part[rank], new = s->to->part[rank];
    int before = f->part.count, a = mt_numbering_pair(&f->part, new, old_cover(s, rank));
    int noted = f->unique.count, b = mt_numbering_pair(&f->unique, new_cover(s, rank), old);
    int c = mt_numbering_pair(&f->covers, new_cover(s, rank), old_cover(s, rank));
    if (a == before) f->part_of[a] = old, f->fed[c]++;
    if (b == noted) f->new_of[b] = new;
    return f->part_of[a] == old && f->new_of[b] == new;
}

/* Every new cover gets all parts of each of its old covers, in as many parts. */
static bool feed_complete(const struct feed *f, const struct mt_study *s) {
    for (int i = 0; i < f->covers.count; i++) {
        int new = f->covers.pairs[i][0], old = f->covers.pairs[i][1];
        if (s->to->cover_parts[new] != f->fed[i] || s->from->cover_parts[old] != f->fed[i]) return false;
    }
    return true;
}

/* Whether a new cover gets some element from two old covers; `given`: the layout of the boxes that it gets. */
static bool feeds_meet(struct feed *f, const struct mt_study *s, const struct mt_layout *given) {
    int *pair = mt_malloc((size_t)(3 * s->nranks) * sizeof *pair), *id = pair + s->nranks, *first = id + s->nranks;
    int count = 0;
    bool meet = false;
    struct mt_box both;
    for (int r = 0; r < s->nranks; r++)
        pair[r] = mt_layout_is_complete(s->to, r) || !mt_box_count(&given->box[r], given->naxes)
                      ? -1
                      : mt_numbering_pair(&f->covers, new_cover(s, r), old_cover(s, r));
    mt_number_boxes(given, s->nranks, pair, id);
    for (int r = 0; r < s->nranks; r++)
        if (id[r] == count) first[count++] = r;
    for (int i = 0; i < count && !meet; i++)
        for (int j = 0; j < i && !meet; j++) {
            int a = first[i], b = first[j];
            if (pair[a] < 0 || pair[b] < 0 || pair[a] == pair[b] || new_cover(s, a) != new_cover(s, b)) continue;
            meet = mt_box_intersect(&given->box[a], &given->box[b], given->naxes, &both);
        }
    free(pair);
    return meet;
}

/* `gather`: a rank gives what it holds; else it keeps its new box. */
static bool keeps_parts(const struct mt_study *s, bool gather) {
    if (reductions_differ(s)) return false;
    const struct mt_layout *given = gather ? s->from : s->to;
    struct feed f;
    bool right = true;
    feed_init(&f, s->nranks);
    for (int r = 0; r < s->nranks && right; r++) {
        if (!mt_box_count(&given->box[r], given->naxes)) continue;
        bool complete = mt_layout_is_complete(s->to, r);
        right = complete ? mt_layout_is_complete(s->from, r) : feed_note(&f, s, r);
    }
    right = right && feed_complete(&f, s) && !(f.covers.count > 1 && feeds_meet(&f, s, given));
    feed_release(&f);
    return right;
}

bool mt_study_slice(const struct mt_study *s) {
    if (!mt_layout_is_partial(s->from) && !mt_layout_is_partial(s->to)) return true;
    return keeps_parts(s, false);
}

bool mt_study_gather(const struct mt_study *s) {
    if (!mt_layout_is_partial(s->from) && !mt_layout_is_partial(s->to)) return true;
    return keeps_parts(s, true);
}

/* ---- reductions: a group's ranks have different parts of one old cover ---- */

static int compare_ints(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* The old parts of each group, sorted, at the places of its members. */
static int *sorted_parts(const struct mt_study *s) {
    int *parts = mt_malloc((size_t)s->nranks * sizeof *parts);
    for (int i = 0; i < s->nranks; i++) parts[i] = s->from->part[s->members[i]];
    for (int r = 0; r < s->nranks; r++)
        qsort(parts + s->begin[r], (size_t)(s->begin[r + 1] - s->begin[r]), sizeof *parts, compare_ints);
    return parts;
}

/* What the parts of new covers have got. */
struct sums {
    int *group;               /* [to->nparts]: the first group that gives the part; -1: none yet */
    int *cover, *count;       /* [to->ncovers]: of old parts; the old cover, or -1 */
    struct mt_numbering once; /* (new cover, old part) */
};

/* Note that the group of first rank g gives the new part of rank r its old parts. */
static bool sums_note(struct sums *sums, const struct mt_study *s, const int *parts, int g, int r) {
    int new = s->to->part[r], cover = new_cover(s, r), n = s->begin[g + 1] - s->begin[g];
    int known = sums->group[new];
    if (known == g) return true;
    if (known >= 0)
        return s->begin[known + 1] - s->begin[known] == n &&
               !memcmp(parts + s->begin[known], parts + s->begin[g], (size_t)n * sizeof *parts);
    sums->group[new] = g;
    if (sums->cover[cover] >= 0 && sums->cover[cover] != old_cover(s, g)) return false;
    sums->cover[cover] = old_cover(s, g);
    sums->count[cover] += n;
    for (int i = 0; i < n; i++) {
        int before = sums->once.count;
        if (mt_numbering_pair(&sums->once, cover, parts[s->begin[g] + i]) != before) return false;
    }
    return true;
}

/* How many old parts all new parts get together. group[to->nparts] is all -1, before and after. */
static int given_parts(const struct mt_study *s, int *group) {
    int sum = 0;
    for (int r = 0; r < s->nranks; r++) {
        int new = s->to->part[r], g = s->group[r];
        if (!holds_new(s, r) || group[new] >= 0) continue;
        group[new] = g;
        sum += s->begin[g + 1] - s->begin[g];
    }
    for (int p = 0; p < s->to->nparts; p++) group[p] = -1;
    return sum;
}

bool mt_study_reduction(const struct mt_study *s) {
    const struct mt_layout *from = s->from, *to = s->to;
    int *parts = sorted_parts(s);
    struct sums sums = {.group = mt_malloc((size_t)(to->nparts + 2 * to->ncovers) * sizeof *sums.group)};
    sums.cover = sums.group + to->nparts, sums.count = sums.cover + to->ncovers;
    for (int p = 0; p < to->nparts; p++) sums.group[p] = -1;
    for (int c = 0; c < to->ncovers; c++) sums.cover[c] = -1, sums.count[c] = 0;
    mt_numbering_init(&sums.once, given_parts(s, sums.group));
    bool right = true;
    for (int r = 0; r < s->nranks && right; r++) {
        if (!holds_new(s, r)) continue;
        int g = s->group[r], n = s->begin[g + 1] - s->begin[g];
        right = s->key[r] >= 0;
        if (right && mt_layout_is_complete(to, r))
            right = n == from->cover_parts[old_cover(s, g)];
        else if (right)
            right = sums_note(&sums, s, parts, g, r);
    }
    for (int c = 0; c < to->ncovers && right; c++)
        right = sums.cover[c] < 0 || sums.count[c] == from->cover_parts[sums.cover[c]];
    mt_numbering_release(&sums.once);
    free(sums.group);
    free(parts);
    return right;
}
