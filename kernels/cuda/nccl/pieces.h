/* Pieces of tensors (device.h) packed into messages, and unpacked from them, by kernels (pieces.cu). Messages are of
 * type `acc`; as few launches are made as keep the order of pieces that write the same elements. */
#ifndef MT_KERNELS_CUDA_NCCL_PIECES_H
#define MT_KERNELS_CUDA_NCCL_PIECES_H

#include "kernels/device/device.h"

struct cuda_queue; /* driver/driver.h */

enum mt_status cuda_pack(const struct cuda_queue *queue, enum mt_type acc, void *const message[2],
                         const struct mt_piece *pieces, int count, struct mt_err *err);
enum mt_status cuda_unpack(const struct cuda_queue *queue, enum mt_type acc, void *const message[2],
                           const struct mt_piece *pieces, int count, struct mt_err *err);

#endif
