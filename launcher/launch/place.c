/* From the ranks of a plan to hosts and devices. */
#include "launcher/launch/place.h"

#include <stdlib.h>
#include <string.h>

#include "launcher/launch/internal.h"

/* ---- nodes of the plan ---- */

static void find_nodes(struct placing *p) {
    int nhosts;
    const struct mt_plan *plan = p->q->plan;
    p->node_of = mt_plan_hosts(plan, p->arena, &nhosts);
    p->nnodes = nhosts;
    p->nodes = mt_new(p->arena, struct plan_node, nhosts);
    for (int r = 0; r < plan->nranks; r++) {
        struct plan_node *node = &p->nodes[p->node_of[r]];
        if (!node->ranks) node->ranks = mt_new(p->arena, int, plan->nranks);
        node->name = plan->ranks[r].host;
        node->host = -1;
        node->ranks[node->n++] = r;
    }
}

/* The profile's node of a host, or -1. */
static int profile_of(const struct placing *p, int host) {
    const struct mt_host *h = &p->q->hosts->hosts[host];
    for (int n = 0; n < p->q->cluster->nnodes; n++) {
        const char *name = p->q->cluster->nodes[n].name;
        if (mt_plan_same_host(name, h->says) || mt_plan_same_host(name, h->name)) return n;
    }
    return -1;
}

static void place_ranks(struct placing *p, struct mt_places *places) {
    for (int i = 0; i < p->nnodes; i++)
        for (int k = 0; k < p->nodes[i].n; k++) places->host[p->nodes[i].ranks[k]] = p->nodes[i].host;
}

/* ---- a plan without hosts ---- */

static enum mt_status fill_in_order(struct placing *p, struct mt_places *places, struct mt_err *err) {
    const struct mt_hosts *hosts = p->q->hosts;
    int n = p->q->plan->nranks, rank = 0, slots = 0;
    for (int h = 0; h < hosts->n && rank < n; h++)
        for (int s = 0; rank < n && (s < hosts->hosts[h].slots || !hosts->hosts[h].slots); s++)
            places->host[rank++] = h;
    for (int h = 0; h < hosts->n; h++) slots += hosts->hosts[h].slots;
    if (rank == n) return MT_OK;
    mt_fail(err, MT_EINPUT, "the plan is for %d ranks, but the hosts have %d slots", n, slots);
    return mt_err_hint(err, "list more hosts or slots, or plan for fewer ranks");
}

/* ---- a plan whose nodes are these hosts ---- */

static enum mt_status take_named(struct placing *p, struct mt_places *places, struct mt_err *err) {
    bool right = true;
    for (int i = 0; i < p->nnodes; i++) {
        struct plan_node *node = &p->nodes[i];
        const char *lacks = "no host has this name";
        node->host = mt_hosts_find(p->q->hosts, node->name);
        if (node->host >= 0) {
            node->profile = p->profile[node->host];
            lacks = mt_place_lacks(p, i, node->host);
        }
        if (!lacks) continue;
        right = false;
        mt_place_tell(p, i, node->host, lacks);
    }
    place_ranks(p, places);
    if (right) return MT_OK;
    mt_fail(err, MT_EINPUT, "the plan does not fit the hosts");
    return mt_err_hint(err, "list the hosts that the plan names, or plan for those that are there");
}

/* ---- a plan whose nodes have other names ---- */

/* An augmenting path from a node: whether it, and all nodes that had a host, can have one (Kuhn). */
static bool augment(struct placing *p, int node, bool *tried, int *owner) {
    for (int h = 0; h < p->q->hosts->n; h++) {
        if (tried[h] || mt_place_lacks(p, node, h)) continue;
        tried[h] = true;
        if (owner[h] >= 0 && !augment(p, owner[h], tried, owner)) continue;
        owner[h] = node;
        p->nodes[node].host = h;
        return true;
    }
    return false;
}

static void tell_unmatched(struct placing *p, int node, const int *owner) {
    for (int h = 0; h < p->q->hosts->n; h++) {
        const char *lacks = mt_place_lacks(p, node, h);
        if (!lacks && owner[h] >= 0)
            lacks = mt_arena_printf(p->arena, "%s is there already, and can be nowhere else", p->nodes[owner[h]].name);
        if (lacks) mt_place_tell(p, node, h, lacks);
    }
}

static enum mt_status match_nodes(struct placing *p, struct mt_places *places, struct mt_err *err) {
    int *owner = mt_new(p->arena, int, p->q->hosts->n), unmatched = 0;
    p->matching = true;
    for (int h = 0; h < p->q->hosts->n; h++) owner[h] = -1;
    for (int i = 0; i < p->nnodes; i++) {
        bool *tried = mt_new(p->arena, bool, p->q->hosts->n);
        if (augment(p, i, tried, owner)) continue;
        unmatched++;
        tell_unmatched(p, i, owner);
    }
    for (int i = 0; i < p->nnodes; i++)
        if (p->nodes[i].host >= 0) p->nodes[i].profile = p->profile[p->nodes[i].host];
    places->matched = true;
    place_ranks(p, places);
    if (!unmatched) return MT_OK;
    mt_fail(err, MT_EINPUT, "%d of the plan's %d node%s match%s no host", unmatched, p->nnodes,
            p->nnodes == 1 ? "" : "s", unmatched == 1 ? "es" : "");
    return mt_err_hint(err, "plan for the hosts as they are: `motley plan --cluster` with their profile");
}

/* Whether all nodes have as many ranks of the same classes, in the same order. */
static bool nodes_are_alike(const struct placing *p) {
    const struct mt_plan_rank *ranks = p->q->plan->ranks;
    const struct plan_node *first = &p->nodes[0];
    for (int i = 1; i < p->nnodes; i++) {
        if (p->nodes[i].n != first->n) return false;
        for (int k = 0; k < first->n; k++)
            if (strcmp(ranks[p->nodes[i].ranks[k]].class, ranks[first->ranks[k]].class)) return false;
    }
    return true;
}

/* ---- devices ---- */

static void take_devices(struct placing *p, struct mt_places *places) {
    const struct mt_cluster *c = p->q->cluster;
    for (int i = 0; i < p->nnodes; i++) {
        const struct plan_node *node = &p->nodes[i];
        if (!mt_place_devices(p, i, node->profile, places->device)) continue;
        for (int k = 0; k < node->n; k++) {
            int rank = node->ranks[k], device = places->device[rank];
            places->cores[rank] = c->devices[device].mask;
            if (strcmp(c->classes[c->devices[device].class].kind, "cuda")) continue;
            places->gpu[rank] = 0;
            for (int d = 0; d < device; d++) places->gpu[rank] += c->devices[d].node == node->profile;
        }
    }
}

enum mt_status mt_place(const struct mt_place_request *q, struct mt_arena *arena, struct mt_places *places, FILE *why,
                        struct mt_err *err) {
    struct placing p = {.q = q, .arena = arena, .doc = MT_TABLES_INIT};
    int n = q->plan->nranks, named = 0;
    enum mt_status st;
    *places = (struct mt_places){.host = mt_new(arena, int, n),
                                 .device = mt_new(arena, int, n),
                                 .cores = mt_new(arena, const char *, n),
                                 .gpu = mt_new(arena, int, n)};
    for (int r = 0; r < n; r++) places->device[r] = places->gpu[r] = -1, places->cores[r] = "";
    if (!q->plan->ranks[0].host[0]) return fill_in_order(&p, places, err);
    find_nodes(&p);
    p.profile = mt_new(arena, int, q->hosts->n);
    for (int h = 0; h < q->hosts->n; h++) p.profile[h] = q->cluster ? profile_of(&p, h) : -1;
    p.by_features = q->chosen && !q->cluster && !nodes_are_alike(&p);
    for (int i = 0; i < p.nnodes; i++) named += mt_hosts_find(q->hosts, p.nodes[i].name) >= 0;
    if (!named && (q->cluster || q->chosen)) {
        st = match_nodes(&p, places, err);
    } else {
        st = take_named(&p, places, err);
        if (st && !named)
            mt_err_hint(err, "the plan's nodes have other names: --cluster PROFILE of these hosts says which is which");
    }
    if (!st && q->cluster) take_devices(&p, places);
    if (st) mt_place_print(&p, why);
    mt_tables_release(&p.doc);
    return st;
}

enum mt_status mt_places_name(const struct mt_plan *plan, const struct mt_hosts *hosts, const struct mt_places *places,
                              struct mt_plan **named, struct mt_err *err) {
    enum mt_status st = mt_plan_copy(plan, named, err);
    if (st) return st;
    for (int r = 0; r < plan->nranks && plan->ranks[0].host[0]; r++) {
        const char *says = hosts->hosts[places->host[r]].says;
        if (!mt_plan_same_host(plan->ranks[r].host, says))
            (*named)->ranks[r].host = mt_arena_strdup(&(*named)->arena, says);
    }
    return MT_OK;
}
