/* The members of a purchase document's objects by type, for its reader and its writer: a member's name is its key. */
#ifndef MT_PLANNER_BUY_MEMBERS_H
#define MT_PLANNER_BUY_MEMBERS_H

#include <stddef.h>

#include "planner/buy/document/purchase.h"

enum member_type { MEMBER_TEXT, MEMBER_REAL, MEMBER_INT, MEMBER_INT64, MEMBER_BOOL };
struct member {
    const char *key;
    enum member_type type;
    size_t at;
    double least; /* of numbers; at most MT_PURCHASE_MOST */
};
struct members {
    const struct member *items;
    int count;
};

/* Of mt_purchase itself, its parts, and rows of its lists. */
enum members_of {
    OF_PURCHASE,
    OF_OWNED,
    OF_LIMITS,
    OF_ITEM,
    OF_EXCLUDED,
    OF_JOB,
    OF_ROW,
    OF_JOB_ROW,
    OF_NEXT,
    NMEMBERS_OF
};
extern const struct members mt_purchase_members[NMEMBERS_OF];

#endif
