/* Layouts as text: R, S and P by name, others box by box. */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/base/text/printed.h"
#include "synth/layout/layout.h"

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

/* Whether each part's ranks tile the axis in order of rank. */
static bool tiles_in_order(const struct mt_layout *l, int nranks, int axis) {
    for (int p = 0; p < l->nparts; p++) {
        int64_t end = 0;
        for (int r = 0; r < nranks; r++) {
            if (l->part[r] != p || !mt_box_count(&l->box[r], l->naxes)) continue;
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

static void print_parts(FILE *out, const struct mt_layout *l, int nranks) {
    fprintf(out, "P(%s", reduce_name(l->reduce));
    if (l->nparts < nranks) {
        int64_t *parts = mt_calloc((size_t)nranks, sizeof *parts);
        for (int r = 0; r < nranks; r++) parts[r] = l->part[r];
        fputc(':', out);
        mt_text_of_ranks(out, parts, nranks);
        free(parts);
    }
    fputc(')', out);
}

static void print_boxes(FILE *out, const struct mt_layout *l, int nranks) {
    for (int r = 0, end; r < nranks; r = end) {
        for (end = r + 1; end < nranks && nranks > MT_TEXT_RANKS && l->part[end] == l->part[r] &&
                          mt_box_equal(&l->box[end], &l->box[r], l->naxes);)
            end++;
        fprintf(out, end - r > 1 ? "%s%d-%d[" : "%s%d[", r ? " " : "", r, end - 1);
        for (int a = 0; a < l->naxes && mt_box_count(&l->box[r], l->naxes); a++)
            fprintf(out, "%s%lld:%lld", a ? " " : "", (long long)l->box[r].lo[a], (long long)l->box[r].hi[a]);
        fputc(']', out);
        if (l->nparts > 1) fprintf(out, "/%d", l->part[r]);
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
    int axis = split_axis(l, nranks);
    if (axis == -1 && has_empty_box(l, nranks)) axis = 0; /* whole and empty boxes: a split of any axis says so */
    if (axis == -1) {
        if (l->nparts > 1)
            print_parts(out, l, nranks);
        else
            fputc('R', out);
    } else if (axis >= 0 && tiles_in_order(l, nranks, axis)) {
        print_shares(out, l, nranks, axis);
        if (l->nparts > 1) fputc(' ', out), print_parts(out, l, nranks);
    } else {
        print_boxes(out, l, nranks);
    }
}

char *mt_layout_text(const struct mt_layouts *table, int layout, struct mt_arena *arena) {
    struct mt_printed printed;
    print_layout(mt_printed_begin(&printed), &table->items[layout], table->nranks);
    char *text = mt_printed_end(&printed), *copy = mt_arena_strdup(arena, text);
    free(text);
    return copy;
}
