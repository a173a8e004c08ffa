/* Who holds what: of the samples, of other splits, and of each kind of parameter the part of each class of ranks; and
 * the memory that it takes. Parameters of a kind of layer that are divided alike are one panel. */
#include <math.h>
#include <string.h>

#include "launcher/report/plan/internal.h"
#include "launcher/report/svg/bars.h"
#include "launcher/show/sections.h"

enum { MOST_ROWS = 24, MOST_PANELS = 40 };

struct holding {
    const char *kind;    /* of the layer: "mlp" */
    const char *pattern; /* "h.*.mlp.c_fc.weight" */
    const char *others;  /* further patterns, in words */
    int nothers, layers;
    double parts[MOST_ROWS];
};
struct holders {
    struct mt_page *page;
    const struct mt_report_kinds *kinds;
    int nrows, n;
    struct holding items[MOST_PANELS];
};

static const char *pattern_of(const struct mt_sections *sections, int gvalue, struct mt_arena *arena) {
    const char *name = sections->graph->values[gvalue].name;
    int s = sections->of_value[gvalue];
    if (s < 0) return name;
    const struct mt_section *section = &sections->items[s];
    size_t length = strlen(section->path);
    if (strncmp(name, section->path, length) != 0) return name;
    return mt_arena_printf(arena, "%s%s", section->pattern, name + length);
}

static void add_param(struct holders *h, const struct mt_sections *sections, int gvalue) {
    struct holding one = {.pattern = pattern_of(sections, gvalue, &h->page->arena), .others = "", .layers = 1};
    int s = sections->of_value[gvalue], i;
    one.kind = s >= 0 && sections->items[s].kind[0] ? sections->items[s].kind : "other";
    for (int r = 0; r < h->nrows; r++) one.parts[r] = mt_report_stored(h->kinds, gvalue, h->kinds->items[r].ranks[0]);
    for (i = 0; i < h->n; i++) {
        struct holding *x = &h->items[i];
        if (strcmp(x->kind, one.kind) != 0 || memcmp(x->parts, one.parts, sizeof one.parts) != 0) continue;
        if (!strcmp(x->pattern, one.pattern)) {
            x->layers++;
        } else if (!strstr(x->others, one.pattern)) {
            x->others = mt_arena_printf(&h->page->arena, "%s%s%s", x->others, x->nothers ? ", " : "", one.pattern);
            x->nothers++;
        }
        return;
    }
    if (h->n < MOST_PANELS) h->items[h->n++] = one;
}

static const char *part_text(struct mt_page *page, double part) {
    const char *form = part > 0 && part < 0.01 ? "%.2g%%" : "%.1f%%";
    return part >= 1 - 1e-12 ? "all" : mt_arena_printf(&page->arena, form, 100 * part);
}

static void fill_panel(struct holders *h, struct mt_share_panel *panel, const char *title, const char *note,
                       const double *parts) {
    const char **texts = mt_new(&h->page->arena, const char *, h->nrows);
    for (int r = 0; r < h->nrows; r++) texts[r] = part_text(h->page, parts[r]);
    double most = 0, whole = 1;
    for (int r = 0; r < h->nrows; r++) most = fmax(most, parts[r]);
    while (most > 0 && whole > 1e-6 && most <= whole / 10) whole /= 10;
    if (whole < 1) note = mt_arena_printf(&h->page->arena, "outlines are %g%%; %s", 100 * whole, note);
    *panel = (struct mt_share_panel){title, note, parts, whole, texts, "s0"};
}

/* A split's shares; over hosts, those of the rank's host. */
static const double *split_parts(const struct holders *h, const struct mt_plan_split *split) {
    const struct mt_plan *p = h->kinds->plan;
    double *parts = mt_new(&h->page->arena, double, h->nrows), sum = 0;
    for (int r = 0; r < p->nranks; r++) sum += (double)split->sizes[r];
    if (split->over == MT_OVER_HOST) sum = (double)mt_plan_split_sum(p, split);
    for (int r = 0; r < h->nrows; r++) parts[r] = sum > 0 ? (double)split->sizes[h->kinds->items[r].ranks[0]] / sum : 0;
    return parts;
}

static void tabulate(struct holders *h, const struct mt_share_panel *panels, int npanels) {
    struct mt_table *t = mt_page_table(h->page, "holders", "Who holds what: the part of each rank", "");
    mt_table_column(t, "what", "what", MT_UNIT_TEXT)->once = true;
    mt_table_column(t, "note", "", MT_UNIT_TEXT)->once = true;
    mt_report_kind_columns(t);
    mt_table_column(t, "part", "part of each", MT_UNIT_FRACTION);
    for (int i = 0; i < npanels; i++)
        for (int r = 0; r < h->nrows; r++) {
            const struct mt_report_kind *kind = &h->kinds->items[r];
            mt_table_row(t);
            mt_cell_text(t, "%s", panels[i].title);
            mt_cell_text(t, "%s", panels[i].note);
            mt_report_kind_cells(kind, t);
            mt_cell_real(t, panels[i].parts[r]);
        }
}

static int add_splits(struct holders *h, struct mt_share_panel *panels) {
    const struct mt_plan *p = h->kinds->plan;
    int n = 0;
    for (int s = 0; s < p->nsplits && n < MOST_PANELS / 2; s++) {
        const struct mt_plan_split *split = &p->splits[s];
        bool batch = !strcmp(split->name, "batch");
        if (!strncmp(split->name, "storage:", 8)) continue; /* parameters show them */
        if (split->over == MT_OVER_DEVICE) continue;        /* of a host's part, not of the whole */
        fill_panel(h, &panels[n++],
                   batch ? "samples of a step" : mt_arena_printf(&h->page->arena, "split %s", split->name),
                   batch ? mt_arena_printf(&h->page->arena, "%lld in all", (long long)p->job.batch)
                         : mt_plan_split_text(split, &h->page->arena),
                   split_parts(h, split));
    }
    return n;
}

void mt_report_holders(struct mt_page *page, const struct mt_report_kinds *kinds) {
    struct holders *h = mt_new(&page->arena, struct holders, 1);
    struct mt_share_panel *panels = mt_new(&page->arena, struct mt_share_panel, 2 * MOST_PANELS);
    const char **rows = mt_new(&page->arena, const char *, MOST_ROWS);
    struct mt_sections sections;
    *h = (struct holders){.page = page, .kinds = kinds, .nrows = kinds->n < MOST_ROWS ? kinds->n : MOST_ROWS};
    mt_sections_find(kinds->planned->graph, &sections);
    for (int v = 0; v < kinds->planned->graph->nvalues; v++)
        if (kinds->planned->graph->values[v].param) add_param(h, &sections, v);
    int n = add_splits(h, panels);
    for (int i = 0; i < h->n; i++) {
        struct holding *x = &h->items[i];
        const char *times = x->layers > 1 ? mt_arena_printf(&page->arena, "%d layers: ", x->layers) : "";
        fill_panel(h, &panels[n++], x->kind,
                   mt_arena_printf(&page->arena, "%s%s%s%s", times, x->pattern, x->nothers ? ", " : "", x->others),
                   x->parts);
    }
    for (int r = 0; r < h->nrows; r++) rows[r] = kinds->items[r].name;
    mt_page_heading(page, "Who holds what");
    mt_page_say(page,
                "The part of the samples, and of each kind of parameter with its optimizer state, that one rank holds "
                "between steps; outlines are the whole, unless the panel says otherwise.");
    if (kinds->n > MOST_ROWS) mt_page_say(page, "Of %d kinds of ranks the first %d are shown.", kinds->n, MOST_ROWS);
    tabulate(h, panels, n);
    struct mt_shares shares = {h->nrows, n, rows, panels};
    mt_page_picture(page, "Who holds what",
                    "A panel for the samples and for each kind of parameter, a bar for each "
                    "class of ranks: the part of the whole that each of its ranks holds.",
                    mt_shares_draw, &shares);
    mt_sections_release(&sections);
}

/* ---- memory ---- */

void mt_report_memory(struct mt_page *page, const struct mt_report_kinds *k) {
    const struct mt_plan *p = k->plan;
    int n = k->n < MOST_ROWS ? k->n : MOST_ROWS;
    struct mt_bar *rows = mt_new(&page->arena, struct mt_bar, n + 1);
    struct mt_table *t = mt_page_table(page, "memory", "Memory of each rank against its limit", "");
    mt_report_kind_columns(t);
    mt_table_columns(t, {"state_bytes", "parameters and state", MT_UNIT_BYTES},
                     {"rest_bytes", "activations, gradients, messages", MT_UNIT_BYTES},
                     {"communicator_bytes", "communicators", MT_UNIT_BYTES}, {"limit_bytes", "limit", MT_UNIT_BYTES});
    for (int i = 0; i < k->n; i++) {
        int r = k->items[i].ranks[0];
        const struct mt_plan_memory *m = &p->memory[r];
        double limit = (double)p->ranks[r].memory_bytes, needs = (double)mt_plan_needs_bytes(p, r);
        double state = (double)m->state_bytes, rest = (double)(m->arena_bytes - m->state_bytes);
        mt_table_row(t);
        mt_report_kind_cells(&k->items[i], t);
        mt_cell_real(t, state);
        mt_cell_real(t, rest);
        mt_cell_real(t, (double)m->communicator_bytes);
        mt_cell_positive(t, limit);
        if (i >= n) continue;
        const char *text = mt_page_quantity(page, MT_UNIT_BYTES, needs);
        rows[i] = (struct mt_bar){.label = k->items[i].name,
                                  .text = limit > 0 ? mt_arena_printf(&page->arena, "%s of %s", text,
                                                                      mt_page_quantity(page, MT_UNIT_BYTES, limit))
                                                    : text,
                                  .nparts = 4,
                                  .parts = {state, rest, (double)m->communicator_bytes, fmax(limit - needs, 0)}};
    }
    struct mt_bars bars = {
        .axis = {.title = "memory", .unit = MT_UNIT_BYTES},
        .nrows = n,
        .rows = rows,
        .names = {"parameters and optimizer state", "activations, gradients, messages", "communicators", "free"},
        .classes = {"s0", "s1", "s3", "track"},
        .mark = NAN};
    mt_page_picture(page, "Memory of each rank",
                    "A bar for each class of ranks: what its program takes, "
                    "and what is left to its limit.",
                    mt_bars_draw, &bars);
}
