/* What kind of document a file is that a command's flags or operands name. */
#ifndef MT_LAUNCHER_FLAGS_DOCUMENT_H
#define MT_LAUNCHER_FLAGS_DOCUMENT_H

#include "kernels/base/err.h"

/* "safetensors", or the "format" of the JSON document; of a run's folder that of its run.json. MT_EINPUT for what is
 * neither. */
enum mt_status mt_document_format(const char *path, char format[64], struct mt_err *err);

#endif
