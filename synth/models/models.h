/* What the files of this folder define. */
#ifndef MT_SYNTH_MODELS_MODELS_H
#define MT_SYNTH_MODELS_MODELS_H

#include "synth/models/model.h"

#define MT_MODEL(class) extern const struct mt_model_class mt_model_class_##class;
#include "synth/models/models.def"
#undef MT_MODEL

#endif
