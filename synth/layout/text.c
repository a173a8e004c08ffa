/* Layouts as text: R, S and P by name, others box by box. */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/base/text/printed.h"
#include "synth/layout/number.h"

/* The only axis on which a box is not whole; -1 if every box is whole or empty, -2 if there are several axes. */
static int split_axis(const struct mt_layout *l, int nranks) {
    int found = -1;
    for (int r = 0; r < nranks; r++) {
        if (!mt_box_count(&l->box[r], l->naxes)) continue;
        for (int a = 0; a < l->naxes; a++) {
            if (l->box[r].lo[a] == 0 && l->box[r].hi[a] == l->extent[a]) continue;
            if (found >= 0 && found != a) return -2;
            found = a;
        }
    }
    return found;
}

/* Whether a rank's box is empty although the value has elements. */
static bool has_empty_box(const struct mt_layout *l, int nranks) {
    int64_t count = 1;
    for (int a = 0; a < l->naxes; a++) count *= l->extent[a];
    for (int r = 0; r < nranks && count; r++)
        if (!mt_box_count(&l->box[r], l->naxes)) return true;
    return false;
}

/* A layout as it is named: parts numbered within their cover. */
struct named {
    const struct mt_layout *layout;
    int nranks;
    int *number;  /* [nparts]: within its cover */
    bool overlap; /* some covers do, so that their numbers have to be said */
};

/* Whether an element is in two covers. */
static bool covers_overlap(const struct mt_layout *l, int nranks) {
    int *tag = mt_malloc((size_t)(3 * nranks) * sizeof *tag), *id = tag + nranks, *first = id + nranks, count = 0;
    bool overlap = false;
    struct mt_box both;
    for (int r = 0; r < nranks; r++) tag[r] = l->cover[l->part[r]];
    mt_number_boxes(l, nranks, tag, id);
    for (int r = 0; r < nranks; r++)
        if (id[r] == count) first[count++] = r;
    for (int i = 0; i < count && !overlap && l->ncovers > 1; i++)
        for (int j = 0; j < i && !overlap; j++)
            overlap = tag[first[i]] != tag[first[j]] &&
                      mt_box_intersect(&l->box[first[i]], &l->box[first[j]], l->naxes, &both);
    free(tag);
    return overlap;
}

static void name_parts(struct named *n) {
    const struct mt_layout *l = n->layout;
    int *next = mt_calloc((size_t)l->ncovers, sizeof *next);
    n->number = mt_malloc((size_t)l->nparts * sizeof *n->number);
    for (int p = 0; p < l->nparts; p++) n->number[p] = next[l->cover[p]]++;
    n->overlap = covers_overlap(l, n->nranks);
    free(next);
}

/* Whether the ranks of each number tile the axis in order of rank, and all covers have as many parts. */
static bool tiles_in_order(const struct named *n, int axis) {
    const struct mt_layout *l = n->layout;
    if (n->overlap) return false;
    for (int p = 0; p < l->cover_parts[0]; p++) {
        int64_t end = 0;
        for (int r = 0; r < n->nranks; r++) {
            if (l->cover_parts[l->cover[l->part[r]]] != l->cover_parts[0]) return false;
            if (n->number[l->part[r]] != p || !mt_box_count(&l->box[r], l->naxes)) continue;
            if (l->box[r].lo[axis] != end) return false;
            end = l->box[r].hi[axis];
        }
        if (end != l->extent[axis]) return false;
    }
    return true;
}

static const char *reduce_name(enum mt_reduce reduce) {
    return reduce == MT_MAX ? "max" : "sum";
}

void mt_text_of_ranks(FILE *file, const int64_t *values, int count) {
    for (int i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && count > MT_TEXT_RANKS && values[end] == values[i];) end++;
        fprintf(file, " %lld", (long long)values[i]);
        if (end - i > 1) fprintf(file, " x%d", end - i);
    }
}

/* The name of a rank's part: "1", or with its cover "0.1"; "-" if it is complete. */
static void print_part(FILE *out, const struct named *n, int rank) {
    int part = n->layout->part[rank], cover = n->layout->cover[part];
    if (n->layout->cover_parts[cover] == 1)
        fputc('-', out);
    else if (n->overlap)
        fprintf(out, "%d.%d", cover, n->number[part]);
    else
        fprintf(out, "%d", n->number[part]);
}

static bool same_part(const struct named *n, int a, int b) {
    int x = n->layout->part[a], y = n->layout->part[b];
    if (n->overlap || x == y) return x == y;
    return n->number[x] == n->number[y] && mt_layout_is_complete(n->layout, a) == mt_layout_is_complete(n->layout, b);
}

static void print_parts(FILE *out, const struct named *n) {
    const struct mt_layout *l = n->layout;
    fprintf(out, "P(%s", reduce_name(l->reduce));
    if (l->nparts < n->nranks || l->ncovers > 1) {
        fputc(':', out);
        for (int r = 0, end; r < n->nranks; r = end) {
            for (end = r + 1; end < n->nranks && n->nranks > MT_TEXT_RANKS && same_part(n, r, end);) end++;
            fputc(' ', out);
            print_part(out, n, r);
            if (end - r > 1) fprintf(out, " x%d", end - r);
        }
    }
    fputc(')', out);
}

static void print_boxes(FILE *out, const struct named *n) {
    const struct mt_layout *l = n->layout;
    for (int r = 0, end; r < n->nranks; r = end) {
        for (end = r + 1; end < n->nranks && n->nranks > MT_TEXT_RANKS && same_part(n, r, end) &&
                          mt_box_equal(&l->box[end], &l->box[r], l->naxes);)
            end++;
        fprintf(out, end - r > 1 ? "%s%d-%d[" : "%s%d[", r ? " " : "", r, end - 1);
        for (int a = 0; a < l->naxes && mt_box_count(&l->box[r], l->naxes); a++)
            fprintf(out, "%s%lld:%lld", a ? " " : "", (long long)l->box[r].lo[a], (long long)l->box[r].hi[a]);
        fputc(']', out);
        if (l->nparts == 1 || mt_layout_is_complete(l, r)) continue;
        fputc('/', out);
        print_part(out, n, r);
    }
    if (l->nparts > 1) fprintf(out, " %s", reduce_name(l->reduce));
}

static void print_shares(FILE *out, const struct mt_layout *l, int nranks, int axis) {
    int64_t *sizes = mt_calloc((size_t)nranks, sizeof *sizes);
    for (int r = 0; r < nranks; r++) sizes[r] = l->box[r].hi[axis] - l->box[r].lo[axis];
    fprintf(out, "S(%d:", axis);
    mt_text_of_ranks(out, sizes, nranks);
    fputc(')', out);
    free(sizes);
}

static void print_layout(FILE *out, const struct mt_layout *l, int nranks) {
    struct named n = {.layout = l, .nranks = nranks};
    int axis = split_axis(l, nranks);
    name_parts(&n);
    if (axis == -1 && has_empty_box(l, nranks)) axis = 0; /* whole and empty boxes: a split of any axis says so */
    if (axis == -1) {
        if (l->nparts > 1)
            print_parts(out, &n);
        else
            fputc('R', out);
    } else if (axis >= 0 && tiles_in_order(&n, axis)) {
        print_shares(out, l, nranks, axis);
        if (l->nparts > 1) fputc(' ', out), print_parts(out, &n);
    } else {
        print_boxes(out, &n);
    }
    free(n.number);
}

char *mt_layout_text(const struct mt_layouts *table, int layout, struct mt_arena *arena) {
    struct mt_printed printed;
    print_layout(mt_printed_begin(&printed), &table->items[layout], table->nranks);
    char *text = mt_printed_end(&printed), *copy = mt_arena_strdup(arena, text);
    free(text);
    return copy;
}
