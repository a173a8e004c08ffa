/* The tables of members. */
#include "planner/buy/document/members.h"

#define MEMBER(type, of, name, least)                                                                                  \
    { #name, MEMBER_##type, offsetof(struct of, name), least }
#define TEXT(of, name) MEMBER(TEXT, of, name, 0)
#define REAL(of, name) MEMBER(REAL, of, name, 0)
#define INT(of, name, least) MEMBER(INT, of, name, least)
#define INT64(of, name) MEMBER(INT64, of, name, -MT_PURCHASE_MOST)
#define BOOL(of, name) MEMBER(BOOL, of, name, 0)

static const struct member of_purchase[] = {
    TEXT(mt_purchase, made_by),        TEXT(mt_purchase, objective), TEXT(mt_purchase, network),
    BOOL(mt_purchase, nominal),        REAL(mt_purchase, dual),      TEXT(mt_purchase, binds),
    REAL(mt_purchase, configurations), INT64(mt_purchase, judged),   INT64(mt_purchase, plans)};
static const struct member of_owned[] = {TEXT(mt_purchase_owned, what), TEXT(mt_purchase_owned, cluster_hash),
                                         INT(mt_purchase_owned, nodes, 0), INT(mt_purchase_owned, devices, 0),
                                         REAL(mt_purchase_owned, power_W)};
static const struct member of_limits[] = {REAL(mt_purchase_limits, budget),  REAL(mt_purchase_limits, budget_per_hour),
                                          REAL(mt_purchase_limits, power_W), REAL(mt_purchase_limits, rack_units),
                                          INT(mt_purchase_limits, nodes, 0), INT(mt_purchase_limits, devices, 0)};
static const struct member of_item[] = {
    TEXT(mt_purchase_item, name),       TEXT(mt_purchase_item, based_on),      TEXT(mt_purchase_item, device),
    INT(mt_purchase_item, devices, 1),  INT64(mt_purchase_item, memory_bytes), TEXT(mt_purchase_item, link),
    REAL(mt_purchase_item, link_Bps),   REAL(mt_purchase_item, net_bps),       REAL(mt_purchase_item, price),
    REAL(mt_purchase_item, per_hour),   REAL(mt_purchase_item, power_W),       TEXT(mt_purchase_item, power_source),
    REAL(mt_purchase_item, rack_units), INT(mt_purchase_item, most, 0)};
static const struct member of_excluded[] = {TEXT(mt_purchase_excluded, name), TEXT(mt_purchase_excluded, why)};
static const struct member of_job[] = {TEXT(mt_purchase_job, model), REAL(mt_purchase_job, steps),
                                       REAL(mt_purchase_job, tokens), REAL(mt_purchase_job, deadline_s)};
static const struct member of_row[] = {
    TEXT(mt_purchase_row, what),      TEXT(mt_purchase_row, cluster),  INT(mt_purchase_row, nodes, 0),
    INT(mt_purchase_row, devices, 0), REAL(mt_purchase_row, price),    REAL(mt_purchase_row, per_hour),
    REAL(mt_purchase_row, cost),      REAL(mt_purchase_row, power_W),  REAL(mt_purchase_row, rack_units),
    REAL(mt_purchase_row, time_s),    REAL(mt_purchase_row, error),    REAL(mt_purchase_row, error_below),
    INT(mt_purchase_row, tie, -1),    BOOL(mt_purchase_row, frontier), BOOL(mt_purchase_row, late)};
static const struct member of_job_row[] = {REAL(mt_purchase_job_row, step_s),
                                           REAL(mt_purchase_job_row, error),
                                           REAL(mt_purchase_job_row, error_below),
                                           REAL(mt_purchase_job_row, time_s),
                                           REAL(mt_purchase_job_row, end_s),
                                           INT(mt_purchase_job_row, idle, 0),
                                           INT64(mt_purchase_job_row, headroom_bytes),
                                           TEXT(mt_purchase_job_row, headroom_of),
                                           TEXT(mt_purchase_job_row, program),
                                           TEXT(mt_purchase_job_row, binds),
                                           BOOL(mt_purchase_job_row, late)};
static const struct member of_next[] = {REAL(mt_purchase_next, money), REAL(mt_purchase_next, estimate_s),
                                        BOOL(mt_purchase_next, better)};

#define MEMBERS(list)                                                                                                  \
    { list, sizeof list / sizeof list[0] }
const struct members mt_purchase_members[NMEMBERS_OF] = {
    [OF_PURCHASE] = MEMBERS(of_purchase), [OF_OWNED] = MEMBERS(of_owned),       [OF_LIMITS] = MEMBERS(of_limits),
    [OF_ITEM] = MEMBERS(of_item),         [OF_EXCLUDED] = MEMBERS(of_excluded), [OF_JOB] = MEMBERS(of_job),
    [OF_ROW] = MEMBERS(of_row),           [OF_JOB_ROW] = MEMBERS(of_job_row),   [OF_NEXT] = MEMBERS(of_next)};
