/* Every kind of collective over NCCL, one GPU a rank: even and uneven blocks, short and long, types of wire, sums and
 * maxima, among all ranks in order and backwards, and of a rank by itself; hierarchical ones, from three ranks on;
 * tensors that are not contiguous.
 * ranks: 2 */
#include "tests/kernels/cuda/nccl/collectives.h"

int main(int argc, char **argv) {
    int level, all[MOST_RANKS], backwards[MOST_RANKS];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &nranks);
    CHECK(nranks <= MOST_RANKS);
    if (!cuda_ranks_open(&device)) {
        MPI_Finalize();
        return 77;
    }
    trials_begin();
    comm = cuda_ranks_comm(60);
    for (int r = 0; r < nranks; r++) all[r] = r, backwards[r] = nranks - 1 - r;
    for (enum mt_coll_kind k = 0; k < MT_NCOLLS; k++) {
        trials(k, nranks, rank, all, NULL, "all");
        trials(k, nranks, nranks - 1 - rank, backwards, NULL, "backwards");
        trials(k, 1, 0, &rank, NULL, "alone");
    }
    trials_by_node(all);
    trials_of_tensors(all);
    mt_comm_free(comm);
    trials_end();
    mt_device_close(device);
    MPI_Finalize();
    return 0;
}
