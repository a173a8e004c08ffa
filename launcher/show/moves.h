/* The collectives of one section of a program, added up by what they move and among whom. */
#ifndef MT_LAUNCHER_SHOW_MOVES_H
#define MT_LAUNCHER_SHOW_MOVES_H

#include "launcher/show/sections.h"
#include "planner/review/moved.h"
#include "synth/program/program.h"

enum mt_move_over {
    MT_OVER_RANKS,   /* there is one host */
    MT_OVER_DEVICES, /* of each host */
    MT_OVER_HOSTS,   /* one rank of each */
    MT_OVER_BOTH
};

struct mt_move {
    enum mt_coll_kind coll;
    enum mt_moved what;
    enum mt_move_over over;
    int size;      /* ranks of the largest group */
    int messages;  /* of the last micro-batch, or once a step */
    int64_t bytes; /* of a step, on the rank where they are most: of the larger of a value's two boxes */
};

/* Of section `s`; -1: of what is in none. Returns how many; the list is in the arena. */
int mt_moves_list(const struct mt_program *program, const struct mt_sections *sections, int s, struct mt_arena *arena,
                  struct mt_move **list);

#endif
