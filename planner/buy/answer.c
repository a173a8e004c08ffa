/* What was judged, as the rows of a purchase: within the budget; and what further sums would buy. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/base/text/units.h"
#include "planner/buy/internal.h"
#include "planner/review/bottleneck.h"

struct answering {
    struct searching *s;
    struct mt_purchase *purchase;
    struct mt_arena *arena; /* the purchase's */
    int *order, count;      /* judged configurations within the budget, the best first */
    bool *frontier;         /* [njudged] */
    double *cost;           /* [njudged] */
};

/* ---- a row ---- */

static const char *what(const struct answering *a, const int64_t *counts) {
    const struct mt_buy *buy = a->s->buy;
    const char *text = "";
    for (int i = 0; i < buy->nitems; i++)
        if (counts[i])
            text = mt_arena_printf(a->arena, "%s%s%lld %s", text, *text ? " + " : "", (long long)counts[i],
                                   buy->items[i].shown.name);
    if (!*text) return "what is owned";
    return buy->owned ? mt_arena_printf(a->arena, "%s, beside what is owned", text) : text;
}

/* A line for `motley plan --cluster`; "" where rates or what is owned cannot be said in one. */
static const char *line(const struct answering *a, const int64_t *counts) {
    const struct mt_buy *buy = a->s->buy;
    const struct mt_hardware_link *net = mt_hardware_link_find("net");
    const char *text = "";
    for (int i = 0; i < buy->nitems; i++) {
        const struct mt_purchase_item *item = &buy->items[i].shown;
        double usual = buy->net_bps > 0 ? buy->net_bps : net->rate;
        if (!counts[i]) continue;
        if (buy->owned || strcmp(buy->items[i].row.name, item->based_on)) return "";
        text = mt_arena_printf(a->arena, "%s%s%s:%lldx%d", text, *text ? " + " : "", item->based_on,
                               (long long)counts[i], item->devices);
        if (item->devices > 1) text = mt_arena_printf(a->arena, "%s %s=%.10gG", text, item->link, item->link_Bps / 1e9);
        text = mt_arena_printf(a->arena, "%s net=%.10gG", text, (item->net_bps > 0 ? item->net_bps : usual) / 1e9);
    }
    return text;
}

static void copy_jobs(const struct answering *a, const struct mt_buy_config *c, struct mt_purchase_row *row) {
    row->jobs = mt_new(a->arena, struct mt_purchase_job_row, a->s->buy->njobs);
    for (int j = 0; j < a->s->buy->njobs; j++) {
        row->jobs[j] = c->jobs[j];
        row->jobs[j].headroom_of = mt_arena_strdup(a->arena, c->jobs[j].headroom_of);
        row->jobs[j].program = mt_arena_strdup(a->arena, c->jobs[j].program);
        row->late |= c->jobs[j].late;
    }
}

static bool is_late(const struct answering *a, int judged) {
    bool late = false;
    for (int j = 0; j < a->s->buy->njobs; j++) late |= a->s->judged[judged]->jobs[j].late;
    return late;
}

static enum mt_status find_bottlenecks(const struct answering *a, const struct mt_buy_config *c,
                                       struct mt_purchase_row *row) {
    struct mt_bottlenecks binds;
    for (int j = 0; j < a->s->buy->njobs && a->s->buy->bottlenecks; j++) {
        enum mt_status st = mt_bottlenecks_of(c->cluster, c->plans[j], NULL, MT_BOTTLENECKS_GLANCE, &binds, a->s->err);
        if (st) return st;
        if (binds.ntried && binds.items[0].saves_s > 0)
            row->jobs[j].binds = mt_arena_strdup(a->arena, binds.items[0].what);
        mt_bottlenecks_release(&binds);
    }
    return MT_OK;
}

static enum mt_status fill_row(const struct answering *a, int judged, struct mt_purchase_row *row) {
    const struct mt_buy_config *c = a->s->judged[judged];
    const struct candidate *as = &a->s->judged_as[judged];
    const struct mt_buy *buy = a->s->buy;
    *row = (struct mt_purchase_row){.what = what(a, c->counts),
                                    .cluster = line(a, c->counts),
                                    .counts = mt_new(a->arena, int64_t, buy->nitems),
                                    .nodes = as->nodes + (buy->owned ? buy->owned->nnodes : 0),
                                    .devices = as->devices,
                                    .price = as->price,
                                    .per_hour = as->per_hour,
                                    .cost = a->cost[judged],
                                    .rack_units = as->rack_units,
                                    .time_s = c->time_s,
                                    .error = c->error,
                                    .error_below = c->error_below,
                                    .tie = -1,
                                    .frontier = a->frontier[judged]};
    bool known = !buy->owned || a->purchase->owned.power_W > 0;
    for (int i = 0; i < buy->nitems; i++) {
        row->counts[i] = c->counts[i];
        known &= !c->counts[i] || buy->items[i].shown.power_W > 0;
    }
    row->power_W = known ? as->power_W + a->purchase->owned.power_W : 0;
    copy_jobs(a, c, row);
    a->purchase->nominal |= c->nominal;
    return find_bottlenecks(a, c, row);
}

/* ---- order, frontier, ties ---- */

/* Whether judged configuration x comes before y. */
static bool before(const struct answering *a, int x, int y) {
    bool late_x = is_late(a, x), late_y = is_late(a, y);
    double time_x = a->s->judged[x]->time_s, time_y = a->s->judged[y]->time_s;
    if (late_x != late_y) return late_y;
    if (a->s->buy->by_cost) return a->cost[x] != a->cost[y] ? a->cost[x] < a->cost[y] : time_x < time_y;
    return time_x != time_y ? time_x < time_y : a->cost[x] < a->cost[y];
}

static void sort(struct answering *a, double money) {
    const struct searching *s = a->s;
    a->count = 0;
    for (int i = 0; i < s->njudged; i++) {
        if (s->judged[i]->refused || s->judged_as[i].money > money) continue;
        int at = a->count++;
        for (; at && before(a, i, a->order[at - 1]); at--) a->order[at] = a->order[at - 1];
        a->order[at] = i;
    }
}

static void find_frontier(struct answering *a) {
    for (int i = 0; i < a->count; i++) {
        int x = a->order[i];
        double time_s = a->s->judged[x]->time_s;
        a->frontier[x] = !is_late(a, x);
        for (int k = 0; k < a->count && a->frontier[x]; k++) {
            int y = a->order[k];
            if (y == x || is_late(a, y) || a->cost[y] > a->cost[x] || a->s->judged[y]->time_s > time_s) continue;
            bool less = a->cost[y] < a->cost[x] || a->s->judged[y]->time_s < time_s;
            a->frontier[x] = !less && k > i; /* of equal ones the first */
        }
    }
}

static bool tie(const struct answering *a, int x, int y) {
    const struct mt_buy_config *c = a->s->judged[x], *d = a->s->judged[y];
    return mt_errors_tie(&c->errors, &d->errors, c->time_s / d->time_s);
}

static bool owns_alone(const struct answering *a, int judged) {
    return a->s->judged_as[judged].nodes == 0;
}

/* Whether the configuration at place i of the order is a row. */
static bool is_shown(const struct answering *a, int i) {
    return i < a->s->buy->rows || a->frontier[a->order[i]] || owns_alone(a, a->order[i]);
}

static void find_costs(struct answering *a) {
    const struct searching *s = a->s;
    for (int i = 0; i < s->njudged; i++)
        a->cost[i] = s->judged_as[i].price + s->judged_as[i].per_hour * s->judged[i]->time_s / 3600;
}

/* Plan what will be rows by the whole search, and what is the best with each further sum. Their times are others then,
 * and so may be the order: until all that is shown is planned so. */
static enum mt_status plan_again(struct answering *a, double money) {
    struct searching *s = a->s;
    int *due = mt_new(&s->arena, int, s->njudged), count = s->buy->plan_again;
    enum mt_status st = MT_OK;
    while (count && !st) {
        count = 0;
        for (int k = -1; k < (isfinite(money) ? s->buy->nnext : 0); k++) {
            sort(a, k < 0 ? money : money + s->buy->next[k] * ROUNDING);
            if (k < 0) find_frontier(a);
            for (int i = 0; i < a->count; i++) {
                int x = a->order[i];
                bool listed = s->judged[x]->planned || !(k < 0 ? is_shown(a, i) : i == 0);
                for (int d = 0; d < count && !listed; d++) listed = due[d] == x;
                if (!listed) due[count++] = x;
            }
        }
        st = mt_buy_plan_batch(s, due, count);
        find_costs(a);
    }
    return st;
}

static enum mt_status fill_rows(struct answering *a) {
    struct mt_purchase *p = a->purchase;
    int *shown = mt_new(a->arena, int, a->count);
    p->rows = mt_new(a->arena, struct mt_purchase_row, a->count);
    for (int i = 0; i < a->count; i++) {
        int x = a->order[i];
        if (!is_shown(a, i)) continue;
        struct mt_purchase_row *row = &p->rows[p->nrows];
        enum mt_status st = fill_row(a, x, row);
        if (st) return st;
        for (int k = 0; k < p->nrows && row->tie < 0; k++)
            if (tie(a, shown[k], x)) row->tie = k;
        shown[p->nrows++] = x;
    }
    return MT_OK;
}

/* ---- more money ---- */

/* relaxed_s: the time of the relaxation, which p->dual is of. Rates grow linearly with money by the estimate: a time
 * that did would end below 0. */
static enum mt_status fill_next(struct answering *a, double money, double relaxed_s) {
    const struct mt_buy *buy = a->s->buy;
    struct mt_purchase *p = a->purchase;
    int best = a->order[0];
    double time_s = a->s->judged[best]->time_s;
    p->next = mt_new(a->arena, struct mt_purchase_next, buy->nnext);
    for (int k = 0; k < buy->nnext; k++) {
        struct mt_purchase_next *next = &p->next[p->nnext++];
        sort(a, money + buy->next[k] * ROUNDING);
        int x = a->order[0];
        next->money = buy->next[k];
        next->estimate_s = p->dual > 0 ? time_s / (1 + p->dual * next->money / relaxed_s) : 0;
        next->better = x != best && before(a, x, best);
        enum mt_status st = fill_row(a, x, &next->row);
        if (st) return st;
        next->row.frontier = false;
        next->row.tie = next->better && tie(a, best, x) ? 0 : -1;
    }
    return MT_OK;
}

static enum mt_status refuse(const struct searching *s) {
    const char *why = "";
    int at = -1;
    for (int i = 0; i < s->njudged && at < 0; i++)
        if (s->judged[i]->refused) at = i, why = s->judged[i]->refused;
    if (at < 0) {
        mt_fail(s->err, MT_EINPUT, "no configuration is within the limits");
        return mt_err_hint(s->err, "the cheapest item needs more than a limit allows: more money, power, rack units, "
                                   "nodes or devices");
    }
    mt_fail(s->err, MT_EINPUT, "none of the %d configurations that were tried can be planned; the first: %.800s",
            s->njudged, why);
    return mt_err_hint(s->err, "devices with more memory, or more of them; or another job");
}

enum mt_status mt_buy_answer(struct searching *s, struct mt_purchase *p) {
    const struct mt_purchase_limits *l = &s->buy->limits;
    struct answering a = {.s = s, .purchase = p, .arena = &p->arena};
    double limit = s->rent ? l->budget_per_hour : l->budget, money = limit > 0 ? limit * ROUNDING : INFINITY;
    struct relaxed relaxed = {.binds = ""};
    bool found = false;
    a.order = mt_new(&s->arena, int, s->njudged);
    a.frontier = mt_new(&s->arena, bool, s->njudged);
    a.cost = mt_new(&s->arena, double, s->njudged);
    find_costs(&a);
    sort(&a, money);
    if (!a.count) return refuse(s);
    enum mt_status st = plan_again(&a, money);
    sort(&a, money);
    find_frontier(&a);
    if (st || (st = fill_rows(&a)) ||
        (st = mt_buy_relax(s, money, s->judged[a.order[0]]->counts, NULL, &found, &relaxed)))
        return st;
    p->dual = found && isfinite(money) ? relaxed.dual : 0;
    p->binds = found ? mt_arena_strdup(&p->arena, relaxed.binds) : "";
    for (int i = 0; i < s->njudged; i++) p->judged += s->judged_as[i].money <= money;
    p->plans = s->plans;
    p->configurations = mt_buy_configurations(s, money, 1e6);
    return isfinite(money) ? fill_next(&a, money, relaxed.time_s) : MT_OK;
}
