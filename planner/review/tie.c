/* Errors by source, and ties. */
#include "planner/review/tie.h"

#include <math.h>
#include <string.h>

static struct mt_plan_error *part_of(const struct mt_errors *errors, const char *source) {
    for (int i = 0; i < errors->count; i++)
        if (!strcmp(errors->parts[i].source, source)) return &errors->parts[i];
    return NULL;
}

void mt_errors_add(struct mt_errors *errors, const struct mt_plan_prediction *f, double weight,
                   struct mt_arena *arena) {
    for (int i = 0; i < f->nparts; i++) {
        struct mt_plan_error *part = part_of(errors, f->parts[i].source);
        if (!part) {
            mt_arena_grow(arena, &errors->parts, errors->count, &errors->capacity, sizeof *errors->parts);
            part = &errors->parts[errors->count++];
            *part = (struct mt_plan_error){f->parts[i].source, 0};
        }
        part->time_s += weight * f->parts[i].time_s / f->step_s;
    }
    errors->own2 += weight * weight * MT_TIE_OWN_ERROR * MT_TIE_OWN_ERROR;
}

bool mt_errors_tie(const struct mt_errors *a, const struct mt_errors *b, double ratio) {
    double square = a->own2 + b->own2;
    for (int i = 0; i < a->count; i++) {
        const struct mt_plan_error *other = part_of(b, a->parts[i].source);
        square += pow(a->parts[i].time_s - (other ? other->time_s : 0), 2);
    }
    for (int i = 0; i < b->count; i++)
        if (!part_of(a, b->parts[i].source)) square += pow(b->parts[i].time_s, 2);
    return fabs(log(ratio)) <= sqrt(square);
}
