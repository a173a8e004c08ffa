/* A lower bound over all subsets of ranks: which of them take part, and with which shares.
 *
 * A rank that takes part with x units of the extent computes for least_s(x) / speed. If a second rank takes part, the
 * ranks exchange values that depend on all of their units. A chain is a set of such values, and the computation that
 * can neither begin before the values of the last step have arrived nor end after these values are ready:
 *
 *     step >= least_s[chain](x_r) / speed_r + exchange[chain]     for each rank r that takes part, and each chain.
 *
 * The exchange takes at least as long as the cuts of the network allow, whatever the algorithm. Per element, each host
 * that takes part must send its own contribution and receive what depends on the others', and m hosts need at least
 * 2 (m - 1) transfers in all: m - 1 until one of them knows all contributions, and one more for each other (gossip
 * with one-way messages: Harary and Schwenk, "The communication problem on graphs and digraphs", 1974). Sums may be
 * formed by all (AllReduce), or by one owner of each element, who returns a result of another size (ReduceScatter,
 * AllGather):
 *
 *     a host:     AllReduce: bytes over the slower of its directions; with owners: for the best part s of the elements
 *                 that it owns, sum max((1 - s) / out, s / in) + result max(s / out, (1 - s) / in)
 *     all hosts:  (m - 1) (sum + the smaller of sum and result) over the sum of their rates
 *
 * The same holds for the ranks of one host. A member takes part in the exchange, with samples or without (it may hold
 * state). One rank may be alone: then there is no exchange.
 *
 * Method: ranks and hosts are given as classes with counts. For each class of hosts as the slowest member, and
 * for each number of hosts (numbers in geometric steps where there are many), the least step is found by bisection: the
 * hosts' largest shares within it must reach the extent. Cost: classes^2 * log(hosts) * chains * log(extent). */
#ifndef MT_PLANNER_BALANCE_SUBSET_H
#define MT_PLANNER_BALANCE_SUBSET_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes that are exchanged, all elements together. */
struct mt_subset_chain {
    double sum_bytes, result_bytes;             /* of the same elements: sums with owners, or AllReduce of sum_bytes */
    double all_bytes;                           /* AllReduce only */
    double other_sum_bytes, other_result_bytes; /* sums of some elements, results of others, with owners */
    int rounds;                                 /* collectives that follow each other; each takes a latency at least */
};

/* Seconds of a chain for a share of at[i] units, or more: never falls with i; at[0] is 0, at rises by any steps. A
 * share between two points takes at least the time of the lower. */
struct mt_subset_curves {
    int npoints;
    const int64_t *at;
    const double *least_s; /* [chain npoints + point], at speed 1 */
};

/* A class of equal ranks of a host. */
struct mt_subset_ranks {
    int curves;
    double speed, out_Bps, in_Bps; /* rates of one rank; infinity: no limit */
    double each_s;                 /* what a collective costs a rank itself, at least */
    int64_t count;                 /* on one host */
};

/* A class of equal hosts. */
struct mt_subset_hosts {
    int64_t count;
    double out_Bps, in_Bps; /* to and from other hosts */
    double inside_Bps;      /* all messages between its ranks together */
    double latency_s;       /* the least between two of its ranks */
    int nranks;             /* classes of ranks */
    const struct mt_subset_ranks *ranks;
};

struct mt_subset {
    int64_t extent;
    bool alone;       /* one rank may compute all without an exchange */
    double latency_s; /* the least between two hosts */
    int nchains, ncurves, nhosts;
    const struct mt_subset_chain *chains; /* chain 0 has no bytes: it is all of a rank's computation */
    const struct mt_subset_curves *curves;
    const struct mt_subset_hosts *hosts;
};

/* Seconds; infinity when no rank can take part. At most 0.02% below the bound that the formulas give. */
double mt_subset_bound(const struct mt_subset *subset);

/* Seconds in which a host or a rank with these rates sends and receives what the chain demands of each that takes part;
 * the second is that of `count` such in all, whose rates sum to these. */
double mt_subset_exchange_s(const struct mt_subset_chain *chain, double out_Bps, double in_Bps);
double mt_subset_total_s(const struct mt_subset_chain *chain, int64_t count, double out_Bps, double in_Bps);

#endif
