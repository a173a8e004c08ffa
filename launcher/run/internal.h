/* Inside traces: events as JSON. */
#ifndef MT_LAUNCHER_RUN_INTERNAL_H
#define MT_LAUNCHER_RUN_INTERNAL_H

#include "kernels/base/text/json.h"
#include "launcher/run/trace.h"

/* "M" events name processes and, with a stream, threads. */
void mt_trace_put_name(struct mt_json_out *out, const char *what, int process, int stream, const char *name);
void mt_trace_put_event(struct mt_json_out *out, int process, const struct mt_trace_event *event, double shift_s);

#endif
