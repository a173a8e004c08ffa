/* Inside the programs: what the makers of messages share.
 *
 *   message.c      collectives but for AllToAll; the bytes of a message; which messages are the same
 *   all_to_all.c   AllToAll */
#ifndef MT_SYNTH_PROGRAM_INTERNAL_H
#define MT_SYNTH_PROGRAM_INTERNAL_H

#include "synth/program/cut.h"
#include "synth/program/message.h"

struct mt_message_maker { /* of a rank's message of one collective */
    const struct mt_program *program;
    const struct mt_instr *instr;
    struct mt_arena *arena; /* of the result */
    struct mt_arena scratch;
    int rank;
    struct mt_message_form form;
    int64_t tensor_count[2]; /* elements of all pieces that are unpacked; packed */
    struct mt_message *message;
    struct mt_err *err;
};

static inline const struct mt_layout *mt_maker_in(const struct mt_message_maker *m, int operand) {
    return &m->program->layouts.items[m->program->values[m->instr->in[operand]].layout];
}

static inline const struct mt_layout *mt_maker_out(const struct mt_message_maker *m, int operand) {
    return &m->program->layouts.items[m->program->values[m->instr->out[operand]].layout];
}

/* The box's share of this part of the collective. */
static inline struct mt_box mt_maker_cut(const struct mt_message_maker *m, const struct mt_box *box, int naxes) {
    return m->form.parts > 1 ? mt_box_cut(box, naxes, m->form.part, m->form.parts) : *box;
}

/* MT_EBUG: the boxes of an operand do not suit the collective. */
enum mt_status mt_maker_fail(struct mt_message_maker *maker, int operand, const char *why);

/* Add a piece to what is packed, or unpacked; one without elements is left out. */
void mt_maker_add(struct mt_message_maker *maker, bool pack, struct mt_message_piece piece, int naxes);

enum mt_status mt_make_all_to_all(struct mt_message_maker *maker);

#endif
