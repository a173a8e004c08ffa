/* Items of the catalogue that cannot be bought, or would be of no use. */
#include <string.h>

#include "planner/buy/internal.h"
#include "profiler/describe/runs.h"

/* Why not, in the arena; or null. kind: that all devices must have. */
static const char *why_not(const struct mt_buy *buy, int i, const char *kind, struct mt_arena *arena) {
    const struct mt_catalogue_item *item = &buy->items[i];
    char why[MT_RUNS_TEXT];
    if (!item->priced) return "it has no price, neither to buy nor for an hour";
    if (strcmp(item->row.kind, kind))
        return mt_arena_printf(arena, "it is of kind %s among devices of kind %s", item->row.kind, kind);
    struct mt_cluster_class class = mt_hardware_class(&item->row, item->row.name, NULL, arena);
    for (int j = 0; j < buy->njobs; j++) {
        const struct mt_job *job = &buy->jobs[j].job;
        if (!mt_cluster_class_runs(&class, job->precision, job->tf32, why))
            return mt_arena_printf(arena, "it cannot run job %d: %s", j + 1, why);
        if (!(class.flops[job->precision] > 0))
            return mt_arena_printf(arena, "it has no rate for job %d, in %s", j + 1, mt_job_precision(job));
    }
    if (buy->limits.power_W > 0 && !(item->shown.power_W > 0)) return "power is limited, and its power is not known";
    if (buy->limits.rack_units > 0 && !item->placed) return "rack units are limited, and its rack_units are not known";
    return NULL;
}

static void add(struct mt_purchase *p, const char *name, const char *why, int *capacity) {
    mt_arena_grow(&p->arena, &p->excluded, p->nexcluded, capacity, sizeof *p->excluded);
    p->excluded[p->nexcluded++] =
        (struct mt_purchase_excluded){mt_arena_strdup(&p->arena, name), mt_arena_strdup(&p->arena, why)};
}

/* Rows of hardware.def that nothing in the catalogue is based on. */
static void exclude_known(const struct mt_buy *buy, struct mt_purchase *p, int *capacity) {
    static const char *const known[] = {
#define MT_HARDWARE(name, ...) name,
#include "profiler/describe/hardware.def"
#undef MT_HARDWARE
    };
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++) {
        bool used = false;
        for (int i = 0; i < buy->nitems; i++) used |= !strcmp(buy->items[i].shown.based_on, known[k]);
        if (!used) add(p, known[k], "known hardware, without a price in the catalogue", capacity);
    }
}

enum mt_status mt_buy_exclude(const struct mt_buy *buy, bool *kept, struct mt_purchase *p, struct mt_err *err) {
    const char *kind = buy->owned ? mt_cluster_kind(buy->owned) : NULL;
    int capacity = 0, left = 0;
    for (int i = 0; i < buy->nitems && !kind; i++)
        if (buy->items[i].priced) kind = buy->items[i].row.kind;
    for (int i = 0; i < buy->nitems; i++) {
        const char *why = why_not(buy, i, kind ? kind : "cuda", &p->arena);
        kept[i] = !why;
        left += kept[i];
        if (why) add(p, buy->items[i].shown.name, why, &capacity);
    }
    exclude_known(buy, p, &capacity);
    if (left || buy->owned) return MT_OK;
    if (!buy->nitems) {
        mt_fail(err, MT_EINPUT, "there is nothing to buy: the catalogue is empty, and known hardware has no prices");
        return mt_err_hint(err, "name a catalogue, or an item, as \"name=h100 devices=8 price=280k\"");
    }
    mt_fail(err, MT_EINPUT, "nothing of the catalogue can be bought: %s: %s", p->excluded[0].name, p->excluded[0].why);
    if (buy->items[0].priced) return mt_err_hint(err, "give what is missing in its row, or another item");
    return mt_err_hint(err, "a price, or an hour's, may be 0, but must be given");
}
