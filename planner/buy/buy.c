/* The search for a purchase, from its request to its document. */
#include "planner/buy/buy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/units.h"
#include "planner/buy/internal.h"

static enum mt_status check(const struct mt_buy *buy, struct mt_err *err) {
    const struct mt_purchase_limits *l = &buy->limits;
    const struct {
        const char *what;
        double value;
    } limits[] = {{"budget", l->budget},
                  {"budget for an hour", l->budget_per_hour},
                  {"power", l->power_W},
                  {"rack units", l->rack_units}};
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        if (!(limits[i].value >= 0) || limits[i].value > MT_PURCHASE_MOST)
            return mt_fail(err, MT_EINPUT, "the limit of %s: is %g, not above 0", limits[i].what, limits[i].value);
    for (int k = 0; k < buy->nnext; k++)
        if (!(buy->next[k] > 0) || buy->next[k] > MT_PURCHASE_MOST)
            return mt_fail(err, MT_EINPUT, "a next sum: is %g, not above 0", buy->next[k]);
    if (l->nodes < 0 || l->devices < 0 || l->devices > MT_PURCHASE_MOST_DEVICES)
        return mt_fail(err, MT_EINPUT, "the limit of devices: is %d, but must be from 1 to %d", l->devices,
                       MT_PURCHASE_MOST_DEVICES);
    if (!buy->njobs) return mt_fail(err, MT_EINPUT, "there is no job");
    if (buy->owned && l->devices && buy->owned->ndevices > l->devices)
        return mt_fail(err, MT_EINPUT, "the limit of devices: is %d, but %d are owned", l->devices,
                       buy->owned->ndevices);
    if (buy->owned && buy->owned->network >= 0 && buy->net_bps > 0) {
        mt_fail(err, MT_EINPUT, "what is owned has a network of its own, so none can be given");
        return mt_err_hint(err, "leave --net out; nodes that join may have a slower one, by the catalogue");
    }
    return MT_OK;
}

/* Watts of its devices, where all are known hardware. */
static double power_of_owned(const struct mt_cluster *c) {
    double sum = 0;
    const char *source;
    for (int d = 0; d < c->ndevices; d++) {
        const struct mt_cluster_class *class = &c->classes[c->devices[d].class];
        const char *known = mt_hardware_of_model(class->model);
        double watts = mt_power_of(known ? known : class->name, &source);
        if (!(watts > 0)) return 0;
        sum += watts;
    }
    return sum;
}

static const char *network(const struct mt_buy *buy, struct mt_arena *arena) {
    const struct mt_hardware_link *net = mt_hardware_link_find("net");
    char rate[MT_UNITS_TEXT], reached[MT_UNITS_TEXT];
    const struct mt_cluster *owned = buy->owned;
    if (owned && owned->network >= 0)
        return mt_arena_printf(arena,
                               "nodes join the network of what is owned (link %s, %s%s); those with a slower net "
                               "send and receive at most that",
                               owned->links[owned->network].name,
                               mt_units_Bps(owned->links[owned->network].bandwidth_Bps, rate),
                               owned->links[owned->network].nominal ? "" : ", measured");
    double bps = buy->net_bps > 0 ? buy->net_bps : net->rate;
    return mt_arena_printf(arena,
                           "net=%sbit/s%s for each node whose row says no other, of which messages reach %s; the "
                           "fastest net of a configuration is its network, and nodes with a slower one send and "
                           "receive at most that",
                           mt_units_count(bps, rate), buy->net_bps > 0 ? "" : ", as nothing else is given,",
                           mt_units_Bps(mt_hardware_link_Bps(net, bps), reached));
}

static struct mt_purchase_item copy_item(const struct mt_purchase_item *item, struct mt_arena *arena) {
    struct mt_purchase_item copy = *item;
    const char **texts[] = {&copy.name, &copy.based_on, &copy.device, &copy.link, &copy.power_source};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) *texts[i] = mt_arena_strdup(arena, *texts[i]);
    return copy;
}

/* All but what the search finds. */
static void begin_purchase(const struct mt_buy *buy, struct mt_purchase *p) {
    p->made_by = "motley " MOTLEY_VERSION;
    p->objective = buy->by_cost ? "cost" : "time";
    p->network = network(buy, &p->arena);
    p->limits = buy->limits;
    p->owned.what = mt_arena_strdup(&p->arena, buy->owned_what ? buy->owned_what : "");
    if (buy->owned) {
        p->owned.cluster_hash = mt_arena_strdup(&p->arena, buy->owned->hash);
        p->owned.nodes = buy->owned->nnodes, p->owned.devices = buy->owned->ndevices;
        p->owned.power_W = power_of_owned(buy->owned);
    }
    p->nitems = buy->nitems;
    p->items = mt_new(&p->arena, struct mt_purchase_item, buy->nitems);
    for (int i = 0; i < buy->nitems; i++) p->items[i] = copy_item(&buy->items[i].shown, &p->arena);
    p->njobs = buy->njobs;
    p->jobs = mt_arena_memdup(&p->arena, buy->jobs, (size_t)buy->njobs * sizeof *p->jobs);
    for (int j = 0; j < p->njobs; j++) p->jobs[j].model = mt_arena_strdup(&p->arena, buy->jobs[j].model);
}

static void end(struct searching *s) {
    mt_buy_bounds_close(s);
    for (int i = 0; i < s->njudged; i++) {
        mt_buy_config_release(s->judged[i], s->buy->njobs);
        free(s->judged[i]);
    }
    mt_arena_release(&s->arena);
}

/* A budget that limits nothing is a mistake. rent: nothing has a price to buy. */
static enum mt_status check_budgets(const struct mt_buy *buy, bool rent, struct mt_err *err) {
    double per_hour = 0;
    for (int i = 0; i < buy->nitems; i++) per_hour = fmax(per_hour, buy->items[i].shown.per_hour);
    if (rent && buy->limits.budget > 0) {
        mt_fail(err, MT_EINPUT, "the limit of budget: nothing of the catalogue is bought, all is paid by the hour");
        return mt_err_hint(err, "limit what is rented with --budget-per-hour");
    }
    if (buy->nitems && !(per_hour > 0) && buy->limits.budget_per_hour > 0) {
        mt_fail(err, MT_EINPUT, "the limit of budget for an hour: nothing of the catalogue is paid by the hour");
        return mt_err_hint(err, "limit what is bought with --budget, or give rows a price for an hour, per_hour");
    }
    return MT_OK;
}

/* With what is left of the catalogue. */
static enum mt_status search(const struct mt_buy *buy, struct mt_purchase *p, struct mt_err *err) {
    struct searching s = {.buy = buy, .err = err, .rent = true};
    double most = 0;
    for (int i = 0; i < buy->nitems; i++) s.rent &= !(buy->items[i].shown.price > 0);
    for (int i = 0; i < buy->nitems && s.rent; i++) most += buy->items[i].shown.per_hour;
    if (!(most > 0)) s.rent = false; /* nothing costs anything */
    for (int k = 0; k < buy->nnext; k++) s.top = fmax(s.top, buy->next[k]);
    enum mt_status st = check_budgets(buy, s.rent, err);
    if (st) return st;
    double budget = s.rent ? buy->limits.budget_per_hour : buy->limits.budget;
    s.top = budget > 0 ? (s.top + budget) * ROUNDING : INFINITY;
    st = mt_buy_bounds_open(&s);
    if (!st) st = mt_buy_sequence(&s);
    if (!st) st = mt_buy_answer(&s, p);
    end(&s);
    return st;
}

enum mt_status mt_buy_search(const struct mt_buy *buy, struct mt_purchase **purchase, struct mt_err *err) {
    struct mt_arena arena = MT_ARENA_INIT;
    struct mt_purchase *p = mt_purchase_new();
    struct mt_buy local = *buy;
    struct mt_catalogue_item *items = mt_new(&arena, struct mt_catalogue_item, buy->nitems);
    bool *kept = mt_new(&arena, bool, buy->nitems);
    enum mt_status st = check(buy, err);
    if (!st) st = mt_buy_exclude(buy, kept, p, err);
    local.items = items;
    local.nitems = 0;
    for (int i = 0; i < buy->nitems && !st; i++)
        if (kept[i]) items[local.nitems++] = buy->items[i];
    if (!local.limits.devices) local.limits.devices = MT_PURCHASE_MOST_DEVICES;
    if (!local.exact) local.exact = MT_BUY_EXACT_PLANS / (buy->njobs ? buy->njobs : 1);
    if (!buy->exact && local.exact > MT_BUY_EXACT) local.exact = MT_BUY_EXACT;
    if (local.exact < 1) local.exact = 1;
    if (!local.most_judged) local.most_judged = MT_BUY_MOST_JUDGED;
    if (local.threads < 1) local.threads = 1;
    struct mt_work_memo **works = mt_new(&arena, struct mt_work_memo *, buy->njobs);
    for (int j = 0; j < buy->njobs; j++) works[j] = mt_work_memo_new();
    local.works = works;
    if (!st) {
        begin_purchase(&local, p);
        if (!(st = search(&local, p, err))) st = mt_purchase_check(p, err);
        if (!st) mt_purchase_hash(p, p->hash);
    }
    for (int j = 0; j < buy->njobs; j++) mt_work_memo_free(works[j]);
    mt_arena_release(&arena);
    if (st)
        mt_purchase_free(p);
    else
        *purchase = p;
    return st;
}
